"""The store: what was added comes back, once, with what it was measured with."""

import dataclasses
import errno
import json
import os

import fake_cells
import numpy as np
import pytest
from fake_cells import cell, outcome

from propml.benchmark.problem import load_truth
from propml.benchmark.results import Failure, FoldResult
from propml.benchmark.shared_files import BlockFile
from propml.benchmark.store import ResultStore
from propml.file_errors import FileError
from propml.metrics import average_precision, ranking_loss
from propml.noise import Noise

RUN = {"run": "first", "propml": "0.1", "device": "cpu"}


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "results")


def failed(cell, message, error="", trace=""):
    return cell.result(failure=Failure(error, message, trace))


def values(store, **asked):
    """(method, fold, metric) of every number in the store, with its value."""
    return {
        (cell.method, fold.fold, metric): value
        for cell in store.cells(**asked)
        for fold in cell.folds
        for metric, value in fold.values.items()
    }


def rows(store):
    return [json.loads(line) for line in (store.folder / "results.jsonl").read_text().splitlines()]


def test_an_empty_folder_is_an_empty_store_and_stays_as_it_is(store):
    assert store.cells() == store.failed() == store.runs() == []
    assert store.done() == set()
    assert not store.folder.exists()


def test_what_was_added_comes_back_exactly(store):
    made = outcome(cell("ProPML", "birds", 50.0, 3))
    store.add(made, RUN)
    again = ResultStore(store.folder)
    assert again.cells() == [dataclasses.replace(made, run="first", commit="propml 0.1")]
    assert again.cells()[0].settings == json.loads(json.dumps(made.settings))
    assert again.cells()[0].folds[0].scores is None
    assert (again.cells()[0].seconds_fit, again.cells()[0].seconds_predict) == (0.5, 0.25)
    assert again.done() == {made.key}
    for kept, fold in zip(again.scores(made.key), made.folds, strict=True):
        assert kept.fold == fold.fold
        for name, dtype in (("test", np.int64), ("scores", np.float32), ("predicted", np.uint8)):
            assert getattr(kept, name).dtype == dtype
            assert np.array_equal(getattr(kept, name), getattr(fold, name))


def test_every_row_names_its_cell_configuration_and_run(store):
    made = outcome(cell())
    store.add(made, RUN)
    store.add(failed(cell("Fails"), "no"), {**RUN, "run": "second"})
    written = rows(store)
    assert [row["row"] for row in written] == ["value"] * 4 + ["fold"] * 2 + ["cell", "failure"]
    assert {row["key"] for row in written[:-1]} == {made.key}
    assert [row["run"] for row in written] == ["first"] * 7 + ["second"]
    assert store.runs() == [RUN, {**RUN, "run": "second"}]


def test_a_cell_is_kept_once(store, tmp_path):
    made = outcome(cell())
    store.add(made, RUN)
    before = (store.folder / "results.jsonl").read_bytes()
    other = dataclasses.replace(
        made, folds=tuple(dataclasses.replace(fold, values={"one_error": 0.5}) for fold in made.folds)
    )
    ResultStore(store.folder).add(other, {**RUN, "run": "second"})
    store.add(failed(cell(), "too late"), RUN)
    assert (store.folder / "results.jsonl").read_bytes() == before
    assert store.failed() == []


def test_a_failure_stays_until_the_cell_is_done(store):
    failing = cell("Fails")
    store.add(failed(failing, "first\nmore", "ValueError", "a.py:1"), RUN)
    added = store.add(failed(failing, "second\nmore", "ValueError", "a.py:2"), RUN)
    (kept,) = store.failed()
    assert kept == dataclasses.replace(added, settings={})
    assert (kept.setting, kept.method, kept.seed) == (("birds", Noise("svm", 0.5)), "Fails", 0)
    assert kept.failure == Failure("ValueError", "second\nmore", "a.py:2")
    assert (kept.key, kept.run) == (failing.key, "first")
    assert str(kept) == "birds 50 % Fails, seed 0: ValueError: second"
    assert store.done() == set()
    assert store.cells("another experiment") == []
    store.add(outcome(failing), RUN)
    assert store.failed() == []
    assert len(values(store)) == 4


def test_a_failure_knows_what_made_its_candidates_in_old_files_too(store):
    store.add(outcome(cell(noise=3.0, kind="count")), RUN)
    store.add(failed(cell("Fails", noise=3.0, kind="count"), "no"), RUN)
    assert store.failed()[0].noise == Noise("count", 3.0)
    *rest, last = store._cells.blocks()
    store._cells.path.unlink()
    old = [{name: row[name] for name in row if name != "corruption"} for row in last]
    for block in (*rest, old):
        BlockFile(store._cells.path).append(block)
    assert ResultStore(store.folder).failed()[0].noise == Noise("count", 3.0)


def test_of_two_configurations_the_last_one_added_is_shown_and_both_can_be_asked_for(store):
    old, new = cell(folds=2), cell(folds=3)
    assert old.key != new.key
    store.add(outcome(old), RUN)
    store.add(outcome(cell("Other")), RUN)
    store.add(outcome(new), RUN)
    assert [(method, fold) for method, fold, metric in values(store) if metric == "one_error"] == [
        *(("Plain", fold) for fold in (0, 1, 2)),
        *(("Other", fold) for fold in (0, 1)),
    ]
    assert {fold for _, fold, _ in values(store, keys=[old.key])} == {0, 1}
    assert store.done() >= {old.key, new.key}


