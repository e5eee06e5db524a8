"""Axes against the systems that they solve, proximal steps against their definition, cuts against all there are."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.methods.linear_algebra import (
    PrincipalAxes,
    best_cuts,
    cut_probabilities,
    regressed_cut,
    singular_value_threshold,
    soft,
)


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (10, 10)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_ridge_system_becomes_a_division(shape, form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) * (rng.random(shape) < 0.5)
    Y = rng.normal(size=(shape[0], 3))
    axes = PrincipalAxes(form(X))
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
    np.testing.assert_allclose(PrincipalAxes(form(X)).solve(right, 0.3), expected, atol=1e-10)


def test_directions_without_any_feature_are_left_out():
    X = np.random.default_rng(0).normal(size=(20, 3))
    axes = PrincipalAxes(np.hstack([X, X @ np.ones((3, 2))]))
    assert axes.squares.shape == (3,)
    np.testing.assert_allclose(axes.scaled.T @ axes.scaled, np.diag(axes.squares), atol=1e-9)


@pytest.mark.parametrize("t", [0.0, 0.3, 2.0])
def test_soft_minimises_its_definition(t):
    grid = np.linspace(-4, 4, 80001)
    for a in (-3.1, -0.2, 0.0, 0.3, 1.7):
        best = grid[np.argmin(0.5 * (grid - a) ** 2 + t * np.abs(grid))]
        assert soft(np.array([a]), t)[0] == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (9, 9), (5, 1)])
@pytest.mark.parametrize("t", [1e-9, 0.5, 3.0, 1e3])
def test_singular_values_are_shrunk(shape, t):
    A = np.random.default_rng(0).normal(size=shape)
    left, values, right = np.linalg.svd(A, full_matrices=False)
    expected = np.maximum(values - t, 0)
    shrunk, left_over = singular_value_threshold(A, t)
    np.testing.assert_allclose(shrunk, (left * expected) @ right, atol=1e-12)
    np.testing.assert_allclose(left_over, expected[expected > 0], atol=1e-12)


@pytest.mark.parametrize("t", [1e-12, 1e-7, 1e-5, 1e-2])
def test_singular_values_of_a_badly_conditioned_matrix(t):
    rng = np.random.default_rng(1)
    left, _ = np.linalg.qr(rng.normal(size=(60, 10)))
    right, _ = np.linalg.qr(rng.normal(size=(10, 10)))
    values = 10.0 ** -np.arange(10)
    shrunk, _ = singular_value_threshold((left * values) @ right.T, t)
    np.testing.assert_allclose(shrunk, (left * np.maximum(values - t, 0)) @ right.T, atol=1e-10)


def test_singular_value_threshold_minimises_its_definition():
    rng = np.random.default_rng(2)
    A, t = rng.normal(size=(8, 5)), 1.2

    def definition(B):
        return 0.5 * np.sum((B - A) ** 2) + t * np.linalg.svd(B, compute_uv=False).sum()

    B, _ = singular_value_threshold(A, t)
    least = definition(B)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(50):
            assert definition(B + size * rng.normal(size=B.shape)) > least


def random_scores(n=40):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 6)), rng.random((n, 6)) < 0.4


def errors(scores, marked, cut):
    return int(((scores >= cut) != marked).sum())


def test_best_cuts_by_trying_all():
    scores, marked = random_scores()
    for row, wanted, cut in zip(scores, marked, best_cuts(scores, marked), strict=True):
        rising = np.sort(row)
        tried = [rising[0] - 0.1, *(rising[1:] + rising[:-1]) / 2, rising[-1] + 0.1]
        assert cut == pytest.approx(tried[int(np.argmin([errors(row, wanted, c) for c in tried]))])


def test_the_released_search_goes_below_the_first_label_where_all_are_marked():
    scores, marked = np.array([[0.5, 0.2, 0.9]] * 2), np.array([[True] * 3, [False, False, True]])
    np.testing.assert_allclose(best_cuts(scores, marked), [0.1, 0.7])
    np.testing.assert_allclose(best_cuts(scores, marked, released=True), [0.4, 0.7])


@pytest.mark.parametrize("n", [40, 4], ids=["more rows than labels", "fewer"])
def test_the_regression_is_that_of_the_pseudo_inverse(n):
    scores, marked = random_scores(n)
    expected = np.linalg.pinv(np.hstack([scores, np.ones((n, 1))])) @ best_cuts(scores, marked)
    np.testing.assert_allclose(regressed_cut(scores, marked), expected, atol=1e-12)


def test_probabilities_pass_one_half_at_the_cut_of_the_row():
    scores, marked = random_scores()
    coef = regressed_cut(scores, marked)
    cuts = scores @ coef[:-1] + coef[-1]
    probabilities = cut_probabilities(scores, coef)
    np.testing.assert_array_equal(probabilities > 0.5, scores > cuts[:, None])
    # Slope 1 at the cut: σ(4 δ) = ½ + δ + O(δ³).
    cut_at_zero = cut_probabilities(np.array([[1e-3, -1e-3]]), np.zeros(3))
    np.testing.assert_allclose(cut_at_zero, [[0.501, 0.499]], atol=1e-8)
