"""Hamming loss, the F1 family and the decision rules against hand-worked examples, loops and scikit-learn."""

from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as sklearn_metrics

from propml.metrics import example_f1, f1_scores, hamming_loss, predict_threshold, predict_top_k

# class 0: true 2, predicted 1, both 1; class 1: 1, 2, 1; class 2 is absent, predicted once; class 3: 1, 0, 0
TRUTH = np.array([[1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]])
PREDICTED = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 0]])

binary = hnp.arrays(np.int8, (6, 4), elements=st.integers(0, 1))


def test_hamming_loss_by_hand():
    assert hamming_loss(TRUTH, PREDICTED) == pytest.approx(4 / 12)
    assert hamming_loss(TRUTH, TRUTH) == 0
    assert hamming_loss(TRUTH, 1 - TRUTH) == 1


def test_f1_by_hand():
    f = f1_scores(TRUTH, PREDICTED)
    # precision 1, 1/2, 0 and recall 1/2, 1, 0 over the three classes present; class F1 2/3, 2/3, 0
    by_class = {"CP": 1 / 2, "CR": 1 / 2, "CF1": 1 / 2, "macro_f1": 4 / 9}
    # the false positive of the absent class counts: 2 of 4 predicted are true, 2 of 4 true are predicted
    overall = {"OP": 2 / 4, "OR": 2 / 4, "OF1": 1 / 2}
    assert asdict(f) == pytest.approx(by_class | overall | {"n_absent_classes": 1})
    assert f.micro_f1 == f.OF1


def test_absent_classes_may_count_as_zero():
    f = f1_scores(TRUTH, PREDICTED, absent="zero")
    assert [f.CP, f.CR, f.macro_f1] == pytest.approx([3 / 8, 3 / 8, 1 / 3])
    assert f.n_absent_classes == 1


def test_class_f1_is_not_the_mean_of_the_f1_of_classes():
    # precision 1 and 1/3, recall 1/2 and 1
    truth, predicted = [[1, 1], [1, 0], [0, 0]], [[1, 1], [0, 1], [0, 1]]
    f = f1_scores(truth, predicted)
    expected = {"CP": 2 / 3, "CR": 3 / 4, "CF1": 12 / 17, "macro_f1": (2 / 3 + 1 / 2) / 2}
    assert {name: getattr(f, name) for name in expected} == pytest.approx(expected)


def test_no_prediction_at_all_is_zero_not_nan():
    f = f1_scores(TRUTH, np.zeros_like(TRUTH))
    assert (f.CP, f.CR, f.CF1, f.OP, f.OR, f.OF1, f.macro_f1) == (0,) * 7


def test_no_truth_at_all_is_an_error():
    with pytest.raises(ValueError, match="none of the 3 rows has a true label"):
        f1_scores(np.zeros_like(TRUTH), PREDICTED)
    with pytest.raises(ValueError, match="absent is 'nan'"):
        f1_scores(TRUTH, PREDICTED, absent="nan")


@given(truth=binary, predicted=binary)
def test_equals_scikit_learn(truth, predicted):
    truth[0, 0] = 1
    assert hamming_loss(truth, predicted) == pytest.approx(sklearn_metrics.hamming_loss(truth, predicted))
    f = f1_scores(truth, predicted, absent="zero")
    options = {"average": "macro", "zero_division": 0}
    expected = [
        sklearn_metrics.f1_score(truth, predicted, **options),
        sklearn_metrics.precision_score(truth, predicted, **options),
        sklearn_metrics.recall_score(truth, predicted, **options),
        sklearn_metrics.f1_score(truth, predicted, average="micro", zero_division=0),
    ]
    assert [f.macro_f1, f.CP, f.CR, f.OF1] == pytest.approx(expected)
    present = truth.any(axis=0)
    skipped = f1_scores(truth, predicted)
    assert skipped.macro_f1 == pytest.approx(f1_scores(truth[:, present], predicted[:, present]).macro_f1)
    assert skipped.n_absent_classes == (~present).sum()


def test_sparse_and_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    truth, predicted = rng.random((2, 40, 6)) < 0.3
    expected = f1_scores(truth, predicted)
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 30)
    assert f1_scores(sp.csr_array(truth), sp.csc_matrix(predicted)) == expected


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_threshold_is_strict_and_may_differ_by_label():
    scores = np.array([[0.5, 0.6, 0.4]])
    assert predict_threshold(scores).tolist() == [[0, 1, 0]]
    assert predict_threshold(scores, [0.4, 0.6, 0.3]).tolist() == [[1, 0, 1]]
    assert predict_threshold(scores.astype(np.float32), 0.6).tolist() == [[0, 0, 0]]  # 0.6 in float32 is above 0.6


@given(
    scores=hnp.arrays(np.float32, (4, 6), elements=st.integers(-2, 2) | st.just(float("inf"))),
    k=st.integers(1, 6),
)
def test_top_k_equals_loops(scores, k):
    exact, every = predict_top_k(scores, k), predict_top_k(scores, k, ties="all")
    for row, chosen, chosen_all in zip(scores.tolist(), exact, every, strict=True):
        best = sorted(range(6), key=lambda j: (-row[j], j))[:k]
        assert np.flatnonzero(chosen).tolist() == sorted(best)
        kth = sorted(row, reverse=True)[k - 1]
        assert chosen_all.tolist() == [score >= kth for score in row]


def test_top_k_of_float16_and_blocks(monkeypatch):
    scores = np.random.default_rng(1).integers(0, 5, (30, 8)).astype(np.float16)
    expected = predict_top_k(scores.astype(float), 3)
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 16)
    assert (predict_top_k(scores, 3) == expected).all()
    assert expected.sum(axis=1).tolist() == [3] * 30


def test_top_k_errors():
    with pytest.raises(ValueError, match="k is 4 and there are 3 labels; choose k from 1 to 3"):
        predict_top_k([[0.1, 0.2, 0.3]], 4)
    with pytest.raises(ValueError, match="k is 0"):
        predict_top_k([[0.1, 0.2, 0.3]], 0)
    with pytest.raises(ValueError, match="ties is 'some'"):
        predict_top_k([[0.1, 0.2, 0.3]], 1, ties="some")


def test_f1_by_example_is_the_mean_over_samples_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, predicted = (rng.random((2, 200, 5)) < 0.2).astype(int)
    assert (truth.sum(axis=1) + predicted.sum(axis=1) == 0).any()
    expected = sklearn_metrics.f1_score(truth, predicted, average="samples", zero_division=1)
    assert example_f1(truth, predicted) == pytest.approx(expected)


def test_f1_by_example_of_matrices_of_two_shapes_is_refused():
    with pytest.raises(ValueError, match="predicted"):
        example_f1([[1, 0]], [[1, 0, 0]])