def test_experiments_are_told_apart(store):
    store.add(outcome(cell()), RUN)
    store.add(outcome(dataclasses.replace(cell(), experiment="another")), RUN)
    assert [each.experiment for each in store.cells()] == ["toy", "another"]
    assert [each.experiment for each in store.cells("another")] == ["another"]


def test_values_that_are_not_finite_come_back_as_nan(store):
    made = outcome(cell())
    measured = {"average_precision": float("nan"), "one_error": 1.0}
    store.add(dataclasses.replace(made, folds=(dataclasses.replace(made.folds[0], values=measured),)), RUN)
    assert "NaN" not in (store.folder / "results.jsonl").read_text()
    kept = values(store)
    assert np.isnan(kept["Plain", 0, "average_precision"])
    assert kept["Plain", 0, "one_error"] == 1.0


@pytest.mark.parametrize("room", [0, 10, 700, 1500, 2200])
def test_a_full_disk_keeps_what_was_there_and_half_of_nothing(store, monkeypatch, room):
    store.add(outcome(cell()), RUN)
    before = {path.name: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    real, left = os.write, [room]

    def filling(descriptor, content):
        taken = real(descriptor, bytes(content)[: left[0]])
        left[0] -= taken
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    second = outcome(cell("Other"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", filling)
        with pytest.raises(OSError, match="No space left"):
            store.add(second, RUN)
    now = {path.name: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    now.pop(f"{second.key}.npz", None)  # scores may be whole: they come first, and nothing refers to them yet
    assert now == before
    assert ResultStore(store.folder).done() == {cell().key}
    store.add(second, RUN)
    assert len(values(ResultStore(store.folder))) == 8


def test_a_row_that_is_no_cell_is_told_with_its_file(store):
    store.add(outcome(cell()), RUN)
    (block,) = store._cells.blocks()
    store._cells.path.unlink()
    for change in ({"noise": "storms 50"}, {"settings": 7}):
        BlockFile(store._cells.path).append([*block[:-1], {**block[-1], **change}])
        with pytest.raises(FileError, match=r"results\.jsonl is not a readable file of results"):
            ResultStore(store.folder).cells()


def test_kept_scores_of_other_shapes_are_refused(store):
    made = outcome(cell())
    store.add(made, RUN)
    path = store.folder / "scores" / f"{made.key}.npz"
    with np.load(path) as stored:
        kept = dict(stored)
    for name, value in (("test", -kept["test"] - 1), ("scores", kept["scores"][:-1]), ("fold", kept["fold"] * 0.5)):
        np.savez(path, **{**kept, name: value})
        with pytest.raises(FileError, match=f"it.{name} is an array"):
            store.scores(made.key)


def test_scores_that_are_gone_or_damaged_are_told(store):
    made = outcome(cell())
    store.add(made, RUN)
    path = store.folder / "scores" / f"{made.key}.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="is not a readable file of kept scores"):
        store.scores(made.key)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="needs a run in another folder"):
        store.scores(made.key)
    assert len(values(store)) == 4


@pytest.fixture
def judged(store):
    """Ridge-like scores on rows of the embedded dataset, with the values of one metric."""
    made = cell("Ridge", "digits-mosaic", 50.0, 0, rows=40, metrics=("average_precision",))
    truth = load_truth("digits-mosaic", 0, 40).truth
    rng = np.random.default_rng(0)
    folds = []
    for fold in range(2):
        test = np.arange(fold, 40, 2)
        scores = (truth[test] + rng.normal(size=(20, 10))).astype(np.float32)
        measured = {"average_precision": float(average_precision(truth[test], scores))}
        folds.append(FoldResult(fold, test, scores, (scores > 0.5).astype(np.uint8), measured, 0.1, 0.1, {}))
    store.add(made.result(folds, peak_bytes=1), RUN)
    return made, truth, folds


def test_metrics_asked_for_later_are_added_to_the_cell(store, judged):
    made, truth, folds = judged
    asked = dataclasses.replace(made, metrics=("average_precision", "ranking_loss"))
    store.add_metrics(asked, {**RUN, "run": "second"})
    store.add_metrics(asked, {**RUN, "run": "third"})
    assert store.measured() == {made.key: {"average_precision", "ranking_loss"}}
    kept = values(ResultStore(store.folder))
    assert len(kept) == len(values(store)) == 4
    for fold in folds:
        assert kept["Ridge", fold.fold, "average_precision"] == fold.values["average_precision"]
        assert kept["Ridge", fold.fold, "ranking_loss"] == pytest.approx(ranking_loss(truth[fold.test], fold.scores))
    (result,) = store.cells()
    assert (result.seconds_fit, result.seconds_predict, result.peak_bytes, result.device) == (0.2, 0.2, 1, "cpu")


def test_the_fake_cells_are_what_they_say():
    assert fake_cells.outcome(cell()).folds[0].values == fake_cells.outcome(cell()).folds[0].values
    assert len({each.key for each in fake_cells.experiment().cells()}) == 8
