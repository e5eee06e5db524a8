"""The module over any loss function."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from propml.losses.candidates import Marks
from propml.losses.problem import Reduction, check_reduction, reduced

__all__ = ["CandidateLoss"]


class CandidateLoss(nn.Module):
    """A module over any loss function: the label axis, label weights, and the reduction to one scalar.

    Parameters
    ----------
    function : callable
        ``function(logits, candidates, *, label_dim, label_weight, example_weight, mask, **options)`` with one value per
        example, as in :mod:`propml.losses`. One that takes ``reduction`` reduces by itself, in its kernel.
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
        self._reduces = "reduction" in inspect.signature(function).parameters
        self.register_buffer("label_weight", label_weight)

    def forward(
        self,
        logits: Tensor,
        candidates: Marks,
        *,
        example_weight: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """One scalar (or one value per example with ``reduction="none"``)."""
        own: dict[str, Any] = {"reduction": self.reduction} if self._reduces else {}
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
