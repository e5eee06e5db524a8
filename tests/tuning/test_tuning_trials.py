"""Searches that are killed, workers that are gone, and several at once: no trial is lost or done twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import optuna
import pytest
from fake_tasks import Deadly, Hill
from sqlalchemy.orm import Session

from propml.tuning import studies, trials
from propml.tuning.searching import run_search
from propml.tuning.trials import TrialQueue, sort_out

HERE = Path(__file__).parent
STATE = optuna.trial.TrialState
WORK = """
import sys
sys.path.insert(0, {here!r})
from fake_tasks import Hill
from propml.tuning.searching import run_search
run_search(Hill(epochs=3, log={log!r}, seconds={seconds}), trials={trials}, storage={storage!r}, seed={seed})
"""


def start(tmp_path, storage_, *, trials, seconds=0.0, seed=0):
    code = WORK.format(
        here=str(HERE), log=str(tmp_path / "log"), seconds=seconds, trials=trials, storage=str(storage_), seed=seed
    )
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "1"})


def wait_for(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.02)


def test_a_search_that_is_killed_goes_on_and_loses_nothing(tmp_path):
    """kill -9 in the middle of a trial; the same search again ends with all trials, the killed one among them."""
    task = Hill(epochs=3, log=tmp_path / "log", seconds=0.15)
    process = start(tmp_path, tmp_path / "s.db", trials=8, seconds=0.15)
    wait_for(lambda: len(task.lines()) >= 5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = optuna.load_study(study_name="propml", storage=f"sqlite:///{tmp_path / 's.db'}").trials
    assert [trial.state for trial in before].count(STATE.RUNNING) == 1
    killed = next(trial for trial in before if trial.state == STATE.RUNNING)
    found = run_search(Hill(epochs=3), trials=8, storage=tmp_path / "s.db")
    assert len(found.trials) == 8
    assert all(each.state in ("complete", "pruned") for each in found.trials)
    # What was finished stays; what was under way is done, under a new number.
    kept = {each.number: each for each in found.trials}
    for trial in before:
        if trial.state.is_finished():
            assert kept[trial.number].params == trial.params
    assert killed.number not in kept
    assert [each.params for each in found.trials].count(killed.params) == 1
    states = [trial.state for trial in found.study.trials]
    assert states.count(STATE.RUNNING) == states.count(STATE.WAITING) == 0
    assert states.count(STATE.FAIL) == 1


def test_two_workers_and_a_trial_that_kills_them(tmp_path):
    """As the system does where memory runs out. Such a trial is tried again, and then counts as failed."""
    task = Deadly(log=tmp_path / "log", seconds=0.2)
    TrialQueue(task, 4, tmp_path / "s.db").study.enqueue_trial({"x": 0.95})
    found = run_search(task, trials=4, storage=tmp_path / "s.db", workers=2)
    assert len(found.trials) == 4
    assert os.getpid() not in {pid for _, _, pid in task.lines()}
    assert len({pid for _, _, pid in task.lines()}) >= 2
    assert [x for x, _, _ in task.lines()].count(0.95) == trials.MOST_TRIES
    failed = {each.params["x"]: each.why for each in found.failures()}
    assert failed[0.95] == "its worker died 3 times in the middle of it, most often for want of memory"
    assert all(x > task.edge for x in failed)
    assert any(each.state == "complete" for each in found.trials)
    assert not any(trial.state == STATE.RUNNING for trial in found.study.trials)


def test_the_trial_of_a_worker_on_another_machine_is_given_up_when_its_heart_is_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "HEARTBEAT", 1)
    monkeypatch.setattr(studies, "GRACE", 2)
    queue = TrialQueue(Hill(), 2, tmp_path / "s.db")
    trial = queue.ask().handle
    trial.set_user_attr("owner", {"host": "elsewhere", "lifeline": __file__})
    queue.reclaim()
    assert queue.study.trials[0].state == STATE.RUNNING
    wait_for(lambda: queue.reclaim() or queue.study.trials[0].state == STATE.FAIL, seconds=20)
    found = run_search(Hill(), trials=2, storage=tmp_path / "s.db")
    assert len(found.trials) == 2
    assert found.trials[0].params == {"x": trial.params["x"]}


def killed_after(commits, storage_):
    """A search in another process that is killed right after so many transactions with the database."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    real = Session.commit

    def deadly(self):
        nonlocal commits
        real(self)
        commits -= 1
        if commits == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    Session.commit = deadly
    run_search(Hill(), trials=2, storage=storage_)
    os._exit(0)


