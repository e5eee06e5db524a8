"""``propml fit``, ``predict`` and ``evaluate`` with thousands of labels: the best of each row, and no matrix of all."""

import csv
import json
import tracemalloc

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from command_line import propml, told

from propml.auditing.model_card import read_model
from propml.cli import file_options
from propml.methods.many_labels import ManyLabelClassifier
from propml.metrics import ndcg_at_k, precision_at_k, psp_at_k
from propml.tables.dataset import true_labels
from propml.tables.files import read_table
from propml.tables.sources import open_table
from propml.targets import Candidates

READING = ("--candidates", "tags", "--ignore", "truth", "--id", "id")


def write_products(path, n_rows, n_labels, false, seed=0):
    """Features of a row are those of its two true labels of forty; every label is a candidate somewhere."""
    rng = np.random.default_rng(seed)
    world = np.random.default_rng(7).normal(size=(40, 8))
    true = np.column_stack([rng.integers(20, size=n_rows), 20 + rng.integers(20, size=n_rows)])
    X = world[true].sum(axis=1) + 0.1 * rng.normal(size=(n_rows, 8))
    others = 40 + np.arange(n_rows * false).reshape(n_rows, false) % (n_labels - 40)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", *(f"x{j}" for j in range(8)), "tags", "truth"])
        for row in range(n_rows):
            words = [";".join(f"t{label}" for label in labels) for labels in ([*true[row], *others[row]], true[row])]
            table.writerow([f"p{row}", *(f"{value:.3f}" for value in X[row]), *words])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of 2 500 labels, and rows that it never saw."""
    made = tmp_path_factory.mktemp("many")
    write_products(made / "new.csv", 90, 2500, 6, seed=5)
    done = propml("fit", write_products(made / "products.csv", 500, 2500, 6), *READING, "--out", made / "model",
                  "--quick")  # fmt: skip
    assert done.code == 0, done.err
    assert "2500 labels are many: --method many-labels is taken" in done.err
    return made


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def features_of(saved, path):
    return saved.features.apply(open_table(path))[0]


def test_the_card_says_how_many_labels_were_learned(folder):
    saved = read_model(folder / "model")
    assert isinstance(saved.model, ManyLabelClassifier)
    assert saved.card["method"] == "many-labels"
    assert (saved.card["data"]["labels"], len(saved.card["labels"])) == (2500, 2500)
    assert saved.card["lambda"] == {
        "used": saved.model.lam_, "chosen": "from the mean number of candidates in a row",
    }  # fmt: skip
    assert saved.card["thresholds"] is None
    assert saved.model.hidden == (64,)


def test_the_five_best_labels_with_their_probabilities(folder, here, monkeypatch):
    monkeypatch.setattr("propml.cli.models.BLOCK_ROWS", 40)
    assert propml("predict", folder / "model", folder / "new.csv", "--out", "p.csv").code == 0
    saved = read_model(folder / "model")
    labels, probabilities = saved.model.predict_top(features_of(saved, folder / "new.csv"), 5)
    with (here / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "predicted", "probability"]
    assert [row["predicted"].split(";") for row in rows] == [[saved.model.labels_[j] for j in own] for own in labels]
    given = np.array([[float(share) for share in row["probability"].split(";")] for row in rows])
    np.testing.assert_allclose(given, probabilities, rtol=1e-5)


@pytest.mark.parametrize("name", ["p.parquet", "p.json", "p.xlsx"])
def test_other_formats(folder, here, name):
    done = propml("predict", folder / "model", folder / "new.csv", "--out", name, "--top", 2)
    assert done.code == 0, done.err
    rows = open_table(here / name)
    predicted, shares = rows.cells("predicted")[0], rows.cells("probability")[0]
    if name == "p.xlsx":
        predicted, shares = predicted.split(";"), [float(share) for share in shares.split(";")]
    assert len(predicted) == len(shares) == 2
    assert shares[0] > shares[1]


def test_a_column_for_each_of_many_labels_is_refused(folder, here):
    said = told(propml("predict", folder / "model", folder / "new.csv", "--probabilities"))
    assert "has 2500 labels, and --probabilities makes a column of each; leave it out" in said


def test_metrics_of_the_top(folder, here):
    done = propml("evaluate", folder / "model", folder / "new.csv", "--truth", "truth", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    saved = read_model(folder / "model")
    source = open_table(folder / "new.csv")
    truth = true_labels(source, saved.model.labels_, "truth").states
    top, _ = saved.model.predict_top(features_of(saved, folder / "new.csv"), 5)
    train = read_table(folder / "products.csv", candidates="tags").candidates
    expected = {f"precision@{k}": precision_at_k(truth, top, k) for k in (1, 3, 5)}
    expected |= {"nDCG@5": ndcg_at_k(truth, top, 5), "psP@5": psp_at_k(truth, top, 5, train=train)}
    assert list(found["metrics"]) == list(expected)
    assert found["metrics"] == pytest.approx(expected, rel=1e-9)
    assert found["metrics"]["precision@1"] > 0.8
    assert found["counts"] == {"n_rows": 90, "n_rows_without_truth": 0}
    text = propml("evaluate", folder / "model", folder / "new.csv", "--truth", "truth").out
    assert f"precision@1        {100 * expected['precision@1']:6.2f} %" in text
    assert "90 rows, 0 of them without a true label" in text


def test_rows_and_labels_that_the_model_does_not_know(folder, here):
    (here / "new.csv").write_text((folder / "new.csv").read_text().rstrip() + ";lake\n")
    where = ("evaluate", folder / "model", "new.csv", "--truth", "truth")
    assert "has the label 'lake', which the model never saw" in told(propml(*where))
    assert json.loads(propml(*where, "--ignore-unseen", "--json").out)["counts"]["n_rows"] == 90
    no_truth = ("evaluate", folder / "model", "new.csv", "--truth", "id", "--sep", "none", "--ignore-unseen")
    assert "no row has a true label that the model knows" in told(propml(*no_truth))


def test_a_method_that_makes_a_matrix_is_refused_where_that_is_too_large(folder, here, monkeypatch):
    monkeypatch.setattr("propml.cli.models.MOST_CELLS", 10**6)
    said = told(propml("fit", folder / "products.csv", *READING, "--method", "ridge"))
    assert (
        "--method ridge makes a matrix of 500 rows × 2500 labels, which is too large; give --method many-labels" in said
    )
    assert not (here / "model").exists()


@pytest.mark.slow
def test_no_matrix_of_rows_and_labels_is_made(here, monkeypatch):
    """600 × 200 000 scores would be 960 MB in double precision; the card of so many labels takes 200 MB at its peak."""
    n_labels = 200_000
    monkeypatch.setitem(file_options.QUICK, "hidden", (8,))
    monkeypatch.setattr("propml.methods.many_labels.STEPS", 1)
    monkeypatch.setattr("propml.neural.many_labels.BLOCK_LOGITS", 10 * n_labels)
    for kind in (sp.csr_array, sp.csc_array, sp.coo_array):
        dense = kind.toarray
        monkeypatch.setattr(
            kind, "toarray", lambda own, *how, _to=dense, **more: _small(own, n_labels) and _to(own, *how, **more)
        )
    for name in ("to_matrix", "__array__"):
        monkeypatch.setattr(Candidates, name, lambda *_, **__: pytest.fail("candidates became a matrix"))
    for name in ("predict_proba", "decision_function", "predict"):
        monkeypatch.setattr(ManyLabelClassifier, name, lambda *_: pytest.fail("all labels of all rows were scored"))
    write_products(here / "wide.csv", 600, n_labels, 335)
    tracemalloc.start()
    try:
        assert propml("fit", "wide.csv", *READING, "--quick").code == 0
        assert propml("predict", "model", "wide.csv", "--out", "p.parquet").code == 0
        assert propml("evaluate", "model", "wide.csv", "--truth", "truth").code == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(pq.read_table(here / "p.parquet")) == 600
    assert len(read_model(here / "model").model.labels_) == n_labels
    assert peak < 600 * n_labels * 8 / 2


def _small(matrix, n_labels):
    assert matrix.shape[0] < 2 or matrix.shape[-1] < n_labels, "a sparse matrix of labels became a dense one"
    return True
