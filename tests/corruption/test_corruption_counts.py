"""Fixed counts and fractions of random labels."""

import numpy as np
import pytest

from propml.corruption import fixed_count, fixed_fraction

TRUTH = np.array([[1, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [0, 0, 1, 1, 0]])


def test_fill_brings_short_rows_to_the_count_and_leaves_longer_ones():
    candidates = fixed_count(TRUTH, 3)
    assert candidates.sizes().tolist() == [3, 3, 5, 3, 3]
    assert (candidates.to_matrix() >= TRUTH).all()
    assert (candidates.to_matrix()[1:3] == TRUTH[1:3]).all()


def test_add_gives_every_row_as_many_and_all_spare_ones_where_there_are_fewer():
    candidates = fixed_count(TRUTH, 3, mode="add")
    assert candidates.sizes().tolist() == [4, 5, 5, 3, 5]
    assert (candidates.to_matrix() >= TRUTH).all()


def test_a_fraction_of_the_spare_labels_is_rounded_down():
    # Spare labels: 4, 2, 0, 5, 3; half of them, rounded down: 2, 1, 0, 2, 1.
    assert (fixed_fraction(TRUTH, 0.5).sizes() - TRUTH.sum(axis=1)).tolist() == [2, 1, 0, 2, 1]


def test_a_product_just_below_an_integer_in_floating_point_is_that_integer():
    assert 0.29 * 100 < 29
    assert fixed_fraction(np.zeros((1, 100)), 0.29).sizes().tolist() == [29]


def test_every_spare_label_is_as_likely_as_another():
    truth = np.tile([1, 0, 0, 0, 0], (20000, 1))
    share = fixed_count(truth, 2).to_matrix()[:, 1:].mean(axis=0)
    assert np.abs(share - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 20000)


@pytest.mark.parametrize(
    "make", [lambda t, s: fixed_count(t, 3, random_state=s), lambda t, s: fixed_fraction(t, 0.4, random_state=s)]
)
def test_the_seed_decides(make):
    truth = np.eye(30, 12)
    assert make(truth, 4) == make(truth, 4)
    assert make(truth, 4) != make(truth, 5)


@pytest.mark.parametrize("count", [-1, 2.0, True])
def test_a_count_that_is_none_is_refused(count):
    with pytest.raises(ValueError, match="count is"):
        fixed_count(TRUTH, count)


def test_unknown_mode_and_fraction_are_refused():
    with pytest.raises(ValueError, match="mode is 'top'; choose \"fill\""):
        fixed_count(TRUTH, 1, mode="top")
    with pytest.raises(ValueError, match=r"fraction is 1\.2"):
        fixed_fraction(TRUTH, 1.2)
