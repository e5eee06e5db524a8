"""Several processes of this machine on one study."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml.benchmark.worker_processes import start_worker
from propml.this_machine import usable_cores
from propml.tuning.lost_trials import reclaim

if TYPE_CHECKING:
    import optuna

    from propml.tuning.search import Limits
    from propml.tuning.tasks import Task

__all__ = ["work_in_processes"]

# Seconds between two looks at the study.
LOOK = 0.3
# Processes that are started anew where one was killed, for each worker.
RESTARTS = 5


def work_in_processes(
    study: optuna.Study,
    task: Task,
    limits: Limits,
    storage: str,
    workers: int,
    folder: Path | None,
    seed: int,
    tick: Callable[[], None],
) -> None:
    """Work with so many processes; one that is killed (memory) is replaced and its trials are tried again."""
    number, restarts = 0, RESTARTS * workers
    processes: list[Any] = []

    def start() -> None:
        nonlocal number
        left = limits.until - time.monotonic()
        threads = max(1, usable_cores() // workers)
        arguments = (task, limits.trials, left, storage, study.study_name, folder, seed + 1 + number, threads)
        processes.append(start_worker(_work, arguments))
        number += 1

    try:
        for _ in range(workers):
            start()
        while processes:
            time.sleep(LOOK)
            tick()
            for process in [each for each in processes if not each.is_alive()]:
                processes.remove(process)
                if process.exitcode == 0:
                    continue
                if process.exitcode > 0:
                    raise ValueError(f"a worker stopped with exit code {process.exitcode}; what it said stands above")
                reclaim(study)
                if restarts and not limits.over():
                    restarts -= 1
                    start()
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        reclaim(study, died=False)  # no trial of theirs has killed them


def _work(
    task: Task, trials: int, left: float, storage: str, name: str, folder: Path | None, seed: int, threads: int
) -> None:
    import torch

    from propml.tuning.search import Limits, study_of, work

    torch.set_num_threads(threads)
    work(study_of(task, storage, name, seed), task, Limits(trials, time.monotonic() + left), folder)
