"""What all losses are made of: the record of what one was asked, the steps that plain formulas share, and the module.

The steps run in log space, on logits of float32 or float64.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from propml.losses.candidates import CandidateBits, Marks, check_marks, unpacked

Lam = float | Tensor
Reduction = Literal["mean", "sum", "none"]

PROPML, BCE, ASL, POWER = range(4)  # as in triton_math.py and rows.c


@dataclass(slots=True)
class Problem:
    """All arguments of a loss but the logits, and how it is computed without a kernel."""

    kernel: int
    formula: Callable[[Tensor, Problem], Tensor]
    candidates: Marks
    lam: Lam
    label_dim: int
    label_weight: Tensor | None
    example_weight: Tensor | None
    mask: Tensor | None
    options: dict[str, Lam] = field(default_factory=dict)  # the loss's own: numbers, and an order that may be a tensor

    def entries(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, candidates and excluded labels, as :func:`entries_of` gives them."""
        check_non_negative("lam", self.lam)
        return entries_of(logits, self.candidates, self.mask, self.label_dim)

    def tensors(self) -> tuple[Tensor | None, ...]:
        """All that the loss reads beside the logits: what must not change between the passes."""
        candidates, order = self.candidates, self.options.get("order")
        packed = isinstance(candidates, CandidateBits)
        planes = (candidates.bits, candidates.known) if packed else (candidates, None)  # type: ignore[union-attr]
        numbers = (value if isinstance(value, Tensor) else None for value in (self.lam, order))
        return *planes, self.mask, self.label_weight, self.example_weight, *numbers

    def is_flat(self, logits: Tensor) -> bool:
        """Whether the logits are rows as they are."""
        return logits.ndim == 2 and self.label_dim in (-1, 1)

    def shaped_like(self, gradient: Tensor, logits: Tensor) -> Tensor:
        """The rows' gradient in the shape of the logits."""
        if self.is_flat(logits):
            return gradient
        moved = logits.movedim(self.label_dim, -1)
        return gradient.view(moved.shape).movedim(-1, self.label_dim)

    def lead(self, logits: Tensor) -> torch.Size:
        """The shape of the values: that of the logits without the labels."""
        if self.label_dim in (-1, logits.ndim - 1):
            return logits.shape[:-1]
        return logits.movedim(self.label_dim, -1).shape[:-1]


def check_reduction(reduction: Reduction) -> None:
    if reduction not in get_args(Reduction):
        raise ValueError(f'reduction is {reduction!r}; choose "mean", "sum" or "none"')


def reduced(values: Tensor, reduction: Reduction) -> Tensor:
    """One value per example, or their mean or sum."""
    if reduction == "none":
        return values
    return values.mean() if reduction == "mean" else values.sum()


def entries_of(
    logits: Tensor, candidates: Marks, mask: Tensor | None, label_dim: int, *, soft: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits in float32 at least, and which of them are candidates and excluded; the labels are the last axis.

    Where an entry is neither, its logit is 0, so that it does no harm. ``soft`` candidates are numbers in (0, 1].
    """
    candidates = unpacked(candidates, label_dim)
    if candidates.shape != logits.shape:
        raise ValueError(
            f"candidates have shape {tuple(candidates.shape)}, logits {tuple(logits.shape)}; give one entry per logit"
        )
    if not logits.is_floating_point():
        raise ValueError(f"logits are {logits.dtype}; give floating-point scores before the sigmoid")
    lifted = torch.promote_types(logits.dtype, torch.float32)
    z = logits.to(lifted).movedim(label_dim, -1)
    marks = candidates.movedim(label_dim, -1)
    positive = marks if marks.dtype == torch.bool else marks > (0 if soft else 0.5)
    known = None if marks.dtype in (torch.bool, torch.uint8) else marks > -0.5  # not so for NaN
    if mask is not None:
        if mask.shape != logits.shape or mask.dtype != torch.bool:
            raise ValueError(f"mask is {mask.dtype} of shape {tuple(mask.shape)}; give bool of the logits' shape")
        counted = mask.movedim(label_dim, -1)
        positive = positive & counted
        known = counted if known is None else known & counted
    check_marks(candidates, mask, soft=soft)
    if known is None:
        return z, positive, ~positive
    return torch.where(known, z, 0.0), positive, known & ~positive


def check_non_negative(name: str, value: Lam) -> None:
    """Refuse a number below 0, NaN or infinity; a tensor is not looked into, a GPU would have to wait for that."""
    if isinstance(value, Tensor):
        return
    if not isinstance(value, Real) or not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r}; give a finite number of at least 0, or a tensor of such numbers")


def log_sum_exp(values: Tensor, chosen: Tensor) -> Tensor:
    """log Σ exp over the chosen entries of the last axis; 0, without gradient, where none is chosen."""
    # torch.logsumexp takes its slopes from its result, which far from 0 no longer tells one entry from two equal ones.
    top = highest(values, chosen)
    total = torch.where(chosen, values - top.unsqueeze(-1), -torch.inf).exp().sum(dim=-1)
    return torch.where(chosen.any(dim=-1), total, 1.0).log() + top


def log_of_sum(log_p: Tensor, chosen: Tensor, log_weight: Tensor | None, order: Lam = 1.0) -> Tensor:
    """log Σ w p^order over the chosen entries of the last axis; 0 where none is chosen."""
    # Relative to the largest before anything is multiplied or added, beside which far logits would lose their digits.
    top = highest(log_p, chosen)
    terms = (order.unsqueeze(-1) if isinstance(order, Tensor) else order) * (log_p - top.unsqueeze(-1))
    return log_sum_exp(terms if log_weight is None else terms + log_weight, chosen) + order * top


def log_share(weight: Tensor, chosen: Tensor, whole: Tensor) -> Tensor:
    """log(w / whole) of the chosen labels, also where float32 does not hold the ratio; anything elsewhere."""
    return torch.where(chosen, weight, 1.0).log() - whole.log().unsqueeze(-1)


def highest(values: Tensor, chosen: Tensor) -> Tensor:
    """The largest of the chosen entries of the last axis, as a constant; 0 where there is none that is finite."""
    if values.shape[-1] == 0:
        return values.detach().sum(dim=-1)
    top = torch.where(chosen, values.detach(), -torch.inf).amax(dim=-1)
    return torch.where(top.isfinite(), top, 0.0)


def sum_over_labels(values: Tensor, chosen: Tensor, weight: Tensor | None) -> Tensor:
    """Σ over the chosen entries of the last axis, each label by its weight."""
    kept = torch.where(chosen, values, 0.0)
    return (kept if weight is None else kept * weight.to(kept)).sum(dim=-1)


def excluded_term(z: Tensor, negative: Tensor, weight: Tensor | None) -> Tensor:
    """-Σ log(1 - p) over the labels outside the candidate set."""
    return sum_over_labels(-logsigmoid(-z), negative, weight)


def weighted(values: Tensor, example_weight: Tensor | None) -> Tensor:
    return values if example_weight is None else values * example_weight.to(values)


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
    label_dim, label_weight
        As in :mod:`propml.losses`; the weights move with the module.
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
        self, logits: Tensor, candidates: Marks, *, example_weight: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """One scalar (or one value per example with ``reduction="none"``)."""
        given = {"label_dim": self.label_dim, "label_weight": self.label_weight, **self.options}
        if self._reduces:
            given["reduction"] = self.reduction
        values = self.function(logits, candidates, example_weight=example_weight, mask=mask, **given)
        return values if self._reduces else reduced(values, self.reduction)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())
