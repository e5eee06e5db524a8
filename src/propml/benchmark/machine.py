"""Where a cell runs, and how much memory it takes there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

__all__ = ["Machine", "watch_machine"]


@dataclass
class Machine:
    """The name of the GPU, or ``"cpu"``, and the most bytes that were held there."""

    device: str = "cpu"
    peak_bytes: int = 0


@contextmanager
def watch_machine(gpu: bool) -> Iterator[Machine]:
    """What the block runs on, and, once it has ended, how much memory it took."""
    machine = Machine()
    if gpu:
        import torch

        torch.cuda.reset_peak_memory_stats()
        machine.device = torch.cuda.get_device_name()
        yield machine
        machine.peak_bytes = int(torch.cuda.max_memory_allocated())
        return
    _forget_most_memory()
    # One thread: cells run side by side, and BLAS threads that wait for each other cost more than they bring.
    with threadpool_limits(1, user_api="blas"):
        yield machine
    machine.peak_bytes = _most_memory()


def _forget_most_memory() -> None:
    """Let the peak of this process start anew, so that a cell is not charged for the one before; Linux can do that."""
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _most_memory() -> int:
    """The most that this process has held, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
