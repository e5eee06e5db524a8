"""Rows on a GPU: which kernel runs with which tile, launched with little work on the host."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

from propml.losses.kernels import triton_kernels as kernels
from propml.losses.kernels.rows import KernelRows
from propml.losses.problem import ASL, POWER, PROPML

__all__ = ["gradient", "gradient_at_once", "losses", "losses_and_gradient", "scaled"]

SETS = (PROPML, POWER)  # losses of which a row's candidates share one term
FEW_ROWS = 4096  # fewer programs than these, each walking along a row, leave much of a GPU idle


class Tile(NamedTuple):
    """What one program works on: so many rows, so many labels of each at a time, with so many warps."""

    rows: int
    block: int
    warps: int


# Up to so many labels a program holds whole rows; beyond, it walks along one.
# Chosen on an H200 by `python benchmarks/loss.py --tune`.
SHORT: dict[int, Tile] = {
    16: Tile(64, 16, 4),
    32: Tile(32, 32, 4),
    64: Tile(16, 64, 4),
    128: Tile(8, 128, 4),
    256: Tile(4, 256, 4),
    512: Tile(2, 512, 4),
    1024: Tile(1, 1024, 2),
    2048: Tile(1, 2048, 4),
    4096: Tile(1, 4096, 8),
    8192: Tile(1, 8192, 16),
}
LONGEST_SHORT = max(SHORT)
PACKED: dict[int, Tile] = SHORT | {1024: Tile(1, 1024, 4)}  # taking bits apart is work for more threads
LONG = Tile(1, 4096, 8)
SLOPES: dict[int, Tile] = {block: Tile(1024 // block, block, 4) for block in (16, 32, 64, 128, 256, 512, 1024)}
SCALE = Tile(1, 4096, 8)
SCALE_PROGRAMS = 1024  # few enough that a launch with nothing to do is over at once
# Up to so many entries the host's work rules: a ready-made multiplication is quicker than a kernel that may be spared
# it, and gradients wait for it in float32, whatever their type will be.
SMALL = 1 << 17

_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
# A compiled kernel takes its constants among its arguments since Triton 3.4.
LAUNCHES_COMPILED = _VERSION >= (3, 4)
# What a launch comes down to, without the look at profilers' hooks that takes half of its time; seen to be so here.
LAUNCHES_BARE = (3, 4) <= _VERSION <= (3, 6)
_compiled: dict[tuple, Any] = {}


class LaunchPlan(NamedTuple):
    """How plain rows of some form are launched: nothing is left to work out but addresses and the number of rows."""

    compiled: Any
    tile_rows: int
    strides: tuple[int, int, int]
    labels: int
    constants: tuple


_plans: dict[tuple, LaunchPlan] = {}


def gradient_at_once(logits: Tensor, n_labels: int, reduced: bool) -> bool:
    """Whether the forward pass writes the gradient: to read the logits again can be cheaper than to write twice."""
    n_entries = logits.numel()
    few_long_rows = n_labels > LONGEST_SHORT and n_entries < FEW_ROWS * n_labels
    # In float16 a gradient that is written too early could vanish before a loss scaler multiplies it.
    may_vanish = logits.dtype == torch.float16 and n_entries > SMALL
    return reduced and not may_vanish and not few_long_rows


def tile_of(n_labels: int, packed: bool) -> Tile:
    """The tile of a forward pass."""
    return (PACKED if packed else SHORT).get(max(16, triton.next_power_of_2(n_labels)), LONG)


def losses(rows: KernelRows, scale: float = 1.0, *, tile: Tile | None = None) -> tuple[Tensor, Tensor | None]:
    """One value per row times ``scale``, and what :func:`gradient` needs to know of ProPML's sets."""
    n_rows = len(rows.logits)
    values = rows.logits.new_empty(n_rows, dtype=torch.float32)
    stats = None
    if rows.kind in SETS:
        stats = rows.logits.new_empty((2, n_rows), dtype=torch.float32)
    _forward(rows, scale, values, stats, None, tile)
    return values, stats


