"""Trials whose workers are gone: they are found, given up and begun again, whenever and wherever a worker died.

A trial is signed in the moment in which it is made, so that there is none of which nobody knows whose it is. One that
is given up stays in the study as it is; the trial that takes its place names the ``first`` of its line. What is left
to begin again is therefore read off the study itself, and no kill between two writes can lose or double it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from propml.extras import require

if TYPE_CHECKING:
    import optuna

__all__ = [
    "Again",
    "beat",
    "begin",
    "counted",
    "give_back",
    "heartbeat",
    "is_rival",
    "owner",
    "reclaim",
    "to_begin_again",
]

# A worker says that it is alive so often (seconds), and is given up after so long. Only one on another machine has to
# be waited for: whether a process of this machine lives is known at once.
HEARTBEAT, GRACE = 20, 90
# How often a trial is begun before it counts as failed; the last time it trains by itself, since it may be the one that
# kills its worker.
MOST_TRIES = 3
# Why a trial that is begun again was given up.
GONE, STOPPED = "its worker is gone", "its search was stopped"
# Two processes that agree on these see each other's process numbers.
MACHINE = ("host", "boot", "pids")


class Again(NamedTuple):
    """A trial to begin again: the one that was given up, the number of its line, and the how-manieth try this is."""

    trial: Any
    first: int
    tries: int


def owner() -> dict[str, Any]:
    """Who works here."""
    return {**_machine(), "pid": os.getpid(), "started": _started(os.getpid())}


def _machine() -> dict[str, str]:
    """This machine and its process numbers: containers share names, and count processes each by themselves."""
    found = {"host": socket.gethostname(), "boot": "", "pids": ""}
    with suppress(OSError):
        found["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        found["pids"] = os.readlink("/proc/self/ns/pid")
    return found


def _started(pid: int) -> str:
    """When a process began, which tells it from a later one of the same number.

    Empty where the system does not say, and for one that has ended and that its parent has not asked after yet.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _is_near(who: Mapping[str, Any]) -> bool:
    here = _machine()
    return all(who.get(name) == here[name] for name in MACHINE)


