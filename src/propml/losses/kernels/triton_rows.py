"""Rows on a GPU: which kernel runs with which tile, launched with little work on the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

from propml.losses.kernels import triton_kernels as kernels
from propml.losses.kernels.rows import KernelRows, per_row
from propml.losses.problem import ASL, POWER, PROPML

__all__ = ["Ahead", "gradient", "gradient_at_once", "losses", "losses_and_gradient", "scaled"]

SETS = (PROPML, POWER)  # losses of which a row's candidates share one term


# What a kernel is given beside the rows: values or the gradient on them, statistics, gradient, the factor that it is
# planned for, and where to note the one that came.
Arrays = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


class Tile(NamedTuple):
    """What one program works on: so many rows, so many labels of each at a time, with so many warps."""

    rows: int
    block: int
    warps: int


# Up to so many labels a program holds whole rows; beyond, it walks along one.
# Chosen on an H200, where `python benchmarks/loss.py --tune` compares them.
SHORT: dict[int, Tile] = {
    16: Tile(128, 16, 4),
    32: Tile(64, 32, 4),
    64: Tile(32, 64, 4),
    128: Tile(16, 128, 4),
    256: Tile(4, 256, 4),
    512: Tile(2, 512, 4),
    1024: Tile(1, 1024, 4),
    2048: Tile(1, 2048, 8),
    4096: Tile(1, 4096, 16),
}
# Fewer bytes leave less time for what each thread does once: more entries share it.
SHORT_16_BIT: dict[int, Tile] = SHORT | {1024: Tile(1, 1024, 2), 2048: Tile(1, 2048, 4), 4096: Tile(1, 4096, 8)}
LONG, LONG_16_BIT, LONGER = Tile(1, 4096, 16), Tile(1, 2048, 8), Tile(1, 8192, 32)
LONGER_THAN = 1 << 15  # labels of a row that is too long to stay in the cache until its gradient is written
WALKING_REGISTERS = 32  # enough for plain rows, and few enough that a multiprocessor is full of threads
SLOPES: dict[int, Tile] = {block: Tile(1024 // block, block, 4) for block in (16, 32, 64, 128, 256, 512, 1024)}
IDLE_PROGRAMS = 1024  # few enough that a launch with nothing to do is over at once
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


class Ahead(NamedTuple):
    """What the backward pass must know of a gradient that was written ahead: what for, and how to write it anew."""

    rows: KernelRows | None  # not of a small gradient, which is multiplied
    planned: Tensor | None  # one number on the device; 1 where a graph is captured, or the gradient is small
    stats: Tensor | None
    scale: float


# Form of rows → the number that the last loss of this form was multiplied by, on the device. Training multiplies by the
# same number step after step (1, one over the steps that are accumulated, a loss scaler's): the gradient is written for
# it at once. No host looks at the number, and the gradient does not depend on whether it was foreseen.
_last_factors: dict[tuple, Tensor] = {}


def gradient_at_once(reduced: bool) -> bool:
    """Whether the forward pass writes the gradient: it can where one number is all that is still missing."""
    return reduced


def tile_of(logits: Tensor) -> Tile:
    """The tile of a forward pass."""
    half, n_labels = logits.element_size() == 2, logits.shape[1]
    if n_labels > LONGER_THAN:
        return LONGER
    if n_labels > LONG.block:  # no larger block than the row fills, where arithmetic counts more than memory
        return LONG_16_BIT if half and -n_labels % LONG.block >= LONG_16_BIT.block else LONG
    return (SHORT_16_BIT if half else SHORT)[max(16, triton.next_power_of_2(n_labels))]


def losses(rows: KernelRows, scale: float = 1.0, *, tile: Tile | None = None) -> tuple[Tensor, Tensor | None]:
    """One value per row times ``scale``, and what :func:`gradient` needs to know of ProPML's sets."""
    values, stats = rows.logits.new_empty(len(rows.logits), dtype=torch.float32), _stats(rows)
    _forward(rows, scale, (values, stats, None, None, None), tile)
    return values, stats


