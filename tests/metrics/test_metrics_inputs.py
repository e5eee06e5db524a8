"""What the metrics refuse, and in which words."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from propml.metrics import average_precision, f1_scores, hamming_loss, predict_threshold
from propml.targets import Candidates

SCORES = np.array([[0.1, 0.9, 0.3], [0.4, 0.2, 0.8]])
TRUTH = np.array([[0, 1, 0], [1, 0, 1]])


def test_nan_scores_are_named_by_row_and_column(monkeypatch):
    scores = np.zeros((50, 4), dtype=np.float32)
    scores[37, 2] = np.nan
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 16)
    with pytest.raises(ValueError, match="score in row 37, column 2 is NaN"):
        average_precision(np.eye(50, 4), scores)


@pytest.mark.parametrize("form", [np.asarray, torch.as_tensor, sp.csr_array])
def test_truth_that_is_not_zero_one_is_named_by_row_and_column(form, monkeypatch):
    truth = np.zeros((50, 4), dtype=int)
    truth[37, 2] = 3
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 16)
    with pytest.raises(ValueError, match=r"truth is 3 in row 37, column 2, expected 0 or 1$"):
        average_precision(form(truth), np.ones((50, 4)))


def test_minus_one_coding_gets_a_hint():
    with pytest.raises(ValueError, match=r"truth is -1 in row 0, column 0.*pass \(matrix > 0\)"):
        average_precision(2 * TRUTH - 1, SCORES)
    with pytest.raises(ValueError, match="predicted is -1 in row 0, column 0"):
        hamming_loss(TRUTH, 2 * TRUTH - 1)


def test_unknown_candidates_are_not_truth():
    with pytest.raises(ValueError, match="truth is -1 in row 1, column 2"):
        average_precision(Candidates.from_matrix([[0, 1, 0], [1, 0, -1]]), SCORES)


def test_nan_in_truth_is_not_a_label():
    with pytest.raises(ValueError, match="truth is nan in row 0, column 1"):
        average_precision(np.where(TRUTH == 1, np.nan, 0), SCORES)


def test_shapes_must_match():
    with pytest.raises(ValueError, match=r"truth has shape \(2, 3\) and scores \(2, 2\)"):
        average_precision(TRUTH, SCORES[:, :2])
    with pytest.raises(ValueError, match=r"truth has shape \(2, 3\) and predicted \(1, 3\)"):
        f1_scores(TRUTH, TRUTH[:1])


@pytest.mark.parametrize(
    ("truth", "scores", "sentence"),
    [
        (np.zeros((0, 3)), np.zeros((0, 3)), r"truth has shape \(0, 3\): there are no rows"),
        (np.zeros((2, 0)), np.zeros((2, 0)), r"truth has shape \(2, 0\): there are no labels"),
        (sp.csr_array((0, 3)), np.zeros((0, 3)), r"truth has shape \(0, 3\): there are no rows"),
        ([0, 1, 2], SCORES, r"truth has shape \(3,\), expected two dimensions.*from_classes"),
        ([[0, 1], [1]], SCORES, "truth is not a matrix: its rows differ in length"),
        ([["a", "b"]], SCORES, "truth holds <U1 values, expected numbers"),
        (TRUTH, sp.csr_array(SCORES), "scores are a sparse matrix, expected a dense one"),
        (TRUTH, SCORES + 1j, "scores holds complex128 values"),
    ],
)
def test_what_is_no_matrix_is_said_in_a_sentence(truth, scores, sentence):
    with pytest.raises(ValueError, match=sentence):
        average_precision(truth, scores)


def test_sparse_duplicates_add_up_and_the_matrix_of_the_caller_stays_as_it_was():
    twice = sp.csr_array((np.ones(2), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 3))
    with pytest.raises(ValueError, match=r"truth is 2\.0 in row 0, column 1"):
        average_precision(twice, SCORES)
    assert twice.nnz == 2
    stored_zero = sp.csr_array((np.array([1, 0, 1]), np.array([1, 0, 2]), np.array([0, 1, 3])), shape=(2, 3))
    assert average_precision(stored_zero, SCORES) == average_precision(stored_zero.toarray(), SCORES)


@pytest.mark.parametrize("threshold", [[0.5, 0.5], "high", np.nan, None])
def test_threshold_is_a_number_or_one_per_label(threshold):
    with pytest.raises(ValueError, match="expected one number, or one for each of the 3 labels"):
        predict_threshold(SCORES, threshold)
