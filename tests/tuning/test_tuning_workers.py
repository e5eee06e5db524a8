"""Processes that work on a study."""

import json
import math
import os
import signal
import socket

import pytest
from fake_tasks import Hill

from propml.tuning import searching, studies
from propml.tuning.searching import work_in_processes
from propml.tuning.trials import TrialQueue


def test_a_worker_is_gone_when_its_process_is_dead_and_not_before():
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with studies.lifeline() as who:
            os.write(writing, json.dumps(who).encode())
            signal.pause()
    who = json.loads(os.read(reading, 999))
    assert studies.is_gone(who) is False
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # dead, and still in the table of processes
    assert studies.is_gone(who) is True
    assert studies.is_gone({**who, "host": "elsewhere"}) is None
    os.waitpid(child, 0)
    os.unlink(who["lifeline"])
    assert studies.is_gone(who) is None


@pytest.mark.parametrize("owner", [{}, {"host": "here", "pid": 7}, {"host": "here", "lifeline": "/etc/passwd"}])
def test_of_a_worker_without_a_lifeline_nobody_can_tell(monkeypatch, owner):
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    assert studies.is_gone(owner) is None


class Process:
    """A worker that ends at once, as it is told to."""

    def __init__(self, target, arguments, threads):
        self.exitcode = codes.pop(0)

    def join(self): ...
    def kill(self): ...
    def is_alive(self):
        return False


codes = []


@pytest.fixture
def ended(monkeypatch):
    monkeypatch.setattr(searching, "start_worker", Process)
    monkeypatch.setattr(searching, "LOOK", 0)
    return codes


def run():
    work_in_processes(TrialQueue(Hill(), 3), "s.db", 2, None, 0)


def test_a_worker_that_stops_with_an_error_ends_the_search(ended):
    ended[:] = [0, 1]
    with pytest.raises(ValueError, match="a worker stopped with exit code 1; what it said stands above"):
        run()


def test_workers_that_are_killed_are_replaced_but_not_for_ever(ended):
    ended[:] = [-signal.SIGKILL] * 50
    run()
    assert len(ended) == 50 - 2 - 2 * searching.RESTARTS


def test_a_worker_process_works_on_the_study(tmp_path):
    study = TrialQueue(Hill(), 3, tmp_path / "s.db").study
    searching._work(Hill(), 3, str(tmp_path / "s.db"), "propml", 1, math.inf, None)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 3
