"""Ridge regression on candidates: a member of the ensemble, and the first judge of how plausible each candidate is.

A label is a candidate because it is true, with probability t, or at its noise rate ρ: r = t + (1 − t) ρ. So a
candidate is true with probability q = (r − ρ) / ((1 − ρ) r), which is taken relative to the best one of its row. Here r
is the leave-one-out prediction (no row is judged by itself), and ρ the upper quartile of the label's predictions in
rows that exclude it, where it is surely false. Without noise ρ is near 0, and candidates are alike. The regression is
solved once more with q in the place of 1, and ranking networks count every candidate as much as it is plausible. The
penalty is not searched: it is 0.3 of the mean squared norm of a centred row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from propml.folds import Fold, row_blocks
from propml.neural.ensemble import Networks

PENALTY = 0.3
# The smaller side of the system above which its cubic cost is no longer small beside the networks'. Sparse features go
# on by conjugate gradients, as long as all their steps multiply no more numbers than these: some seconds.
LARGEST_SYSTEM = 4000
MOST_PRODUCTS = 2e10
STEPS = 50
# The least plausible candidate still counts so much of the most plausible one.
LEAST = 1e-3
# The quantile that ρ is, and its bound; quantiles from 0.65 to 0.9 differ by 0.3 points on the mean of seven datasets.
UPPER, MOST_NOISE = 0.75, 0.9
# Entries (folds × rows × labels) above which networks take all candidates for equally plausible: 40 MB.
MOST_ENTRIES = 20_000_000


def is_solvable(X: Any, n_labels: int, n_fits: int) -> bool:
    """Whether so many fits take little time beside the networks."""
    return min(X.shape) <= LARGEST_SYSTEM or (sp.issparse(X) and 2 * STEPS * X.nnz * n_labels * n_fits <= MOST_PRODUCTS)


def fit_linear(X: Any, states: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``(D, C)`` and bias ``(C,)``; an unknown state (-1) is taken for the label's mean."""
    return _System(X, weight).solve(states > 0, states >= 0)


def linear_models(
    X: Any, states: np.ndarray, folds: Sequence[Fold], weight: np.ndarray | None = None
) -> tuple[Networks, np.ndarray, np.ndarray | None]:
    """Refined models of all folds as networks without a hidden layer, their held-out scores, and plausibilities.

    Features are scaled, without bins.

    Returns
    -------
    models : Networks
    held : ndarray, shape (n, C)
    plausible : ndarray of float16, shape (folds, n, C), or None
        Of every fold's training rows, judged without its held-out ones: q of a candidate, 0 for an excluded label, -1
        for an unknown one; None above :data:`MOST_ENTRIES`.
    """
    models, held = [], np.full(states.shape, np.nan, dtype=np.float32)
    few = len(folds) * states.size <= MOST_ENTRIES
    plausible = np.repeat(states[None].astype(np.float16), len(folds), axis=0) if few else None
    for number, fold in enumerate(folds):
        own = None if weight is None else weight[fold.train]
        system, marks = _System(X[fold.train], own), states[fold.train]
        targets = plausibility(system.left_out(marks > 0, marks >= 0), marks)
        coefficients, bias = system.solve(np.maximum(targets, 0), marks >= 0)
        held[fold.held] = _product(X[fold.held], coefficients) + bias
        models.append([(coefficients.astype(np.float32), bias.astype(np.float32))])
        if plausible is not None:
            plausible[number, fold.train] = targets
    return Networks(models), held, plausible


def plausibility(scores: np.ndarray, states: np.ndarray) -> np.ndarray:
    """How likely each candidate is true, beside the best one of its row; 0 for excluded labels, -1 for unknown ones.

    >>> scores = np.array([[0.9, 0.3], [0.0, 0.3], [0.0, 0.2]])  # label 1 is predicted as much where it is excluded
    >>> plausibility(scores, np.array([[1, 1], [0, 0], [0, 1]]))
    array([[1.   , 0.001],
           [0.   , 0.   ],
           [0.   , 1.   ]])
    """
    pairs = zip(scores.T, states.T, strict=True)
    rate = np.array([np.quantile(own[state == 0], UPPER) if (state == 0).any() else 0.0 for own, state in pairs])
    rate, scores = np.clip(rate, 0, MOST_NOISE), np.maximum(scores, LEAST)
    true = np.where(states > 0, np.maximum((scores - rate) / ((1 - rate) * scores), LEAST), 0.0)
    shares = true / np.maximum(true.max(axis=1, keepdims=True), LEAST)
    return np.where(states > 0, np.maximum(shares, LEAST), states)


