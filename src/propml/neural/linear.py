"""Ridge regression on candidates: a member of the ensemble, and the judge of how loud rare words are.

Its penalty is not searched: it is 0.3 of the mean squared norm of a centred row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from propml.folds import Fold
from propml.neural.ensemble import Networks

PENALTY = 0.3
# The smaller side of the system above which its cubic cost is no longer small beside the networks'. Sparse features go
# on by conjugate gradients, as long as all their steps multiply no more numbers than these: some seconds.
LARGEST_SYSTEM = 4000
MOST_PRODUCTS = 2e10
STEPS = 50


def is_solvable(X: Any, n_labels: int, n_fits: int) -> bool:
    """Whether so many fits take little time beside the networks."""
    return min(X.shape) <= LARGEST_SYSTEM or (sp.issparse(X) and 2 * STEPS * X.nnz * n_labels * n_fits <= MOST_PRODUCTS)


def fit_linear(X: Any, states: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``(D, C)`` and bias ``(C,)``; an unknown state (-1) is taken for the label's mean."""
    n, d = X.shape
    # Weighted least squares are plain ones on rows that are multiplied by the roots of their weights.
    root = np.ones(n) if weight is None else np.sqrt(weight * (n / weight.sum()))
    share = root**2 / n
    known = (states >= 0) * share[:, None]
    mean = ((states > 0) * share[:, None]).sum(axis=0) / np.maximum(known.sum(axis=0), 1e-12)
    targets = root[:, None] * np.where(states >= 0, (states > 0) - mean, 0.0)
    centre = np.asarray(X.T @ share).ravel()
    rows = sp.diags_array(root) @ X if sp.issparse(X) else root[:, None] * X
    squares = float((rows.multiply(rows) if sp.issparse(rows) else rows**2).sum()) / n - float(centre @ centre)
    penalty = PENALTY * max(squares, 1e-12)
    # The products of centred rows are written out, so that a sparse X stays sparse.
    if min(n, d) > LARGEST_SYSTEM:
        right = np.asarray(rows.T @ targets) - np.outer(centre, root @ targets)
        solution = _approached(rows, centre, penalty, right)
    elif d <= n:
        gram = _dense(rows.T @ rows).astype(np.float64) - n * np.outer(centre, centre)
        right = np.asarray(rows.T @ targets) - np.outer(centre, root @ targets)
        solution = _solved(gram, penalty, right)
    else:
        across = np.outer(np.asarray(rows @ centre).ravel(), root)
        kernel = _dense(rows @ rows.T).astype(np.float64) - across - across.T
        kernel += float(centre @ centre) * np.outer(root, root)
        dual = _solved(kernel, penalty, targets)
        solution = np.asarray(rows.T @ dual) - np.outer(centre, root @ dual)
    return solution, mean - centre @ solution


def linear_models(
    X: Any, states: np.ndarray, folds: Sequence[Fold], weight: np.ndarray | None = None
) -> tuple[Networks, np.ndarray]:
    """The linear models of all folds as networks without a hidden layer, and their held-out scores ``(n, C)``.

    Features are scaled, without bins.
    """
    models = []
    held = np.full(states.shape, np.nan, dtype=np.float32)
    for fold in folds:
        own = None if weight is None else weight[fold.train]
        coefficients, bias = fit_linear(X[fold.train], states[fold.train], own)
        held[fold.held] = np.asarray(X[fold.held] @ coefficients) + bias
        models.append([(coefficients.astype(np.float32), bias.astype(np.float32))])
    return Networks(models), held


def _approached(rows: Any, centre: np.ndarray, penalty: float, right: np.ndarray) -> np.ndarray:
    """The solution by conjugate gradients, all labels at once, to a ten thousandth of the right side."""
    solution, residual = np.zeros_like(right), right.copy()
    direction, square = residual.copy(), (residual**2).sum(axis=0)
    enough = 1e-8 * square
    for _ in range(STEPS):
        if (square <= enough).all():
            break
        product = np.asarray(rows.T @ np.asarray(rows @ direction)) + penalty * direction
        product -= rows.shape[0] * np.outer(centre, centre @ direction)
        step = square / np.maximum((direction * product).sum(axis=0), 1e-300)
        solution += step * direction
        residual -= step * product
        before, square = square, (residual**2).sum(axis=0)
        direction = residual + square / np.maximum(before, 1e-300) * direction
    return solution


def _solved(matrix: np.ndarray, penalty: float, right: np.ndarray) -> np.ndarray:
    matrix[np.diag_indices_from(matrix)] += penalty
    return scipy.linalg.solve(matrix, right, assume_a="pos", overwrite_a=True)


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