# The tables and the study are made by the ninth, its facts by the tenth; from the seventeenth to the twenty-sixth a
# trial is begun, gives its first sign of life, gets its argument and its value, and ends.
@pytest.mark.parametrize("commits", [2, 4, 5, 9, 10, *range(16, 27), 32, 37])
def test_a_search_that_is_killed_after_any_write_goes_on_at_once_with_all_trials(tmp_path, commits):
    """Nobody waits for a heart: the process is known to be gone, also where it had not come to its first sign."""
    assert killed_after(commits, tmp_path / "s.db") == -signal.SIGKILL
    kept = []
    if commits >= 9:
        kept = optuna.load_study(study_name="propml", storage=f"sqlite:///{tmp_path / 's.db'}").trials
    begun = time.monotonic()
    found = run_search(Hill(), trials=2, storage=tmp_path / "s.db")
    assert time.monotonic() - begun < studies.GRACE / 3
    assert [each.state for each in found.trials] == ["complete"] * 2
    values = {trial.params["x"] for trial in found.study.trials if trial.state == STATE.COMPLETE}
    assert len(values) == 2
    assert {trial.params["x"] for trial in kept if trial.params} <= values
    assert not [trial for trial in found.study.trials if not trial.state.is_finished()]


def test_a_search_waits_for_what_others_have_under_way(tmp_path):
    """Two trials of a live process are all that the study lacks; it is killed in the middle of one."""
    task = Hill(epochs=3, log=tmp_path / "log", seconds=0.3)
    other = start(tmp_path, tmp_path / "s.db", trials=1, seconds=0.3)
    wait_for(lambda: len(task.lines()) >= 2)
    killer = threading.Timer(0.2, other.kill)
    killer.start()
    found = run_search(Hill(epochs=3), trials=1, storage=tmp_path / "s.db")
    other.wait()
    assert len(found.trials) == 1
    assert found.trials[0].params["x"] == task.lines()[0][0]


def test_too_few_trials_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("propml.tuning.searching.work", lambda *_: None)
    with pytest.raises(ValueError, match="the study has 0 of 3 trials, since workers died too often"):
        run_search(Hill(), trials=3, storage=tmp_path / "s.db")


def test_hearts_beat_while_trials_are_under_way(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "HEARTBEAT", 0.1)
    queue = TrialQueue(Hill(), 1, tmp_path / "s.db")
    beats = []
    monkeypatch.setattr(queue.storage, "record_heartbeat", beats.append)
    with queue.at_work():
        storage_id = queue.ask().storage_id
        wait_for(lambda: len(beats) >= 3, seconds=10)
    assert set(beats) == {storage_id}


def at_once(number, act):
    """Let so many threads do the same at the same moment; what each gave back."""
    barrier = threading.Barrier(number)

    def one(place):
        barrier.wait()
        return act(place)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


@pytest.mark.parametrize("kind", ["begun before", "queued by hand"])
def test_who_works_on_one_file_does_not_begin_or_give_back_a_trial_twice(tmp_path, kind):
    """Four see the same trial abandoned, and then see that it is to be begun again, in the same moment."""
    desks = [TrialQueue(Hill(), 100, tmp_path / "s.db", seed=seed) for seed in range(4)]
    study = desks[0].study
    if kind == "queued by hand":
        study.enqueue_trial({"x": 0.25})
    first = desks[0].ask()
    for _ in range(6):
        (running,) = study.get_trials(states=(STATE.RUNNING,))
        at_once(4, lambda place, number=running.number: desks[place]._give_up(number, trials.STOPPED))
        ((*_, last),) = sort_out(study.trials)[1]
        assert last.number == running.number
        begun = at_once(4, lambda place: desks[place].ask())
        assert [each.configuration for each in begun].count(first.configuration) == 1
        for queue, each in zip(desks, begun, strict=True):
            if each.configuration != first.configuration:
                queue.end(each, "pruned")
        assert sort_out(study.trials)[1] == []


