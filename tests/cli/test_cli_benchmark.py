"""`propml benchmark`: from an experiment to numbers, and what people are told when something fails."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from propml.benchmark.store import ResultStore
from propml.cli.benchmark import app

MINE = """
title = "My own"
datasets = ["digits-mosaic"]
corruption = "flips"
noise = [0.1, 0.3]
seeds = [0, 1]
rows = 60
folds = 2
metrics = ["average_precision", "one_error"]

[methods.Ridge]
method = "ridge"

[methods."Ridge, too weak"]
method = "ridge"
params = { alpha = 100000.0 }

[methods.Broken]
method = "ridge"
params = { alpha = -1.0 }

[methods.Endless]
method = "propml"
params = { epochs = 1000000, early_stopping = false, hidden = [4], lam = 0.1, cv = 2 }
"""
GOOD = ("--methods", "Ridge", "--methods", "Ridge, too weak")
SMALL = ("--noise", "0.1", "--seeds", "0")


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("mine.toml").write_text(MINE)


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def start(*arguments):
    code = "from propml.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "benchmark", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_help_teaches_by_example():
    assert "propml benchmark run quick" in run("--help").stdout
    told = run("run", "--help").stdout
    assert "propml benchmark run artificial --datasets birds,scene --noise 50 --workers 2" in " ".join(told.split())
    for option in ("--out", "--workers", "--ray-address", "--device", "--keep-failures", "--noise", "--seeds"):
        assert option in told
    assert "propml benchmark status quick --out results/quick" in run("status", "--help").stdout
    assert "report.html" in run("report", "--help").stdout


def test_experiments_are_listed_with_titles_and_cells():
    lines = run("list").stdout.splitlines()
    assert lines[0].split() == ["name", "cells", "title"]
    rows = {line.split()[0]: line.strip().split(maxsplit=2)[1:] for line in lines[1:]}
    assert {"quick", "real-world", "artificial", "vision"} <= rows.keys()
    cells, title = rows["artificial"]
    assert int(cells) % (5 * 3) == 0
    assert title == "Artificial candidate labels"


def test_a_run_prints_the_table_of_means_and_a_second_one_computes_nothing():
    first = run("run", "mine.toml", *GOOD)
    assert first.exit_code == 0, first.output
    assert len(re.findall(r"\[\d/8\]", first.stderr)) == 8
    assert "Average precision ↑, percent" in first.stdout
    assert "cells: 8 done now; results: results/mine" in first.stdout
    store = ResultStore("results/mine")
    values = [
        100 * fold.values["average_precision"]
        for cell in store.cells()
        if (cell.method, cell.noise.level) == ("Ridge", 0.1)
        for fold in cell.folds
    ]
    assert len(values) == 4
    (row,) = re.findall(r"Ridge +│ +([\d.]+)[ │]+([\d.]+)", first.stdout)
    assert row[0] == f"{sum(values) / 4:.2f}"
    assert store.runs()[0]["executor"] == "local"
    second = run("run", "mine.toml", *GOOD)
    assert "cells: 0 done now, 8 before" in second.stdout
    assert second.stdout.splitlines()[:-1] == first.stdout.splitlines()[:-1]
    assert len(store.runs()) == 1


def test_a_part_of_an_experiment_is_a_part_of_its_cells():
    run("run", "mine.toml", "--methods", "Ridge", *SMALL, "--out", "here")
    assert [(cell.method, cell.noise.level, cell.seed) for cell in ResultStore("here").cells()] == [("Ridge", 0.1, 0)]
    told = run("run", "mine.toml", *GOOD, "--noise", "0.1,0.3", "--out", "here")
    assert "cells: 7 done now, 1 before" in told.stdout


def test_failures_are_told_kept_and_tried_again():
    told = run("run", "mine.toml", "--methods", "Broken,Ridge", *SMALL)
    assert told.exit_code == 1
    assert "cells: 1 done now; results" in told.stdout
    assert "failed" in next(line for line in told.stdout.splitlines() if "Broken" in line)
    reason = (
        "digits-mosaic 0.1 Broken, seed 0: ValueError: alpha is -1.0; RidgeRegressionClassifier needs a positive number"
    )
    assert f"1 of 2 cells failed:\n  {reason}\nThe same command tries them again." in told.stderr
    again = run("run", "mine.toml", "--methods", "Broken,Ridge", *SMALL, "--keep-failures")
    assert again.exit_code == 1
    assert "[" not in again.stderr
    assert len(ResultStore("results/mine").runs()) == 1
    run("run", "mine.toml", "--methods", "Broken,Ridge", *SMALL)
    assert len(ResultStore("results/mine").runs()) == 2


def test_status_counts_what_is_done_missing_and_failed():
    run("run", "mine.toml", "--methods", "Broken,Ridge", *SMALL, "--out", "here")
    told = run("status", "mine.toml", "--out", "here", "--noise", "0.1")
    assert told.exit_code == 0
    counts = {line.rsplit(maxsplit=3)[0].strip(): line.split()[-3:] for line in told.stdout.splitlines()}
    assert counts["Ridge"] == ["1", "1", "0"]
    assert counts["Broken"] == ["0", "1", "1"]
    assert counts["Ridge, too weak"] == ["0", "2", "0"]
    assert counts["all"] == ["1", "6", "1"]
    assert "failed: digits-mosaic 0.1 Broken, seed 0: ValueError: alpha is -1.0" in told.stdout
    assert not Path("results").exists()


def test_a_table_that_is_too_wide_is_broken_into_several(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    told = run("run", "mine.toml", "--methods", "Ridge", "--seeds", "0").stdout
    assert told.count("Average precision") == 2
    assert max(map(len, told.splitlines()[:-1])) <= 40


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "quik"), "did you mean 'quick'"),
        (("run", "mine.toml", "--methods", "Rigde"), "did you mean 'Ridge'"),
        (("run", "mine.toml", "--noise", "much"), "mine has no noise level 'much'; known are 0.1, 0.3"),
        (("status", "mine.toml", "--seeds", "7"), "mine has no seed '7'; known are 0"),
    ],
)
def test_a_mistake_is_a_sentence_and_nothing_is_made(arguments, told):
    done = run(*arguments)
    assert isinstance(done.exception, ValueError)
    assert told in str(done.exception)
    assert [path.name for path in Path.cwd().iterdir()] == ["mine.toml"]


def test_ctrl_c_says_what_was_done_and_how_to_go_on():
    process = start("run", "mine.toml", "--methods", "Ridge,Endless", *SMALL)
    assert "Ridge  AP" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "1 of 2 cells are done and kept in results/mine; run the same command again to go on" in errors
    assert "Traceback" not in errors
    assert "cells: 0 done now, 1 before" in run("run", "mine.toml", "--methods", "Ridge", *SMALL).stdout


def test_a_killed_run_goes_on():
    process = start("run", "mine.toml", "--methods", "Ridge,Endless", *SMALL)
    assert "Ridge  AP" in process.stderr.readline()
    process.kill()
    process.communicate()
    assert "cells: 1 done now, 1 before" in run("run", "mine.toml", *GOOD, *SMALL).stdout


def test_a_ray_that_starts_for_the_run_gives_the_same_numbers():
    process = start("run", "mine.toml", *GOOD, *SMALL, "--ray-address", "local", "--workers", "2", "--out", "ray")
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "cells: 2 done now" in output
    run("run", "mine.toml", *GOOD, *SMALL, "--out", "here")
    ray, here = (
        {cell.key: [fold.values for fold in cell.folds] for cell in ResultStore(folder).cells()}
        for folder in ("ray", "here")
    )
    assert ray == here
    (made,) = ResultStore("ray").runs()
    assert (made["executor"], made["workers"]) == ("ray", 2)
    assert json.loads(json.dumps(made)) == made
