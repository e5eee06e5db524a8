"""Models of streams: fitted on a sample, and taken to every row with the results that they have in memory."""

import json

import logs
import numpy as np
import pyarrow.parquet as pq
import pytest

from propml.auditing.model_card import read_model
from propml.cli.file_options import Running
from propml.methods.registry import method_class
from propml.metrics import evaluate
from propml.streaming import stream_evaluate, stream_fit, stream_predict
from propml.tables.dataset import true_labels
from propml.tables.sources import open_table

READ = logs.READING | {"ignore": ["truth"]}
TRUTH = {"candidates": "truth", "sep": ";"}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model of the log in three files."""
    base = tmp_path_factory.mktemp("fitted")
    log = logs.write_log(base / "log", files=3, seed=4, group=60)
    return base, log, stream_fit(log, base / "model", method_class("ridge")(), reading=READ)


def test_a_model_of_the_sample_is_a_model_like_any_other(fitted):
    base, _, told = fitted
    saved = read_model(base / "model")
    assert saved.card["settings"]["sample"]["rows_drawn"] == told.sample["rows_drawn"] == 300
    assert saved.card["data"]["rows"] == 300
    assert (base / "model" / "stream" / "sample.parquet").is_file()


def test_a_fit_learns_from_the_same_rows_in_any_order(fitted, tmp_path):
    base, _, _ = fitted
    other = logs.write_log(tmp_path / "log", files=2, seed=9)
    stream_fit(other, tmp_path / "model", method_class("ridge")(), reading=READ)
    first, second = (read_model(folder / "model").model for folder in (base, tmp_path))
    X = np.random.default_rng(0).normal(size=(5, first.n_features_in_))
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))


def test_predictions_are_those_in_memory(fitted, tmp_path):
    base, log, _ = fitted
    assert stream_predict(base / "model", log, str(tmp_path / "all"), probabilities=True, reading={"id_column": "item"})
    stream_predict(base / "model", log, str(tmp_path / "top"), top=2, reading={"id_column": "item"})
    saved = read_model(base / "model")
    source = open_table(log)
    X, _ = saved.features.apply(source)
    proba = saved.model.predict_proba(X)
    labels = np.array([str(label) for label in saved.model.labels_])
    order = np.argsort(-proba, axis=1, kind="stable")
    rows = pq.read_table(tmp_path / "all" / "predictions").to_pylist()
    assert [row["item"] for row in rows] == source.cells("item")
    given = np.array([[row[f"p({label})"] for label in labels] for row in rows])
    np.testing.assert_allclose(given, proba, rtol=1e-5)
    above = saved.model.predict(X).astype(bool)
    assert [row["predicted"] for row in rows] == [
        [str(labels[j]) for j in own if above[i, j]] for i, own in enumerate(order)
    ]
    best = pq.read_table(tmp_path / "top" / "predictions")["predicted"].to_pylist()
    assert best == labels[order[:, :2]].tolist()


def test_predictions_do_not_depend_on_partitioning_and_finished_parts_stay(fitted, tmp_path):
    base, log, _ = fitted
    other = logs.write_log(tmp_path / "log", files=1)
    for name, data in (("a", log), ("b", other)):
        stream_predict(base / "model", data, str(tmp_path / name), probabilities=True, reading={"id_column": "item"})
    assert logs.rows_in(tmp_path / "a" / "predictions") == logs.rows_in(tmp_path / "b" / "predictions")
    first, *others = sorted((tmp_path / "a" / "predictions").iterdir())
    kept = {path: path.stat().st_mtime_ns for path in others}
    content = first.read_bytes()
    first.unlink()
    stream_predict(base / "model", log, str(tmp_path / "a"), probabilities=True, reading={"id_column": "item"})
    assert {path: path.stat().st_mtime_ns for path in others} == kept
    assert first.read_bytes() == content
    with pytest.raises(ValueError, match="holds a run of something else: its settings differs"):
        stream_predict(base / "model", log, str(tmp_path / "a"), top=1, reading={"id_column": "item"})


def test_metrics_are_those_in_memory(fitted):
    base, log, _ = fitted
    saved, source = read_model(base / "model"), open_table(log)
    X, _ = saved.features.apply(source)
    truth = true_labels(source, saved.model.labels_, "truth").states
    expected = evaluate(truth, saved.model.predict_proba(X), saved.model.predict(X))
    found = stream_evaluate(base / "model", log, reading=TRUTH)
    assert found.counts() == expected.counts()
    assert abs(found["mAP"] - expected["mAP"]) < 2e-3
    for name in set(expected) - {"mAP"}:
        assert found[name] == pytest.approx(expected[name], rel=1e-9), name


def test_labels_that_the_model_never_saw_and_models_without_columns(fitted, tmp_path):
    base, log, _ = fitted
    few = logs.write_log(tmp_path / "few", logs.tag_log(60).drop_columns(["colour"]))
    with pytest.raises(ValueError, match="has no column 'colour'"):
        stream_predict(base / "model", few, str(tmp_path / "out"), reading={"id_column": "item"})
    with pytest.raises(
        ValueError, match=r"column 'colour' has the label 'green', which the model never saw; remove it"
    ):
        stream_evaluate(base / "model", log, reading={"candidates": "colour", "sep": ";"})
    with pytest.raises(ValueError, match="no row has a true label that the model knows"):
        stream_evaluate(base / "model", log, reading={"candidates": "colour", "sep": ";"}, ignore_unseen=True)


@pytest.mark.slow
def test_the_command_line(fitted, tmp_path):
    from command_line import propml, told

    base, log, _ = fitted
    model, out = base / "model", tmp_path / "out"
    done = propml("predict", model, log, "--stream", "--id", "item", "--out", out)
    assert done.code == 0, done.err
    assert "300 rows" in done.out
    assert len(pq.read_table(out / "predictions")) == 300
    done = propml("evaluate", model, f"file://{log}", "--truth", "truth", "--json")  # a URL is streamed
    assert json.loads(done.out)["counts"]["n_rows"] == 300, done.err
    where = ("--candidates", "tags", "--id", "item", "--ignore", "truth", "--stream")
    done = propml("fit", log, *where, "--method", "ridge", "--out", tmp_path / "model")
    assert "learned from 300 of 300 rows" in done.out, done.err
    done = propml("audit", log, *where, "--quick", "--train-rows", "50", "--out", tmp_path / "audit")
    assert done.code == 0, done.err
    assert "300 items" in done.out
    assert (tmp_path / "audit" / "review.html").is_file()
    (tmp_path / "decisions.csv").write_text("item,label,verdict,decision\nphoto 0001,digit 3,,keep\n")
    decisions = (tmp_path / "decisions.csv", "--out", tmp_path / "audit")
    done = propml("audit", "--apply", *decisions)
    assert "1 verdicts decided" in done.out, done.err
    assert len(pq.read_table(tmp_path / "audit" / "reviewed")) == 300
    assert "give the decisions to --apply" in told(propml("audit", "--again", *decisions))
    assert "--votes does not go with --stream" in told(propml("audit", log, *where, "--votes", "v.csv"))
    assert "give a number of rows" in told(propml("audit", log, *where, "--train-rows", "0", "--out", tmp_path / "x"))


def test_when_rows_are_streamed():
    assert Running(stream=True).streams("logs")
    assert Running(ray_address="local").streams("logs")
    assert Running().streams("s3://bucket/logs")
    assert not Running(device="cuda").streams("logs")
    with pytest.raises(ValueError, match="a stream is worked on by CPUs, and --device is cuda; leave it out"):
        Running(device="cuda", stream=True).streams("logs")
