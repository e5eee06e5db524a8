"""The search: TPE proposes trials, Hyperband decides how long each may train, Optuna keeps them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml.progress import progress_bar
from propml.tuning.brackets import best_places, bracket_at, levels
from propml.tuning.lost_trials import counted, heartbeat, reclaim
from propml.tuning.objective import TableData
from propml.tuning.reasons import reason
from propml.tuning.result import SearchResult
from propml.tuning.rungs import PER_MEMBER
from propml.tuning.spaces import kinds
from propml.tuning.storage import open_study, replace_unusable
from propml.tuning.tasks import NetworkTask, Task, make_task
from propml.tuning.trials import Asked, Desk

if TYPE_CHECKING:
    import optuna

__all__ = ["Limits", "Pruned", "run_search", "search"]

# Trials of a bracket that share what cannot differ within a stack: the rung of 27 trials is three stacks of nine, and
# the smaller ones are one.
PER_STRUCTURE = 9
# Seconds between two looks at trials that others work on.
LOOK = 0.3


class Pruned(Exception):
    """A trial is to stop now."""


@dataclass(frozen=True)
class Limits:
    """When a search ends: so many trials in the study, or so late (seconds of :func:`time.monotonic`)."""

    trials: int
    until: float = math.inf

    def over(self) -> bool:
        return time.monotonic() >= self.until


def search(
    X: Any,
    candidates: Any,
    method: str = "propml",
    *,
    trials: int = 50,
    timeout: float | None = None,
    space: Mapping[str, Any] | None = None,
    epochs: int | None = None,
    objective: str = "candidates",
    truth: Any = None,
    criterion: str = "average_precision",
    cv: int = 3,
    storage: str | Path | None = None,
    name: str = "propml",
    workers: int = 1,
    ray_address: str | None = None,
    folder: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    show: bool = False,
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
    ray_address : str, optional
        Run the trials on this Ray cluster, one each, with checkpoints; ``"local"`` starts one here.
    folder : path, optional
        Where checkpoints of a Ray cluster go; all its machines must see it.
    seed : int
    device : str
    show : bool
        Show a progress bar with the best value so far.

    Examples
    --------
    >>> from propml.datasets import digits_mosaic
    >>> data = digits_mosaic(90)
    >>> found = search(data.X, data.candidates, "ridge", trials=4)
    >>> sorted(found.params), len(found.trials)
    (['alpha'], 4)
    """
    data = TableData.of(X, candidates, truth, objective=objective, criterion=criterion, cv=cv, seed=seed)
    task = make_task(method, data, space, epochs=epochs, device=device)
    return run_search(
        task,
        trials=trials,
        timeout=timeout,
        storage=storage,
        name=name,
        workers=workers,
        ray_address=ray_address,
        folder=folder,
        seed=seed,
        show=show,
    )


def run_search(
    task: Task,
    *,
    trials: int = 50,
    timeout: float | None = None,
    storage: str | Path | None = None,
    name: str = "propml",
    workers: int = 1,
    ray_address: str | None = None,
    folder: str | Path | None = None,
    seed: int = 0,
    show: bool = False,
) -> SearchResult:
    """Search a task; see :func:`search`, which makes one of a table. ``folder`` is where single trials keep files."""
    if trials < 1:
        raise ValueError(f"trials is {trials}; give a whole number of at least 1")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout is {timeout}; give the seconds that the search may take, or leave it out")
    if workers < 1:
        raise ValueError(f"workers is {workers}; give a whole number of at least 1")
    if workers > 1 and storage is None and ray_address is None:
        raise ValueError(f"{workers} workers share a study, which needs a storage; give a path, or the URL of a server")
    limits = Limits(trials, math.inf if timeout is None else time.monotonic() + timeout)
    home = None if folder is None else Path(folder)
    replace_unusable(storage, name, _facts(task))
    study = study_of(task, storage, name, seed)
    reclaim(study)
    done = 0
    with progress_bar(f"tuning {task.title}", trials, show=show, long_steps=True) as bar:

        def tick() -> None:
            nonlocal done
            before, done = done, min(len(finished(study)), trials)
            bar.advance(done - before, note=best_note(study))

        tick()
        if ray_address is not None:
            from propml.tuning.ray_search import search_on_ray

            search_on_ray(study, task, limits, ray_address, home, tick, workers)
        elif workers > 1:
            from propml.tuning.workers import work_in_processes

            assert storage is not None
            work_in_processes(study, task, limits, str(storage), workers, home, seed, tick)
        else:
            work(study, task, limits, home, tick)
        tick()
    if done < trials and not limits.over():
        raise ValueError(
            f"the study has {done} of {trials} trials, since workers died too often; what was tried is kept: run the "
            f"same search again, with fewer workers or smaller networks if memory ran out"
        )
    return SearchResult.of(study, task)