def test_a_trial_that_was_begun_again_and_lost_again_is_still_one(tmp_path):
    queue = TrialQueue(Hill(), 1, tmp_path / "s.db")
    tries = []
    for _ in range(trials.MOST_TRIES):
        tries.append(queue.ask())
        queue._give_up(tries[-1].handle.number)
    assert [trial.first for trial in tries] == [0, 0, 0]
    assert [trial.is_risky for trial in tries] == [False, False, True]
    assert all(trial.configuration == tries[0].configuration for trial in tries)
    assert sort_out(queue.study.trials)[1] == []
    assert queue.ask() is None
    with pytest.raises(
        ValueError, match="all 1 trials failed, so there is no best one; trial 2: its worker died 3 times"
    ):
        run_search(Hill(), trials=1, storage=tmp_path / "s.db")


def test_a_search_that_is_stopped_costs_a_trial_no_try(tmp_path):
    queue = TrialQueue(Hill(), 1, tmp_path / "s.db")
    for _ in range(2 * trials.MOST_TRIES):
        with queue.at_work():
            assert not queue.ask().is_risky
    assert len(run_search(Hill(), trials=1, storage=tmp_path / "s.db").trials) == 1


def test_studies_of_earlier_versions_are_read(tmp_path):
    """They counted tries, and noted of every trial why it was given up."""
    study = TrialQueue(Hill(), 3, tmp_path / "s.db").study
    dead = {"lost": "its worker is gone", "owner": {"host": "a", "boot": "b", "pids": "c", "pid": 7, "started": "9"}}
    for notes in ({"tries": 1}, {"tries": 2, "first": 0}):
        study.add_trial(optuna.create_trial(state=STATE.FAIL, user_attrs={**dead, **notes}))
    study.add_trial(optuna.create_trial(state=STATE.FAIL, user_attrs={"why": "its worker died 3 times", "tries": 3}))
    queue = TrialQueue(Hill(), 3, tmp_path / "s.db")
    again = queue.ask()
    assert (again.first, again.is_risky) == (0, True)
    assert [trial.number for trial in queue.counted()] == [2, 3]


# -- asking and telling, when others do so at the same time -----------------------------------------------------------


@pytest.fixture
def queue():
    return TrialQueue(Hill(epochs=3), 3)


def test_what_was_given_up_by_others_is_not_told_again(queue):
    trial = queue.ask()
    assert not queue.report(trial, 1, 0.5)
    queue._give_up(0)
    queue._give_up(0)  # somebody was faster
    assert queue.report(trial, 2, 0.6)  # the worker is told to stop
    queue.end(trial, "complete")
    assert [each.state for each in queue.study.trials] == [STATE.FAIL]
    assert queue.counted() == []
    assert [tries[0].number for tries in sort_out(queue.study.trials)[1]] == [0]


def test_one_trial_too_many_is_given_up(queue, monkeypatch):
    """Two workers ask for the last trial in the same moment; the later one sees that there are enough."""
    for _ in range(2):
        queue.ask()
    create = queue.storage.create_new_trial

    def faster(*arguments):
        monkeypatch.undo()
        queue.storage.create_new_trial(*arguments)
        return create(*arguments)

    monkeypatch.setattr(queue.storage, "create_new_trial", faster)
    assert queue.ask() is None
    assert [trial.number for trial in queue.counted()] == [0, 1, 2]
    assert queue.study.trials[3].user_attrs["lost"] == "one more than there were to be"


def test_errors_of_a_storage_are_not_swallowed(queue, monkeypatch):
    trial = queue.ask()

    def broken(*_):
        raise RuntimeError("the server is gone")

    monkeypatch.setattr(trial.handle, "report", broken)
    with pytest.raises(RuntimeError, match="the server is gone"):
        queue.report(trial, 1, 0.5)
