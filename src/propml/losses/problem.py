"""What a loss with a kernel was asked: one record from the function's arguments to the kernel's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from propml.losses.candidates import CandidateBits, Marks
from propml.losses.plain import Lam, check_non_negative, entries_of

__all__ = ["ASL", "BCE", "POWER", "PROPML", "Problem", "Reduction", "check_reduction", "reduced"]

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
        """Logits, candidates and excluded labels, as :func:`propml.losses.plain.entries_of` gives them."""
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
