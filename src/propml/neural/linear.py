"""The linear partner: ridge regression on candidates, refined once by its own leave-one-out predictions.

Where features are many and rows few a linear model can beat networks. Its penalty is not searched: it is 0.3 of the
mean squared norm of a centred row. The penalty that predicts held-out *candidates* best is too strong: what it smooths
over is what tells true candidates from false ones.

Refinement: with r the leave-one-out predictions (closed form, no row is judged by itself), candidate j of row i becomes
the soft target r_ij / max_k r_ik over the row's candidates, and the regression is solved again with the same
factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

PENALTY = 0.3
# The smaller side of the system above which its cubic cost is no longer small beside the networks'.
LARGEST_SYSTEM = 8000


def fit_linear(
    X: Any, states: np.ndarray, weight: np.ndarray | None = None, *, refine: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``(D, C)`` and bias ``(C,)``.

    Parameters
    ----------
    X : ndarray or csr_array, shape (n, D)
    states : ndarray of int8, shape (n, C)
        1 candidate, 0 excluded, -1 unknown (taken for the label's mean).
    weight : ndarray, shape (n,), optional
        How much each row counts.
    refine : bool
        Solve once more for the soft targets.
    """
    system = _System.factorised(X, weight)
    candidates, known = states > 0, states >= 0
    coefficients, bias = system.solve(candidates.astype(np.float64), known)
    if not refine:
        return coefficients, bias
    fitted = np.asarray(X @ coefficients) + bias
    leverage = system.leverage[:, None]
    left_out = (fitted - leverage * candidates) / (1 - leverage)
    plausible = np.where(candidates, np.maximum(left_out, 1e-3), 0.0)
    largest = plausible.max(axis=1, keepdims=True)
    return system.solve(plausible / np.where(largest > 0, largest, 1.0), known)


@dataclass(frozen=True)
class _System:
    """The ridge problem of given rows, factorised: by features where they are fewer than rows, by rows otherwise."""

    X: Any
    weight: np.ndarray
    centre: np.ndarray
    inverse: np.ndarray
    leverage: np.ndarray
    primal: bool

    @classmethod
    def factorised(cls, X: Any, weight: np.ndarray | None) -> _System:
        n, d = X.shape
        w = np.ones(n) if weight is None else weight * (n / weight.sum())
        centre = np.asarray(w @ X).ravel() / n
        squares = np.asarray((X.multiply(X) if sp.issparse(X) else X**2).sum(axis=1)).ravel()
        penalty = PENALTY * max(float(w @ squares) / n - float(centre @ centre), 1e-12)
        # (X - 1c')' W (X - 1c') and its dual are written out, so that a sparse X stays sparse.
        if d <= n:
            weighted = X.multiply(w[:, None]).tocsr() if sp.issparse(X) else X * w[:, None]
            gram = _dense(X.T @ weighted).astype(np.float64) - n * np.outer(centre, centre)
            inverse = _inverse(gram, penalty)
            return cls(X, w, centre, inverse, w * _quadratic(X, centre, inverse), True)
        across = np.asarray(X @ centre).ravel()
        kernel = _dense(X @ X.T).astype(np.float64) - across[:, None] - across[None, :] + float(centre @ centre)
        root = np.sqrt(w)
        inverse = _inverse(root[:, None] * kernel * root, penalty)
        return cls(X, w, centre, inverse, np.clip(1 - penalty * np.diag(inverse), 0, 1 - 1e-9), False)

    def solve(self, targets: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = (self.weight @ np.where(known, targets, 0.0)) / np.maximum(self.weight @ known, 1e-12)
        centred = np.where(known, targets - mean, 0.0)
        if self.primal:
            pulled = self.weight[:, None] * centred
            right = np.asarray(self.X.T @ pulled) - np.outer(self.centre, pulled.sum(axis=0))
            solution = self.inverse @ right
        else:
            root = np.sqrt(self.weight)[:, None]
            dual = (self.inverse @ (root * centred)) * root
            solution = np.asarray(self.X.T @ dual) - np.outer(self.centre, dual.sum(axis=0))
        return solution, mean - self.centre @ solution


def _inverse(matrix: np.ndarray, penalty: float) -> np.ndarray:
    matrix[np.diag_indices_from(matrix)] += penalty
    factor, lower = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)
    return scipy.linalg.cho_solve((factor, lower), np.eye(len(matrix)))


def _quadratic(X: Any, centre: np.ndarray, inverse: np.ndarray, block: int = 4096) -> np.ndarray:
    """(x - c)' M (x - c) for every row, at most 1."""
    values = np.empty(X.shape[0])
    for start in range(0, X.shape[0], block):
        rows = _dense(X[start : start + block]) - centre
        values[start : start + block] = np.einsum("ij,ij->i", rows @ inverse, rows)
    return np.clip(values, 0, 1 - 1e-9)


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