def losses_and_gradient(rows: KernelRows, scale: float = 1.0, *, tile: Tile | None = None) -> tuple[Tensor, Tensor]:
    """One value per row times ``scale``, and the gradient of their sum, ``(n_rows, n_labels)``, for :func:`scaled`."""
    shape = rows.logits.shape
    values = rows.logits.new_empty(shape[0], dtype=torch.float32)
    small = rows.logits.numel() <= SMALL
    slopes = rows.logits.new_empty(shape, dtype=torch.float32 if small else rows.logits.dtype)
    _forward(rows, scale, values, None, slopes, tile)
    return values, slopes


def gradient(rows: KernelRows, stats: Tensor | None, grad_output: Tensor, *, tile: Tile | None = None) -> Tensor:
    """The gradient on the logits, ``(n_rows, n_labels)``, from that on the values, ``(n_rows,)`` of stride 0 or 1."""
    n_rows, n_labels = rows.logits.shape
    slopes = torch.empty((n_rows, n_labels), dtype=rows.logits.dtype, device=rows.logits.device)
    tile = tile or SLOPES[min(1024, max(16, triton.next_power_of_2(n_labels)))]
    grid = (triton.cdiv(n_rows, tile.rows), triton.cdiv(n_labels, tile.block), 1)
    _launch(kernels.slopes, grid, rows, 1.0, (grad_output, stats, slopes), grad_output.stride(0), tile)
    return slopes


