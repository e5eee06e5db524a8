"""The search on a Ray cluster: every trial is a task on a worker of its own, with a checkpoint after every epoch.

Proposals come from the same Optuna study as everywhere else and results go back to it, so that a search may begin on
one machine and go on on a cluster. Nobody waits for the slowest: Optuna's Hyperband stops single trials, and a trial
hears of it after its next epoch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from propml.benchmark.ray_executor import join, slots
from propml.devices import runs_on_gpu
from propml.tuning.rungs import Configuration, reason
from propml.tuning.tasks import Task, run_trial
from propml.tuning.trials import LOOK, Desk, RunningTrial, finished

__all__ = ["search_on_ray"]

# How often a trial whose worker died goes on from its checkpoint.
RETRIES = 2
DIED = f"its worker died {RETRIES + 1} times, most often for want of memory"


def search_on_ray(desk: Desk, address: str, folder: Path | None, workers: int = 1) -> None:
    """Do the trials that a study lacks on a cluster; ``"local"`` starts one here, with ``workers`` CPUs."""
    if len(finished(desk.study)) >= desk.trials:
        return
    local = address == "local"
    ray, ours = join(None if local else address, workers if local else None)
    try:
        with desk.at_work():
            _work(ray, desk, None if folder is None else folder.absolute())
    finally:
        if ours:
            ray.shutdown()


def _work(ray: Any, desk: Desk, folder: Path | None) -> None:
    """Keep all workers of the cluster busy until enough trials are finished or time is over."""
    gpus = 1.0 if runs_on_gpu(getattr(desk.task, "device", "cpu")) else 0.0
    train = ray.remote(_train).options(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
    board = ray.remote(Board).options(num_cpus=0).remote()
    task = ray.put(desk.task)
    running: dict[Any, RunningTrial] = {}
    try:
        while not desk.is_over() and len(finished(desk.study)) < desk.trials:
            desk.reclaim()
            while len(running) < slots(ray, gpus) and (trial := desk.ask()) is not None:
                reference = train.remote(task, trial.configuration, trial.handle.number, trial.home(folder), board)
                running[reference] = trial
            if not running:  # others have them under way
                time.sleep(LOOK)
                continue
            ended, _ = ray.wait(list(running), timeout=LOOK)
            by_number = {trial.handle.number: trial for trial in running.values()}
            values = [(by_number[number], epoch, value) for number, epoch, value in ray.get(board.take.remote())]
            board.stop.remote([trial.handle.number for trial, *told in values if desk.report(trial, *told)])
            for reference in ended:
                desk.end(running.pop(reference), *_outcome(ray, reference))
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _outcome(ray: Any, reference: Any) -> tuple[str, str]:
    """How a trial ended, and why where it failed."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # Ray could not even begin it
        return "failed", reason(error.cause)
    except ray.exceptions.RayError:
        return "failed", DIED


class Board:
    """What workers and the search tell each other: values of epochs one way, who is to stop the other."""

    def __init__(self) -> None:
        self.values: list[tuple[int, int, float]] = []
        self.stopped: set[int] = set()

    def report(self, number: int, epoch: int, value: float) -> bool:
        """Keep what a trial was worth; whether it is to stop."""
        self.values.append((number, epoch, value))
        return number in self.stopped

    def take(self) -> list[tuple[int, int, float]]:
        """What was reported since the last time."""
        taken, self.values = self.values, []
        return taken

    def stop(self, numbers: Iterable[int]) -> None:
        self.stopped.update(numbers)


def _train(task: Task, configuration: Configuration, number: int, home: Path | None, board: Any) -> tuple[str, str]:
    """One trial on a worker; after the death of a worker it goes on from its checkpoint on another."""
    import ray
    import torch

    torch.set_num_threads(1)
    return run_trial(task, configuration, lambda *told: ray.get(board.report.remote(number, *told)), home)
