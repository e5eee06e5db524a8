"""The trials of a study: begun, ended, and begun again when a worker dies.

A trial names its owner from the moment it is created. One that is given up stays in the study as it is; the trial that
takes its place names the ``first`` of its line. So no kill between two writes can lose or double a trial. Optuna's own
``RetryFailedTrialCallback`` loses one whose worker dies before its first heartbeat, or whose finder dies between giving
it up and queueing it again; and it waits for heartbeats of a process that is known to be gone.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml.extras import require
from propml.tuning.spaces import kinds, stored, suggest
from propml.tuning.studies import HEARTBEAT, REPLACED, is_gone, lifeline, open_storage, open_study, quiet
from propml.tuning.tasks import NetworkTask, Task

if TYPE_CHECKING:
    import optuna

# Seconds between two looks at the study.
LOOK = 0.3
# How often a trial is begun before it counts as failed; the last time it trains by itself, since it may be the one that
# kills its worker.
MOST_TRIES = 3
DIED = f"its worker died {MOST_TRIES} times in the middle of it, most often for want of memory"
# Why a trial was given up, where its worker has not died.
STOPPED, SURPLUS = "its search was stopped", "one more than there were to be"


def sort_out(trials: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
    """The trials that count, under way or ended; and the tries of each that is to be begun again, riskiest first."""
    lines: dict[int, list[Any]] = {}
    for trial in trials:
        if trial.user_attrs.get("lost") not in (SURPLUS, REPLACED):
            lines.setdefault(_first(trial), []).append(trial)
    counted, again = [], []
    for tries in lines.values():
        if lasting := [trial for trial in tries if _lasts(trial)]:
            counted += lasting
        elif _deaths(tries) >= MOST_TRIES:  # it has failed
            counted += [trial for trial in tries if _deaths([trial])][-1:]
        else:
            again.append(tries)
    return sorted(counted, key=lambda trial: trial.number), sorted(again, key=_deaths, reverse=True)


def finished(study: optuna.Study) -> list[Any]:
    """The trials that count and have ended, in the order of their numbers."""
    return [trial for trial in sort_out(study.get_trials(deepcopy=False))[0] if trial.state.is_finished()]


def best_trial(study: optuna.Study) -> Any:
    """The best so far, if there is one; a trial that was stopped early is no rival of one that trained longer."""
    judged = [trial for trial in finished(study) if trial.value is not None and math.isfinite(trial.value)]
    return max(judged, key=lambda trial: (trial.last_step or 0, trial.value), default=None)


def _first(trial: Any) -> int:
    return int(trial.user_attrs.get("first", trial.number))


def _lasts(trial: Any) -> bool:
    """Whether a trial is under way, or has ended for good."""
    if trial.state.name == "RUNNING":
        return "lost" not in trial.user_attrs
    return trial.state.name in ("COMPLETE", "PRUNED") or "why" in trial.user_attrs


def _deaths(tries: Sequence[Any]) -> int:
    """How many of these tries ended with the death of their worker."""
    return sum(trial.state.name == "FAIL" and trial.user_attrs.get("lost") != STOPPED for trial in tries)


@dataclass
class RunningTrial:
    """A trial under way."""

    handle: optuna.Trial
    storage_id: int  # what the storage calls it
    first: int  # the number of its first try, which names its folder
    is_risky: bool  # whether this is its last try, since the workers of the others died
    configuration: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0  # the last one that was reported
    value: float = math.nan  # after that epoch


class TrialQueue:
    """Where a worker gets trials from and reports on them; ``trials`` are those of all workers together.

    Its time is over at ``until``, in seconds of :func:`time.monotonic`.
    """

    def __init__(
        self,
        task: Task,
        trials: int,
        storage: str | Path | None = None,
        name: str = "propml",
        seed: int = 0,
        *,
        until: float = math.inf,
    ) -> None:
        self.optuna: Any = require("optuna", "tune")
        self.task, self.trials, self.until = task, trials, until
        self.storage = open_storage(storage)
        # Networks on a table train together and are compared by the search, others by Optuna's Hyperband.
        epochs = None if isinstance(task, NetworkTask) or task.epochs == 1 else task.epochs
        self.study = open_study(self.storage, name, {**task.facts(), **kinds(task.space)}, seed=seed, epochs=epochs)
        self.study_id = self.storage.get_study_id_from_name(name)
        self.sampler = self.study.sampler
        self.owner: dict[str, str] = {}  # of the trials that are begun here, while it is at work
        self.under_way: dict[int, RunningTrial] = {}  # by their storage_id
        self.progress: Callable[[], None] = lambda: None  # called whenever a trial has ended
        self.reclaim()

    def is_over(self) -> bool:
        """Whether there is no time left."""
        return time.monotonic() >= self.until

    def counted(self) -> list[Any]:
        """The trials that count, under way or ended."""
        return sort_out(self.study.get_trials(deepcopy=False))[0]

    def ask(self, fixed: Mapping[str, Any] | None = None) -> RunningTrial | None:
        """The next trial, with these ``fixed`` arguments, or nothing where there are enough."""
        with quiet():
            self.study.sampler = self.sampler
            if fixed:
                kept = {name: stored(value) for name, value in fixed.items()}
                self.study.sampler = self.optuna.samplers.PartialFixedSampler(kept, self.sampler)
            while True:
                counted, again = sort_out(self.study.get_trials(deepcopy=False))
                if len(counted) >= self.trials:
                    return None
                trial = self._begin(again[0] if again else [])
                if trial is not None:
                    trial.configuration = suggest(trial.handle, self.task.space)
                    return trial

    def _begin(self, tries: Sequence[Any]) -> RunningTrial | None:
        """Begin a new trial, or one once more after these tries; nothing where somebody else was faster."""
        template = self.optuna.trial.create_trial(state=self.optuna.trial.TrialState.RUNNING)
        template.user_attrs["owner"] = self.owner
        if tries:
            template.user_attrs["first"] = _first(tries[-1])
            fixed = {**tries[-1].system_attrs.get("fixed_params", {}), **tries[-1].params}
            template.system_attrs["fixed_params"] = fixed
        storage_id = self.storage.create_new_trial(self.study_id, template)
        handle = self.optuna.trial.Trial(self.study, storage_id)
        first = template.user_attrs.get("first", handle.number)
        trial = RunningTrial(handle, storage_id, first, is_risky=_deaths(tries) == MOST_TRIES - 1)
        self._beat([storage_id])
        for queued in [each for each in tries if each.state.name == "WAITING"]:  # by hand
            self._give_up(queued.number, STOPPED)
        # The second of two gives way; and Optuna's cache has to see a trial before it gets arguments.
        earlier = [other for other in self.counted() if other.number < handle.number]
        if len(earlier) >= self.trials or first in map(_first, earlier):
            self._give_up(handle.number, SURPLUS)
            return None
        self.under_way[storage_id] = trial
        return trial

    def report(self, trial: RunningTrial, epoch: int, value: float) -> bool:
        """Tell the value after an epoch; whether the study's own pruner wants the trial to end."""
        try:
            with quiet():
                trial.handle.report(value, epoch)
                trial.epoch, trial.value = epoch, value
                return trial.handle.should_prune()
        except self.optuna.exceptions.UpdateFinishedTrialError:
            return True  # given up by others, which took this worker for dead

    def end(self, trial: RunningTrial, state: str, why: str = "") -> None:
        """A trial has ended: "complete", with its whole budget; "pruned", since others did better; or "failed"."""
        told = self.optuna.trial.TrialState["FAIL" if state == "failed" else state.upper()]
        with quiet(), suppress(self.optuna.exceptions.UpdateFinishedTrialError):  # given up by others
            if why:
                trial.handle.set_user_attr("why", why)
            value = trial.value if state == "complete" else None
            self.study.tell(trial.handle, value, state=told, skip_if_finished=True)
        del self.under_way[trial.storage_id]
        self.progress()

    def reclaim(self, *, died: bool = True) -> None:
        """Give up the trials whose workers are gone, so that they are begun again."""
        running = self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.RUNNING,))
        for trial in running:
            if is_gone(trial.user_attrs.get("owner", {})):
                self._give_up(trial.number, None if died or "lost" in trial.user_attrs else STOPPED)
        with quiet():
            self.optuna.storages.fail_stale_trials(self.study)

    def _give_up(self, number: int, reason: str | None = None) -> None:
        """Give up a trial that is not finished; where there is no ``reason``, its worker has died."""
        storage_id = self.storage.get_trial_id_from_study_id_trial_number(self.study_id, number)
        with suppress(self.optuna.exceptions.UpdateFinishedTrialError):  # somebody else was faster
            if reason is not None:
                self.storage.set_trial_user_attr(storage_id, "lost", reason)
            self.storage.set_trial_state_values(storage_id, self.optuna.trial.TrialState.FAIL)

    def _beat(self, storage_ids: Sequence[int]) -> None:
        if hasattr(self.storage, "record_heartbeat"):
            for storage_id in storage_ids:
                self.storage.record_heartbeat(storage_id)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Show other workers, by lifeline and heartbeats, that this one is alive; then give unfinished trials back."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEARTBEAT):
                with suppress(Exception):  # a server that is away for a moment is tried again with the next beat
                    self._beat(list(self.under_way))

        thread = threading.Thread(target=beat, daemon=True)
        with lifeline() as self.owner:
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()
                while self.under_way:
                    self._give_up(self.under_way.popitem()[1].handle.number, STOPPED)
