"""The quirks behind published numbers, each against the coding that makes it."""

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from propml.metrics import (
    double_sigmoid,
    hamming_loss,
    paper_f1,
    paper_hamming_loss,
    paper_mean_average_precision,
    predict_threshold,
)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    truth = (rng.random((200, 12)) < 0.25).astype(int)
    probabilities = torch.sigmoid(torch.tensor(rng.normal(-3, 4, truth.shape) + 4 * truth)).numpy()
    return truth, probabilities.astype(np.float32)


def test_mlknn_compares_minus_one_plus_one_with_zero_one(case):
    truth, scores = case
    coded = np.where(scores >= 0.5, 1, -1)
    assert paper_hamming_loss(truth, scores, "ML-kNN") == pytest.approx((coded != truth).mean())
    predicted = scores >= 0.5
    assert paper_hamming_loss(truth, np.zeros_like(scores), "mlknn", predicted=predicted) == pytest.approx(
        (coded != truth).mean()
    )
    assert paper_hamming_loss([[1, 0]], [[0.5, 0.1]], "ML-kNN") == 1 / 2  # "at least 0.5" decides


def test_cplst_is_cut_at_zero(case):
    truth, scores = case
    raw = scores - 0.3
    assert paper_hamming_loss(truth, raw, "CPLST") == pytest.approx(((raw > 0) != truth).mean())
    assert paper_hamming_loss(truth, raw, "CPLST", predicted=truth) > 0


@pytest.mark.parametrize("method", ["ProPML", "PML-NI", None])
def test_other_methods_are_measured_as_usual(case, method):
    truth, scores = case
    predicted = predict_threshold(scores, 0.4)
    expected = hamming_loss(truth, predicted)
    assert paper_hamming_loss(truth, scores, method, threshold=0.4) == expected
    assert paper_hamming_loss(truth, scores, method, predicted=predicted) == expected


def test_predictions_must_fit(case):
    truth, scores = case
    with pytest.raises(ValueError, match=r"truth has shape \(200, 12\) and predicted \(2, 12\)"):
        paper_hamming_loss(truth, scores, "ML-kNN", predicted=truth[:2])


def test_double_sigmoid_is_what_torch_computes_in_half_precision():
    probabilities = torch.linspace(0, 1, 5001).half()
    assert (double_sigmoid(probabilities.numpy()) == torch.sigmoid(probabilities).numpy()).all()


def test_double_sigmoid_ties_small_probabilities_and_moves_the_threshold():
    assert len(np.unique(double_sigmoid(np.linspace(0, 4e-4, 100)))) == 1
    above = predict_threshold(double_sigmoid(np.array([[0.400, 0.404, 0.409, 0.500]])), 0.6)
    assert above.tolist() == [[0, 0, 1, 1]]  # logit(0.6) = 0.4055


def test_threshold_f1_is_macro_and_micro_f1_of_the_double_sigmoid(case):
    truth, probabilities = case
    predicted = (torch.sigmoid(torch.tensor(probabilities).half()) > 0.6).numpy()
    found = paper_f1(truth, probabilities)
    assert found["CF1"] == pytest.approx(f1_score(truth, predicted, average="macro", zero_division=0))
    assert found["OF1"] == pytest.approx(f1_score(truth, predicted, average="micro"))


def test_top_three_predicts_every_tied_label():
    # one clear label; the five others collapse to 0.5 in half precision and are all predicted
    truth = [[1, 0, 0, 0, 0, 0]]
    probabilities = [[0.9, 1e-5, 2e-5, 3e-5, 4e-5, 5e-5]]
    found = paper_f1(truth, probabilities)
    assert found["OF1@3"] == pytest.approx(2 * (1 / 6) * 1 / (1 / 6 + 1))
    assert found["CF1@3"] == pytest.approx(1 / 6)  # one class of six with precision and recall 1
    assert found["OF1"] == 1


def test_top_three_by_loops(case):
    truth, probabilities = case
    twice = torch.sigmoid(torch.tensor(probabilities).half())
    predicted = (twice >= twice.topk(3).values[:, -1:]).numpy()
    both, marked, true = (truth & predicted).sum(0), predicted.sum(0), truth.sum(0)
    assert marked.sum() > 3 * len(truth)  # ties added labels
    precision, recall = np.mean(both / np.maximum(marked, 1)), np.mean(both / true)
    found = paper_f1(truth, probabilities)
    assert found["CF1@3"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert found["OF1@3"] == pytest.approx(2 * both.sum() / (marked.sum() + true.sum()))


def test_map_is_the_official_loop(case):
    truth, probabilities = case
    truth[:, 3] = 0  # an absent class counts as zero
    halves = probabilities.astype(np.float16)
    expected = []
    for c in range(truth.shape[1]):
        order = np.argsort(halves[:, c], kind="stable")[::-1]
        hits = truth[order, c]
        expected.append((hits * np.cumsum(hits) / np.arange(1, len(hits) + 1)).sum() / (hits.sum() + 1e-8))
    found = paper_mean_average_precision(truth, probabilities)
    assert found.per_class == pytest.approx(expected, abs=1e-14)
    assert found.value == pytest.approx(np.mean(expected))
    assert found.n_absent_classes == 1


def test_scores_beyond_half_precision_do_no_harm():
    found = paper_mean_average_precision([[1], [0]], [[1e6], [-1e6]])
    assert found.value == pytest.approx(1)
    assert (double_sigmoid(np.array([1e6, -1e6])) == [1, 0]).all()
