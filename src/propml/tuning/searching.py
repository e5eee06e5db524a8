"""The search: TPE proposes trials, Hyperband decides how long each may train, Optuna keeps them.

Whatever stops a search, its unfinished trials go back to the study; several processes may work on one study.
"""

from __future__ import annotations

import math
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from propml.benchmark.executors import start_worker
from propml.devices import usable_cores
from propml.messages import renamed_argument
from propml.progress import progress_bar
from propml.targets import Features, LabelsLike, MatrixLike
from propml.tuning.result import SearchResult
from propml.tuning.rungs import Rung, best_places, bracket_at, levels, reason, structure
from propml.tuning.spaces import Changes
from propml.tuning.tasks import NetworkTask, TableData, Task, make_task
from propml.tuning.trials import LOOK, RunningTrial, TrialQueue, best_trial, finished

# How often a worker process that was killed is replaced.
RESTARTS = 5

# Trials of a bracket that share what cannot differ within a stack: the rung of 27 trials is three stacks of nine, and
# the smaller ones are one.
PER_STRUCTURE = 9


@renamed_argument("show", "verbose")
def search(
    X: Features,
    candidates: LabelsLike,
    method: str = "propml",
    *,
    trials: int = 50,
    timeout: float | None = None,
    space: Changes | None = None,
    epochs: int | None = None,
    objective: str = "candidates",
    truth: MatrixLike | None = None,
    criterion: str = "average_precision",
    cv: int = 3,
    storage: str | Path | None = None,
    name: str = "propml",
    workers: int = 1,
    folder: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    verbose: bool = False,
) -> SearchResult:
    """Find the arguments of a method with which it ranks held-out candidates best.

    Parameters
    ----------
    X : array-like or sparse, shape (n_samples, n_features)
    candidates : candidate labels
        Anything that :func:`propml.as_candidates` takes.
    method : str
        A name of :data:`propml.methods.METHODS`. For "propml" whole rungs of trials train as one stacked model.
    trials : int
        How many the study is to have in the end; what a study has already is not done again.
    timeout : float, optional
        Seconds after which no epoch is begun.
    space : mapping, optional
        Changes of the space that :mod:`propml.tuning.spaces` declares: ``{"lam": (0.01, 1)}`` narrows,
        ``{"hidden": [(64,), (128,)]}`` gives choices, ``{"loss": "propml"}`` fixes.
    epochs : int, optional
        The whole budget of a trial; by default as many as :class:`~propml.methods.propml.ProPMLClassifier` takes.
    objective : {"candidates", "oracle"}
        Judge held-out rows by their candidates, or by ``truth``.
    truth : ndarray, shape (n_samples, n_labels), optional
        Looked at only by "oracle".
    criterion : {"average_precision", "bce", "one_error"}
    cv : int
        Folds; every trial is judged on all of them.
    storage : path or URL, optional
        Where the study is kept: an SQLite file, or a server such as ``postgresql://user@host/database``; by default in
        memory.
    name : str
        Of the study in its storage.
    workers : int
        Processes on this machine that work on the study, which then needs a storage.
    folder : path, optional
        Where trials keep their files.
    seed : int
    device : str
    verbose : bool
        Show a progress bar with the best value so far.

    Examples
    --------
    >>> from propml.datasets import digits_mosaic
    >>> data = digits_mosaic(90)
    >>> result = search(data.X, data.candidates, "ridge", trials=4)
    >>> sorted(result.params), len(result.trials)
    (['alpha'], 4)
    """
    data = TableData(X, candidates, truth, objective=objective, criterion=criterion, cv=cv, seed=seed)
    task = make_task(method, data, space, epochs=epochs, device=device)
    limits: dict[str, Any] = {"trials": trials, "timeout": timeout, "workers": workers}
    return run_search(task, storage=storage, name=name, folder=folder, seed=seed, verbose=verbose, **limits)


