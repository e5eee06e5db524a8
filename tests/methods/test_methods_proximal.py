"""Proximal steps against their definition, and singular values against NumPy's."""

import numpy as np
import pytest

from propml.methods.linear_algebra import shrunk_singular_values, singular_value_threshold, soft


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
    np.testing.assert_allclose(singular_value_threshold(A, t), (left * expected) @ right, atol=1e-12)
    np.testing.assert_allclose(shrunk_singular_values(A, t)[1], expected[expected > 0], atol=1e-12)


@pytest.mark.parametrize("t", [1e-12, 1e-7, 1e-5, 1e-2])
def test_singular_values_of_a_badly_conditioned_matrix(t):
    rng = np.random.default_rng(1)
    left, _ = np.linalg.qr(rng.normal(size=(60, 10)))
    right, _ = np.linalg.qr(rng.normal(size=(10, 10)))
    values = 10.0 ** -np.arange(10)
    shrunk = singular_value_threshold((left * values) @ right.T, t)
    np.testing.assert_allclose(shrunk, (left * np.maximum(values - t, 0)) @ right.T, atol=1e-10)


def test_singular_value_threshold_minimises_its_definition():
    rng = np.random.default_rng(2)
    A, t = rng.normal(size=(8, 5)), 1.2

    def definition(B):
        return 0.5 * np.sum((B - A) ** 2) + t * np.linalg.svd(B, compute_uv=False).sum()

    B = singular_value_threshold(A, t)
    least = definition(B)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(50):
            assert definition(B + size * rng.normal(size=B.shape)) > least
