"""What a corruption did, counted by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.corruption import realised_ratio
from propml.targets import Candidates

TRUTH = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1]])
#   row 0: one false label; row 1: untouched; row 2: the true label lost, two false ones
CANDIDATES = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, Candidates.from_matrix])
def test_by_hand(form):
    level = realised_ratio(TRUTH, form(CANDIDATES))
    assert level.ratio == pytest.approx(3 / 4)
    assert level.mean_size == pytest.approx(2)
    assert level.untouched == pytest.approx(1 / 3)
    assert level.missed == pytest.approx(1 / 4)


def test_more_entries_than_a_small_integer_counts():
    level = realised_ratio(np.eye(300, 300), np.ones((300, 300)))
    assert level.ratio == 299
    assert level.mean_size == 300


def test_unknown_entries_are_no_candidates():
    assert realised_ratio([[1, 0, 0]], Candidates.from_matrix([[1, -1, -1]])).ratio == 0


def test_shapes_must_agree_and_there_must_be_truth():
    with pytest.raises(ValueError, match=r"shape \(3, 2\), the truth \(3, 4\)"):
        realised_ratio(TRUTH, CANDIDATES[:, :2])
    with pytest.raises(ValueError, match="no true label in any row"):
        realised_ratio(np.zeros((2, 2)), np.ones((2, 2)))
