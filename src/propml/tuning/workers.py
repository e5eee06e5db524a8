"""Processes that work on a study: who they are, whether they are gone, and several of them at once."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml.benchmark.executors import start_worker
from propml.this_machine import usable_cores

if TYPE_CHECKING:
    from propml.tuning.tasks import Task
    from propml.tuning.trials import Desk

__all__ = ["is_gone", "is_near", "this_worker", "work_in_processes"]

# Seconds between two looks at the study.
LOOK = 0.3
# Processes that are started anew where one was killed, for each worker.
RESTARTS = 5


def this_worker() -> dict[str, Any]:
    """Who works here."""
    return {**_machine(), "pid": os.getpid(), "started": _started(os.getpid())}


def _machine() -> dict[str, str]:
    """This machine and its process numbers: containers share names, and count processes each by themselves."""
    machine = {"host": socket.gethostname(), "boot": "", "pids": ""}
    with suppress(OSError):
        machine["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        machine["pids"] = os.readlink("/proc/self/ns/pid")
    return machine


def _started(pid: int) -> str:
    """When a process began, which tells it from a later one of the same number.

    Empty where the system does not say, and for one that has ended and that its parent has not asked after yet.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def is_near(worker: Mapping[str, Any]) -> bool:
    """Whether a worker is, or was, a process that can be seen from here."""
    return all(worker.get(name) == value for name, value in _machine().items())


def is_gone(worker: Mapping[str, Any]) -> bool:
    """Whether a worker is known to be gone; of one on another machine nothing is known."""
    if not is_near(worker):
        return False
    try:
        os.kill(int(worker["pid"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return _started(int(worker["pid"])) != worker.get("started")


def work_in_processes(desk: Desk, storage: str, workers: int, folder: Path | None, seed: int) -> None:
    """Work with so many processes; one that is killed (memory) is replaced and its trials are tried again."""
    threads = max(1, usable_cores() // workers)
    processes: list[Any] = []
    missing, started = workers, 0
    try:
        while missing or processes:
            for number in range(started, started + missing):
                left = desk.until - time.monotonic()
                arguments = (desk.task, desk.trials, left, storage, desk.study.study_name, folder, seed + 1 + number)
                processes.append(start_worker(_work, (*arguments, threads)))
            started, missing = started + missing, 0
            time.sleep(LOOK)
            desk.progress()
            for process in [each for each in processes if not each.is_alive()]:
                processes.remove(process)
                if process.exitcode > 0:
                    raise ValueError(f"a worker stopped with exit code {process.exitcode}; what it said stands above")
                missing += process.exitcode < 0
            desk.reclaim()
            if desk.is_over():
                missing = 0
            missing = min(missing, workers * (1 + RESTARTS) - started)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        desk.reclaim(died=False)  # no trial of theirs has killed them


def _work(
    task: Task, trials: int, left: float, storage: str, name: str, folder: Path | None, seed: int, threads: int
) -> None:
    import torch

    from propml.tuning.searching import work
    from propml.tuning.trials import Desk

    torch.set_num_threads(threads)
    work(Desk(task, trials, storage, name, seed, until=time.monotonic() + left), folder)
