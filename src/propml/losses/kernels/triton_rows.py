"""Rows on a GPU: which kernel runs with which tile, launched with little work on the host."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

from propml.losses.kernels import triton_kernels as kernels
from propml.losses.kernels.engines import INTERPRETED
from propml.losses.kernels.rows import KernelRows, per_row
from propml.losses.problem import ASL, POWER, PROPML

__all__ = ["Ahead", "gradient", "gradient_at_once", "losses", "losses_and_gradient", "scaled"]

SETS = (PROPML, POWER)  # losses of which a row's candidates share one term


# What a kernel is given beside the rows: values or the gradient on them, statistics, gradient, the factor that it is
# planned for, and where to note the one that came, or where the programs of a row tell each other their sums.
Arrays = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


class Tile(NamedTuple):
    """What one program works on: so many rows, so many labels of each at a time (a block), with so many warps."""

    rows: int
    block: int
    warps: int
    held: int = 1  # blocks of a row that fit into registers; along a longer one the program walks
    joint: int = 0  # blocks of a program where several share a row; 0 where each has its own
    registers: int = 0  # of a thread at most, for plain rows; 0 where the compiler may choose
    hints: bool = True  # whether the cache is told what a walk will read again


# Up to so many labels a program holds whole rows.
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
ASL_16_BIT, PACKED_16_BIT = Tile(1, 1024, 1), Tile(1, 1024, 2, registers=40)
# Plain rows of a few blocks more stay in registers between their sum and their gradient, and are read once.
HELD, HELD_16_BIT = Tile(1, 4096, 16, held=3, registers=64), Tile(1, 4096, 16, held=4, registers=64)
HELD_FINELY = Tile(1, 2048, 8, held=5, registers=64)
# Beyond, 32 registers are enough for plain rows, and few enough that a multiprocessor is full of threads.
LONG, LONG_16_BIT = Tile(1, 4096, 16, registers=32), Tile(1, 2048, 8, registers=32)
LONGER = Tile(1, 8192, 32, registers=32)
JOINT = Tile(1, 1024, 4, held=4, joint=4, registers=72)
JOINT_16_BIT, JOINT_PACKED_16_BIT = Tile(1, 2048, 8, held=5, joint=5, registers=64), JOINT._replace(registers=64)
LONGER_THAN = 1 << 15  # labels of a row that is too long to stay in the cache until its gradient is written
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
# Programs that wait for each other are launched together or not at all: Triton knows how to ask for it.
SHARES_ROWS = _VERSION >= (3, 4)
REGISTERS = 1 << 16  # of a multiprocessor
_compiled: dict[tuple, Any] = {}


class LaunchPlan(NamedTuple):
    """How plain rows of some form are launched: nothing is left to work out but addresses and the number of rows."""

    compiled: Any
    tile: Tile
    strides: tuple[int, int, int]
    labels: int
    constants: tuple


_plans: dict[tuple | None, LaunchPlan] = {}


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


def tile_of(rows: KernelRows, with_gradient: bool = True) -> Tile:
    """The tile of a forward pass; one that writes no gradient reads a row only once, however long it is."""
    half, n_labels = rows.logits.element_size() == 2, rows.logits.shape[1]
    if n_labels > LONGER_THAN:
        joint = (JOINT_PACKED_16_BIT if rows.packed else JOINT_16_BIT) if half else JOINT
        most_parts = min(kernels.MOST_PARTS.value, _resident(rows.logits.device, joint))
        shares = with_gradient and SHARES_ROWS and _is_plain(rows) and _parts(rows, joint) <= most_parts
        return joint if shares else LONGER
    if n_labels > LONG.block:  # no larger block than the row fills, where arithmetic counts more than memory
        finely = half and -n_labels % LONG.block >= LONG_16_BIT.block
        held = HELD_FINELY if finely else HELD_16_BIT if half else HELD
        if with_gradient and n_labels <= held.held * held.block and _is_plain(rows):
            return held
        return LONG_16_BIT if finely else LONG
    tile = (SHORT_16_BIT if half else SHORT)[max(16, triton.next_power_of_2(n_labels))]
    if half and tile.block == ASL_16_BIT.block:
        return ASL_16_BIT if rows.kind == ASL else PACKED_16_BIT if rows.packed else tile
    return tile


def _parts(rows: KernelRows, tile: Tile) -> int:
    """How many programs share a row."""
    return -(-rows.logits.shape[1] // (tile.joint * tile.block))


@functools.cache
def _resident(device: torch.device, tile: Tile) -> int:
    """How many programs of a tile a GPU runs at a time: they are given no more registers than that takes."""
    if INTERPRETED:
        return 8
    properties, threads = torch.cuda.get_device_properties(device), 32 * tile.warps
    each = min(REGISTERS // (threads * tile.registers), properties.max_threads_per_multi_processor // threads)
    return each * properties.multi_processor_count


def _is_plain(rows: KernelRows) -> bool:
    """Whether rows are ProPML's, without weights of labels or unknown entries, and 16 bytes can be read at once."""
    known = rows.known is None and rows.mask is None and (rows.packed or rows.marks.dtype == torch.uint8)
    return rows.kind == PROPML and known and rows.label_weight is None and _align(rows) == _group(rows)


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
    known = _plans.get(form)
    tile = known.tile if known else tile or tile_of(rows, arrays[2] is not None)
    programs = triton.cdiv(len(rows.logits), tile.rows)
    if tile.joint:
        parts = _parts(rows, tile)
        programs = parts * min(programs, _resident(rows.logits.device, tile) // parts)
        # Sums of all parts, and how many of them are there: none yet.
        shared = rows.logits.new_zeros((len(rows.logits), 2 + 2 * parts), dtype=torch.float32)
        arrays = (*arrays[:4], shared)
    if known and _launched_again(known, programs, rows, scale, arrays):
        return
    for _ in range(2 if tile.joint and INTERPRETED else 1):  # there nobody waits: the second time all sums are known
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


def _launched_again(plan: LaunchPlan, programs: int, rows: KernelRows, scale: float, arrays: Arrays) -> bool:
    """Launch by a plan, unless the memory lies otherwise than it was made for."""
    logits, marks = rows.logits, rows.marks
    if (logits.data_ptr() | marks.data_ptr()) % 16 or logits.device.index != torch.cuda.current_device():
        return False
    numbers = (*plan.strides, len(logits), plan.labels, rows.lam, _order(rows), scale)
    arguments = (*rows[:8], *arrays, *numbers, *plan.constants)
    _start(plan.compiled, (programs, 1, 1), arguments, logits.device)
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
    mark_stride, mask_stride = marks.stride(0), 0 if mask is None else mask.stride(0)
    align = _align(rows)
    unknown = known is not None or mask is not None or not (packed or marks.dtype == torch.uint8)
    strides = (logits.stride(0) // align, mark_stride if packed else mark_stride // align, mask_stride // align)
    held = tile.joint or triton.cdiv(n_labels, tile.block)
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
        _group(rows),
        tile.rows,
        tile.block,
        held if held <= tile.held else 0,
        tile.joint,
        tile.hints,
    )
    lengths = (*strides, n_rows, n_labels // align)
    options: dict[str, int] = {"num_warps": tile.warps}
    if tile.registers and _is_plain(rows):
        options["maxnreg"] = tile.registers
    if tile.joint and not INTERPRETED:
        options["launch_cooperative_grid"] = True
    compiled = _run(kernel, grid, options, (*rows[:8], *arrays), lengths, (lam, _order(rows), scale), constants)
    return None if compiled is None else LaunchPlan(compiled, tile, strides, n_labels // align, constants)


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


def _group(rows: KernelRows) -> int:
    """How many logits one 16-byte access holds."""
    return 16 // rows.logits.element_size()


def _align(rows: KernelRows) -> int:
    """The largest power of 2 that divides the lengths, up to a group."""
    lengths = rows.logits.shape[1] | rows.logits.stride(0) | (0 if rows.mask is None else rows.mask.stride(0))
    lengths |= _group(rows) | (0 if rows.packed else rows.marks.stride(0))
    return lengths & -lengths


def _on(device: torch.device) -> AbstractContextManager:
    """Triton launches on the current device: change it only where it is another one."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(device)
