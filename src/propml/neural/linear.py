"""Ridge regression on candidates, which chooses how loud rare columns of mostly-zero features are.

Its penalty is not searched: it is 0.3 of the mean squared norm of a centred row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

PENALTY = 0.3
# The smaller side of the system above which its cubic cost is no longer small beside the networks'.
LARGEST_SYSTEM = 8000


def fit_linear(X: Any, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``(D, C)`` and bias ``(C,)``.

    Parameters
    ----------
    X : ndarray or csr_array, shape (n, D)
    states : ndarray of int8, shape (n, C)
        1 candidate, 0 excluded, -1 unknown (taken for the label's mean).
    """
    known = states >= 0
    mean = (states > 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    targets = np.where(known, (states > 0) - mean, 0.0)
    n, d = X.shape
    centre = np.asarray(X.mean(axis=0)).ravel()
    squares = float((X.multiply(X) if sp.issparse(X) else X**2).sum()) / n - float(centre @ centre)
    penalty = PENALTY * max(squares, 1e-12)
    # (X - 1c')'(X - 1c') and its dual are written out, so that a sparse X stays sparse.
    if d <= n:
        gram = _dense(X.T @ X).astype(np.float64) - n * np.outer(centre, centre)
        right = np.asarray(X.T @ targets) - np.outer(centre, targets.sum(axis=0))
        solution = _solved(gram, penalty, right)
    else:
        across = np.asarray(X @ centre).ravel()
        kernel = _dense(X @ X.T).astype(np.float64) - across[:, None] - across[None, :] + float(centre @ centre)
        dual = _solved(kernel, penalty, targets)
        solution = np.asarray(X.T @ dual) - np.outer(centre, dual.sum(axis=0))
    return solution, mean - centre @ solution


def _solved(matrix: np.ndarray, penalty: float, right: np.ndarray) -> np.ndarray:
    matrix[np.diag_indices_from(matrix)] += penalty
    return scipy.linalg.solve(matrix, right, assume_a="pos", overwrite_a=True)


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
