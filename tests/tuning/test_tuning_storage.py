"""Studies that last: killed searches, several workers, servers."""

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
from postgres_server import postgres

from propml.tuning import storage
from propml.tuning.search import run_search, study_of
from propml.tuning.storage import masked, open_study, owner, reclaim
from propml.tuning.trials import Desk

HERE = Path(__file__).parent
STATE = optuna.trial.TrialState
WORK = """
import sys
import threading
sys.path.insert(0, {here!r})
from fake_tasks import Hill
from propml.tuning.search import run_search
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
    study = study_of(task, tmp_path / "s.db", "propml", 0)
    study.enqueue_trial({"x": 0.95})
    found = run_search(task, trials=4, storage=tmp_path / "s.db", workers=2)
    assert len(found.trials) == 4
    assert os.getpid() not in {pid for _, _, pid in task.lines()}
    assert len({pid for _, _, pid in task.lines()}) >= 2
    assert [x for x, _, _ in task.lines()].count(0.95) == storage.MOST_TRIES
    failed = {each.params["x"]: each.why for each in found.failures()}
    assert failed[0.95] == "its worker died 3 times in the middle of it, most often for want of memory"
    assert all(x > task.edge for x in failed)
    assert any(each.state == "complete" for each in found.trials)
    assert not any(trial.state == STATE.RUNNING for trial in found.study.trials)


def test_the_trial_of_a_worker_on_another_machine_is_given_up_when_its_heart_is_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    monkeypatch.setattr(storage, "GRACE", 2)
    study = study_of(Hill(), tmp_path / "s.db", "propml", 0)
    trial = Desk(study, Hill().space, 2).ask().trial
    trial.set_user_attr("owner", {**owner(), "host": "elsewhere"})
    assert reclaim(study) == 0
    assert study.trials[0].state == STATE.RUNNING
    wait_for(lambda: reclaim(study) == 1, seconds=20)
    assert [each.state for each in study.trials] == [STATE.FAIL, STATE.WAITING]
    found = run_search(Hill(), trials=2, storage=tmp_path / "s.db")
    assert len(found.trials) == 2
    assert found.trials[0].params == {"x": trial.params["x"]}


def test_a_trial_that_nobody_has_signed_is_given_up_after_a_while(tmp_path, monkeypatch):
    """Its worker was killed in the moment after asking."""
    study = study_of(Hill(), tmp_path / "s.db", "propml", 0)
    with storage.quiet():
        study.ask()
    assert reclaim(study) == 0
    monkeypatch.setattr(storage, "GRACE", 0)
    assert reclaim(study) == 1
    monkeypatch.undo()
    assert len(run_search(Hill(), trials=2, storage=tmp_path / "s.db").trials) == 2


def test_hearts_beat_while_trials_are_under_way(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    study = open_study(tmp_path / "s.db", "propml", {})
    beats = []
    monkeypatch.setattr(study._storage, "record_heartbeat", beats.append, raising=False)
    with storage.heartbeat(study, {7}):
        wait_for(lambda: len(beats) >= 2, seconds=10)
    assert set(beats) == {7}


def test_a_process_that_has_the_number_of_a_dead_one_is_not_taken_for_it():
    here = owner()
    assert not storage._is_gone(here)
    assert storage._is_gone({**here, "started": "1"})
    assert not storage._is_gone({**here, "host": "elsewhere", "pid": 2**22 + 1})


def test_a_real_postgresql_server(tmp_path):
    """Two processes on a server, one of which is killed in the middle; then the search is finished."""
    with postgres() as url:
        task = Hill(epochs=3, log=tmp_path / "log", seconds=0.1)
        run_search(Hill(epochs=3), trials=1, storage=url)
        both = [start(tmp_path, url, trials=10, seconds=0.1, seed=seed) for seed in (1, 2)]
        wait_for(lambda: len({pid for _, _, pid in task.lines()}) == 2 and len(task.lines()) >= 6)
        both[0].send_signal(signal.SIGKILL)
        both[0].wait()
        assert both[1].wait(timeout=120) == 0
        found = run_search(Hill(epochs=3), trials=10, storage=url)
        assert len(found.trials) == 10
        assert all(each.state in ("complete", "pruned") for each in found.trials)
        assert sum(trial.state == STATE.FAIL for trial in found.study.trials) <= 1
        with pytest.raises(ValueError, match="made with another epochs"):
            run_search(Hill(epochs=2), trials=10, storage=url)


def test_a_server_that_is_not_there_is_told_without_the_password():
    with pytest.raises(ValueError, match=r"the storage postgresql://me:\*\*\*@127.0.0.1:1/db cannot be opened") as told:
        open_study("postgresql://me:secret@127.0.0.1:1/db", "propml", {})
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("url", ["nonsense://host/db", "sqlite:////proc/nowhere/s.db"])
def test_a_storage_that_cannot_be_is_told(url):
    with pytest.raises((ValueError, OSError), match=r"cannot be opened|No such file"):
        open_study(url, "propml", {})


def test_a_driver_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ImportError, match="pip install psycopg2-binary"):
        open_study("postgresql://me@127.0.0.1:1/db", "propml", {})


def test_passwords_are_masked_wherever_they_stand():
    assert masked("at mysql://a:b@h/d and x") == "at mysql://a:***@h/d and x"
    assert masked("mysql://a:p@ss@h/d") == "mysql://a:***@h/d"
    assert masked("sqlite:///a.db") == "sqlite:///a.db"


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"optuna"):
        open_study(None, "propml", {})


def at_once(number, act):
    """Let so many threads do the same at the same moment; what each gave back."""
    barrier = threading.Barrier(number)

    def one(place):
        barrier.wait()
        return act(place)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
def test_who_works_on_one_file_does_not_take_or_give_back_a_trial_twice(tmp_path):
    """SQLite locks no rows: without whole transactions two would both see it waiting, or both see it abandoned."""
    studies = [open_study(tmp_path / "s.db", "s", {}, seed=seed) for seed in range(4)]
    for round_ in range(12):
        studies[0].enqueue_trial({"x": float(round_)})
        (queued,) = studies[0].get_trials(states=(STATE.WAITING,))
        asked = at_once(4, lambda place: studies[place].ask())
        assert len({trial.number for trial in asked}) == 4
        (taken,) = [trial for trial in asked if trial.number == queued.number]
        for trial in asked:
            if trial is not taken:
                studies[0].tell(trial.number, state=STATE.PRUNED)
        frozen = studies[0]._storage.get_trial(taken._trial_id)
        assert sum(at_once(4, lambda place, frozen=frozen: storage.give_back(studies[place], frozen))) == 1
        (waiting,) = studies[0].get_trials(states=(STATE.WAITING,))
        assert waiting.user_attrs["tries"] == 2
        studies[0].tell(studies[0].ask().number, state=STATE.PRUNED)