def study_of(task: Task, storage: str | Path | None, name: str, seed: int) -> optuna.Study:
    """The study of a task; trials that do not train together are pruned by Optuna's Hyperband."""
    single = None if isinstance(task, NetworkTask) or task.epochs == 1 else task.epochs
    return open_study(storage, name, _facts(task), seed=seed, epochs=single)


def _facts(task: Task) -> dict[str, Any]:
    """What a study and a task must agree on."""
    return {**task.facts(), **kinds(task.space)}


def finished(study: optuna.Study) -> list[Any]:
    """The trials that count and have ended."""
    return [trial for trial in counted(study.get_trials(deepcopy=False)) if trial.state.is_finished()]


def best_note(study: optuna.Study) -> str:
    """The best so far, for the progress bar; as in the result, one that trained longer comes first."""
    judged = [t for t in finished(study) if t.value is not None and math.isfinite(t.value)]
    if not judged:
        return ""
    best = max(judged, key=lambda trial: (trial.last_step or 0, trial.value))
    return f"best {best.value:.4f} (trial {best.number})"


def work(
    study: optuna.Study, task: Task, limits: Limits, folder: Path | None = None, tick: Callable[[], None] = lambda: None
) -> None:
    """Do trials until enough are finished or time is over; what is under way when anything stops this goes back.

    Trials that others have under way are waited for: should their workers die, they are done here.
    """
    desk = Desk(study, task.space, limits.trials)
    with heartbeat(study, desk.alive):
        try:
            while not limits.over():
                reclaim(study)
                more = (
                    _bracket(desk, task, limits, tick)
                    if isinstance(task, NetworkTask)
                    else _single(desk, task, limits, folder, tick)
                )
                if not more:
                    tick()
                    if len(finished(study)) >= limits.trials:
                        break
                    time.sleep(LOOK)
        finally:
            desk.give_all_back()


def _bracket(desk: Desk, task: NetworkTask, limits: Limits, tick: Callable[[], None]) -> bool:
    """One bracket of Hyperband; whether there was one to do."""
    bracket = bracket_at(task.epochs, desk.position())
    asked = _starters(desk, bracket.size)
    if not asked:
        return False
    rung = task.rung([each.configuration for each in asked])
    running = list(range(len(asked)))
    for epoch in levels(task.epochs):
        values = rung.train_to(epoch, limits.over)
        best_epochs = rung.best_epochs()
        for place in list(running):
            if place in rung.why:
                desk.fail(asked[place], rung.why[place])
                running.remove(place)
                tick()
        if not running:
            return True
        if rung.epoch < epoch:  # out of time
            break
        others = desk.values_at(epoch)
        for place in running:
            desk.report(asked[place], epoch, float(values[place]))
        if epoch == task.epochs:
            for place in running:
                desk.complete(asked[place], float(values[place]), best_epoch=int(best_epochs[place]))
                tick()
            return True
        if epoch not in bracket.rungs:
            continue
        stay = {running[i] for i in best_places([float(values[place]) for place in running], others)}
        for place in set(running) - stay:
            desk.prune(asked[place], best_epoch=int(best_epochs[place]))
            tick()
        running = [place for place in running if place in stay]
        rung.keep(running)
    for place in running:  # what was compared at least once is kept; the others go back
        if asked[place].epoch:
            desk.prune(asked[place])
            tick()
    return False


def _starters(desk: Desk, size: int) -> list[Asked]:
    """The trials of a bracket: leaders choose what cannot differ within a stack, and their followers share it."""
    asked, desk.later = desk.later, []
    shared: dict[str, Any] = {}
    while len(asked) < size:
        each = desk.ask(shared if len(asked) % PER_STRUCTURE else None)
        if each is None:
            break
        if each.must_be_alone:
            desk.later = asked
            return [each]
        asked.append(each)
        if len(asked) % PER_STRUCTURE == 1:
            shared = {name: value for name, value in each.trial.params.items() if name not in PER_MEMBER}
    return asked


def _single(desk: Desk, task: Task, limits: Limits, folder: Path | None, tick: Callable[[], None]) -> bool:
    """One trial by itself; whether there was one to do."""
    asked = desk.ask()
    if asked is None:
        return False
    last = math.nan

    def report(epoch: int, value: float) -> None:
        nonlocal last
        last = value
        if not math.isfinite(value):
            raise ValueError(f"its objective is {value} after epoch {epoch}, which is no number to compare")
        if (desk.report(asked, epoch, value) or limits.over()) and epoch < task.epochs:
            raise Pruned

    home = None if folder is None else folder / "trials" / str(asked.folder_number)
    if home is not None:
        home.mkdir(parents=True, exist_ok=True)
    try:
        facts = task.run(asked.configuration, report, home)
    except Pruned:
        desk.prune(asked)
    except Exception as error:  # one bad trial must not end the search
        desk.fail(asked, reason(error))
    else:
        desk.complete(asked, last, **facts)
    tick()
    return True