def losses_and_gradient(
    rows: KernelRows, scale: float = 1.0, *, tile: Tile | None = None
) -> tuple[Tensor, Tensor, Ahead]:
    """One value per row times ``scale``, and the gradient of their sum, ``(n_rows, n_labels)``, for :func:`scaled`."""
    shape = rows.logits.shape
    values = rows.logits.new_empty(shape[0], dtype=torch.float32)
    if rows.logits.numel() <= SMALL:
        slopes, ahead = rows.logits.new_empty(shape, dtype=torch.float32), Ahead(None, None, None, scale)
    else:
        slopes, ahead = rows.logits.new_empty(shape), Ahead(rows, _planned(rows), _stats(rows), scale)
    _forward(rows, scale, (values, ahead.stats, slopes, ahead.planned, None), tile)
    return values, slopes, ahead


def gradient(rows: KernelRows, stats: Tensor | None, grad_output: Tensor, *, tile: Tile | None = None) -> Tensor:
    """The gradient on the logits, ``(n_rows, n_labels)``, from that on the values, ``(n_rows,)`` of stride 0 or 1."""
    slopes = torch.empty(rows.logits.shape, dtype=rows.logits.dtype, device=rows.logits.device)
    _slopes(rows, 1.0, (grad_output, stats, slopes, None, None), grad_output.stride(0), tile)
    return slopes


def scaled(
    buffer: Tensor, ahead: Ahead, factor: Tensor, dtype: torch.dtype, is_unchanged: Callable[[], bool]
) -> Tensor:
    """The gradient for a factor on the device, in the place of what was written ahead.

    A large buffer is not touched when the factor is the one that it was written for, and computed anew otherwise; or
    multiplied, where the rows are no longer what they were.
    """
    rows = ahead.rows
    if rows is None:
        return buffer.mul_(factor) if dtype == torch.float32 else torch.mul(buffer, factor).to(dtype)
    planned = torch.ones((), device=buffer.device) if ahead.planned is None else ahead.planned
    if not is_unchanged():
        return buffer.mul_(factor / planned)
    noted = torch.empty_like(planned)
    _slopes(rows, ahead.scale, (per_row(factor.reshape(1)), ahead.stats, buffer, planned, noted), 0, None)
    site = _site(rows)
    if site is not None:
        _last_factors[site] = noted
    return buffer


def _stats(rows: KernelRows) -> Tensor | None:
    """Where a forward pass keeps two numbers of each set."""
    return rows.logits.new_empty((2, len(rows.logits)), dtype=torch.float32) if rows.kind in SETS else None


def _site(rows: KernelRows) -> tuple | None:
    """What losses share that are likely to be multiplied by one number; one stream keeps them in order.

    Nothing where a graph is captured: it keeps the addresses of memory that goes with the next step.
    """
    device, stream = rows.logits.device, 0
    if device.type == "cuda":
        if torch.cuda.is_current_stream_capturing():
            return None
        stream = torch._C._cuda_getCurrentRawStream(device.index)
    return device, stream, rows.kind, rows.logits.dtype, rows.logits.shape[1], rows.packed


def _planned(rows: KernelRows) -> Tensor | None:
    """The factor to write a gradient for."""
    site = _site(rows)
    if site is not None and site not in _last_factors:
        _last_factors[site] = torch.ones((), device=rows.logits.device)
    return None if site is None else _last_factors[site]


def _slopes(rows: KernelRows, scale: float, arrays: Arrays, value_stride: int, tile: Tile | None) -> None:
    n_rows, n_labels = rows.logits.shape
    tile = tile or SLOPES[min(1024, max(16, triton.next_power_of_2(n_labels)))]
    programs = triton.cdiv(n_rows, tile.rows) * triton.cdiv(n_labels, tile.block)
    if arrays[3] is not None:  # most likely there is nothing to do
        programs = min(programs, IDLE_PROGRAMS)
    _launch(kernels.backward, (programs, 1, 1), rows, scale, arrays, value_stride, tile)


def _forward(rows: KernelRows, scale: float, arrays: Arrays, tile: Tile | None) -> None:
    """As the last time where rows of this form were seen before: a GPU is done with a small loss before Python is."""
    form = None if tile else _form(rows, arrays)
    if form in _plans and _launched_again(_plans[form], rows, scale, arrays):
        return
    tile = tile or tile_of(rows.logits)
    programs = triton.cdiv(len(rows.logits), tile.rows)
    plan = _launch(kernels.forward, (programs, 1, 1), rows, scale, arrays, 1, tile)
    if form is not None and plan is not None:
        _plans[form] = plan


