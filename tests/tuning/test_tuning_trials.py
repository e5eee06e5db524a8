"""Asking and telling, when others do so at the same time."""

import math
import signal

import optuna
import pytest
from fake_tasks import Hill

from propml.tuning import workers
from propml.tuning.lost_trials import counted, give_back, to_begin_again
from propml.tuning.search import Limits, study_of
from propml.tuning.trials import Desk
from propml.tuning.workers import work_in_processes

STATE = optuna.trial.TrialState


@pytest.fixture
def desk():
    return Desk(study_of(Hill(epochs=3), None, "propml", 0), Hill().space, 3)


def test_what_was_given_up_by_others_is_not_told_again(desk):
    asked = desk.ask()
    assert not desk.report(asked, 1, 0.5)
    assert give_back(desk.study, desk.study.trials[0]) == 1
    assert give_back(desk.study, desk.study.trials[0]) == 0  # somebody was faster
    assert desk.report(asked, 2, 0.6)  # the worker is told to stop
    desk.complete(asked, 0.6)
    desk.complete(asked, 0.6)
    assert [trial.state for trial in desk.study.trials] == [STATE.FAIL]
    assert counted(desk.study.trials) == []
    assert [again.trial.number for again in to_begin_again(desk.study.trials)] == [0]


def test_one_trial_too_many_is_given_up(desk, monkeypatch):
    """Two workers ask for the last trial in the same moment; the later one sees that there are enough."""
    for _ in range(2):
        desk.ask()
    other = Desk(desk.study, desk.space, 3)

    def too_early(before=math.inf):
        return 2 if before == math.inf else Desk.position(other, before)

    monkeypatch.setattr(other, "position", too_early)
    assert desk.ask() is not None
    assert other.ask() is None
    assert len(counted(desk.study.trials)) == 3
    assert desk.study.trials[3].user_attrs["lost"] == "one more than there were to be"


def test_an_objective_that_is_no_number_at_the_end_fails(desk):
    desk.complete(desk.ask(), float("inf"))
    assert desk.study.trials[0].state == STATE.FAIL
    assert desk.study.trials[0].user_attrs["why"] == "its objective is inf, which is no number to compare"


def test_errors_of_a_storage_are_not_swallowed(desk, monkeypatch):
    asked = desk.ask()

    def broken(*_):
        raise RuntimeError("the server is gone")

    monkeypatch.setattr(asked.trial, "report", broken)
    with pytest.raises(RuntimeError, match="the server is gone"):
        desk.report(asked, 1, 0.5)


class Process:
    """A worker that ends at once, as it is told to."""

    def __init__(self, target, arguments):
        self.exitcode = codes.pop(0)

    def join(self): ...
    def kill(self): ...
    def is_alive(self):
        return False


codes = []


@pytest.fixture
def ended(monkeypatch):
    monkeypatch.setattr(workers, "start_worker", Process)
    monkeypatch.setattr(workers, "LOOK", 0)
    return codes


def run():
    study = study_of(Hill(), None, "propml", 0)
    work_in_processes(study, Hill(), Limits(3), "s.db", 2, None, 0, lambda: None)


def test_a_worker_that_stops_with_an_error_ends_the_search(ended):
    ended[:] = [0, 1]
    with pytest.raises(ValueError, match="a worker stopped with exit code 1; what it said stands above"):
        run()


def test_workers_that_are_killed_are_replaced_but_not_for_ever(ended):
    ended[:] = [-signal.SIGKILL] * 50
    run()
    assert len(ended) == 50 - 2 - 2 * workers.RESTARTS