def scaled(buffer: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
    """A contiguous buffer, which is used up, times a number on the device; it is not touched when that is 1."""
    n_entries = buffer.numel()
    if n_entries <= SMALL:
        return buffer.mul_(factor) if dtype == torch.float32 else torch.mul(buffer, factor).to(dtype)
    align = _alignment(n_entries, buffer)
    grid = (min(SCALE_PROGRAMS, triton.cdiv(n_entries, SCALE.block)), 1, 1)
    _run(kernels.scale_unless_one, grid, SCALE.warps, (buffer, factor), (n_entries // align,), (), (align, SCALE.block))
    return buffer


def _forward(
    rows: KernelRows, scale: float, values: Tensor, stats: Tensor | None, slopes: Tensor | None, tile: Tile | None
) -> None:
    """As the last time where rows of this form were seen before: a GPU is done with a small loss before Python is."""
    form = None if tile else _form(rows, stats, slopes)
    if form in _plans and _launched_again(_plans[form], rows, scale, (values, stats, slopes)):
        return
    n_rows, n_labels = rows.logits.shape
    tile = tile or tile_of(n_labels, rows.packed)
    kernel = kernels.short_rows if n_labels <= tile.block else kernels.long_rows
    plan = _launch(kernel, (triton.cdiv(n_rows, tile.rows), 1, 1), rows, scale, (values, stats, slopes), 1, tile)
    if form is not None and plan is not None:
        _plans[form] = plan


def _form(rows: KernelRows, stats: Tensor | None, slopes: Tensor | None) -> tuple | None:
    """What decides how rows are launched, but for their number; ``None`` with weights, masks or a λ per row."""
    logits, marks, known, mask, label_weight, lam_rows, order_rows, example_weight, _, focus, kind, packed = rows
    if not (known is None and mask is None and label_weight is None and lam_rows is None and example_weight is None):
        return None
    if kind == POWER:
        if order_rows is not None:
            return None
        focus = []  # the order is no constant of the kernel
    types = (logits.dtype, marks.dtype, logits.device, stats is None, None if slopes is None else slopes.dtype)
    return (kind, packed, logits.shape[1], logits.stride(0), marks.stride(0), *types, *focus)


def _launched_again(
    plan: LaunchPlan, rows: KernelRows, scale: float, outputs: tuple[Tensor, Tensor | None, Tensor | None]
) -> bool:
    """Launch by a plan, unless the memory lies otherwise than it was made for."""
    logits, marks = rows.logits, rows.marks
    if (logits.data_ptr() | marks.data_ptr()) % 16 or logits.device.index != torch.cuda.current_device():
        return False
    n_rows = len(logits)
    numbers = (*plan.strides, n_rows, plan.labels, rows.lam, _order(rows), scale)
    arguments = (logits, marks, None, None, None, None, None, None, *outputs, *numbers, *plan.constants)
    _start(plan.compiled, (-(-n_rows // plan.tile_rows), 1, 1), arguments, logits.device)
    return True


def _launch(
    kernel: Any,
    grid: tuple[int, int, int],
    rows: KernelRows,
    scale: float,
    outputs: tuple[Tensor, Tensor | None, Tensor | None],
    value_stride: int,
    tile: Tile,
) -> LaunchPlan | None:
    """Launch a kernel on rows; the same launch can be repeated by the plan, if there is one."""
    logits, marks, known, mask, _, lam_rows, order_rows, example_weight, lam, focus, kind, packed = rows
    n_rows, n_labels = logits.shape
    logit_stride, mark_stride = logits.stride(0), marks.stride(0)
    mask_stride = 0 if mask is None else mask.stride(0)
    align = _alignment(n_labels | logit_stride | mask_stride | (0 if packed else mark_stride), logits)
    pointers = (*rows[:8], *outputs)
    strides = (logit_stride // align, mark_stride if packed else mark_stride // align, mask_stride // align)
    constants = (
        kind,
        packed,
        known is not None or mask is not None or not (packed or marks.dtype == torch.uint8),
        align,
        0 if lam_rows is None else lam_rows.stride(0),
        0 if order_rows is None else order_rows.stride(0),
        0 if example_weight is None else example_weight.stride(0),
        value_stride,
        *(focus if kind == ASL else (0.0, 0.0, 0.0, 0.0)),
        tile.rows,
        tile.block,
    )
    lengths = (*strides, n_rows, n_labels // align)
    compiled = _run(kernel, grid, tile.warps, pointers, lengths, (lam, _order(rows), scale), constants)
    return None if compiled is None else LaunchPlan(compiled, tile.rows, strides, n_labels // align, constants)


def _order(rows: KernelRows) -> float:
    """Of the power mean, where it is one for all rows."""
    return rows.focus[0] if rows.kind == POWER and rows.order_rows is None else 1.0


def _run(
    kernel: Any,
    grid: tuple[int, int, int],
    warps: int,
    pointers: tuple[Tensor | None, ...],
    lengths: tuple[int, ...],
    numbers: tuple[float, ...],
    constants: tuple,
) -> Any:
    """Past Triton's own lookup where the kernel was compiled for these types, constants and aligned memory before.

    Returns the compiled kernel, or ``None`` where it serves no other launch.
    """
    arguments = (*pointers, *lengths, *numbers, *constants)
    addresses = 0
    types: list[Any] = []
    for pointer in pointers:
        types.append(None if pointer is None else pointer.dtype)
        addresses |= 0 if pointer is None else pointer.data_ptr()
    device = pointers[0].device  # type: ignore[union-attr]
    key = (kernel.__name__, device, warps, constants, *types)
    usual = addresses % 16 == 0 and max(lengths) < 2**31
    with _on(device):
        if usual and key in _compiled:
            _start(_compiled[key], grid, arguments, device)
            return _compiled[key]
        compiled = kernel[grid](*arguments, num_warps=warps)
    if not usual or not LAUNCHES_COMPILED or compiled is None:  # the interpreter compiles nothing
        return None
    _compiled[key] = compiled
    return compiled


def _start(compiled: Any, grid: tuple[int, int, int], arguments: tuple, device: torch.device) -> None:
    """Launch a compiled kernel on the current stream of its device."""
    if not LAUNCHES_BARE:
        compiled[grid](*arguments)
        return
    stream = torch._C._cuda_getCurrentRawStream(device.index)
    compiled.run(*grid, stream, compiled.function, compiled.packed_metadata, None, None, None, *arguments)


def _alignment(lengths: int, entries: Tensor) -> int:
    """The largest power of 2 that divides the lengths, up to what one 16-byte access holds."""
    lengths |= 16 // entries.element_size()
    return lengths & -lengths


def _on(device: torch.device) -> AbstractContextManager:
    """Triton launches on the current device: change it only where it is another one."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(device)
