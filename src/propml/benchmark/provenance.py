"""What a number was measured with, and what it took: versions, commit, machine and memory; no path and no host name."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from propml import __version__
from propml.this_machine import usable_cores

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "timm", "torchvision", "ray")


def run_provenance(command: Sequence[str] | None = None, **facts: Any) -> dict[str, Any]:
    """All that one wants to know of a run a year later; ``facts`` are more to remember, such as ``workers=2``.

    The command is what was typed, by default the arguments of this process; paths lose their folders, addresses their
    hosts. ``run`` is a name for it, which rows refer to; ``commit`` and ``dirty`` are None outside a checkout.

    >>> facts = run_provenance(["/usr/bin/propml", "benchmark", "run", "quick"], workers=2)
    >>> facts["command"], facts["workers"]
    ('propml benchmark run quick', 2)
    """
    import torch

    started = datetime.now(UTC)
    commit, dirty = _commit()
    return {
        "run": f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}",
        "propml": __version__,
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "packages": _versions(),
        "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu",
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cpus": usable_cores(),
        "memory_gib": _memory_gib(),
        "started": started.isoformat(timespec="seconds"),
        "command": shlex.join(_without_places(part) for part in (sys.argv if command is None else command)),
        **facts,
    }


def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


@functools.cache
def _commit() -> tuple[str | None, bool | None]:
    """Of the checkout that this package was imported from; whether the package in it was changed since."""
    folder = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        # Nobody's lock is taken to look: a run beside an editor or a commit disturbs neither.
        command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()

    try:
        # An installed package may lie inside somebody else's checkout, which says nothing about it.
        if not git("ls-files", "__init__.py"):
            return None, None
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", "."))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _without_places(argument: str) -> str:
    """Only the last part of an absolute path, and no host of an address.

    >>> [_without_places(part) for part in ("--out=/home/me/results/quick", "ray://10.0.0.7:10001", "paper/quick.toml")]
    ['--out=quick', 'ray://HOST', 'paper/quick.toml']
    """
    option, equals, value = argument.rpartition("=")
    if "://" in value:
        value = f"{value.partition('://')[0]}://HOST"
    elif re.fullmatch(r"[\w.\[\]:-]+:\d+", value):
        value = "HOST"
    elif PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute() or value.startswith("~"):
        value = PureWindowsPath(value).name  # knows both kinds of slashes
    return f"{option}{equals}{value}"


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
