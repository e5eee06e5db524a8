"""The search on a Ray cluster: Ray Tune runs the trials, one on each worker, with a checkpoint after every epoch.

Proposals come from the same Optuna study as everywhere else and results go back to it, so that a search may begin on
one machine and go on on a cluster. Rungs are asynchronous there (ASHA, Li et al. 2020): nobody waits for the slowest.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from propml.benchmark.ray_executor import connect
from propml.devices import runs_on_gpu
from propml.extras import require
from propml.tuning.rungs import ETA, levels
from propml.tuning.tasks import Task, reason
from propml.tuning.trials import LOOK, Desk, RunningTrial, finished

__all__ = ["search_on_ray"]

# How often a trial whose worker died goes on from its checkpoint.
RETRIES = 2
METRIC = "value"


def search_on_ray(desk: Desk, address: str, folder: Path | None, workers: int = 1) -> None:
    """Do the trials that a study lacks on a cluster; ``"local"`` starts one here, with ``workers`` CPUs."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    ray = require("ray", "cluster")
    if len(finished(desk.study)) >= desk.trials:
        return
    ours = not ray.is_initialized()
    if ours:
        connect(ray, None if address == "local" else address, workers if address == "local" else None)
    try:
        with desk.at_work(), tempfile.TemporaryDirectory(prefix="propml-tune-") as scratch:
            home = (folder / "ray" if folder is not None else Path(scratch)).absolute()
            while not desk.is_over() and len(finished(desk.study)) < desk.trials:
                desk.reclaim()
                left, before = desk.trials - len(desk.counted()), len(finished(desk.study))
                if left <= 0:  # others have them under way
                    time.sleep(LOOK)
                    continue
                _round(ray, desk, folder, home, left)
                if len(finished(desk.study)) == before:  # the caller tells that there are too few
                    break
    finally:
        if ours:
            ray.shutdown()


def _round(ray: Any, desk: Desk, folder: Path | None, home: Path, trials: int) -> None:
    """Let Ray Tune do so many trials; what it does not get to goes back."""
    tune, task = require("ray.tune", "cluster"), desk.task
    gpus = 1.0 if runs_on_gpu(getattr(task, "device", "cpu")) else 0.0
    schedulers = require("ray.tune.schedulers", "cluster")
    rungs = {
        "time_attr": "epoch",
        "max_t": task.epochs,
        "grace_period": levels(task.epochs)[0],
        "reduction_factor": ETA,
    }
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(_train, task=task, folder=folder), {"cpu": 1, "gpu": gpus}),
        tune_config=tune.TuneConfig(
            metric=METRIC,
            mode="max",
            search_alg=_searcher(desk),
            scheduler=None if task.epochs == 1 else schedulers.AsyncHyperBandScheduler(**rungs),
            num_samples=trials,
            reuse_actors=True,  # a new process would import torch for every trial
            max_concurrent_trials=max(1, int(ray.cluster_resources().get("CPU", 1))),
            time_budget_s=None if math.isinf(desk.until) else max(1.0, desk.until - time.monotonic()),
        ),
        run_config=tune.RunConfig(
            name=f"{desk.study.study_name}-{os.getpid()}-{len(desk.counted())}",
            storage_path=str(home),
            failure_config=tune.FailureConfig(max_failures=RETRIES),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            verbose=0,
        ),
    )
    tuner.fit()
    desk.give_all_back()


def _searcher(desk: Desk) -> Any:
    """Ray's view of a study: proposals go out, results come back."""
    Searcher: Any = require("ray.tune.search", "cluster").Searcher

    class StudySearcher(Searcher):
        def __init__(self) -> None:
            super().__init__(metric=METRIC, mode="max")
            self.trials: dict[str, RunningTrial] = {}

        def suggest(self, trial_id: str) -> Any:
            trial = desk.ask()
            if trial is None:
                return Searcher.FINISHED
            self.trials[trial_id] = trial
            return {"configuration": trial.configuration, "number": trial.first}

        def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
            if not result.get("why"):
                desk.report(self.trials[trial_id], int(result["epoch"]), float(result[METRIC]))

        def on_trial_complete(
            self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
        ) -> None:
            end(desk, self.trials.pop(trial_id), result or {}, error)

        def save(self, checkpoint_path: str) -> None:
            """The study itself is what persists."""

        def restore(self, checkpoint_path: str) -> None:
            """The study itself is what persists."""

    return StudySearcher()


def end(desk: Desk, trial: RunningTrial, result: Mapping[str, Any], error: bool) -> None:
    """How a trial went, told to the study."""
    if result.get("why"):
        desk.fail(trial, str(result["why"]))
    elif error:
        desk.fail(trial, f"its worker died {RETRIES + 1} times, most often for want of memory")
    elif METRIC in result:  # otherwise it never began, and goes back when the search ends
        desk.report(trial, int(result["epoch"]), float(result[METRIC]))  # the last result comes with the end only
        if result.get("over"):
            desk.complete(trial)
        else:
            desk.prune(trial)


def _train(config: Mapping[str, Any], task: Task, folder: Path | None) -> None:
    """One trial on a worker; after the death of a worker it goes on from its last checkpoint on another."""
    import torch
    from ray import tune

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        if task.is_large and folder is not None:  # which all machines see
            home = folder.absolute() / "trials" / str(config["number"])
            home.mkdir(parents=True, exist_ok=True)
        if (checkpoint := tune.get_checkpoint()) is not None:
            checkpoint.to_directory(scratch)
        result: dict[str, Any] = {"epoch": 0, METRIC: float("nan"), "over": False}

        def report(epoch: int, value: float) -> None:
            if not math.isfinite(value):
                raise ValueError(f"its objective is {value} after epoch {epoch}, which is no number to compare")
            result.update({"epoch": epoch, METRIC: value, "over": epoch >= task.epochs})
            files = not task.is_large and any(home.iterdir())
            tune.report(dict(result), checkpoint=tune.Checkpoint.from_directory(scratch) if files else None)

        try:
            task.run(config["configuration"], report, home)
        except Exception as error:
            # Told as a result: Ray would try a trial that raises again, and it would fail again.
            tune.report({**result, "over": False, "why": reason(error)})
