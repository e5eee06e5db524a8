"""``rows.c``, compiled with the machine's own C compiler when it is first needed, and kept for the next time.

Where there is no compiler, or the environment variable ``PROPML_COMPILER`` is ``none``, there is no library, and the
CPU works with :mod:`propml.losses.cpu_blocks` instead. The variable may also name a compiler. The library is kept in
``$XDG_CACHE_HOME/propml/compiled`` (``~/.cache/…``), one for each source, compiler and kind of processor.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from propml.losses import plain
from propml.losses.rows import Rows

SOURCE = Path(__file__).with_name("rows.c")
# Sums may be taken in any order, as a vector of partial sums; NaN and infinity keep their meaning.
FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-fassociative-math", "-fno-signed-zeros", "-fPIC", "-shared")
LOSSES = (plain.propml, plain.bce, plain.power)
MARK_TYPES = {torch.uint8: 0, torch.int8: 1, torch.float32: 2}
PACKED_MARKS = 3
THREADED_ENTRIES = 1 << 17  # what one thread does before another is worth waking


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or ``None`` where there is no way to it."""
    compiler = shutil.which(os.environ.get("PROPML_COMPILER") or "cc")
    if compiler is None:
        return None
    try:
        loaded = ctypes.CDLL(str(_built(compiler)))
    except (OSError, subprocess.SubprocessError):
        return None
    pointer, whole, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
    kind = ctypes.c_int
    loaded.propml_rows.argtypes = [
        *(kind, whole, whole, whole),  # kind, first and last row, labels
        *(pointer, whole, kind),  # logits
        *(pointer, whole, kind, pointer, pointer, whole, pointer),  # marks, known, mask, label weights
        *(pointer, whole, number, pointer, whole, number),  # λ, order
        *(pointer, whole, pointer, whole, number),  # example weights, incoming, scale
        *(pointer, pointer, pointer),  # values, gradient, scratch
    ]
    loaded.propml_rows.restype = None
    return loaded


def compute(rows: Rows, scale: float, incoming: Tensor | None, gradient: Tensor | None) -> Tensor:
    """One value per row; the gradient is written where there is a place for it."""
    logits, marks, known, mask, label_weight, lam_rows, lam, example_weight, numbers, kind, packed, order_rows = rows
    n_rows, n_labels = logits.shape
    if not packed and marks.dtype not in MARK_TYPES:
        marks = _states(marks)
    label_weight, lam_rows, order_rows, example_weight, incoming = map(
        _float, (label_weight, lam_rows, order_rows, example_weight, incoming)
    )
    order = numbers[0] if numbers else 1.0
    values = torch.empty(n_rows)
    library_ = library()
    assert library_ is not None
    call = library_.propml_rows

    def part(first: int, last: int) -> None:  # ctypes lets other Python threads run meanwhile
        scratch = torch.empty(3 * n_labels)
        call(
            *(kind, first, last, n_labels),
            *(logits.data_ptr(), logits.stride(0), logits.dtype == torch.bfloat16),
            *(marks.data_ptr(), marks.stride(0), PACKED_MARKS if packed else MARK_TYPES[marks.dtype]),
            *(_address(known), _address(mask), _stride(mask), _address(label_weight)),
            *(_address(lam_rows), _stride(lam_rows), lam, _address(order_rows), _stride(order_rows), order),
            *(_address(example_weight), _stride(example_weight), _address(incoming), _stride(incoming), scale),
            *(values.data_ptr(), _address(gradient), scratch.data_ptr()),
        )

    threads = 1 if n_rows * n_labels < 2 * THREADED_ENTRIES else min(torch.get_num_threads(), n_rows)
    if threads == 1:
        part(0, n_rows)
    else:
        ends = [n_rows * count // threads for count in range(threads + 1)]
        list(_pool(threads).map(part, ends[:-1], ends[1:]))
    return values


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _float(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.float()


def _stride(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.stride(0)


def _states(marks: Tensor) -> Tensor:
    """Marks of any type as 1, 0 and -1."""
    return (marks > 0.5).to(torch.int8) - (~(marks > -0.5)).to(torch.int8)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="propml")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not live on in a forked process


def _built(compiler: str) -> Path:
    """The path of the library, compiled where it is not there yet."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "propml" / "compiled"
    what = "\n".join((SOURCE.read_text(encoding="utf-8"), compiler, *FLAGS, _processor()))
    path = folder / f"rows-{hashlib.sha256(what.encode()).hexdigest()[:16]}.so"
    if path.exists():
        return path
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "rows.so"
        for native in (("-march=native",), ()):  # not every compiler knows the first
            done = subprocess.run(
                [compiler, *native, *FLAGS, str(SOURCE), "-o", str(made), "-lm"], capture_output=True, timeout=60
            )
            if done.returncode == 0:
                break
        done.check_returncode()
        made.replace(path)  # at once: another process may be looking
    return path


def _processor() -> str:
    """What tells kinds of processors apart that share a home directory."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    return platform.machine() + next((line for line in lines if line.startswith(("flags", "Features"))), "")