def _form(rows: KernelRows, arrays: Arrays) -> tuple | None:
    """What decides how rows are launched, but for their number; ``None`` with weights, masks or a λ per row."""
    logits, marks, known, mask, label_weight, lam_rows, order_rows, example_weight, _, focus, kind, packed = rows
    if not (known is None and mask is None and label_weight is None and lam_rows is None and example_weight is None):
        return None
    if kind == POWER:
        if order_rows is not None:
            return None
        focus = []  # the order is no constant of the kernel
    _, stats, slopes, planned, _ = arrays
    slope_type = None if slopes is None else slopes.dtype
    types = (logits.dtype, marks.dtype, logits.device, stats is None, planned is None, slope_type)
    return (kind, packed, logits.shape[1], logits.stride(0), marks.stride(0), *types, *focus)


def _launched_again(plan: LaunchPlan, rows: KernelRows, scale: float, arrays: Arrays) -> bool:
    """Launch by a plan, unless the memory lies otherwise than it was made for."""
    logits, marks = rows.logits, rows.marks
    if (logits.data_ptr() | marks.data_ptr()) % 16 or logits.device.index != torch.cuda.current_device():
        return False
    n_rows = len(logits)
    numbers = (*plan.strides, n_rows, plan.labels, rows.lam, _order(rows), scale)
    arguments = (*rows[:8], *arrays, *numbers, *plan.constants)
    _start(plan.compiled, (-(-n_rows // plan.tile_rows), 1, 1), arguments, logits.device)
    return True


def _launch(
    kernel: Any,
    grid: tuple[int, int, int],
    rows: KernelRows,
    scale: float,
    arrays: Arrays,
    value_stride: int,
    tile: Tile,
) -> LaunchPlan | None:
    """Launch a kernel on rows; the same launch can be repeated by the plan, if there is one."""
    logits, marks, known, mask, _, lam_rows, order_rows, example_weight, lam, focus, kind, packed = rows
    n_rows, n_labels = logits.shape
    logit_stride, mark_stride = logits.stride(0), marks.stride(0)
    mask_stride = 0 if mask is None else mask.stride(0)
    align = _alignment(n_labels | logit_stride | mask_stride | (0 if packed else mark_stride), logits)
    pointers, group = (*rows[:8], *arrays), 16 // logits.element_size()
    unknown = known is not None or mask is not None or not (packed or marks.dtype == torch.uint8)
    strides = (logit_stride // align, mark_stride if packed else mark_stride // align, mask_stride // align)
    constants = (
        kind,
        packed,
        unknown,
        align,
        0 if lam_rows is None else lam_rows.stride(0),
        0 if order_rows is None else order_rows.stride(0),
        0 if example_weight is None else example_weight.stride(0),
        value_stride,
        *(focus if kind == ASL else (0.0, 0.0, 0.0, 0.0)),
        group,
        n_labels <= tile.block,
        tile.rows,
        tile.block,
    )
    lengths = (*strides, n_rows, n_labels // align)
    options = {"num_warps": tile.warps}
    plain = kind == PROPML and align == group and not unknown and rows.label_weight is None
    if plain and kernel is kernels.forward and n_labels > tile.block:
        options["maxnreg"] = WALKING_REGISTERS
    compiled = _run(kernel, grid, options, pointers, lengths, (lam, _order(rows), scale), constants)
    return None if compiled is None else LaunchPlan(compiled, tile.rows, strides, n_labels // align, constants)


def _order(rows: KernelRows) -> float:
    """Of the power mean, where it is one for all rows."""
    return rows.focus[0] if rows.kind == POWER and rows.order_rows is None else 1.0


def _run(
    kernel: Any,
    grid: tuple[int, int, int],
    options: dict[str, int],
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
    key = (kernel.__name__, device, *options.items(), constants, *types)
    usual = addresses % 16 == 0 and max(lengths) < 2**31
    with _on(device):
        if usual and key in _compiled:
            _start(_compiled[key], grid, arguments, device)
            return _compiled[key]
        compiled = kernel[grid](*arguments, **options)
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
