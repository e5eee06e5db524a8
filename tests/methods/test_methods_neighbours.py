"""Nearest neighbours against sorted lists of distances."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from propml.methods import neighbours
from propml.methods.neighbours import nearest_rows


def by_loops(x, rows, k, without=None):
    """The k nearest rows, the lower index first among equals."""
    far = [(float(np.sum((x - row) ** 2)), i) for i, row in enumerate(rows) if i != without]
    return [i for _, i in sorted(far)[:k]]


def case(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(230, 9))
    return {
        "continuous": X,
        "binary": (X > 0.4).astype(float),  # distances are whole numbers, with ties everywhere
        "duplicates": X[rng.integers(20, size=len(X))],
        "far from the origin": X + 1e6,
        "huge": X * 1e150,
        "tiny": X * 1e-150,
        "constant": np.ones_like(X),
        "zero": np.zeros_like(X),
        "an outlier": np.vstack([np.full((1, 9), 1e12), X[1:]]),
        "one feature": X[:, :1],
    }[kind]


each_kind = pytest.mark.parametrize(
    "kind",
    [
        "continuous",
        "binary",
        "duplicates",
        "far from the origin",
        "huge",
        "tiny",
        "constant",
        "zero",
        "an outlier",
        "one feature",
    ],
)


@each_kind
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("k", [1, 10, 199])
def test_neighbours_of_plain_loops(kind, form, k):
    X = case(kind)
    rows, queries = X[:200], X[195:]
    found = nearest_rows(form(queries), form(rows), k)
    assert found.tolist() == [by_loops(x, rows, k) for x in queries]
    found = nearest_rows(form(rows), form(rows), k, leave_out_self=True)
    for i in (1, 7, 199):
        assert found[i].tolist() == by_loops(rows[i], rows, k, without=i)


@each_kind
def test_forms_mix_and_blocks_change_nothing(kind, monkeypatch):
    X = case(kind)
    expected = nearest_rows(X, X, 5)
    np.testing.assert_array_equal(nearest_rows(sp.csr_array(X), X, 5), expected)
    np.testing.assert_array_equal(nearest_rows(X, sp.csr_array(X), 5), expected)
    monkeypatch.setattr(neighbours, "BLOCK", 7 * len(X))
    monkeypatch.setattr(neighbours, "DIFFERENCES", 40)
    np.testing.assert_array_equal(nearest_rows(X, X, 5), expected)


def test_neighbours_of_scikit_learn_in_many_dimensions():
    X = np.random.default_rng(0).normal(size=(900, 700))
    theirs = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(X).kneighbors(return_distance=False)
    np.testing.assert_array_equal(nearest_rows(X, X, 10, leave_out_self=True), theirs)


def test_equal_to_nine_digits_is_equal():
    # 0.3 - 0.2 and 0.2 - 0.1 differ in their last bit.
    assert nearest_rows(np.array([[0.2]]), np.array([[0.9], [0.3], [0.1]]), 2).tolist() == [[1, 2]]
    assert nearest_rows(np.array([[0.0]]), np.array([[1 + 1e-8], [1.0]]), 1).tolist() == [[1]]


def test_more_neighbours_than_rows_are_told():
    X = np.ones((3, 1))
    assert nearest_rows(X, X, 0).shape == (3, 0)
    assert nearest_rows(X, X, 3).tolist() == [[0, 1, 2]] * 3
    with pytest.raises(ValueError, match="k is 3; give a number from 0 to 2"):
        nearest_rows(X, X, 3, leave_out_self=True)
