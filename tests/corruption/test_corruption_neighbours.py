"""Labels of the nearest rows: which are added, how many, and what decides between equals."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from propml.corruption import neighbour_labels, realised_ratio
from propml.corruption.inputs import clean_labels
from propml.corruption.neighbours import label_distances
from propml.range_scaler import RangeScaler


def some_data(n_rows=120, n_labels=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, 3)) * [1, 100, 0.01], (rng.random((n_rows, n_labels)) < 0.25).astype(np.int8)


def test_the_false_label_is_that_of_the_nearest_row_that_has_another_one():
    """Walking from neighbour to neighbour, in the order of scikit-learn, until one has a label that the row lacks."""
    X, truth = some_data()
    truth[:] = np.eye(8)[truth[:, :-1].sum(axis=1)]  # one label each, so no two labels come from one row
    scaled = RangeScaler().fit_transform(X)
    order = NearestNeighbors(n_neighbors=len(X)).fit(scaled).kneighbors(scaled, return_distance=False)
    added = neighbour_labels(X, truth, 1.0).to_matrix() - truth
    for row, near in enumerate(order):
        own = truth[row].argmax()
        assert np.flatnonzero(added[row]).tolist() == [next(j for j in truth[near].argmax(axis=1) if j != own)]


def test_distances_are_those_of_loops():
    X, truth = some_data(25, 4)
    truth[:, 3] = 0
    truth[5, 3] = 1
    found = label_distances(X, clean_labels(truth))
    for i in range(25):
        for j in range(4):
            others = [np.sum((X[i] - X[k]) ** 2) for k in range(25) if k != i and truth[k, j]]
            assert found[i, j] == pytest.approx(min(others, default=np.inf), rel=1e-6)
    assert found[5, 3] == np.inf


def test_a_label_that_nobody_else_has_is_never_added():
    X, truth = some_data()
    truth[:, 0] = 0
    candidates = neighbour_labels(X, truth, 20.0).to_matrix()
    assert not candidates[:, 0].any()
    labelled = truth.any(axis=1)
    assert candidates[labelled, 1:].all()
    assert (candidates[~labelled] == 0).all()


def test_the_ratio_holds_on_average_and_the_other_roundings_are_there():
    X, truth = some_data(1000, 8)
    error = 0.5 * np.sqrt(1000) / truth.sum()  # a row is rounded with a variance of at most 1/4
    assert abs(realised_ratio(truth, neighbour_labels(X, truth, 0.5)).ratio - 0.5) < 5 * error
    exact = realised_ratio(truth, neighbour_labels(X, truth, 0.5, rounding="exact"))
    assert exact.ratio == pytest.approx(0.5, abs=1e-3)
    sizes = neighbour_labels(X, truth, 0.5, rounding="paper").sizes()
    assert (sizes == np.minimum(truth.sum(axis=1) + truth.sum(axis=1) // 2, 8)).all()


def test_chance_decides_between_the_labels_of_one_neighbour():
    X, truth = [[0.0], [1.0]], [[1, 0, 0, 0, 0], [0, 1, 1, 1, 1]]
    first = [neighbour_labels(X, truth, 1.0, random_state=seed).to_matrix()[0] for seed in range(60)]
    assert set(np.argmax(np.array(first)[:, 1:], axis=1)) == {0, 1, 2, 3}
    assert all(row.sum() == 2 for row in first)


def test_neither_scale_sparsity_nor_blocks_change_what_is_added(monkeypatch):
    X, truth = some_data()
    whole = neighbour_labels(X, truth, 1.5)
    assert neighbour_labels(X * 8 + 3, truth, 1.5) == whole
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 700)
    assert neighbour_labels(sp.csr_array(X), truth, 1.5) == whole
    assert neighbour_labels(X, truth, 1.5, random_state=1) != whole


@pytest.mark.parametrize(
    ("X", "ratio", "message"),
    [
        ([[0.0], [np.nan]], 1.0, "row 1, feature 0 of X is nan; fill or drop such values"),
        ([[0.0]], 1.0, "X has 1 rows and the truth 2; give one row of labels per row of X"),
        ([[0.0], [1.0]], -1.0, "ratio is -1.0; give the number of false labels per true label"),
    ],
)
def test_mistakes_are_told(X, ratio, message):
    with pytest.raises(ValueError, match=message):
        neighbour_labels(X, [[1, 0], [0, 1]], ratio)
