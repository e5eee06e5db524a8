"""Batched non-negative quadratic programs, against SciPy's non-negative least squares and the optimality conditions."""

import numpy as np
import pytest
from scipy.optimize import nnls

from propml.methods import nonnegative
from propml.methods.nonnegative import nonnegative_quadratic


def least_squares(n_problems, rows, size, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(n_problems, rows, size)) + shift, rng.normal(size=(n_problems, rows))
    return A, y, A.transpose(0, 2, 1) @ A, (A.transpose(0, 2, 1) @ y[..., None])[..., 0]


@pytest.mark.parametrize(("rows", "size", "shift"), [(20, 10, 0.0), (20, 10, 1.0), (12, 10, 3.0), (80, 50, 0.5)])
def test_agrees_with_scipy(rows, size, shift):
    A, y, gram, linear = least_squares(60, rows, size, seed=size, shift=shift)
    expected = np.array([nnls(a, b)[0] for a, b in zip(A, y, strict=True)])
    assert (expected > 0).any(axis=1).mean() > 0.5
    np.testing.assert_allclose(nonnegative_quadratic(gram, linear), expected, atol=1e-8)


def test_nothing_is_positive_where_nothing_helps():
    gram = np.eye(3)[None].repeat(2, axis=0)
    np.testing.assert_array_equal(nonnegative_quadratic(gram, -np.ones((2, 3))), np.zeros((2, 3)))


def test_filling_up_changes_nothing():
    _, _, gram, linear = least_squares(5, 12, 6, seed=1)
    filled = np.broadcast_to(np.eye(9), (5, 9, 9)).copy()
    filled[:, :6, :6] = gram
    wide = np.hstack([linear, -np.ones((5, 3))])
    result = nonnegative_quadratic(filled, wide)
    np.testing.assert_allclose(result[:, :6], nonnegative_quadratic(gram, linear), atol=1e-12)
    assert not result[:, 6:].any()


def test_one_change_at_a_time_also_ends_at_the_solution(monkeypatch):
    A, y, gram, linear = least_squares(40, 15, 10, seed=2, shift=1.0)
    monkeypatch.setattr(nonnegative, "PATIENCE", -1)
    expected = np.array([nnls(a, b)[0] for a, b in zip(A, y, strict=True)])
    np.testing.assert_allclose(nonnegative_quadratic(gram, linear), expected, atol=1e-8)


def test_a_system_that_is_not_positive_definite_is_solved_by_least_squares(monkeypatch):
    # Two equal columns: the best value is unique, the weights are not.
    monkeypatch.setattr(nonnegative, "SMALL", 0)
    gram, linear = np.array([[[1.0, 1.0], [1.0, 1.0]]]), np.array([[2.0, 2.0]])
    assert nonnegative_quadratic(gram, linear).sum() == pytest.approx(2.0)
