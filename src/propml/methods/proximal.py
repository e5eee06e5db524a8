"""Proximal steps: what the sum of absolute values and the nuclear norm make of a gradient step.

prox_{t f}(A) = argmin_B ½‖B − A‖² + t f(B); for f = ‖·‖₁ it shrinks the entries, for f = ‖·‖_* the singular values.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

# A singular value s of A is known from A'A to about 1e-16 s₁²/s; cut at t > 1e-6 s₁ that is 1e-10 s₁ at most.
NEGLIGIBLE = 1e-12


def soft(A: np.ndarray, t: float) -> np.ndarray:
    """sign(A) max(|A| − t, 0): the proximal step of t ‖·‖₁.

    >>> soft(np.array([-3.0, -0.5, 2.0]), 1.0)
    array([-2., -0.,  1.])
    """
    return np.sign(A) * np.maximum(np.abs(A) - t, 0.0)


def singular_value_threshold(A: np.ndarray, t: float) -> np.ndarray:
    """U max(Σ − t, 0) V' for A = U Σ V': the proximal step of t ‖·‖_*.

    >>> singular_value_threshold(np.diag([3.0, 1.0]), 2.0).round(12)
    array([[1., 0.],
           [0., 0.]])
    """
    return shrunk_singular_values(A, t)[0]


def shrunk_singular_values(A: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """What :func:`singular_value_threshold` gives, and the singular values that are left in it, falling."""
    if A.shape[0] < A.shape[1]:
        shrunk, left_over = shrunk_singular_values(A.T, t)
        return shrunk.T, left_over
    if np.linalg.norm(A) <= t:  # then no singular value is above t, and none need be found
        return np.zeros_like(A), np.zeros(0)
    squares, right = scipy.linalg.eigh(A.T @ A, driver="evd", check_finite=False)
    if t**2 > NEGLIGIBLE * squares[-1]:
        kept = squares > t**2
        values, right = np.sqrt(squares[kept]), right[:, kept]
        return A @ ((right * (1.0 - t / values)) @ right.T), (values - t)[::-1]
    # A'A knows small singular values badly; where those are not cut away, A itself is decomposed.
    left, values, right = scipy.linalg.svd(A, full_matrices=False, check_finite=False)
    left_over = np.maximum(values - t, 0.0)
    return (left * left_over) @ right, left_over[left_over > 0]
