"""Binary cross entropy corrected for known rates of noise."""

from numbers import Real
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.candidates import Marks
from propml.losses.problem import CandidateLoss, Lam, Reduction, entries_of, weighted


def unbiased_loss(
    logits: Tensor,
    candidates: Marks,
    *,
    flip_rate: Lam,
    miss_rate: Lam = 0.0,
    label_dim: int = -1,
    label_weight: Tensor | None = None,
    example_weight: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Binary cross entropy corrected for known noise: on average over the noise it is the loss on the true labels.

    With :math:`\rho` = ``flip_rate``, P(candidate | false), and :math:`\mu` = ``miss_rate``, P(not candidate | true),

    .. math:: \ell_{S=1} = \frac{(1-\rho)\,\ell_1 - \mu\,\ell_0}{1-\rho-\mu}, \quad
              \ell_{S=0} = \frac{(1-\mu)\,\ell_0 - \rho\,\ell_1}{1-\rho-\mu}, \quad
              \ell_1 = -\log p, \; \ell_0 = -\log(1-p)

    Parameters
    ----------
    flip_rate, miss_rate : float or Tensor
        Rates below one together; a tensor is broadcast against the labels (one rate per label).

    Notes
    -----
    Single values may be negative, and a strong network can drive their mean below zero: see
    :class:`propml.losses.UnbiasedLoss` for the clamps that prevent it.

    References
    ----------
    Natarajan et al., NIPS 2013; Xie, Huang: CCMN, TPAMI 2022.
    """
    entries = unbiased_entries(logits, candidates, flip_rate, miss_rate, label_dim, mask)
    if label_weight is not None:
        entries = entries * label_weight.to(entries)
    return weighted(entries.sum(dim=-1), example_weight)


def unbiased_entries(
    logits: Tensor, candidates: Marks, flip_rate: Lam, miss_rate: Lam, label_dim: int = -1, mask: Tensor | None = None
) -> Tensor:
    """The terms that :func:`unbiased_loss` sums, with the labels as the last axis; 0 where an entry is unknown."""
    check_rates(flip_rate, miss_rate)
    z, positive, negative = entries_of(logits, candidates, mask, label_dim)
    if_true, if_false = -logsigmoid(z), -logsigmoid(-z)
    observed = (1 - flip_rate) * if_true - miss_rate * if_false
    absent = (1 - miss_rate) * if_false - flip_rate * if_true
    entries = torch.where(positive, observed, torch.where(negative, absent, 0.0))
    return entries / (1 - flip_rate - miss_rate)


def check_rates(flip_rate: Lam, miss_rate: Lam) -> None:
    """Refuse noise rates, where they are numbers, that leave nothing to learn."""
    for rate in (flip_rate, miss_rate):
        if not isinstance(rate, Tensor) and not (isinstance(rate, Real) and 0 <= rate < 1):
            raise ValueError(f"a noise rate lies in [0, 1), got {rate!r}")
    if not isinstance(flip_rate, Tensor) and not isinstance(miss_rate, Tensor) and flip_rate + miss_rate >= 1:
        raise ValueError(f"flip_rate + miss_rate is {flip_rate + miss_rate}; at 1 or more the labels tell nothing")


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
        check_rates(flip_rate, miss_rate)
        own = {"flip_rate": flip_rate, "miss_rate": miss_rate}
        super().__init__(unbiased_loss, reduction=reduction, label_dim=label_dim, label_weight=label_weight, **own)
        if clamp not in ("label", "batch", None):
            raise ValueError(f'clamp is {clamp!r}; choose "label", "batch" or None')
        if clamp is not None and reduction != "mean":
            raise ValueError(f'clamp={clamp!r} works on batch means; use reduction="mean", or clamp=None')
        self.clamp = clamp

    def forward(
        self, logits: Tensor, candidates: Marks, *, example_weight: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        if self.clamp is None:
            return super().forward(logits, candidates, example_weight=example_weight, mask=mask)
        entries = unbiased_entries(logits, candidates, **self.options, label_dim=self.label_dim, mask=mask)
        if self.label_weight is not None:
            entries = entries * self.label_weight
        if example_weight is not None:
            entries = entries * example_weight.unsqueeze(-1)
        per_label = entries.flatten(end_dim=-2).mean(dim=0)
        return per_label.clamp(min=0).sum() if self.clamp == "label" else per_label.sum().clamp(min=0)
