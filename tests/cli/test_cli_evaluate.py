"""``propml evaluate`` judges a model by true labels."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import LABELS, propml, told, write_photos

from propml.auditing.model_card import read_model
from propml.metrics import METRICS
from propml.metrics import evaluate as all_metrics
from propml.tables.sources import open_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("evaluate")
    write_photos(made / "photos.csv", n=200)
    done = propml("fit", made / "photos.csv", "--candidates", "tags", "--ignore", "truth", "--id", "id",
                  "--method", "ridge", "--out", made / "model")  # fmt: skip
    assert done.code == 0, done.err
    return made


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "test.csv", n=60, seed=9)
    return tmp_path


def test_all_metrics_as_json(folder, here):
    done = propml("evaluate", folder / "model", "test.csv", "--truth", "truth", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert list(found["metrics"]) == list(METRICS)
    source = open_table(here / "test.csv")
    true = np.array([[label in cell.split(";") for label in LABELS] for cell in source.cells("truth")], dtype=int)
    saved = read_model(folder / "model")
    X, _ = saved.features.apply(source)
    expected = all_metrics(true, saved.model.predict_proba(X), saved.model.predict(X))
    assert found["metrics"] == pytest.approx(dict(expected))
    assert found["counts"]["n_rows"] == 60
    assert found["metrics"]["average_precision"] > 0.8


def test_a_table_to_read(folder, here):
    done = propml("evaluate", folder / "model", "test.csv", "--truth", "truth")
    assert done.code == 0
    assert "Average precision" in done.out
    assert "60 rows" in done.out


def test_columns_of_0_and_1_by_the_names_of_the_labels(folder, here):
    source = open_table(here / "test.csv")
    columns = {name: source.cells(name) for name in ("a", "b", "c", "camera")}
    flags = {label: [int(label in cell.split(";")) for cell in source.cells("truth")] for label in LABELS}
    pq.write_table(pa.table({**columns, **flags}), here / "test.parquet")
    one = propml("evaluate", folder / "model", "test.csv", "--truth", "truth", "--json")
    two = propml("evaluate", folder / "model", "test.parquet", "--label-columns", ",".join(LABELS), "--json")
    assert json.loads(one.out) == json.loads(two.out)
    pq.write_table(pa.table({**columns, **flags, "lake": [1] * 60}), here / "test.parquet")
    asked = ("evaluate", folder / "model", "test.parquet", "--label-columns", ",".join([*LABELS, "lake"]), "--json")
    assert "row 0, column 'lake' has the label 'lake', which the model never saw" in told(propml(*asked))
    assert json.loads(propml(*asked, "--ignore-unseen").out) == json.loads(one.out)


def test_a_label_never_seen_in_training(folder, here):
    text = (here / "test.csv").read_text()
    (here / "test.csv").write_text(text.replace("p3,", "p3,", 1).rstrip("\n") + ";lake\n")
    sentence = told(propml("evaluate", folder / "model", "test.csv", "--truth", "truth"))
    assert "row 59 (line 61), column 'truth' has the label 'lake', which the model never saw in training" in sentence
    done = propml("evaluate", folder / "model", "test.csv", "--truth", "truth", "--ignore-unseen", "--json")
    assert done.code == 0
    assert json.loads(done.out)["counts"]["n_rows"] == 60


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "say where the true labels are"),
        (("--truth", "answer"), "has no column 'answer'"),
        (("--truth", "truth", "--sep", "|"), "';' in"),
        (("--truth", "truth", "--xml", "test.xml"), "is no ARFF file"),
        (("--truth", "truth", "--device", "cpu"), "--device is for networks, and the model in"),
        (("--truth", "camera", "--sep", "none", "--ignore-unseen"), "no row has a true label that the model knows"),
    ],
)
def test_a_mistake_is_one_sentence(folder, here, options, sentence):
    assert sentence in told(propml("evaluate", folder / "model", "test.csv", *options))


def test_matrix_files_carry_their_truth(here):
    rng = np.random.default_rng(0)
    X, true = rng.normal(size=(50, 3)), np.eye(2, dtype=int)[rng.integers(2, size=50)]
    np.savez(here / "d.npz", X=X, candidates=true, truth=true, label_names=["u", "v"])
    assert propml("fit", "d.npz", "--method", "ridge").code == 0
    found = json.loads(propml("evaluate", "model", "d.npz", "--json").out)
    saved = read_model(here / "model")
    assert found["metrics"] == pytest.approx(
        dict(all_metrics(true, saved.model.predict_proba(X), saved.model.predict(X)))
    )
    assert "has no columns to name" in told(propml("evaluate", "model", "d.npz", "--truth", "t"))
    np.savez(here / "bare.npz", X=X)
    assert "holds no true labels" in told(propml("evaluate", "model", "bare.npz"))


def test_an_unknown_true_label_is_told(folder, here):
    columns = {name: open_table(here / "test.csv").cells(name) for name in ("a", "b", "c", "camera")}
    flags = {label: [1] * 60 for label in LABELS} | {"night": [1] * 7 + [-1] + [0] * 52}
    pq.write_table(pa.table({**columns, **flags}), here / "test.parquet")
    asked = ("evaluate", folder / "model", "test.parquet", "--label-columns", ",".join(LABELS))
    assert "test.parquet: row 7, column 'night': label 'night' is unknown (-1)" in told(propml(*asked))
    X, true = np.arange(8.0).reshape(4, 2), np.array([[1, 0], [0, 1], [1, 1], [1, 0]])
    np.savez(here / "d.npz", X=X, candidates=true, label_names=["u", "v"])
    assert propml("fit", "d.npz", "--method", "ridge").code == 0
    np.savez(here / "d.npz", X=X, truth=np.where(true, true, [[0, -1]]), label_names=["u", "v"])
    assert "d.npz: row 0: label 'v' is unknown (-1)" in told(propml("evaluate", "model", "d.npz"))
    np.savez(here / "d.npz", X=X, truth=true, label_names=["u", "v"])
    assert "has no columns to name" in told(propml("evaluate", "model", "d.npz", "--xml", "d.xml"))


def test_one_label_cannot_be_ranked(here):
    ones = np.ones((3, 1), dtype=int)
    np.savez(here / "d.npz", X=np.arange(6.0).reshape(3, 2), candidates=ones, truth=ones)
    assert propml("fit", "d.npz", "--method", "ridge").code == 0
    assert "none of the 3 rows has both a true and a false label" in told(propml("evaluate", "model", "d.npz"))


def test_in_a_process_of_its_own(folder, here):
    code = "from propml.cli import main; main()"
    words = ["evaluate", str(folder / "model"), "test.csv", "--truth", "truth", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=here,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["n_rows"] == 60
