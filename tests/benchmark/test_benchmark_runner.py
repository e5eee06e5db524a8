"""Runs that are killed, stopped, doubled and starved of disk: nothing is lost, nothing is computed or told twice."""

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import fake_cells
import numpy as np
import pytest

from propml.benchmark import runner
from propml.benchmark.cell import MethodEntry
from propml.benchmark.provenance import run_provenance
from propml.benchmark.results import Failure
from propml.benchmark.runner import compute_on, run_experiment
from propml.benchmark.shared_files import BlockFile, Claims
from propml.benchmark.store import ResultStore
from propml.progress import progress_bar

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    """Where fake cells note that they were computed."""
    monkeypatch.setenv("FAKE_CELLS", str(tmp_path))
    return tmp_path


def run(folder, methods=("Plain", "Other"), **settings):
    settings = {"compute": fake_cells.compute, "verbose": False, **settings}
    return run_experiment(fake_cells.experiment(methods), folder, **settings)


def start(folder, *methods, workers=1):
    return subprocess.Popen(
        [sys.executable, HERE / "fake_cells.py", folder, str(workers), *methods],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, seconds=40):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def told(folder):
    """All rows of a folder but the run they name, as a sorted list of texts, and all scores."""
    blocks = BlockFile(Path(folder) / "results.jsonl").blocks()
    rows = [{key: row[key] for key in row if key != "run"} | {"of": len(block)} for block in blocks for row in block]
    store = ResultStore(folder)
    folds = {key: store.scores(key) for key in store.done()}
    scores = {
        key: [array.tobytes() for fold in kept for array in (fold.test, fold.scores, fold.predicted)]
        for key, kept in folds.items()
    }
    return sorted(json.dumps(row, sort_keys=True) for row in rows), scores


def killed(mode, folder, seed):
    done = subprocess.run(
        [sys.executable, HERE / "killed_runs.py", mode, folder, str(seed)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_run_killed_at_random_moments_ends_like_an_undisturbed_one(tmp_path):
    toy = fake_cells.experiment(methods=("Plain", "Other", "Third"), noise=(50.0, 100.0, 150.0))
    run_experiment(toy, tmp_path / "quiet", compute=fake_cells.compute, verbose=False)
    kills = killed("random", tmp_path / "killed", 1)
    assert kills > 3
    assert told(tmp_path / "killed") == told(tmp_path / "quiet")
    run_experiment(toy, tmp_path / "killed", compute=fake_cells._fail, verbose=False)
    assert list((tmp_path / "killed" / ".claims").iterdir()) == []


def test_a_run_killed_at_any_call_that_changes_a_file_ends_like_an_undisturbed_one(tmp_path):
    toy = fake_cells.experiment(methods=("Plain",), noise=(50.0,))
    run_experiment(toy, tmp_path / "quiet", compute=fake_cells.compute, verbose=False)
    kills = killed("every", tmp_path / "killed", 0)
    assert kills > 20
    for number in range(1, kills + 1):
        assert told(tmp_path / f"killed-{number}") == told(tmp_path / "quiet"), number


def test_two_runners_on_one_folder_share_the_work(tmp_path):
    runners = [start(tmp_path / "both", "Slow", "Plain", "Other") for _ in range(2)]
    summaries = [json.loads(each.communicate(timeout=60)[0]) for each in runners]
    keys = [cell.key for cell in fake_cells.experiment(("Slow", "Plain", "Other")).cells()]
    assert sorted(fake_cells.computed(tmp_path)) == sorted(keys)
    for summary in summaries:
        assert sorted(summary["done"] + summary["skipped"]) == sorted(keys)
        assert summary["failed"] == []
    assert sorted(summaries[0]["done"] + summaries[1]["done"]) == sorted(keys)
    run(tmp_path / "alone", ("Slow", "Plain", "Other"))
    assert told(tmp_path / "both") == told(tmp_path / "alone")


def test_the_cell_of_a_runner_that_was_killed_is_computed_by_another(tmp_path):
    first = start(tmp_path / "both", "Waits")
    wait_for(lambda: len(fake_cells.computed(tmp_path)) == 1)
    second = start(tmp_path / "both", "Waits", "Plain")
    wait_for(lambda: len(fake_cells.computed(tmp_path)) >= 2)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    (tmp_path / "go").touch()
    summary = json.loads(second.communicate(timeout=60)[0])
    assert len(summary["done"]) == 8
    assert len(ResultStore(tmp_path / "both").done()) == 8


def test_done_cells_are_not_computed_again_and_failures_are(tmp_path):
    summary = run(tmp_path / "r", ("Fails", "Plain"))
    assert [cell.method.name for cell in summary.done] == ["Plain"] * 4
    assert [(cell.dataset, cell.noise.level) for cell in summary.failed] == [
        ("birds", 0.5), ("birds", 1.0), ("scene", 0.5), ("scene", 1.0),
    ]  # fmt: skip
    failure = summary.failed[0].failure
    assert (failure.error, failure.message) == ("ZeroDivisionError", "nothing to divide in birds")
    assert failure.trace.splitlines()[-1].startswith("fake_cells.py:")
    assert "/" not in failure.trace.splitlines()[-1].partition(":")[0]
    kept = ResultStore(tmp_path / "r").failed()
    assert [(cell.key, cell.run, cell.failure) for cell in kept] == [
        (cell.key, cell.run, cell.failure) for cell in summary.failed
    ]
    again = run(tmp_path / "r", ("Fails", "Plain"))
    assert (len(again.done), len(again.skipped), len(again.failed)) == (0, 4, 4)
    assert len(fake_cells.computed(tmp_path)) == 12
    kept = run(tmp_path / "r", ("Fails", "Plain", "Other"), keep_failures=True)
    assert (len(kept.done), len(kept.skipped), len(kept.failed)) == (4, 4, 4)
    assert len(fake_cells.computed(tmp_path)) == 16
    assert len(ResultStore(tmp_path / "r").failed()) == 4


def test_cells_of_one_problem_are_computed_one_after_the_other(tmp_path):
    summary = run(tmp_path / "r", ("A", "B", "C"))
    problems = [(cell.dataset, cell.noise, cell.seed) for cell in summary.done]
    assert problems == [problem for problem in dict.fromkeys(problems) for _ in range(3)]


def test_a_full_disk_stops_the_run_with_a_sentence_and_the_next_one_goes_on(tmp_path, monkeypatch):
    real, left = os.write, [12000]

    def filling(descriptor, content):
        taken = real(descriptor, bytes(content)[: left[0]])
        left[0] -= taken
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", filling)
        with pytest.raises(OSError, match=r"could not be written \(No space left on device\).*run the same command"):
            run(tmp_path / "full")
    done = len(ResultStore(tmp_path / "full").done())
    assert 0 < done < 8
    summary = run(tmp_path / "full")
    assert (len(summary.done), len(summary.skipped)) == (8 - done, done)
    run(tmp_path / "roomy")
    assert told(tmp_path / "full") == told(tmp_path / "roomy")


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path, capsys):
    calls = []

    def interrupted(cell):
        calls.append(cell)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fake_cells.outcome(cell)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "r", compute=interrupted, verbose=True)
    assert f"2 of 8 cells are done and kept in {tmp_path / 'r'}; run the same" in capsys.readouterr().err
    assert Claims(tmp_path / "r" / ".claims").take(calls[-1].key)
    assert len(ResultStore(tmp_path / "r").done()) == 2
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "silent", compute=lambda cell: (_ for _ in ()).throw(KeyboardInterrupt))
    assert capsys.readouterr().err == ""


