"""The principal axes hold everything that a ridge-like system needs."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.methods.linear_algebra import PrincipalAxes


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (10, 10)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_ridge_system_becomes_a_division(shape, form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) * (rng.random(shape) < 0.5)
    Y = rng.normal(size=(shape[0], 3))
    axes = PrincipalAxes.of(form(X))
    inner = axes.scaled.T @ Y / (axes.squares[:, None] + 2.5)
    weights = axes.weights(inner)
    expected = np.linalg.solve(X.T @ X + 2.5 * np.eye(shape[1]), X.T @ Y)
    np.testing.assert_allclose(weights, expected, atol=1e-10)
    np.testing.assert_allclose(X @ weights, axes.scaled @ inner, atol=1e-10)
    assert np.linalg.norm(weights) == pytest.approx(np.linalg.norm(inner))
    np.testing.assert_allclose(axes.coordinates(weights), inner, atol=1e-10)


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (10, 10)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_systems_with_any_right_side_are_solved(shape, form):
    rng = np.random.default_rng(0)
    X, right = rng.normal(size=shape) * (rng.random(shape) < 0.5), rng.normal(size=(shape[1], 3))
    expected = np.linalg.solve(X.T @ X + 0.3 * np.eye(shape[1]), right)
    np.testing.assert_allclose(PrincipalAxes.of(form(X)).solve(right, 0.3), expected, atol=1e-10)


def test_directions_without_any_feature_are_left_out():
    X = np.random.default_rng(0).normal(size=(20, 3))
    axes = PrincipalAxes.of(np.hstack([X, X @ np.ones((3, 2))]))
    assert axes.squares.shape == (3,)
    np.testing.assert_allclose(axes.scaled.T @ axes.scaled, np.diag(axes.squares), atol=1e-9)
