"""Where studies live: files and servers, and what is shown of their addresses."""

import signal
import sqlite3
import sys
import traceback

import optuna
import pytest
from fake_tasks import Hill
from postgres_server import postgres
from test_tuning_trials import start, wait_for

from propml.tuning.searching import run_search
from propml.tuning.studies import open_storage, open_study, without_secrets

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
        open_storage(url)
    assert "secret" not in "".join(traceback.format_exception(told.value))
    assert "127.0.0.1" in str(told.value) or "host" in str(told.value)


@pytest.mark.parametrize("url", ["nonsense://host/db", "sqlite:////proc/nowhere/s.db"])
def test_a_storage_that_cannot_be_is_told(url):
    with pytest.raises((ValueError, OSError), match=r"cannot be opened|No such file"):
        open_storage(url)


def test_a_driver_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ImportError, match="pip install psycopg2-binary"):
        open_storage("postgresql://me@127.0.0.1:1/db")


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"optuna"):
        open_storage(None)


SHOWN = {
    "postgresql://me:pw@h/db": "postgresql://***@h/db",
    "postgresql://:pw@h/db": "postgresql://***@h/db",
    "postgresql://me%3Apw@h/db": "postgresql://***@h/db",
    "postgresql+psycopg2://me%3apw@h:5432/db": "postgresql+psycopg2://***@h:5432/db",
    "mysql://me:p@pw@h/db": "mysql://***@h/db",
    "mysql://me:p:pw@h/db": "mysql://***@h/db",
    "mysql://me:p/pw@h/db": "mysql://***@h/db",
    "mysql://me:p?pw@h/db": "mysql://***",
    "mysql://me:p?a=pw@h/db": "mysql://***",
    "mysql://me:p#pw@h/db": "mysql://***@h/db",
    "postgresql://h/db?user=me&password=pw": "postgresql://h/db?***",
    "postgresql://h/db?user=me&%70assword=pw&x=1": "postgresql://h/db?***",
    "postgresql://h:5432/db?user=me@there&PASSWORD=pw": "postgresql://***",
    "postgresql://me@h/db?sslpassword=pw&sslkey=pw": "postgresql://***@h/db?***",
    "mysql://h/d?passwd=p;pw": "mysql://h/d?***",
    "mysql://h/d?password=p#pw": "mysql://h/d?***",
    "mssql:///?odbc_connect=SERVER%3Dh%3BPWD%3Dpw": "mssql:///?***",
    "sqlite+pysqlcipher://:pw@/study.db": "sqlite+pysqlcipher://***@/study.db",
    "postgresql://[::1]:5432/db?password=pw": "postgresql://[::1]:5432/db?***",
}


@pytest.mark.parametrize("url", SHOWN)
def test_no_secret_of_a_url_is_shown(url):
    assert without_secrets(url, url) == SHOWN[url]
    assert "pw" not in without_secrets(f"the server says: cannot connect to {url!r}", url)


@pytest.mark.parametrize("url", ["sqlite:///a.db", "sqlite:////home/a:b@c/study.db", "postgresql://h:5432/db", "a:b@c"])
def test_a_url_without_a_secret_is_shown_as_it_is(url):
    assert without_secrets(url, url) == url
    assert without_secrets(f"no {url}", url) == f"no {url}"


def test_a_password_is_hidden_in_what_others_say_also_as_they_read_it():
    url = "postgresql://me:s%40cret%2Fx@h/db"
    assert without_secrets('no password "s@cret/x", s%40cret%2Fx', url) == 'no password "***@***/***", ***'
    assert without_secrets("invalid port: 'ab'", "postgresql://me:ab/cd@h/db") == "invalid port: '***'"
    assert without_secrets('no host "cd@h"', "postgresql://me:ab@cd@h/db") == 'no host "***@h"'
    assert without_secrets("--storage=postgresql://me:ab@h/db", "postgresql://me:ab@h/db").endswith("://***@h/db")
    told = without_secrets("not so sorry: no option x", "postgresql://h/db?x=1&password=so")
    assert told == "not *** sorry: no option x"


def test_a_database_whose_making_was_killed_still_has_one_study_of_a_name(tmp_path):
    """Optuna makes the table of studies, then the index that keeps their names apart; a kill may come between."""
    path = tmp_path / "study.db"
    open_storage(path)
    with sqlite3.connect(path) as database:
        database.execute("DROP INDEX ix_studies_study_name")
    for _ in range(2):
        open_study(open_storage(path), "one", {})
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM studies").fetchall() == [(1,)]
