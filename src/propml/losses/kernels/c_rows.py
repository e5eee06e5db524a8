"""KernelRows on the CPU, by ``rows.c``.

Arithmetic costs more here than memory, so value and gradient are always computed together, and the gradient is the only
memory of the logits' size.
"""

from __future__ import annotations

import functools
import operator
import os
import struct
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from propml.losses.candidates import check_marks, states_of
from propml.losses.kernels import c_library
from propml.losses.kernels.rows import KernelRows
from propml.losses.problem import BCE, POWER, PROPML

__all__ = ["TYPES", "gradient", "gradient_at_once", "losses", "losses_and_gradient", "scaled", "takes"]

TYPES = (torch.float32, torch.bfloat16)
KERNELS = (PROPML, BCE, POWER)
MARK_TYPES = {torch.uint8: 0, torch.int8: 1, torch.float32: 2}
PACKED_MARKS = 3
NO_MEMORY, STRANGE_MARKS = 1, 2  # what propml_rows returns; masked entries count too
# What one thread does before another is worth waking: PyTorch's wake at once, a pool of Python's needs a while.
THREADED_ENTRIES, POOL_ENTRIES = 1 << 13, 1 << 17
JOB = struct.Struct("22q4q3d")  # struct job in rows.c: address and stride of eleven arrays, then numbers


def gradient_at_once(reduced: bool) -> bool:
    """Whether the forward pass writes the gradient."""
    return True


def takes(kernel: int) -> bool:
    """Whether there is compiled code for a loss."""
    return kernel in KERNELS and c_library.library() is not None


def losses(rows: KernelRows, scale: float = 1.0) -> tuple[Tensor, None]:
    """One value per row times ``scale``; nothing has to be kept for :func:`gradient`."""
    return _compute(rows, scale, None, None), None


def losses_and_gradient(rows: KernelRows, scale: float = 1.0) -> tuple[Tensor, Tensor, None]:
    """One value per row times ``scale``, and the gradient of their sum, ``(n_rows, n_labels)``, in the logits' type."""
    slopes = torch.empty_like(rows.logits, memory_format=torch.contiguous_format)
    return _compute(rows, scale, None, slopes), slopes, None


def gradient(rows: KernelRows, stats: object, grad_output: Tensor) -> Tensor:
    """The gradient on the logits, ``(n_rows, n_labels)``, from that on the values, ``(n_rows,)``."""
    slopes = torch.empty_like(rows.logits, memory_format=torch.contiguous_format)
    _compute(rows, 1.0, grad_output, slopes)
    return slopes


def scaled(buffer: Tensor, ahead: None, factor: Tensor, dtype: torch.dtype, is_unchanged: object) -> Tensor:
    """A buffer, which is used up, times one number; nothing is touched when that is 1."""
    return buffer if factor.item() == 1 else buffer.mul_(factor)


def _compute(rows: KernelRows, scale: float, incoming: Tensor | None, slopes: Tensor | None) -> Tensor:
    """One value per row; the gradient is written where there is a place for it."""
    library, n_rows, n_labels = c_library.library(), *rows.logits.shape
    # Only who calls the operator itself comes here with anything else, and would get foreign memory for numbers.
    if library is None or rows.logits.dtype not in TYPES or rows.kind not in KERNELS:
        raise NotImplementedError(
            f"torch.ops.propml.row_losses has no kernel on the CPU for loss {rows.kind} of {rows.logits.dtype} logits; "
            "call the loss of propml.losses, which knows another way"
        )
    given = rows
    if not rows.packed and rows.marks.dtype not in MARK_TYPES:
        given = rows._replace(marks=states_of(rows.marks)).laid_out()
    values = torch.empty(n_rows)
    places: list[int] = []
    for array in (*given[:8], incoming, values, slopes):
        places += (0, 0) if array is None else (array.data_ptr(), array.stride(0))
    job = JOB.pack(
        *places,
        given.kind,
        n_labels,
        given.logits.dtype == torch.bfloat16,
        PACKED_MARKS if given.packed else MARK_TYPES[given.marks.dtype],
        given.lam,
        given.focus[0] if given.focus else 1.0,
        scale,
    )
    own = library.has_threads and not _is_forked
    enough = n_rows * n_labels // (THREADED_ENTRIES if own else POOL_ENTRIES)
    threads = 1 if enough < 2 else min(torch.get_num_threads(), n_rows, enough)
    if threads == 1 or own:
        failed = library.propml_rows(job, 0, n_rows, threads)
    else:  # ctypes lets other Python threads run meanwhile
        ends = [n_rows * count // threads for count in range(threads + 1)]
        parts = _pool(threads).map(lambda *part: library.propml_rows(job, *part, 1), ends[:-1], ends[1:])
        failed = functools.reduce(operator.or_, parts)
    if failed & STRANGE_MARKS:
        check_marks(rows.marks, rows.mask)
    if failed & NO_MEMORY:
        raise MemoryError(f"no memory for four rows of {n_labels} labels in each of {threads} threads")
    return values


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="propml")


_is_forked = False


def _forget_threads() -> None:
    """They do not live on in a forked process, and OpenMP would wait for them for ever."""
    global _is_forked
    _is_forked = True
    _pool.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
