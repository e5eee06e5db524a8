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
    """One example per row, everything flat; the fields are what ``torch.ops.propml.row_losses`` takes.

    An engine reads memory by address: it is given no other rows than those that :meth:`laid_out` returned.
    """

    logits: Tensor  # (n_rows, n_labels)
    marks: Tensor  # the same shape, or (n_rows, ceil(n_labels / 8)) where packed
    known: Tensor | None  # packed too
    mask: Tensor | None  # (n_rows, n_labels)
    label_weight: Tensor | None  # (n_labels,)
    lam_rows: Tensor | None  # (n_rows,)
    lam: float  # where lam_rows is None
    example_weight: Tensor | None  # (n_rows,)
    # Of the asymmetric loss: exponents of candidates and others, clip, whether detached. Of the power mean: its order.
    focus: list[float]
    kind: int
    packed: bool
    order_rows: Tensor | None  # (n_rows,), in the place of one order for all

    def laid_out(self) -> Rows:
        """The same with memory as the engines read it; copies only what does not lie so already.

        Labels are next to each other, bool is seen as uint8, the two planes of packed candidates have one stride,
        weights, λ and orders are float32. This is not for code that ``torch.compile`` traces: it neither knows the
        strides that the operator will be given, nor does it compile the view of bool as bytes everywhere.
        """
        marks, known = _dense(_as_bytes(self.marks)), None if self.known is None else _dense(self.known)
        if known is not None and known.stride(0) != marks.stride(0):
            marks, known = marks.contiguous(), known.contiguous()
        return Rows(
            _dense(self.logits),
            marks,
            known,
            None if self.mask is None else _dense(_as_bytes(self.mask)),
            None if self.label_weight is None else self.label_weight.float().resolve_neg().contiguous(),
            None if self.lam_rows is None else per_row(self.lam_rows),
            self.lam,
            None if self.example_weight is None else per_row(self.example_weight),
            self.focus,
            self.kind,
            self.packed,
            None if self.order_rows is None else per_row(self.order_rows),
        )


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
        """What an engine is given."""
        return self.flat_rows(logits).laid_out()

    def flat_rows(self, logits: Tensor) -> Rows:
        """The flat form, with memory as it comes."""
        z = logits if logits.ndim == 2 and self.label_dim in (-1, 1) else logits.movedim(self.label_dim, -1)
        lead = z.shape[:-1]
        candidates, order = self.candidates, self.options.get("order")
        packed = isinstance(candidates, CandidateBits)
        if isinstance(candidates, CandidateBits):
            marks, known = _flat(candidates.bits), None if candidates.known is None else _flat(candidates.known)
        else:
            marks, known = _flat(candidates if z is logits else candidates.movedim(self.label_dim, -1)), None
        return Rows(
            _flat(z),
            marks,
            known,
            None if self.mask is None else _flat(self.mask.movedim(self.label_dim, -1)),
            self.label_weight,
            _spread(self.lam, lead) if isinstance(self.lam, Tensor) else None,
            1.0 if isinstance(self.lam, Tensor) else float(self.lam),
            None if self.example_weight is None else _spread(self.example_weight, lead),
            [float(value) for value in self.options.values() if not isinstance(value, Tensor)],
            KINDS[self.plain],
            packed,
            _spread(order, lead) if isinstance(order, Tensor) else None,
        )

    def tensors(self) -> tuple[Tensor | None, ...]:
        """All that the loss reads beside the logits: what must not change between the passes."""
        candidates, order = self.candidates, self.options.get("order")
        packed = isinstance(candidates, CandidateBits)
        planes = (candidates.bits, candidates.known) if packed else (candidates, None)  # type: ignore[union-attr]
        numbers = (value if isinstance(value, Tensor) else None for value in (self.lam, order))
        return *planes, self.mask, self.label_weight, self.example_weight, *numbers

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


def per_row(values: Tensor) -> Tensor:
    """One number per row in float32, with stride 0 where all rows share it."""
    values = values.float().resolve_neg()
    return values if values.stride(0) in (0, 1) else values.contiguous()


def _flat(entries: Tensor) -> Tensor:
    return entries if entries.ndim == 2 else entries.reshape(-1, entries.shape[-1])


def _spread(values: Tensor, lead: torch.Size) -> Tensor:
    """One number per row, without a copy where all rows share it."""
    return values.detach().expand(lead).reshape(-1)


def _as_bytes(marks: Tensor) -> Tensor:
    return marks.view(torch.uint8) if marks.dtype == torch.bool else marks


def _dense(entries: Tensor) -> Tensor:
    """Rows whose entries lie next to each other, with their signs in memory (those of ``x.conj().imag`` do not)."""
    entries = entries.resolve_neg()
    return entries if entries.stride(1) == 1 else entries.contiguous()