def test_a_line_for_every_cell_where_there_is_no_terminal(tmp_path, capsys):
    run_experiment(
        fake_cells.experiment(("Plain", "Fails"), datasets=("birds", "yeastcc"), noise=(50.0,), seeds=(0, 1)),
        tmp_path / "r",
        compute=fake_cells.compute,
    )
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 8
    first = fake_cells.outcome(fake_cells.cell())
    mean = 50 * sum(fold.values["average_precision"] for fold in first.folds)
    assert lines[0] == f"birds 50 % Plain  AP {mean:.1f}  0.8 s  [1/8]"
    assert lines[1] == "birds 50 % Fails  FAILED ZeroDivisionError: nothing to divide in birds  [2/8]"
    assert lines[2].startswith("birds 50 % Plain, seed 1  AP ")
    assert lines[7].startswith("yeastcc Fails, seed 1  FAILED")


def test_a_bar_on_a_terminal_counts_running_and_failed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run(tmp_path / "r", ("Fails", "Plain"), verbose=True)
    shown = capsys.readouterr().err
    assert "cells" in shown
    assert "4 failed" in shown
    assert "birds 50 % Plain" not in shown


def test_the_time_left_counts_the_time_before_the_first_long_step(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar("cells", 4, long_steps=True) as bar:
        time.sleep(1.1)
        bar.advance()
        time.sleep(0.3)
    assert re.search(r"1/4 0:00:01 0:00:0[3-9]", re.sub(r"\x1b\[[\d;?]*\w", "", capsys.readouterr().err))


def test_what_another_run_settles_meanwhile_is_taken_over(tmp_path, capsys, monkeypatch):
    """The first cell of this run computes; meanwhile somebody else does the second and fails at the third."""
    monkeypatch.setattr(runner, "LOOK_AGAIN", 0.01)
    other = ResultStore(tmp_path / "r")
    provenance = run_provenance([])
    second, third, fourth = (fake_cells.cell(name) for name in ("Second", "Third", "Fourth"))
    other.add(third.result(failure=Failure("", "an old failure")), provenance)
    assert other.claims.take(fourth.key)

    def compute(cell):
        if cell.method.name == "First":
            other.add(fake_cells.outcome(second), provenance)
            other.add(third.result(failure=Failure("ValueError", "a new failure")), provenance)
            other.claims.release(fourth.key)
        return fake_cells.outcome(cell)

    toy = fake_cells.experiment(("First", "Second", "Third", "Fourth"), datasets=("birds",), noise=(50.0,))
    summary = run_experiment(toy, tmp_path / "r", compute=compute)
    assert [cell.method.name for cell in summary.done] == ["First", "Fourth"]
    assert [cell.method.name for cell in summary.skipped] == ["Second"]
    assert [cell.failure.message for cell in summary.failed] == ["a new failure"]
    shown = capsys.readouterr().err
    assert "birds 50 % Second  done by another run  [2/4]" in shown
    assert "birds 50 % Third  FAILED in another run: ValueError: a new failure  [3/4]" in shown


def test_a_run_waits_for_what_another_works_on_and_takes_it_where_that_one_gives_up(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "LOOK_AGAIN", 0.01)
    other = Claims(tmp_path / "r" / ".claims")
    assert other.take(fake_cells.cell().key)
    threading.Timer(0.2, other.release_all).start()
    summary = run(tmp_path / "r", ("Plain",))
    assert summary.done[-1] == fake_cells.cell()
    assert len(summary.done) == 4


def test_a_metric_asked_for_later_is_measured_without_a_fit(tmp_path):
    toy = dataclasses.replace(
        fake_cells.experiment(("Ridge",), datasets=("digits-mosaic",), noise=(0.1, 0.2), kind="flips"), rows=60
    )
    run_experiment(toy, tmp_path / "r", verbose=False)
    wanted = dataclasses.replace(toy, metrics=(*toy.metrics, "coverage"))
    summary = run_experiment(wanted, tmp_path / "r", verbose=False, compute=fake_cells._fail)
    assert len(summary.skipped) == 2
    folds = [fold for cell in ResultStore(tmp_path / "r").cells() for fold in cell.folds]
    assert len(folds) == 4
    assert all(fold.values.keys() == {*wanted.metrics} for fold in folds)
    assert all(0 < fold.values["coverage"] < 1 for fold in folds)
    for file in (tmp_path / "r" / "scores").iterdir():
        file.unlink()
    wanted = dataclasses.replace(toy, metrics=("hamming_loss",), noise=toy.noise[:1])
    with pytest.warns(UserWarning, match=r"digits-mosaic 0.1 Ridge lacks metrics .* needs a run in another folder"):
        run_experiment(wanted, tmp_path / "r", verbose=False)


def test_real_cells_are_the_same_here_and_in_worker_processes(tmp_path):
    toy = dataclasses.replace(
        fake_cells.experiment(("Ridge",), datasets=("digits-mosaic",), noise=(0.1, 0.2), kind="flips"), rows=60
    )
    for folder, workers in (("here", 1), ("there", 2)):
        assert len(run_experiment(toy, tmp_path / folder, workers=workers, verbose=False).done) == 2
    here, there = (
        {cell.key: [fold.values for fold in cell.folds] for cell in ResultStore(tmp_path / folder).cells()}
        for folder in ("here", "there")
    )
    assert here == there
    assert sum(len(values) for folds in here.values() for values in folds) == 8
    runs = ResultStore(tmp_path / "there").runs()
    assert [(run["workers"], run["executor"]) for run in runs] == [(2, "local")]


def test_a_device_reaches_the_methods_that_know_devices_and_no_key():
    seen = []

    def compute(cell):
        seen.append(cell.method.params)
        return fake_cells.outcome(cell)

    for method, expected in (("propml", {"epochs": 3, "device": "cuda:1"}), ("ml-knn", {"k": 3})):
        params = {"epochs": 3} if method == "propml" else {"k": 3}
        cell = dataclasses.replace(fake_cells.cell(), method=MethodEntry("Named", method, params))
        result = compute_on("cuda:1", compute, cell)
        assert (result.key, result.settings) == (cell.key, cell.configuration())
        assert seen.pop() == expected


def test_mistakes_are_sentences(tmp_path):
    with pytest.raises(ValueError, match="workers is 0"):
        run(tmp_path / "r", workers=0)
    for device in ("gpu", "cuda:99"):
        with pytest.raises(ValueError, match=f"device {device} cannot be used here; choose auto, cpu or an available"):
            run(tmp_path / "r", device=device)
    with pytest.raises(ValueError, match="experiment 'nowhere' is not known"):
        run_experiment("nowhere", tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_may_be_given_by_its_path(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'datasets = ["digits-mosaic"]\nnoise = [0.1]\ncorruption = "flips"\nrows = 40\nfolds = 2\n'
        '[methods.Ridge]\nmethod = "ridge"\n'
    )
    summary = run_experiment(path, tmp_path / "r", device="cpu", verbose=False)
    assert len(summary.done) == 1
    (cell,) = ResultStore(tmp_path / "r").cells("mine")
    assert np.mean([fold.values["average_precision"] for fold in cell.folds]) > 0.5
