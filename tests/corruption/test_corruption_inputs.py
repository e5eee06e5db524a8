"""Clean labels: what is accepted, what is refused, and that work in blocks changes nothing."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.corruption.inputs import add_labels, clean_labels, highest_spare
from propml.targets import Candidates

TRUTH = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_array, np.ndarray.tolist])
def test_all_forms_of_the_truth_are_the_same_truth(form):
    assert (clean_labels(form(TRUTH)).to_matrix() == TRUTH).all()


def test_names_of_a_candidates_object_are_kept():
    named = Candidates.from_matrix(TRUTH, ["a", "b", "c"], empty="ignore")
    assert clean_labels(named).labels == ("a", "b", "c")
    with pytest.raises(ValueError, match="other label names"):
        clean_labels(named, ["x", "y", "z"])


def test_unknown_truth_is_refused_with_row_and_label():
    with pytest.raises(ValueError, match=r"row 2, label 'b' of the truth is unknown"):
        clean_labels([[1, 0], [0, 1], [0, -1]], ["a", "b"])


def test_added_labels_join_the_true_ones_and_keep_the_index():
    clean = Candidates.from_matrix(TRUTH, ["a", "b", "c"], empty="drop")
    added = add_labels(clean, lambda true, rows: np.tile([False, True, False], (len(true), 1)))
    assert added.to_matrix().tolist() == [[1, 1, 1], [0, 1, 0]]
    assert added.labels == ("a", "b", "c")
    assert list(added.index) == [0, 2]
    assert added.states.dtype == np.int8


def test_highest_spare_takes_ties_by_index_and_stops_at_the_spare_labels():
    true = np.array([[True, False, False, False], [True, True, True, False]])
    scores = np.array([[9.0, 1.0, 2.0, 2.0], [0.0, 0.0, 0.0, -5.0]])
    marked = highest_spare(true, scores, np.array([1, 3]))
    assert marked.tolist() == [[False, False, True, False], [False, False, False, True]]
