"""Clean labels and seeds: what is accepted, what is refused, and that work in blocks changes nothing."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.corruption.inputs import add_labels, clean_labels, generator, highest_spare, seed_of
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


# -- seeds ----------------------------------------------------------------------------------------------------------


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(3)
    assert generator(rng) is rng


def test_equal_seeds_draw_equal_numbers_whatever_their_integer_type():
    assert generator(7).random() == generator(np.int64(7)).random()


def test_data_drawn_with_a_seed_does_not_meet_the_same_numbers_in_its_corruption():
    assert generator(0).random() != np.random.default_rng(0).random()


def test_none_differs_each_time():
    assert generator(None).random() != generator(None).random()


def test_the_seed_of_an_integer_is_itself_and_of_a_generator_is_drawn():
    assert seed_of(5) == 5
    rng = np.random.default_rng(0)
    assert seed_of(rng) != seed_of(rng)


@pytest.mark.parametrize("bad", [-1, "zero", 1.5])
def test_anything_else_is_refused(bad):
    with pytest.raises(ValueError, match="random_state is"):
        generator(bad)
