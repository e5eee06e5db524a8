"""A loss on rows: the one form in which the kernels (Triton, C) are given their problem."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from propml.losses.candidates import CandidateBits
from propml.losses.problem import Problem

__all__ = ["KernelRows", "flat_rows", "per_row", "rows_of"]


class KernelRows(NamedTuple):
    """One example per row, everything flat: what ``torch.ops.propml.row_losses`` takes, and ``struct job`` in rows.c.

    A kernel reads memory by address: it is given no other rows than those that :meth:`laid_out` returned.
    """

    logits: Tensor  # (n_rows, n_labels)
    marks: Tensor  # the same shape, or (n_rows, ceil(n_labels / 8)) where packed
    known: Tensor | None  # packed too
    mask: Tensor | None  # (n_rows, n_labels)
    label_weight: Tensor | None  # (n_labels,)
    lam_rows: Tensor | None  # (n_rows,)
    order_rows: Tensor | None  # (n_rows,), in the place of one order for all
    example_weight: Tensor | None  # (n_rows,)
    lam: float  # where lam_rows is None
    # Of the asymmetric loss: exponents of candidates and others, clip, whether detached. Of the power mean: its order.
    focus: list[float]
    kind: int
    packed: bool

    def laid_out(self) -> KernelRows:
        """The same with memory as the kernels read it; copies only what does not lie so already.

        Labels are next to each other, bool is seen as uint8, the two planes of packed candidates have one stride,
        weights, λ and orders are float32. This is not for code that ``torch.compile`` traces: it neither knows the
        strides that the operator will be given, nor does it compile the view of bool as bytes everywhere.
        """
        marks, known = _dense(_as_bytes(self.marks)), None if self.known is None else _dense(self.known)
        if known is not None and known.stride(0) != marks.stride(0):
            marks, known = marks.contiguous(), known.contiguous()
        return KernelRows(
            _dense(self.logits),
            marks,
            known,
            None if self.mask is None else _dense(_as_bytes(self.mask)),
            None if self.label_weight is None else self.label_weight.float().resolve_neg().contiguous(),
            None if self.lam_rows is None else per_row(self.lam_rows),
            None if self.order_rows is None else per_row(self.order_rows),
            None if self.example_weight is None else per_row(self.example_weight),
            *self[8:],
        )


def rows_of(problem: Problem, logits: Tensor) -> KernelRows:
    """What a kernel is given."""
    return flat_rows(problem, logits).laid_out()


def flat_rows(problem: Problem, logits: Tensor) -> KernelRows:
    """The flat form, with memory as it comes."""
    dim, lam, mask, weight = problem.label_dim, problem.lam, problem.mask, problem.example_weight
    candidates, order = problem.candidates, problem.options.get("order")
    z = logits if problem.is_flat(logits) else logits.movedim(dim, -1)
    lead = z.shape[:-1]
    packed = isinstance(candidates, CandidateBits)
    if isinstance(candidates, CandidateBits):
        marks, known = _flat(candidates.bits), None if candidates.known is None else _flat(candidates.known)
    else:
        marks, known = _flat(candidates if z is logits else candidates.movedim(dim, -1)), None
    return KernelRows(
        _flat(z),
        marks,
        known,
        None if mask is None else _flat(mask.movedim(dim, -1)),
        problem.label_weight,
        _spread(lam, lead) if isinstance(lam, Tensor) else None,
        _spread(order, lead) if isinstance(order, Tensor) else None,
        None if weight is None else _spread(weight, lead),
        1.0 if isinstance(lam, Tensor) else float(lam),
        [float(value) for value in problem.options.values() if not isinstance(value, Tensor)],
        problem.kernel,
        packed,
    )


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
