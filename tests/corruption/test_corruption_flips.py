"""Independent flips: their rate, what they never do, and their seeds."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.corruption import class_flips, independent_flips
from propml.targets import Candidates


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
    with pytest.raises(ValueError, match=r"one row of 0 and 1, expected a matrix; give \[truth\] for one row"):
        independent_flips(row, 0.1)


def test_classes_are_taken():
    for y in (["0", "1"], [0, 1, 2], Candidates.from_classes([0, 1])):
        assert independent_flips(y, 0.0).sizes().tolist() == [1] * len(y)


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (1.5, "rate is 1.5; a probability"),
        (float("nan"), "rate is nan"),
        ([0.1, -0.2], "rate is -0.2 for label 'dog'"),
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
