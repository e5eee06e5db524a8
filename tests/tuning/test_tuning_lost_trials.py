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
from optuna.storages._cached_storage import _CachedStorage

from propml.tuning import lost_trials
from propml.tuning.lost_trials import owner, reclaim, to_begin_again
from propml.tuning.search import run_search, study_of
from propml.tuning.storage import open_study, quiet
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
    assert [x for x, _, _ in task.lines()].count(0.95) == lost_trials.MOST_TRIES
    failed = {each.params["x"]: each.why for each in found.failures()}
    assert failed[0.95] == "its worker died 3 times in the middle of it, most often for want of memory"
    assert all(x > task.edge for x in failed)
    assert any(each.state == "complete" for each in found.trials)
    assert not any(trial.state == STATE.RUNNING for trial in found.study.trials)


def test_the_trial_of_a_worker_on_another_machine_is_given_up_when_its_heart_is_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(lost_trials, "HEARTBEAT", 1)
    monkeypatch.setattr(lost_trials, "GRACE", 2)
    study = study_of(Hill(), tmp_path / "s.db", "propml", 0)
    trial = Desk(study, Hill().space, 2).ask().trial
    trial.set_user_attr("owner", {**owner(), "host": "elsewhere"})
    assert reclaim(study) == 0
    assert study.trials[0].state == STATE.RUNNING
    wait_for(lambda: reclaim(study) == 1, seconds=20)
    assert [each.state for each in study.trials] == [STATE.FAIL]
    found = run_search(Hill(), trials=2, storage=tmp_path / "s.db")
    assert len(found.trials) == 2
    assert found.trials[0].params == {"x": trial.params["x"]}


@pytest.mark.parametrize("signed", [False, True])
def test_a_trial_whose_heart_never_beat_is_given_up_after_a_while(tmp_path, monkeypatch, signed):
    """Another program has asked for it and did not sign it; or a worker elsewhere was killed right after it had."""
    monkeypatch.setattr(lost_trials, "HEARTBEAT", 1)
    monkeypatch.setattr(lost_trials, "GRACE", 2)
    study = study_of(Hill(), tmp_path / "s.db", "propml", 0)
    with quiet():
        trial = study.ask()
    if signed:
        trial.set_user_attr("owner", {**owner(), "boot": "of another machine"})
    assert reclaim(study) == 0
    assert len(run_search(Hill(), trials=2, storage=tmp_path / "s.db").trials) == 2
    assert [each.state for each in study.trials] == [STATE.FAIL, STATE.COMPLETE, STATE.COMPLETE]


def killed_after(name, left, storage_):
    """A search in another process that is killed right after it has written something for the so-manieth time."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    real = getattr(_CachedStorage, name)

    def deadly(*arguments, **more):
        nonlocal left
        done = real(*arguments, **more)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(_CachedStorage, name, deadly)
    run_search(Hill(), trials=4, storage=storage_)
    os._exit(0)


@pytest.mark.parametrize(
    "name",
    [
        "create_new_trial",
        "record_heartbeat",
        "set_trial_param",
        "set_trial_intermediate_value",
        "set_trial_state_values",
    ],
)
def test_a_search_that_is_killed_after_any_write_goes_on_at_once_with_all_trials(tmp_path, name):
    """Nobody waits for a heart: the process is known to be gone, also where it had not come to sign its trial."""
    assert killed_after(name, 2, tmp_path / "s.db") == -signal.SIGKILL
    study = study_of(Hill(), tmp_path / "s.db", "propml", 0)
    running = [trial for trial in study.trials if trial.state == STATE.RUNNING]
    assert reclaim(study) == len(running)
    found = run_search(Hill(), trials=4, storage=tmp_path / "s.db")
    assert [each.state for each in found.trials] == ["complete"] * 4
    values = [trial.params["x"] for trial in found.study.trials if trial.state == STATE.COMPLETE]
    assert len(set(values)) == 4
    assert {trial.params["x"] for trial in running if trial.params} <= set(values)


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
    monkeypatch.setattr(sys.modules["propml.tuning.search"], "work", lambda *_: None)
    with pytest.raises(ValueError, match="the study has 0 of 3 trials, since workers died too often"):
        run_search(Hill(), trials=3, storage=tmp_path / "s.db")


def test_a_dead_process_that_nobody_has_asked_after_is_gone():
    child = os.fork()
    if not child:
        signal.pause()
    who = {**owner(), "pid": child, "started": lost_trials._started(child)}
    assert not lost_trials._is_gone(who)
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # dead, and still in the table
    assert lost_trials._is_gone(who)
    os.waitpid(child, 0)
    assert lost_trials._is_gone(who)


def test_hearts_beat_while_trials_are_under_way(tmp_path, monkeypatch):
    monkeypatch.setattr(lost_trials, "HEARTBEAT", 1)
    study = open_study(tmp_path / "s.db", "propml", {})
    beats = []
    monkeypatch.setattr(study._storage, "record_heartbeat", beats.append, raising=False)
    with lost_trials.heartbeat(study, {7}):
        wait_for(lambda: len(beats) >= 2, seconds=10)
    assert set(beats) == {7}


def test_a_process_that_has_the_number_of_a_dead_one_is_not_taken_for_it():
    here = owner()
    assert not lost_trials._is_gone(here)
    assert lost_trials._is_gone({**here, "started": "1"})
    for name in lost_trials.MACHINE:
        assert not lost_trials._is_gone({**here, name: "elsewhere", "pid": 2**22 + 1})


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
    studies = [open_study(tmp_path / "s.db", "s", {}, seed=seed) for seed in range(4)]
    desks = [Desk(study, Hill().space, 100) for study in studies]
    if kind == "queued by hand":
        studies[0].enqueue_trial({"x": 0.25})
    first = desks[0].ask()
    for round_ in range(6):
        (running,) = studies[0].get_trials(states=(STATE.RUNNING,))
        lost = at_once(4, lambda place, trial=running: lost_trials.give_back(studies[place], trial, died=False))
        assert sum(lost) == 1
        (again,) = to_begin_again(studies[0].get_trials())
        assert (again.trial.number, again.tries) == (running.number, 1), round_
        asked = at_once(4, lambda place: desks[place].ask())
        assert [each.configuration for each in asked].count(first.configuration) == 1
        for desk, each in zip(desks, asked, strict=True):
            if each.configuration != first.configuration:
                desk.prune(each)
        assert to_begin_again(studies[0].get_trials()) == []


def test_a_trial_that_was_begun_again_and_lost_again_is_still_one(tmp_path):
    study = open_study(tmp_path / "s.db", "s", {})
    desk = Desk(study, Hill().space, 1)
    tries = []
    for _ in range(lost_trials.MOST_TRIES):
        asked = desk.ask()
        tries.append((asked.tries, asked.folder_number, asked.configuration))
        lost_trials.give_back(study, study.get_trials()[-1])
    assert tries == [(number, 0, tries[0][2]) for number in (1, 2, 3)]
    assert "died 3 times" in study.trials[-1].user_attrs["why"]
    assert to_begin_again(study.trials) == []
    assert desk.ask() is None
