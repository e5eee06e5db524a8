"""The most probable labels, their number, and what became of it."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from propml.corruption import add_most_probable, realised_levels, realised_ratio
from propml.targets import Candidates

# Spec: realised false/true ratio and mean number of candidates at 50, 100 and 150 %, and rows untouched at 50 %.
PAPER_LEVELS = {
    "scene": ((0.068, 1.15), (1.000, 2.15), (1.068, 2.22), 0.926),
    "birds": ((0.323, 2.46), (1.000, 3.73), (1.323, 4.33), 0.46),
    "medical": ((0.186, 1.48), (1.000, 2.49), (1.186, 2.72), 0.77),
    "enron": ((0.416, 4.78), (1.000, 6.76), (1.416, 8.16), 0.115),
    "bibtex": ((0.369, 3.29), (1.000, 4.80), (1.369, 5.69), 0.38),
}


def made_up(n_rows=60, n_labels=12, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    truth = (rng.random((n_rows, n_labels)) < share).astype(np.int8)
    # Two digits only, so that there are ties.
    return truth, rng.random((n_rows, n_labels)).round(2)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0, 1.5, 40.0])
def test_paper_rounding_equals_plain_loops(ratio):
    truth, probabilities = made_up()
    expected = truth.copy()
    for i, row in enumerate(truth):
        spare = sorted((j for j in range(12) if not row[j]), key=lambda j: (-probabilities[i, j], j))
        expected[i, spare[: math.floor(ratio * row.sum())]] = 1
    assert (add_most_probable(truth, probabilities, ratio).to_matrix() == expected).all()


@pytest.mark.parametrize("ratio", [0.3, 0.5, 1.0, 1.5])
def test_exact_meets_the_ratio_of_the_whole_set(ratio):
    truth, probabilities = made_up(200, share=0.1)
    candidates = add_most_probable(truth, probabilities, ratio, "exact")
    added = candidates.sizes() - truth.sum(axis=1)
    assert added.sum() == round(ratio * truth.sum())
    assert (candidates.to_matrix() >= add_most_probable(truth, probabilities, ratio).to_matrix()).all()
    # No row is more than one label away from its own share.
    assert np.abs(added - ratio * truth.sum(axis=1)).max() < 1


def test_exact_gives_the_rest_to_the_most_probable_labels():
    truth = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]])
    probabilities = np.array([[0.9, 0.1, 0.2], [0.9, 0.8, 0.1], [0.9, 0.3, 0.3], [0.9, 0.0, 0.0]])
    candidates = add_most_probable(truth, probabilities, 0.5, "exact").to_matrix()
    assert candidates.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 0]]


def test_exact_makes_up_for_rows_without_spare_labels_but_not_in_rows_without_true_ones():
    truth = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]])
    candidates = add_most_probable(truth, np.full((3, 4), 0.5), 0.5, "exact")
    # Wanted: round(0.5 * 5) = 2, and only the second row has room.
    assert candidates.sizes().tolist() == [4, 3, 0]
    full = add_most_probable(truth, np.full((3, 4), 0.5), 9.0, "exact")
    assert full.sizes().tolist() == [4, 4, 0]


def test_stochastic_rounding_meets_the_ratio_on_average_and_rounds_to_neighbours():
    truth = np.tile(np.eye(1, 8, dtype=int), (20000, 1))
    candidates = add_most_probable(truth, np.zeros(truth.shape), 1.5, "stochastic")
    added = candidates.sizes() - 1
    assert set(np.unique(added)) == {1, 2}
    assert abs(added.mean() - 1.5) < 5 * 0.5 / np.sqrt(20000)


def test_the_seed_decides_the_stochastic_rounding_only():
    truth, probabilities = made_up(300)
    assert add_most_probable(truth, probabilities, 0.5, "stochastic", random_state=1) != add_most_probable(
        truth, probabilities, 0.5, "stochastic", random_state=2
    )
    assert add_most_probable(truth, probabilities, 0.5, random_state=1) == add_most_probable(
        truth, probabilities, 0.5, random_state=2
    )


def test_a_product_just_below_an_integer_in_floating_point_is_that_integer():
    truth = np.repeat([[1, 0]], 100, axis=1)
    assert add_most_probable(truth, np.zeros(truth.shape), 0.29).sizes().tolist() == [129]


@pytest.mark.parametrize("name", PAPER_LEVELS)
def test_realised_levels_of_the_papers_files(name, data_dir):
    from propml.datasets import load

    *expected, untouched = PAPER_LEVELS[name]
    levels = realised_levels(load(name, data_dir=data_dir).drop_unlabelled().truth)
    assert list(levels) == [0.5, 1.0, 1.5]
    for level, (ratio, mean_size) in zip(levels.values(), expected, strict=True):
        assert level.ratio == pytest.approx(ratio, abs=0.0006)
        assert level.mean_size == pytest.approx(mean_size, abs=0.006)
        assert level.missed == 0
    assert levels[0.5].untouched == pytest.approx(untouched, abs=0.005)
    assert levels[1.0].untouched == 0


@pytest.mark.parametrize("name", PAPER_LEVELS)
@pytest.mark.parametrize("ratio", [0.5, 1.5])
def test_the_other_roundings_keep_the_ratio_on_the_papers_files(name, ratio, data_dir):
    from propml.datasets import load

    truth = load(name, data_dir=data_dir).drop_unlabelled().truth
    probabilities = np.random.default_rng(0).random(truth.shape)
    exact = realised_ratio(truth, add_most_probable(truth, probabilities, ratio, "exact"))
    assert exact.ratio == pytest.approx(ratio, abs=0.501 / truth.sum())
    drawn = realised_ratio(truth, add_most_probable(truth, probabilities, ratio, "stochastic"))
    assert drawn.ratio == pytest.approx(ratio, abs=5 * 0.5 * np.sqrt(len(truth)) / truth.sum())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((1, 3)), 1.0), r"shape \(1, 3\) and the truth \(1, 2\)"),
        ((np.array([[0.1, np.nan]]), 1.0), "row 0, label 'dog' is nan"),
        ((np.zeros((1, 2)), -0.5), "ratio is -0.5"),
        ((np.zeros((1, 2)), float("inf")), "ratio is inf"),
        ((np.zeros((1, 2)), 1.0, "floor"), "rounding is 'floor'; choose \"paper\""),
    ],
)
def test_mistakes_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        add_most_probable([[1, 0]], *arguments, labels=["cat", "dog"])


# -- what became of it ----------------------------------------------------------------------------------------------


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
