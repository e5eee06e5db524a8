"""Asking a study for trials and telling it how they went."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from propml.extras import require
from propml.tuning.lost_trials import MOST_TRIES, beat, begin, counted, give_back, is_rival
from propml.tuning.spaces import Space, suggest
from propml.tuning.storage import quiet

if TYPE_CHECKING:
    import optuna

__all__ = ["Asked", "Desk"]


class Asked:
    """A trial under way: its configuration and its number."""

    def __init__(self, trial: optuna.Trial, configuration: dict[str, Any]) -> None:
        self.trial, self.configuration = trial, configuration
        self.number = trial.number
        self.epoch = 0  # the last that was reported
        attributes = trial.user_attrs
        self.folder_number = int(attributes.get("first", trial.number))
        self.tries = int(attributes.get("tries", 1))

    @property
    def must_be_alone(self) -> bool:
        """Whether this is its last try after two dead workers."""
        return self.tries >= MOST_TRIES


class Desk:
    """Where a worker gets trials from and reports on them.

    Parameters
    ----------
    study : optuna.Study
    space : dict
    trials : int
        How many trials the study is to have, those of earlier and other workers included.
    """

    def __init__(self, study: optuna.Study, space: Space, trials: int) -> None:
        self.study, self.space, self.trials = study, space, trials
        self.out: dict[int, Asked] = {}
        self.alive: set[int] = set()
        self.later: list[Asked] = []  # asked for and not begun
        self._state = require("optuna", "tune").trial.TrialState
        self._sampler = study.sampler

    def position(self, before: float = math.inf) -> int:
        """How many trials (with a number below ``before``) there are that count."""
        return sum(trial.number < before for trial in counted(self.study.get_trials(deepcopy=False)))

    def ask(self, fixed: Mapping[str, Any] | None = None) -> Asked | None:
        """The next trial, or nothing where there are enough.

        ``fixed`` holds values, as the study stores them, that the trial shall have.
        """
        with quiet():
            if fixed:
                sampler = require("optuna", "tune").samplers.PartialFixedSampler
                self.study.sampler = sampler(dict(fixed), self._sampler)
            else:
                self.study.sampler = self._sampler
            trial = self._begin()
            if trial is None:
                return None
            asked = Asked(trial, suggest(trial, self.space))
        self.out[asked.number] = asked
        return asked

    def _begin(self) -> optuna.Trial | None:
        while self.position() < self.trials:
            trial = begin(self.study)
            self.alive.add(trial._trial_id)
            beat(self.study, [trial._trial_id])
            # Another worker may have asked in the same moment.
            enough = self.position(trial.number) >= self.trials
            if not enough and not is_rival(trial, self.study.get_trials(deepcopy=False)):
                return trial
            trial.set_user_attr("lost", "one more than there were to be")
            self._tell(trial, self._state.FAIL)
            if enough:
                return None
        return None

    def report(self, asked: Asked, epoch: int, value: float) -> bool:
        """Tell the value after an epoch; whether the study's own pruner wants the trial to end."""
        if epoch == asked.epoch:  # told before
            return False
        with quiet():
            try:
                asked.trial.report(value, epoch)
                asked.epoch = epoch
            except Exception:
                if asked.number in self.out and self._is_finished(asked):
                    return True  # given up by others, who thought that this worker was dead
                raise
            return asked.trial.should_prune()

    def values_at(self, epoch: int) -> list[float]:
        """What trials of the study had after an epoch."""
        trials = self.study.get_trials(deepcopy=False)
        return [t.intermediate_values[epoch] for t in trials if epoch in t.intermediate_values]

    def complete(self, asked: Asked, value: float, **facts: Any) -> None:
        """The trial has had its whole budget; one whose value is no number has failed."""
        if not math.isfinite(value):
            self.fail(asked, f"its objective is {value}, which is no number to compare")
            return
        self._end(asked, self._state.COMPLETE, facts, value)

    def prune(self, asked: Asked, **facts: Any) -> None:
        """Others did better; it stops here."""
        self._end(asked, self._state.PRUNED, facts)

    def fail(self, asked: Asked, why: str) -> None:
        """It cannot be judged, and ``why`` says so."""
        self._end(asked, self._state.FAIL, {"why": why})

    def _end(self, asked: Asked, state: Any, facts: Mapping[str, Any], value: float | None = None) -> None:
        if self.out.pop(asked.number, None) is None:
            return
        if not self._is_finished(asked):
            for name, fact in facts.items():
                asked.trial.set_user_attr(name, fact)
            self._tell(asked.trial, state, value)
        self.alive.discard(asked.trial._trial_id)

    def _tell(self, trial: optuna.Trial, state: Any, value: float | None = None) -> None:
        with quiet():
            self.study.tell(trial, value, state=state, skip_if_finished=True)
        self.alive.discard(trial._trial_id)

    def _is_finished(self, asked: Asked) -> bool:
        return self.study._storage.get_trial(asked.trial._trial_id).state.is_finished()

    def give_all_back(self) -> None:
        """What is still under way is left to whoever comes next."""
        for number in list(self.alive):
            give_back(self.study, self.study._storage.get_trial(number), died=False)
        self.out.clear()
        self.later.clear()
        self.alive.clear()