def _is_gone(who: Mapping[str, Any]) -> bool:
    """Whether a worker is known to be gone; of one on another machine nothing is known."""
    if not _is_near(who):
        return False
    try:
        os.kill(int(who["pid"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return _started(int(who["pid"])) != who.get("started")


def begin(study: optuna.Study) -> optuna.Trial:
    """A trial that runs and is signed: one that was given up, begun again, or a new one."""
    optuna = require("optuna", "tune")
    attributes: dict[str, Any] = {"owner": owner()}
    fixed: dict[str, Any] = {}
    lost = to_begin_again(study.get_trials(deepcopy=False))
    if lost:
        old = lost[0].trial
        attributes |= {"first": lost[0].first, "tries": lost[0].tries}
        fixed = {"fixed_params": {**old.system_attrs.get("fixed_params", {}), **old.params}}
    template = optuna.trial.create_trial(
        state=optuna.trial.TrialState.RUNNING, user_attrs=attributes, system_attrs=fixed
    )
    trial = optuna.trial.Trial(study, study._storage.create_new_trial(study._study_id, template))
    if lost and lost[0].trial.state == optuna.trial.TrialState.WAITING:
        give_back(study, lost[0].trial, died=False)
    return trial


def to_begin_again(trials: Sequence[Any]) -> list[Again]:
    """The trials that were given up, or queued by hand, and that nobody has begun again."""
    state = require("optuna", "tune").trial.TrialState
    lines: dict[int, list[Any]] = {}
    for trial in trials:
        if trial.state != state.FAIL or "why" in trial.user_attrs or _may_repeat(trial):
            lines.setdefault(_first(trial), []).append(trial)
    found = []
    for first, line in lines.items():
        if all(each.state in (state.FAIL, state.WAITING) and "why" not in each.user_attrs for each in line):
            tries = max(int(each.user_attrs.get("tries", 1)) + _died(each) for each in line)
            if tries <= MOST_TRIES:
                found.append(Again(line[-1], first, tries))
    return found


def _first(trial: Any) -> int:
    return int(trial.user_attrs.get("first", trial.number))


def _may_repeat(trial: Any) -> bool:
    return trial.user_attrs.get("lost", GONE) in (GONE, STOPPED)


def _died(trial: Any) -> bool:
    return trial.state.is_finished() and trial.user_attrs.get("lost", GONE) == GONE


def counted(trials: Sequence[Any]) -> list[Any]:
    """The trials that count, under way or finished: not those that were given up or that wait."""
    state = require("optuna", "tune").trial.TrialState

    def counts(trial: Any) -> bool:
        if trial.state == state.FAIL:
            return "why" in trial.user_attrs
        return trial.state != state.WAITING and (trial.state.is_finished() or "lost" not in trial.user_attrs)

    return [trial for trial in trials if counts(trial)]


def is_rival(trial: Any, others: Sequence[Any]) -> bool:
    """Whether somebody else began the same trial again a moment earlier."""
    first = _first(trial)
    return any(each.number < trial.number and _first(each) == first for each in counted(others))


def reclaim(study: optuna.Study, *, died: bool = True) -> int:
    """Give up the trials whose workers are gone, so that they are begun again; returns how many there were."""
    state = require("optuna", "tune").trial.TrialState
    running = study.get_trials(deepcopy=False, states=(state.RUNNING,))
    silent = _silent(study, running)
    gone = [t for t in running if t._trial_id in silent or _is_gone(t.user_attrs.get("owner", {}))]
    return sum(give_back(study, trial, died=died) for trial in gone)


def _silent(study: optuna.Study, running: Sequence[Any]) -> set[int]:
    """Trials of other machines that have long shown no sign of life.

    Of one whose worker died before its first sign the time is taken from now on: the database has the one clock that
    all machines agree on.
    """
    storage: Any = study._storage
    if not running or not hasattr(storage, "_get_stale_trial_ids"):
        return set()
    for trial in running:
        if "watched" not in trial.user_attrs and not _is_near(trial.user_attrs.get("owner", {})):
            with suppress(require("optuna", "tune").exceptions.UpdateFinishedTrialError):
                storage.record_heartbeat(trial._trial_id)
                storage.set_trial_user_attr(trial._trial_id, "watched", True)
    return set(storage._get_stale_trial_ids(study._study_id))


def give_back(study: optuna.Study, trial: Any, *, died: bool = True) -> int:
    """Give up a trial that is not finished, so that it is begun again; 1, or 0 where somebody else was faster.

    One whose worker ``died`` in the middle of it too often counts as failed.
    """
    optuna = require("optuna", "tune")
    tried = int(trial.user_attrs.get("tries", 1))
    note = ("lost", GONE if died else STOPPED)
    if died and tried >= MOST_TRIES:
        note = ("why", f"its worker died {tried} times in the middle of it, most often for want of memory")
    try:
        if "lost" not in trial.user_attrs:  # else its own worker has given it up, and could not say more
            study._storage.set_trial_user_attr(trial._trial_id, *note)
        study._storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
    except optuna.exceptions.UpdateFinishedTrialError:
        return 0
    return 1


def beat(study: optuna.Study, trial_ids: Iterable[int]) -> None:
    """Say that these trials are alive."""
    if hasattr(study._storage, "record_heartbeat"):
        for number in list(trial_ids):
            study._storage.record_heartbeat(number)


@contextmanager
def heartbeat(study: optuna.Study, trial_ids: set[int]) -> Iterator[None]:
    """While the block runs, say that these trials are alive; the set may change."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(HEARTBEAT):
            try:
                beat(study, trial_ids)
            except Exception:  # a server that is away for a moment is tried again with the next beat
                continue

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
