"""Random false labels: how many there are, where, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.corruption import class_flips, fixed_count, fixed_fraction, independent_flips
from propml.targets import Candidates

# -- flips ----------------------------------------------------------------------------------------------------------


def some_truth(n_rows=4000, n_labels=20, seed=0):
    return (np.random.default_rng(seed).random((n_rows, n_labels)) < 0.08).astype(np.int8)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.4])
def test_the_share_of_flips_lies_within_five_standard_errors(rate):
    truth = some_truth()
    candidates = independent_flips(truth, rate).to_matrix()
    spare = truth == 0
    error = np.sqrt(rate * (1 - rate) / spare.sum())
    assert abs(candidates[spare].mean() - rate) < 5 * error


def test_a_rate_per_label_holds_label_by_label():
    truth = some_truth()
    rates = np.linspace(0, 1, 20)
    candidates = independent_flips(truth, rates).to_matrix()
    for j, rate in enumerate(rates):
        spare = truth[:, j] == 0
        assert abs(candidates[spare, j].mean() - rate) <= 5 * np.sqrt(rate * (1 - rate) / spare.sum())


def test_flips_of_different_labels_are_independent():
    candidates = independent_flips(np.zeros((20000, 2)), 0.3).to_matrix()
    both = (candidates[:, 0] & candidates[:, 1]).mean()
    assert abs(both - 0.09) < 5 * np.sqrt(0.09 * 0.91 / 20000)


def test_true_labels_are_never_dropped_and_the_seed_decides():
    truth = some_truth()
    first, again, other = (independent_flips(truth, 0.2, random_state=s) for s in (1, 1, 2))
    assert (first.to_matrix() >= truth).all()
    assert first == again
    assert first != other


def test_no_rate_changes_nothing_and_rows_without_labels_are_legal():
    truth = some_truth(50)
    assert (truth.sum(axis=1) == 0).any()
    assert (independent_flips(truth, 0).to_matrix() == truth).all()


def test_neither_sparsity_nor_the_size_of_blocks_changes_the_draw(monkeypatch):
    truth = some_truth(300)
    whole = independent_flips(truth, 0.2)
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 140)
    assert independent_flips(sp.csr_array(truth), 0.2) == whole


def test_names_are_kept():
    assert independent_flips([[1, 0]], 0.5, labels=["cat", "dog"]).labels == ("cat", "dog")


@pytest.mark.parametrize("row", [[1, 0, 0], np.array([True, False]), np.array([0.0, 1.0])])
def test_a_single_row_is_not_taken_for_classes(row):
    with pytest.raises(ValueError, match=r"one row of 0 and 1; give \[truth\], or"):
        independent_flips(row, 0.1)


def test_classes_are_taken():
    for y in (["0", "1"], [0, 1, 2], Candidates.from_classes([0, 1])):
        assert independent_flips(y, 0.0).sizes().tolist() == [1] * len(y)


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (1.5, "rate is 1.5; a probability"),
        (float("nan"), "rate is nan"),
        ([0.1, -0.2], "rate of label 'dog' is -0.2"),
        ([0.1, 0.2, 0.3], "2 of them"),
    ],
)
def test_a_rate_that_is_none_is_refused(rate, message):
    with pytest.raises(ValueError, match=message):
        independent_flips([[1, 0]], rate, labels=["cat", "dog"])


def test_rates_by_class_are_spread_from_nothing_to_twice_the_mean_in_a_drawn_order():
    nothing = np.zeros((20000, 5))
    found = class_flips(nothing, 0.2, random_state=3).to_matrix().mean(axis=0)
    expected = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    assert np.abs(np.sort(found) - expected).max() < 5 * np.sqrt(0.24 / 20000)
    orders = {tuple(np.argsort(class_flips(nothing[:500], 0.2, random_state=s).to_matrix().mean(axis=0)))
              for s in range(8)}  # fmt: skip
    assert len(orders) > 3


def test_flips_by_class_keep_the_truth_and_their_seed():
    truth = some_truth(300)
    first, again, other = (class_flips(truth, 0.2, random_state=s) for s in (1, 1, 2))
    assert (first.to_matrix() >= truth).all()
    assert first == again
    assert first != other
    assert class_flips([[1], [0]], 0.5, random_state=np.random.default_rng(0)).shape == (2, 1)


def test_a_mean_rate_of_more_than_a_half_is_refused():
    with pytest.raises(ValueError, match=r"rate is 0\.6; rates go up to twice this mean"):
        class_flips([[1, 0]], 0.6)


# -- fixed numbers --------------------------------------------------------------------------------------------------


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
