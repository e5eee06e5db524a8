"""Candidate labels as the losses take them: a tensor of marks, or packed to one bit per label.

What 100 000 labels cost a batch is next to nothing when they are packed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

BLOCK_ENTRIES = 1 << 24  # rows are packed in blocks of so many entries, so that no dense copy of all is needed


@dataclass(frozen=True, eq=False)
class CandidateBits:
    """Candidates as bits, in the place of ``candidates`` in every loss of this package.

    Parameters
    ----------
    bits : Tensor of uint8, shape (…, ceil(n_labels / 8))
        Label ``j`` is bit ``j % 8``, counted from the least significant one, of byte ``j // 8``.
    n_labels : int
    known : Tensor of uint8, same shape, optional
        1 where it is known whether a label is a candidate; without it, all are.

    Examples
    --------
    >>> bits = CandidateBits.from_matrix(torch.tensor([[1, 0, 0, 1, 1, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]]))
    >>> bits
    CandidateBits(2 × 10 labels, 4 bytes)
    >>> bits[1].to_matrix()
    tensor([0, 1, 0, 0, 0, 0, 0, 0, 0, 0], dtype=torch.uint8)
    """

    bits: Tensor
    n_labels: int
    known: Tensor | None = None

    def __post_init__(self) -> None:
        width = -(-self.n_labels // 8)
        if self.bits.dtype != torch.uint8 or self.bits.ndim == 0 or self.bits.shape[-1] != width:
            raise ValueError(
                f"bits are {self.bits.dtype} of shape {tuple(self.bits.shape)}; {self.n_labels} labels need uint8 with "
                f"{width} bytes in the last axis (CandidateBits.from_matrix packs a 0/1 matrix)"
            )
        if self.known is not None and (self.known.shape != self.bits.shape or self.known.dtype != torch.uint8):
            raise ValueError(
                f"known is {self.known.dtype} of shape {tuple(self.known.shape)}; "
                f"give uint8 of the bits' shape {tuple(self.bits.shape)}"
            )

    @classmethod
    def from_matrix(cls, matrix: Any) -> CandidateBits:
        """Pack 1 (candidate), 0 (excluded) and -1 or NaN (unknown).

        Parameters
        ----------
        matrix : Tensor (any leading shape), array, SciPy sparse matrix or :class:`propml.targets.Candidates`
            A tensor is packed on its device; a sparse matrix, block by block, without a dense copy of all.
        """
        if hasattr(matrix, "to_sparse") and not isinstance(matrix, Tensor):
            matrix = matrix.to_sparse()
        if sp.issparse(matrix):
            return cls._from_blocks(sp.csr_array(matrix))
        marks = torch.as_tensor(matrix)
        if marks.ndim == 0 or marks.shape[-1] == 0:
            raise ValueError(f"a matrix of shape {tuple(marks.shape)} has no labels to pack")
        check_marks(marks)
        n_labels = marks.shape[-1]
        if marks.dtype in (torch.bool, torch.uint8):
            return cls(_pack(marks > 0), n_labels)
        known = marks > -0.5  # not so for NaN
        return cls(_pack(marks > 0.5), n_labels, None if bool(known.all()) else _pack(known))

    @classmethod
    def _from_blocks(cls, rows: Any) -> CandidateBits:
        n_rows, n_labels = rows.shape
        step = max(1, BLOCK_ENTRIES // max(1, n_labels))
        blocks = [cls.from_matrix(rows[start : start + step].toarray()) for start in range(0, n_rows, step)]
        bits = torch.cat([block.bits for block in blocks])
        if all(block.known is None for block in blocks):
            return cls(bits, n_labels)
        told = [
            _pack(torch.ones(len(block.bits), n_labels, dtype=torch.bool)) if block.known is None else block.known
            for block in blocks
        ]
        return cls(bits, n_labels, torch.cat(told))

    def to_matrix(self) -> Tensor:
        """Dense 1 and 0 in uint8; with unknown entries, 1, 0 and -1 in int8."""
        marks = _unpack(self.bits, self.n_labels)
        if self.known is None:
            return marks
        return torch.where(_unpack(self.known, self.n_labels) > 0, marks.to(torch.int8), -1)

    @property
    def shape(self) -> torch.Size:
        """The shape of the matrix: ``(…, n_labels)``."""
        return torch.Size((*self.bits.shape[:-1], self.n_labels))

    @property
    def device(self) -> torch.device:
        return self.bits.device

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, rows: Any) -> CandidateBits:
        """The given rows: a number, a slice, positions or a boolean mask."""
        if isinstance(rows, tuple):
            raise ValueError(f"the labels of packed candidates cannot be indexed, got {rows!r}; give rows alone")
        if self.bits.ndim == 1:
            raise ValueError("this is a single row of packed candidates, which has no rows to index")
        if isinstance(rows, np.ndarray | list):
            rows = torch.as_tensor(rows, device=self.device)
        return CandidateBits(self.bits[rows], self.n_labels, None if self.known is None else self.known[rows])

    def to(self, device: Any, *, non_blocking: bool = False) -> CandidateBits:
        """The same bits on another device."""
        known = None if self.known is None else self.known.to(device, non_blocking=non_blocking)
        return CandidateBits(self.bits.to(device, non_blocking=non_blocking), self.n_labels, known)

    def pin_memory(self) -> CandidateBits:
        """The same bits in page-locked memory; ``torch.utils.data.DataLoader(pin_memory=True)`` calls this."""
        known = None if self.known is None else self.known.pin_memory()
        return CandidateBits(self.bits.pin_memory(), self.n_labels, known)

    def __repr__(self) -> str:
        size = " × ".join(str(length) for length in self.shape)
        n_bytes = self.bits.numel() * (1 if self.known is None else 2)
        return f"CandidateBits({size} labels, {n_bytes} bytes{'' if self.known is None else ', some unknown'})"


Marks = Tensor | CandidateBits


def unpacked(candidates: Marks, label_dim: int) -> Tensor:
    """The candidates as a tensor with the axes of the logits."""
    if isinstance(candidates, CandidateBits):
        return candidates.to_matrix().movedim(-1, label_dim)
    if not isinstance(candidates, Tensor):
        raise TypeError(
            f"candidates are of type {type(candidates).__name__}; give a tensor: torch.as_tensor(array), "
            "or torch.as_tensor(candidates.to_matrix()) where they are Candidates"
        )
    return candidates


def check_marks(marks: Tensor, mask: Tensor | None = None, *, soft: bool = False) -> None:
    """Refuse what is neither 1 (candidate; ``soft``: in (0, 1]), 0 (excluded), -1 or NaN (unknown), nor masked.

    A GPU is not asked, the host would have to wait for the answer; nor can compiled and transformed code look at
    values. There a candidate is what lies above 0.5, and unknown what does not lie above -0.5.
    """
    if marks.device.type != "cpu" or marks.dtype == torch.bool or torch.compiler.is_compiling():
        return
    if type(marks) not in (Tensor, torch.nn.Parameter) or torch._C._are_functorch_transforms_active():
        return
    wrong = states_of(marks) == 2
    if soft:
        wrong &= (marks < 0) | (marks > 1)
    if mask is not None:
        wrong &= mask != 0
    if wrong.any():
        raise ValueError(
            f"candidates hold {marks[wrong][0].item():g}; give 1 for a candidate, 0 for an excluded label, and -1 or "
            "NaN for an unknown one (a candidate of rank_loss may be any number in (0, 1])"
        )


def states_of(marks: Tensor) -> Tensor:
    """Marks of any type as 1, 0 and -1 in int8, and 2 where they are none of these."""
    candidate, excluded, unknown = marks == 1, marks == 0, (marks == -1.0) | (marks != marks)
    others = ~(candidate | excluded | unknown)
    return candidate.to(torch.int8) - unknown.to(torch.int8) + 2 * others.to(torch.int8)


def _pack(marks: Tensor) -> Tensor:
    """Eight marks to a byte, the first in the least significant bit."""
    spare = -marks.shape[-1] % 8
    padded = torch.nn.functional.pad(marks.to(torch.uint8), (0, spare))
    eights = padded.unflatten(-1, (-1, 8))
    packed = eights[..., 0].clone()
    for place in range(1, 8):
        packed |= eights[..., place] << place
    return packed


def _unpack(bits: Tensor, n_labels: int) -> Tensor:
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    return ((bits.unsqueeze(-1) >> places) & 1).flatten(-2)[..., :n_labels]
