"""Streams of many labels: verdicts from the cells that say something, the same as from a matrix of all of them."""

import json
from dataclasses import replace

import logs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score

from propml.auditing.crossfit import label_scores
from propml.auditing.noise import fit_noise
from propml.auditing.process import from_candidates
from propml.auditing.verdicts import give_verdicts
from propml.methods.many_labels import ManyLabelClassifier
from propml.streaming import judging, sample, stream_audit, summary
from propml.streaming.judging import Judge
from propml.targets import Candidates

READ = logs.READING | {"ignore": ["truth"]}


def rows_of_tags(n_rows, n_labels, seed=0, false=2):
    """Features of a row are those of its true label, one of the first sixty; candidates are that label and others."""
    rng = np.random.default_rng(seed)
    world = np.random.default_rng(7).normal(size=(n_labels, 12))
    true = rng.integers(60, size=n_rows)
    labels = np.column_stack([true, rng.integers(n_labels, size=(n_rows, false))])
    X = (world[true] + 0.1 * rng.normal(size=(n_rows, 12))).astype(np.float32)
    states = sp.csr_array((np.ones(labels.size), (np.repeat(np.arange(n_rows), false + 1), labels.ravel())),
                          shape=(n_rows, n_labels))  # fmt: skip
    states.data[:] = 1
    return X, Candidates.from_matrix(states.astype(np.int8)), true


@pytest.fixture(scope="module")
def fitted():
    X, given, _ = rows_of_tags(600, 60)
    return ManyLabelClassifier(hidden=(32,), epochs=20, random_state=0).fit(X, given)


@pytest.mark.parametrize("incomplete", [False, True])
def test_verdicts_on_cells_are_those_on_a_matrix_of_all_scores(fitted, incomplete):
    X, given, true = rows_of_tags(300, 60, seed=1)
    states = given.states.copy()
    if incomplete:  # every fifth row lost its true label
        states = states.tolil()
        states[np.arange(0, 300, 5), true[::5]] = 0
        states[3, 7] = -1
        given = Candidates.from_matrix(states.tocsr(), empty="ignore")
    dense = label_scores(fitted, X, 60)
    rates = replace(fit_noise(dense, given, 0.5), lost=np.full(60, 0.6 if incomplete else 0.0))
    expected = give_verdicts(from_candidates(dense, given, rates, incomplete), given, incomplete=incomplete)
    found = judging.judge_rows(fitted, rates, X, given, incomplete)
    for name in ("row", "label", "verdict"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    np.testing.assert_allclose(found.probability, expected.probability, atol=1e-4)
    assert {"drop", "keep"} <= set(found.verdict)
    assert ("missing" in found.verdict) == incomplete


def test_of_many_labels_only_the_best_may_be_missing(fitted, monkeypatch):
    X, given, _ = rows_of_tags(50, 60, seed=2)
    monkeypatch.setattr(judging, "BEST", 5)
    cells = judging.telling_cells(fitted, X, given.states, True)
    best = np.argsort(-fitted.decision_function(X), axis=1)[:, :5]
    for row in range(50):
        own = cells.indices[cells.indptr[row] : cells.indptr[row + 1]]
        assert set(own) == {*best[row], *given.states[[row]].indices}
    assert np.array_equal(cells.toarray(), given.to_matrix())


def test_noise_by_blocks_of_labels_is_nearly_that_of_all_at_once(tmp_path, monkeypatch):
    log = logs.write_log(tmp_path / "log")
    monkeypatch.setattr(sample, "MANY", 5)
    found = []
    for name, most in (("one", 10**7), ("blocks", 1000)):
        monkeypatch.setattr(judging, "NOISE_SCORES", most)
        stream_audit(log, str(tmp_path / name), reading=READ, noise=0.3, params={"epochs": 5})
        told = json.loads((tmp_path / name / "noise" / "part-00000.json").read_text())
        found.append({key: np.array(value) for key, value in told.items()})
    for name in ("share", "rate"):
        np.testing.assert_allclose(found[1][name], found[0][name], rtol=1e-9)
    for name in ("slope", "offset"):
        assert abs(found[1][name] - found[0][name]) < 0.5 * abs(found[0]["slope"]), name


def tagged(folder, n_rows, n_labels, **how):
    X, given, true = rows_of_tags(n_rows, n_labels, false=3)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    tags = [[f"tag {label:05d}" for label in row] for row in given.to_lists()]
    items = [f"item {i}" for i in range(n_rows)]
    return logs.write_log(folder, pa.table({"item": items, **columns, "tags": tags}), **how), true


def test_an_audit_of_thousands_of_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "MANY", 1000)
    monkeypatch.setattr(summary, "PAGE_ROWS", 50)
    monkeypatch.setattr(judging, "label_scores", lambda *_, **__: pytest.fail("all labels were scored"))
    log, true = tagged(tmp_path / "log", 1200, 2000)
    small = {"reading": logs.READING, "params": {"hidden": (32,), "epochs": 15, "effort": "fast"}, "noise": 0.7}
    found = stream_audit(log, str(tmp_path / "out"), **small)
    assert found.worst.settings["model"] == "ManyLabelClassifier"
    verdicts = pq.read_table(tmp_path / "out" / "verdicts").to_pylist()
    wrong = [int(row["label"][4:]) != true[int(row["item"][5:])] for row in verdicts]
    ranked = average_precision_score(wrong, [-row["probability"] for row in verdicts])
    assert ranked > np.mean(wrong) + 0.1
    # The page is about the labels that it shows, and the report about all of them.
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert len(found.worst.label_names) <= 200 < 1000 < len(report["labels"]["label"])
    assert "more labels lose most of their candidates" in report["notes"][-1]
    assert len(found.notes) < 30
    other, _ = tagged(tmp_path / "again", 1200, 2000, files=3, seed=1, group=100)
    stream_audit(other, str(tmp_path / "other"), **small)
    assert logs.rows_in(tmp_path / "other" / "verdicts") == logs.rows_in(tmp_path / "out" / "verdicts")


def test_a_judge_gives_verdicts_in_the_order_of_rows(fitted):
    X, given, _ = rows_of_tags(40, 60, seed=3)
    rates = fit_noise(label_scores(fitted, X, 60), given, 0.5)
    told = Judge(None, (fitted, fitted), rates, None).verdicts(X, given, 0, False)
    assert np.array_equal(told.row, np.sort(told.row))
    assert set(zip(told.row.tolist(), told.label.tolist(), strict=True)) == set(
        zip(*given.states.nonzero(), strict=True)
    )