class _System:
    """The ridge problem of some rows: factorised, by features or by rows, or too large for that."""

    def __init__(self, X: Any, weight: np.ndarray | None) -> None:
        n, d = X.shape
        self.X, self.weight = X, weight
        # Weighted least squares are plain ones on rows that are multiplied by the roots of their weights.
        self.root = np.ones(n) if weight is None else np.sqrt(weight * (n / weight.sum()))
        self.rows = sp.diags_array(self.root) @ X if sp.issparse(X) else self.root[:, None] * X
        self.centre = _product(X.T, self.root**2) / n
        squares = float((self.rows.multiply(self.rows) if sp.issparse(X) else self.rows**2).sum()) / n
        self.penalty = PENALTY * max(squares - float(self.centre @ self.centre), 1e-12)
        self.by_rows = n < d
        self.factor = None if min(n, d) > LARGEST_SYSTEM else self._factorised()

    def _factorised(self) -> torch.Tensor:
        """The lower Cholesky factor; products of centred rows are written out, so that a sparse X stays sparse."""
        if self.by_rows:
            across = np.outer(_product(self.rows, self.centre), self.root)
            matrix = _product(self.rows, self.rows.T) - across - across.T
            matrix += float(self.centre @ self.centre) * np.outer(self.root, self.root)
        else:
            matrix = _product(self.rows.T, self.rows)
            matrix -= len(self.root) * np.outer(self.centre, self.centre)
        matrix[np.diag_indices_from(matrix)] += self.penalty
        return torch.linalg.cholesky(torch.from_numpy(matrix))

    def solve(self, targets: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights and bias for targets ``(n, C)``; one that is not known is taken for the label's mean."""
        share = (self.root**2)[:, None]
        mean = (targets * known * share).sum(axis=0) / np.maximum((known * share).sum(axis=0), 1e-12)
        right = self.root[:, None] * np.where(known, targets - mean, 0.0)
        if self.by_rows and self.factor is not None:
            solution = self._transposed(torch.cholesky_solve(torch.from_numpy(right), self.factor).numpy())
        elif self.factor is not None:
            solution = torch.cholesky_solve(torch.from_numpy(self._transposed(right)), self.factor).numpy()
        else:
            solution = self._approached(self._transposed(right))
        return solution, mean - self.centre @ solution

    def left_out(self, targets: np.ndarray, known: np.ndarray) -> np.ndarray:
        """What the model of all other rows predicts of each row, ``(n, C)``; of a large system, that of the other half.

        Exact but for the mean of each label, which is that of all rows.
        """
        if self.factor is None:
            half, predicted = np.arange(len(self.root)) % 2 == 0, np.empty(targets.shape)
            for own, other in ((half, ~half), (~half, half)):
                part = _System(self.X[other], None if self.weight is None else self.weight[other])
                coefficients, bias = part.solve(targets[other], known[other])
                predicted[own] = _product(self.X[own], coefficients) + bias
            return predicted
        coefficients, bias = self.solve(targets, known)
        leverage = np.clip(self._leverage(), 0, 1 - 1e-9)[:, None]
        fitted = _product(self.X, coefficients) + bias
        return (fitted - leverage * np.where(known, targets, fitted)) / (1 - leverage)

    def _leverage(self) -> np.ndarray:
        """How much each row pulls its own prediction."""
        assert self.factor is not None
        if self.by_rows:
            return 1 - self.penalty * torch.cholesky_inverse(self.factor).diagonal().numpy()
        leverage = np.empty(len(self.root))
        for block in row_blocks(*self.rows.shape):
            centred = _dense(self.rows[block]) - np.outer(self.root[block], self.centre)
            solved = torch.linalg.solve_triangular(self.factor, torch.from_numpy(centred.T), upper=False)
            leverage[block] = solved.square().sum(dim=0).numpy()
        return leverage

    def _transposed(self, values: np.ndarray) -> np.ndarray:
        """The centred rows, transposed, times values ``(n, C)``."""
        return _product(self.rows.T, values) - np.outer(self.centre, self.root @ values)

    def _approached(self, right: np.ndarray) -> np.ndarray:
        """The solution by conjugate gradients, all labels at once, to a ten thousandth of the right side."""
        solution, residual = np.zeros_like(right), right.copy()
        direction, square = residual.copy(), (residual**2).sum(axis=0)
        enough = 1e-8 * square
        for _ in range(STEPS):
            if (square <= enough).all():
                break
            product = _product(self.rows.T, _product(self.rows, direction)) + self.penalty * direction
            product -= len(self.root) * np.outer(self.centre, self.centre @ direction)
            step = square / np.maximum((direction * product).sum(axis=0), 1e-300)
            solution += step * direction
            residual -= step * product
            before, square = square, (residual**2).sum(axis=0)
            direction = residual + square / np.maximum(before, 1e-300) * direction
        return solution


def _product(left: Any, right: Any) -> np.ndarray:
    """``left @ right``, dense and in double precision.

    Dense matrices are torch's, as the networks are: NumPy's and SciPy's threads, each of a pool of their own, go on
    waiting for work for a while, which costs the next pool as much as a small product takes.
    """
    if sp.issparse(left):
        return _dense(left @ right).astype(np.float64, copy=False)
    return torch.matmul(torch.from_numpy(left).double(), torch.from_numpy(right).double()).numpy()


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
