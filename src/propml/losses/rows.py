"""A loss on rows: the one form in which the fused engines (Triton, CPU blocks) are given their problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from propml.losses import plain
from propml.losses.candidate_bits import CandidateBits
from propml.losses.plain import Lam, Marks

KINDS = {plain.propml: 0, plain.bce: 1, plain.asl: 2, plain.power: 3}  # as in triton_kernels.py and rows.c


class Rows(NamedTuple):
    """One example per row, everything flat; the fields are what ``torch.ops.propml.row_losses`` takes."""

    logits: Tensor  # (n_rows, n_labels), labels next to each other
    marks: Tensor  # the same shape, or (n_rows, ceil(n_labels / 8)) where packed; bool is seen as uint8
    known: Tensor | None  # packed too
    mask: Tensor | None  # (n_rows, n_labels) in uint8
    label_weight: Tensor | None  # (n_labels,)
    lam_rows: Tensor | None  # (n_rows,), with stride 0 where all are alike
    lam: float  # where lam_rows is None
    example_weight: Tensor | None  # (n_rows,)
    # Of the asymmetric loss: exponents of candidates and others, clip, whether detached. Of the power mean: its order.
    focus: list[float]
    kind: int
    packed: bool
    order_rows: Tensor | None  # (n_rows,), in the place of one order for all


@dataclass(slots=True)
class Problem:
    """What was asked of a loss, apart from the logits, and how it is computed without fusing."""

    plain: Callable[..., Tensor]
    candidates: Marks
    lam: Lam
    label_dim: int
    label_weight: Tensor | None
    example_weight: Tensor | None
    mask: Tensor | None
    options: dict[str, Lam]  # the loss's own arguments: numbers, and an order that may differ between rows

    def plain_values(self, logits: Tensor) -> Tensor:
        """One value per example by the formula that PyTorch differentiates by itself."""
        return self.plain(
            logits,
            self.candidates,
            lam=self.lam,
            label_dim=self.label_dim,
            label_weight=self.label_weight,
            example_weight=self.example_weight,
            mask=self.mask,
            **self.options,
        )

    def rows(self, logits: Tensor) -> Rows:
        """The flat form; copies only what does not lie in rows already."""
        z = logits if logits.ndim == 2 and self.label_dim in (-1, 1) else logits.movedim(self.label_dim, -1)
        lead = z.shape[:-1]
        packed = isinstance(self.candidates, CandidateBits)
        known = None
        if isinstance(self.candidates, CandidateBits):
            marks = _in_rows(self.candidates.bits)
            known = None if self.candidates.known is None else _in_rows(self.candidates.known)
        else:
            marks = self.candidates
            if z is not logits:
                marks = marks.movedim(self.label_dim, -1)
            marks = _in_rows(marks.view(torch.uint8) if marks.dtype == torch.bool else marks)
        numbers = [float(value) for value in self.options.values() if not isinstance(value, Tensor)]
        order = self.options.get("order")
        mask = None if self.mask is None else _in_rows(self.mask.view(torch.uint8).movedim(self.label_dim, -1))
        return Rows(
            _in_rows(z),
            marks,
            known,
            mask,
            self.label_weight,
            _per_row(self.lam, lead) if isinstance(self.lam, Tensor) else None,
            1.0 if isinstance(self.lam, Tensor) else float(self.lam),
            None if self.example_weight is None else _per_row(self.example_weight, lead),
            numbers,
            KINDS[self.plain],
            packed,
            _per_row(order, lead) if isinstance(order, Tensor) else None,
        )

    def shaped_like(self, gradient: Tensor, logits: Tensor) -> Tensor:
        """The rows' gradient in the shape of the logits."""
        if logits.ndim == 2 and self.label_dim in (-1, 1):
            return gradient
        moved = logits.movedim(self.label_dim, -1)
        return gradient.view(moved.shape).movedim(-1, self.label_dim)

    def lead(self, logits: Tensor) -> torch.Size:
        """The shape of the values: that of the logits without the labels."""
        if self.label_dim in (-1, logits.ndim - 1):
            return logits.shape[:-1]
        return logits.movedim(self.label_dim, -1).shape[:-1]


def _in_rows(entries: Tensor) -> Tensor:
    """Two axes, the second one dense."""
    if entries.ndim != 2:
        entries = entries.reshape(-1, entries.shape[-1])
    return entries if entries.stride(1) == 1 else entries.contiguous()


def _per_row(values: Tensor, lead: torch.Size) -> Tensor:
    """One number per row, without a copy where all rows share it."""
    flat = values.detach().expand(lead).reshape(-1)
    return flat if flat.stride(0) in (0, 1) else flat.contiguous()
