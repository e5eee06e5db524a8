"""Rows on the CPU: by the compiled library where there is a C compiler, otherwise in blocks of PyTorch operations.

Arithmetic costs more here than memory, so value and gradient are always computed together, and the gradient is the only
memory of the logits' size.
"""

import torch
from torch import Tensor

from propml.losses import compiled_rows, cpu_blocks
from propml.losses.rows import KINDS, Problem, Rows

TYPES = (torch.float32, torch.bfloat16)
COMPILED_KINDS = {KINDS[loss] for loss in compiled_rows.LOSSES}
BLOCK_KINDS = {KINDS[loss] for loss in cpu_blocks.LOSSES}


def gradient_at_once(logits: Tensor, n_labels: int, reduced: bool) -> bool:
    """Whether the forward pass writes the gradient."""
    return True


def takes(problem: Problem) -> bool:
    """Whether a problem is fused here."""
    return _has(KINDS.get(problem.plain), problem.label_weight)


def losses(rows: Rows, scale: float = 1.0) -> tuple[Tensor, None]:
    """One value per row times ``scale``; nothing has to be kept for :func:`gradient`."""
    return _compute(rows, scale, None, None), None


def losses_and_gradient(rows: Rows, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """One value per row times ``scale``, and the gradient of their sum, ``(n_rows, n_labels)``, in the logits' type."""
    slopes = torch.empty_like(rows.logits, memory_format=torch.contiguous_format)
    return _compute(rows, scale, None, slopes), slopes


def gradient(rows: Rows, stats: object, grad_output: Tensor) -> Tensor:
    """The gradient on the logits, ``(n_rows, n_labels)``, from that on the values, ``(n_rows,)``."""
    slopes = torch.empty_like(rows.logits, memory_format=torch.contiguous_format)
    _compute(rows, 1.0, grad_output, slopes)
    return slopes


def scaled(buffer: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
    """A buffer, which is used up, times one number; nothing is touched when that is 1."""
    return buffer if factor.item() == 1 else buffer.mul_(factor)


def _has(kind: int | None, label_weight: Tensor | None) -> bool:
    if compiled_rows.library() is None:
        return kind in BLOCK_KINDS and label_weight is None
    return kind in COMPILED_KINDS


def _compute(rows: Rows, scale: float, incoming: Tensor | None, slopes: Tensor | None) -> Tensor:
    # Only who calls the operator itself comes here with anything else, and would get foreign memory for numbers.
    if rows.logits.dtype not in TYPES or not _has(rows.kind, rows.label_weight):
        raise NotImplementedError(
            f"torch.ops.propml.row_losses has no kernel on the CPU for loss {rows.kind} of {rows.logits.dtype} logits; "
            "call the loss of propml.losses, which knows another way"
        )
    engine = cpu_blocks if compiled_rows.library() is None else compiled_rows
    return engine.compute(rows, scale, incoming, slopes)