@renamed_argument("show", "verbose")
def run_search(
    task: Task,
    *,
    trials: int = 50,
    timeout: float | None = None,
    storage: str | Path | None = None,
    name: str = "propml",
    workers: int = 1,
    folder: str | Path | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> SearchResult:
    """Search a task; see :func:`search`, which makes one of a table. ``folder`` is where single trials keep files."""
    for count, given in (("trials", trials), ("workers", workers)):
        if given < 1:
            raise ValueError(f"{count} is {given}; give a whole number of at least 1")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout is {timeout}; give the seconds that the search may take, or leave it out")
    if workers > 1 and storage is None:
        raise ValueError(f"{workers} workers share a study, which needs a storage; give a path, or the URL of a server")
    until = math.inf if timeout is None else time.monotonic() + timeout
    queue = TrialQueue(task, trials, storage, name, seed, until=until)
    ended = 0
    with progress_bar(f"tuning {task.title}", trials, show=verbose, long_steps=True) as bar:

        def progress() -> None:
            nonlocal ended
            before, ended = ended, min(len(finished(queue.study)), trials)
            best = best_trial(queue.study)
            bar.advance(ended - before, note="" if best is None else f"best {best.value:.4f} (trial {best.number})")

        queue.progress = progress
        progress()
        if storage is not None and (workers > 1 or task.is_large):
            work_in_processes(queue, str(storage), workers, folder, seed)
        else:
            work(queue, folder)
        progress()
    if ended < trials and not queue.is_over():
        raise ValueError(
            f"the study has {ended} of {trials} trials, since workers died too often; what was tried is kept: run the "
            f"same search again, with fewer workers or smaller networks if memory ran out"
        )
    return SearchResult.of(queue.study, task)


def work(queue: TrialQueue, folder: str | Path | None = None) -> None:
    """Do trials until enough are finished, by other workers too, or time is over."""
    with queue.at_work():
        while not queue.is_over():
            queue.reclaim()
            task = queue.task
            if not (_bracket(queue, task) if isinstance(task, NetworkTask) else _single(queue, task, folder)):
                queue.progress()
                if len(finished(queue.study)) >= queue.trials:
                    break
                time.sleep(LOOK)


def _bracket(queue: TrialQueue, task: NetworkTask) -> bool:
    """One bracket of Hyperband; whether there was one to do."""
    size, rungs = bracket_at(task.epochs, len(queue.counted()))
    trials = _starters(queue, size)
    if not trials:
        return False
    rung = Rung(task.table, [trial.configuration for trial in trials], task.epochs)
    running = list(range(len(trials)))
    for epoch in levels(task.epochs):
        values = rung.train_to(epoch, queue.is_over)
        for place in set(running) & set(rung.why):
            queue.end(trials[place], "failed", rung.why[place])
        running = [place for place in running if place not in rung.why]
        if not running:
            return True
        if rung.epoch < epoch:  # out of time
            break
        curves = [trial.intermediate_values for trial in queue.study.get_trials(deepcopy=False)]
        others = [curve[epoch] for curve in curves if epoch in curve]
        for place in running:
            queue.report(trials[place], epoch, float(values[place]))
        if epoch == task.epochs:
            for place in running:
                queue.end(trials[place], "complete")
            return True
        if epoch in rungs:
            staying = [running[i] for i in best_places([float(values[place]) for place in running], others)]
            for place in set(running) - set(staying):
                queue.end(trials[place], "pruned")
            running = staying
            rung.keep(running)
    for place in running:  # what was compared at least once is kept; the others go back
        if trials[place].epoch:
            queue.end(trials[place], "pruned")
    return False


def _starters(queue: TrialQueue, size: int) -> list[RunningTrial]:
    """The trials of a bracket: leaders choose what cannot differ within a stack, and their followers share it."""
    trials: list[RunningTrial] = []
    shared: dict[str, Any] = {}
    while len(trials) < size:
        trial = queue.ask(shared if len(trials) % PER_STRUCTURE else None)
        if trial is None:
            break
        trials.append(trial)
        if trial.is_risky:
            break
        if len(trials) % PER_STRUCTURE == 1:
            shared = dict(structure(trial.configuration))
    return trials


def _single(queue: TrialQueue, task: Task, folder: str | Path | None) -> bool:
    """One trial by itself, with its files in ``folder`` or a temporary one; whether there was one to do."""
    trial = queue.ask()
    if trial is None:
        return False
    stopped = False

    def report(epoch: int, value: float) -> bool:
        nonlocal stopped
        if not math.isfinite(value):
            raise ValueError(f"its objective is {value} after epoch {epoch}, which is no number to compare")
        stopped = (queue.report(trial, epoch, value) or queue.is_over()) and epoch < task.epochs
        return stopped

    with tempfile.TemporaryDirectory(prefix="propml-tune-") if folder is None else nullcontext(folder) as place:
        home = Path(place, "trials", str(trial.first))
        home.mkdir(parents=True, exist_ok=True)
        try:
            task.run(trial.configuration, report, home)
        except Exception as error:  # one bad trial must not end the search
            queue.end(trial, "failed", reason(error))
        else:
            queue.end(trial, "pruned" if stopped else "complete")
    return True


def work_in_processes(queue: TrialQueue, storage: str, workers: int, folder: str | Path | None, seed: int) -> None:
    """Work with so many processes; one that is killed (memory) is replaced and its trials are tried again."""
    processes: list[Any] = []
    started, most, threads = 0, workers * (1 + RESTARTS), max(1, usable_cores() // workers)
    try:
        while workers:
            while len(processes) < workers:
                started += 1
                left = queue.until - time.monotonic()
                arguments = (queue.task, queue.trials, storage, queue.study.study_name, seed + started, left, folder)
                processes.append(start_worker(_work, arguments, threads))
            time.sleep(LOOK)
            queue.progress()
            for process in [each for each in processes if not each.is_alive()]:
                processes.remove(process)
                if process.exitcode > 0:
                    raise ValueError(f"a worker stopped with exit code {process.exitcode}; what it said stands above")
                if process.exitcode == 0 or queue.is_over() or started >= most:
                    workers -= 1
            queue.reclaim()
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        queue.reclaim(died=False)  # no trial of theirs has killed them


def _work(task: Task, trials: int, storage: str, name: str, seed: int, left: float, folder: str | Path | None) -> None:
    work(TrialQueue(task, trials, storage, name, seed, until=time.monotonic() + left), folder)
