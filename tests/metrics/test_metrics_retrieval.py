"""mAP against a hand-worked example, loops and scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from metrics_by_loops import class_average_precision
from sklearn.metrics import average_precision_score

from propml.metrics import mean_average_precision

TRUTH = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]])
SCORES = np.array([[0.9, 0.5, 0.1], [0.9, 0.5, 0.2], [0.1, 0.5, 0.3], [0.3, 0.5, 0.4]])
# class 0: images 0 and 1 tie at the top, then 3, 2; class 1: all tie, images 1 and 3 are positive; class 2 is absent
BY_HAND = {
    "first": [(1 / 1 + 2 / 4) / 2, (1 / 2 + 2 / 4) / 2],
    "last": [(1 / 2 + 2 / 4) / 2, (1 / 1 + 2 / 3) / 2],
    "best": [(1 / 1 + 2 / 4) / 2, 1.0],
    "worst": [(1 / 2 + 2 / 4) / 2, (1 / 3 + 2 / 4) / 2],
}


@pytest.mark.parametrize("order", BY_HAND)
def test_by_hand(order):
    found = mean_average_precision(TRUTH, SCORES, ties=order)
    assert found.per_class == pytest.approx(BY_HAND[order])
    assert found.classes.tolist() == [0, 1]
    assert found.value == float(found) == pytest.approx(np.mean(BY_HAND[order]))
    assert (found.n_absent_classes, found.n_tied_classes) == (1, 2)


def test_mean_and_paper_rules():
    mean = mean_average_precision(TRUTH, SCORES)
    assert mean.per_class == pytest.approx(np.mean([BY_HAND["first"], BY_HAND["last"]], axis=0))
    assert mean_average_precision(TRUTH, SCORES, ties="paper").per_class == pytest.approx(BY_HAND["last"])


def test_absent_classes_may_count_as_zero():
    found = mean_average_precision(TRUTH, SCORES, ties="first", absent="zero")
    assert found.value == pytest.approx(sum(BY_HAND["first"]) / 3)
    assert found.classes.tolist() == [0, 1, 2]
    assert found.n_absent_classes == 1


@pytest.mark.parametrize("seed", range(3))
def test_equals_scikit_learn_without_ties(seed):
    rng = np.random.default_rng(seed)
    truth, scores = rng.random((50, 6)) < 0.3, rng.random((50, 6))
    expected = [average_precision_score(truth[:, c], scores[:, c]) for c in range(6)]
    assert mean_average_precision(truth, scores).per_class == pytest.approx(expected)
    assert mean_average_precision(truth, scores).value == pytest.approx(average_precision_score(truth, scores))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", BY_HAND)
def test_equals_loops_with_ties_in_any_block(order, dtype, monkeypatch):
    rng = np.random.default_rng(7)
    truth, scores = rng.random((40, 5)) < 0.4, rng.integers(0, 6, (40, 5)).astype(dtype)
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 90)  # two classes at a time
    expected = [class_average_precision(truth.tolist(), scores.tolist(), c, order) for c in range(5)]
    assert mean_average_precision(truth, scores, ties=order).per_class == pytest.approx(expected)
    assert mean_average_precision(sp.csr_array(truth), scores, ties=order).per_class == pytest.approx(expected)


def test_errors():
    with pytest.raises(ValueError, match="mAP is undefined: none of the 4 rows has a true label"):
        mean_average_precision(np.zeros_like(TRUTH), SCORES)
    with pytest.raises(ValueError, match="absent is 'one'"):
        mean_average_precision(TRUTH, SCORES, absent="one")
    with pytest.raises(ValueError, match="ties is 'none'"):
        mean_average_precision(TRUTH, SCORES, ties="none")
