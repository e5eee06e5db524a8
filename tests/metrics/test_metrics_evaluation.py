"""All metrics at once equal the metrics one by one, and the counts are those of the data."""

import numpy as np
import pytest
from scipy.io import loadmat
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.model_selection import KFold

from propml import metrics
from propml.metrics import METRICS, evaluate


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    truth = (rng.random((80, 9)) < 0.3).astype(int)
    truth[:4], truth[4], truth[:, 8] = 0, 1, 0
    truth[4, 8] = 1
    return truth, np.round(rng.random((80, 9)) * 0.5 + 0.4 * truth, 2).astype(np.float32)


def test_equals_the_metrics_one_by_one(case):
    truth, scores = case
    found = evaluate(truth, scores)
    f1 = metrics.f1_scores(truth, metrics.predict_threshold(scores))
    top = metrics.f1_scores(truth, metrics.predict_top_k(scores, 3))
    expected = {
        "average_precision": metrics.average_precision(truth, scores),
        "coverage": metrics.coverage(truth, scores),
        "hamming_loss": metrics.hamming_loss(truth, metrics.predict_threshold(scores)),
        "ranking_loss": metrics.ranking_loss(truth, scores),
        "one_error": metrics.one_error(truth, scores),
        "mAP": metrics.mean_average_precision(truth, scores).value,
        "CF1": f1.CF1,
        "OF1": f1.OF1,
        "CF1@3": top.CF1,
        "OF1@3": top.OF1,
    }
    assert dict(found) == pytest.approx(expected)
    assert list(found) == list(METRICS)
    assert len(found) == len(METRICS) == 10


def test_paper_mode_equals_the_paper_functions(case):
    truth, scores = case
    for method in (None, "ML-kNN", "CPLST"):
        found = evaluate(truth, scores, paper=True, method=method)
        expected = {
            "average_precision": metrics.average_precision(truth, scores, ties="last"),
            "coverage": metrics.coverage(truth, scores, rows="all", ties="last"),
            "hamming_loss": metrics.paper_hamming_loss(truth, scores, method),
            "ranking_loss": metrics.ranking_loss(truth, scores, ties="worst"),
            "one_error": metrics.one_error(truth, scores, ties="best"),
            "mAP": metrics.paper_mean_average_precision(truth, scores).value,
        } | metrics.paper_f1(truth, scores)
        assert dict(found) == pytest.approx(expected)


def test_predictions_and_thresholds_are_used(case):
    truth, scores = case
    perfect = evaluate(truth, scores, truth)
    assert (perfect["hamming_loss"], perfect["CF1"], perfect["OF1"]) == (0, 1, 1)
    assert perfect["CF1@3"] == evaluate(truth, scores)["CF1@3"]  # top 3 looks at the scores
    high = np.linspace(0.3, 0.7, 9)
    expected = metrics.hamming_loss(truth, metrics.predict_threshold(scores, high))
    assert evaluate(truth, scores, threshold=high)["hamming_loss"] == expected
    assert evaluate(truth, scores, truth, paper=True)["hamming_loss"] == 0
    with pytest.raises(ValueError, match=r"and predicted \(2, 9\)"):
        evaluate(truth, scores, truth[:2])


def test_counts(case):
    truth, scores = case
    truth[4, 8] = 0  # now class 8 is absent, and no row is full
    empty = int((truth.sum(axis=1) == 0).sum())
    found = evaluate(truth, scores)
    tied = sum(
        any(t and not u and s == r for t, s in zip(true, row, strict=True) for u, r in zip(true, row, strict=True))
        for true, row in zip(truth.tolist(), scores.tolist(), strict=True)
    )
    assert found.counts() == {
        "n_rows": 80,
        "n_valid_rows": 80 - empty,
        "n_rows_without_truth": empty,
        "n_tied_rows": tied,
        "n_absent_classes": 1,
    }
    assert tied > 0
    assert f"{empty} of them without a true label, {80 - empty} valid, {tied} with ties" in str(found)
    assert f"One-error          {100 * found['one_error']:6.2f} %" in str(found)


def test_no_value_is_nan(case):
    truth, scores = case
    for paper in (False, True):
        assert all(np.isfinite(value) for value in evaluate(truth, scores, np.zeros_like(truth), paper=paper).values())


def test_fewer_than_three_labels():
    found = evaluate([[1, 0], [0, 1]], [[0.9, 0.1], [0.8, 0.7]])
    assert found["OF1@3"] == pytest.approx(2 * 0.5 / 1.5)  # both labels of both rows are predicted
    assert found["one_error"] == 0.5


def test_truth_without_labels_is_an_error():
    with pytest.raises(ValueError, match=r"average precision .* none of the 3 rows"):
        evaluate(np.zeros((3, 4)), np.ones((3, 4)))


def test_directions():
    worse = {name for name, metric in METRICS.items() if not metric.higher_is_better}
    assert worse == {"coverage", "hamming_loss", "ranking_loss", "one_error"}
    assert all(metric.title for metric in METRICS.values())


def test_names_are_those_of_the_published_tables():
    tabular = {"average_precision", "coverage", "hamming_loss", "ranking_loss", "one_error"}
    assert tabular | {"mAP", "CF1", "OF1"} <= set(METRICS)


def test_ridge_on_mirflickr_moves_with_the_tie_rule(data_dir):
    """Two labels have the same candidate column, so ridge ties them: known values of this set, 5 folds, in percent."""
    content = loadmat(data_dir / "pml" / "mirflickr.mat")
    features = content["data"].astype(float)
    features = 2 * (features - features.min(0)) / np.maximum(np.ptp(features, axis=0), 1e-12) - 1
    features = np.hstack([features, np.ones((len(features), 1))])
    candidates, truth = content["partial_labels"].T.astype(float), content["target"].T.astype(int)
    scores = np.zeros(truth.shape)
    for train, test in KFold(5, shuffle=True, random_state=0).split(features):
        gram = features[train].T @ features[train] + 10 * np.eye(features.shape[1])
        # All columns at once: scores of labels with equal candidates then differ in their last bits.
        scores[test] = features[test] @ np.linalg.solve(gram, features[train].T @ candidates[train])
    found = evaluate(truth, scores, paper=True)
    assert 100 * found["average_precision"] == pytest.approx(78.5, abs=0.2)
    assert 100 * label_ranking_average_precision_score(truth, scores.astype(np.float32)) == pytest.approx(73.4, abs=0.2)
    assert 100 * found["one_error"] == pytest.approx(19.3, abs=0.2)
    assert 100 * metrics.one_error(truth, scores, ties="first") == pytest.approx(28.4, abs=0.2)
    assert found.n_tied_rows > 2500
