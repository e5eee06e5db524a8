"""The losses as ``torch.nn`` modules: a few lines each over :mod:`propml.losses.functional`."""

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor, nn

from propml.losses import functional
from propml.losses.candidate_bits import CandidateBits
from propml.losses.fused import Reduction, check_reduction, reduced
from propml.losses.plain import check_non_negative

# These reduce by themselves, in the kernel.
REDUCING = (functional.propml_loss, functional.bce_loss, functional.asl_loss, functional.power_loss)


class CandidateLoss(nn.Module):
    """A module over any loss function: the label axis, label weights, and the reduction to one scalar.

    Parameters
    ----------
    function : callable
        ``function(logits, candidates, *, label_dim, label_weight, example_weight, mask, **options)`` with one value per
        example, as in :mod:`propml.losses.functional`.
    reduction : {"mean", "sum", "none"}
        Over examples; labels are always summed, as in the paper. (``torch.nn.BCEWithLogitsLoss`` divides by the number
        of labels too.)
    label_dim : int
        The axis of the labels: ``1`` for segmentation logits ``(N, C, H, W)``.
    label_weight : Tensor, shape (n_labels,), optional
        How much each label counts; moves with the module.
    **options
        The function's own arguments.
    """

    label_weight: Tensor | None

    def __init__(
        self,
        function: Callable[..., Tensor],
        *,
        reduction: Reduction = "mean",
        label_dim: int = -1,
        label_weight: Tensor | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        self.function = function
        self.reduction = reduction
        self.label_dim = label_dim
        self.options = options
        self.register_buffer("label_weight", label_weight)

    def forward(
        self,
        logits: Tensor,
        candidates: Tensor | CandidateBits,
        *,
        example_weight: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """One scalar (or one value per example with ``reduction="none"``)."""
        own: dict[str, Any] = {"reduction": self.reduction} if self.function in REDUCING else {}
        values = self.function(
            logits,
            candidates,
            label_dim=self.label_dim,
            label_weight=self.label_weight,
            example_weight=example_weight,
            mask=mask,
            **self.options,
            **own,
        )
        return values if own else reduced(values, self.reduction)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())


class ProPMLLoss(CandidateLoss):
    """The paper's loss, equation 1, in place of ``torch.nn.BCEWithLogitsLoss``; see :func:`propml.losses.propml_loss`.

    >>> import torch
    >>> loss = ProPMLLoss(lam=0.3)
    >>> loss(torch.zeros(2, 3), torch.tensor([[1, 1, 0], [1, 0, 0]]))
    tensor(0.6585)
    """

    def __init__(
        self,
        lam: float = 1.0,
        *,
        reduction: Reduction = "mean",
        label_dim: int = -1,
        label_weight: Tensor | None = None,
    ) -> None:
        check_non_negative("lam", lam)
        super().__init__(
            functional.propml_loss,
            reduction=reduction,
            label_dim=label_dim,
            label_weight=label_weight,
            lam=lam,
        )


class BCELoss(CandidateLoss):
    """Binary cross entropy that takes every candidate for true; see :func:`propml.losses.bce_loss`."""

    def __init__(
        self, *, reduction: Reduction = "mean", label_dim: int = -1, label_weight: Tensor | None = None
    ) -> None:
        super().__init__(functional.bce_loss, reduction=reduction, label_dim=label_dim, label_weight=label_weight)


class ASLLoss(CandidateLoss):
    """The asymmetric loss; see :func:`propml.losses.asl_loss`."""

    def __init__(
        self,
        gamma_positive: float = 1.0,
        gamma_negative: float = 4.0,
        clip: float = 0.05,
        *,
        detach_focus: bool = False,
        reduction: Reduction = "mean",
        label_dim: int = -1,
        label_weight: Tensor | None = None,
    ) -> None:
        for name, value in (("gamma_positive", gamma_positive), ("gamma_negative", gamma_negative), ("clip", clip)):
            check_non_negative(name, value)
        super().__init__(
            functional.asl_loss,
            reduction=reduction,
            label_dim=label_dim,
            label_weight=label_weight,
            gamma_positive=gamma_positive,
            gamma_negative=gamma_negative,
            clip=clip,
            detach_focus=detach_focus,
        )


class ProPaLLLoss(CandidateLoss):
    """Noisy-or over the candidates; see :func:`propml.losses.propall_loss`."""

    def __init__(
        self, *, reduction: Reduction = "mean", label_dim: int = -1, label_weight: Tensor | None = None
    ) -> None:
        super().__init__(functional.propall_loss, reduction=reduction, label_dim=label_dim, label_weight=label_weight)


class UnbiasedLoss(CandidateLoss):
    """Binary cross entropy corrected for known noise rates; see :func:`propml.losses.unbiased_loss`.

    Parameters
    ----------
    flip_rate, miss_rate : float
        P(candidate | not true) and P(not candidate | true).
    clamp : {"label", "batch", None}
        The corrected loss may fall below zero on a batch, which a network then chases. ``"label"`` keeps each label's
        batch mean at or above zero; ``"batch"`` only the mean over all entries (the official code); both need
        ``reduction="mean"``.
    """

    def __init__(
        self,
        flip_rate: float,
        miss_rate: float = 0.0,
        *,
        clamp: Literal["label", "batch"] | None = "label",
        reduction: Reduction = "mean",
        label_dim: int = -1,
        label_weight: Tensor | None = None,
    ) -> None:
        functional.check_rates(flip_rate, miss_rate)
        super().__init__(
            functional.unbiased_loss,
            reduction=reduction,
            label_dim=label_dim,
            label_weight=label_weight,
            flip_rate=flip_rate,
            miss_rate=miss_rate,
        )
        if clamp not in ("label", "batch", None):
            raise ValueError(f'clamp is {clamp!r}; choose "label", "batch" or None')
        if clamp is not None and reduction != "mean":
            raise ValueError(f'clamp={clamp!r} works on batch means; use reduction="mean", or clamp=None')
        self.clamp = clamp

    def forward(
        self,
        logits: Tensor,
        candidates: Tensor | CandidateBits,
        *,
        example_weight: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        if self.clamp is None:
            return super().forward(logits, candidates, example_weight=example_weight, mask=mask)
        entries = functional.unbiased_entries(logits, candidates, label_dim=self.label_dim, mask=mask, **self.options)
        if self.label_weight is not None:
            entries = entries * self.label_weight
        if example_weight is not None:
            entries = entries * example_weight.unsqueeze(-1)
        per_label = entries.flatten(end_dim=-2).mean(dim=0)
        return per_label.clamp(min=0).sum() if self.clamp == "label" else per_label.sum().clamp(min=0)
