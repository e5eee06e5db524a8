"""The command line as a user meets it: a real process, its exit code and what it prints."""

import os
import subprocess
import sys

import pytest

import propml


def run(*arguments, **environment):
    code = "from propml.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


def test_help_teaches():
    done = run("--help")
    assert done.returncode == 0
    for word in ("demo", "info", "datasets", "corrupt", "candidate labels"):
        assert word in done.stdout


def test_version():
    assert run("--version").stdout.strip() == propml.__version__


def test_info_names_versions_folders_and_extras(tmp_path):
    done = run("info", PROPML_DATA=str(tmp_path))
    assert done.returncode == 0
    for word in ("propml", propml.__version__, "torch", "device", str(tmp_path), "extra report", "installed"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("datasets", "show", "scenne"), "did you mean 'scene'"),
        (("datasets", "show", "music-style"), "fetch"),
        (("corrupt", "nowhere.npz", "--out", "x.npz"), "nowhere.npz"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, told, tmp_path):
    done = run(*arguments, PROPML_DATA=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 1
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_trace_can_be_asked_for(tmp_path):
    done = run("datasets", "show", "scenne", PROPML_DEBUG="1")
    assert "Traceback" in done.stderr


def test_demo_writes_a_report(tmp_path):
    done = run("demo", "--methods", "Ridge,ML-kNN,CPLST", "--out", str(tmp_path / "out"), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "ML-kNN" in done.stdout
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    for word in ("Average precision", "Ridge", "ML-kNN", "CPLST", "digits-mosaic"):
        assert word in page
    review = (tmp_path / "out" / "review.html").read_text(encoding="utf-8")
    assert "Which digits are not in the mosaic?" in review
    assert "data:image/" in review
