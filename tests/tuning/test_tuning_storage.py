"""Where studies live: files and servers."""

import signal
import sys
import traceback

import optuna
import pytest
from fake_tasks import Hill
from postgres_server import postgres
from test_tuning_lost_trials import start, wait_for

from propml.tuning.search import run_search
from propml.tuning.storage import open_study

STATE = optuna.trial.TrialState


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


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@127.0.0.1:1/db",
        "postgresql://:secret@127.0.0.1:1/db",
        "postgresql://me%3Asecret@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password=secret",
        "postgresql://me@127.0.0.1:1/db?sslpassword=secret&sslmode=disable",
        "postgresql://me:secret@127.0.0.1:port/db",
        "postgresql://me:a/secret@127.0.0.1:1/db",
        "postgresql://me:a@secret@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?no_such_option=1&password=secret",
        "no-such-database://me:secret@host/db",
    ],
)
def test_a_server_that_is_not_there_is_told_without_the_password(url):
    with pytest.raises(ValueError, match=r"the storage .* cannot be opened") as told:
        open_study(url, "propml", {})
    assert "secret" not in "".join(traceback.format_exception(told.value))
    assert "127.0.0.1" in str(told.value) or "host" in str(told.value)


@pytest.mark.parametrize("url", ["nonsense://host/db", "sqlite:////proc/nowhere/s.db"])
def test_a_storage_that_cannot_be_is_told(url):
    with pytest.raises((ValueError, OSError), match=r"cannot be opened|No such file"):
        open_study(url, "propml", {})


def test_a_driver_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ImportError, match="pip install psycopg2-binary"):
        open_study("postgresql://me@127.0.0.1:1/db", "propml", {})


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"optuna"):
        open_study(None, "propml", {})
