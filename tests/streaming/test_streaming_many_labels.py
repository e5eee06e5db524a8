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
from propml.auditing.model_card import read_model
from propml.auditing.noise import fit_noise
from propml.auditing.process import from_candidates
from propml.auditing.verdicts import give_verdicts
from propml.methods.many_labels import ManyLabelClassifier
from propml.metrics import ndcg_at_k, precision_at_k, psp_at_k
from propml.streaming import judging, sample, stream_audit, stream_evaluate, stream_fit, stream_predict, summary
from propml.streaming.judging import Judge, top_labels
from propml.streaming.models import top_evaluation, top_sums
from propml.tables.dataset import true_labels
from propml.tables.files import read_table
from propml.tables.sources import open_table
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


def tagged(folder, n_rows, n_labels, with_truth=False, **how):
    X, given, true = rows_of_tags(n_rows, n_labels, false=3)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    tags = [[f"tag {label:05d}" for label in row] for row in given.to_lists()]
    items = [f"item {i}" for i in range(n_rows)]
    # Every seventh row has no true label.
    truth = {"truth": [[f"tag {label:05d}"] if i % 7 else [] for i, label in enumerate(true)]} if with_truth else {}
    return logs.write_log(folder, pa.table({"item": items, **columns, "tags": tags, **truth}), **how), true


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


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of a log of 2 000 labels; the log."""
    base = tmp_path_factory.mktemp("many")
    log, _ = tagged(base / "log", 900, 2000, with_truth=True, files=2, group=100)
    asked = []

    def network(candidates):
        asked.append(candidates.shape)
        return ManyLabelClassifier(hidden=(32,), epochs=10, random_state=0)

    stream_fit(log, base / "model", network, reading=READ)
    assert asked == [(900, len(read_model(base / "model").model.labels_))]
    return base / "model", log


def test_predictions_are_the_best_labels_in_memory(model, tmp_path, monkeypatch):
    monkeypatch.setattr(ManyLabelClassifier, "predict_proba", lambda *_: pytest.fail("all labels were scored"))
    stream_predict(*model, str(tmp_path / "a"), reading={"id_column": "item"})
    saved, source = read_model(model[0]), open_table(model[1])
    labels, probabilities = saved.model.predict_top(saved.features.apply(source)[0], 5)
    rows = pq.read_table(tmp_path / "a" / "predictions").to_pylist()
    assert [row["item"] for row in rows] == source.cells("item")
    assert [row["predicted"] for row in rows] == [[saved.model.labels_[j] for j in own] for own in labels]
    np.testing.assert_allclose([row["probability"] for row in rows], probabilities, rtol=1e-4)
    # The same bits wherever a row stands, and however many logits fit into a block.
    other, _ = tagged(tmp_path / "again", 900, 2000, with_truth=True, files=3, seed=1)
    monkeypatch.setattr("propml.neural.many_labels.BLOCK_LOGITS", 700 * 2000)
    stream_predict(model[0], other, str(tmp_path / "b"), reading={"id_column": "item"})
    assert logs.rows_in(tmp_path / "b" / "predictions") == logs.rows_in(tmp_path / "a" / "predictions")
    stream_predict(*model, str(tmp_path / "two"), top=2, reading={"id_column": "item"})
    best = pq.read_table(tmp_path / "two" / "predictions")["predicted"].to_pylist()
    assert best == [row["predicted"][:2] for row in rows]
    with pytest.raises(ValueError, match="labels, and probabilities=True makes a column of each; leave it out"):
        stream_predict(*model, str(tmp_path / "c"), probabilities=True, reading={"id_column": "item"})
    assert not (tmp_path / "c").exists()


def test_metrics_of_the_top_are_those_in_memory(model, monkeypatch):
    monkeypatch.setattr(ManyLabelClassifier, "predict_proba", lambda *_: pytest.fail("all labels were scored"))
    monkeypatch.setattr("propml.streaming.folders.BATCH_ROWS", 128)
    found = stream_evaluate(*model, reading={"candidates": "truth", "sep": ";"})
    saved, source = read_model(model[0]), open_table(model[1])
    truth = true_labels(source, saved.model.labels_, "truth").states
    top, _ = top_labels(saved.model, saved.features.apply(source)[0], 5)
    train = read_table(model[1], candidates="tags").candidates
    expected = {f"precision@{k}": precision_at_k(truth, top, k) for k in (1, 3, 5)}
    expected |= {"nDCG@5": ndcg_at_k(truth, top, 5), "psP@5": psp_at_k(truth, top, 5, train=train)}
    assert dict(found) == pytest.approx(expected, rel=1e-9)
    assert found["precision@1"] > 0.5
    assert found.counts() == {"n_rows": 900, "n_rows_without_truth": 129}


def test_propensities_of_rows_with_more_true_labels_than_are_looked_at():
    rng = np.random.default_rng(0)
    truth, train = (sp.csr_array(rng.random((200, 12)) < share, dtype=np.int8) for share in (0.6, rng.random(12)))
    top = np.argsort(rng.random((200, 12)), axis=1)[:, :5]
    counts = np.asarray(train.sum(axis=0)).ravel().tolist()
    card = {"data": {"rows": 200}, "labels": [{"candidate_in_rows": count} for count in counts]}
    found = top_evaluation(top_sums(truth, top, card))
    assert found["psP@5"] == pytest.approx(psp_at_k(truth, top, 5, train=train), rel=1e-12)
    assert set(top_sums(truth, top[:, :3], card)) >= {"precision@1", "precision@3", "nDCG@3", "psP@3"}
