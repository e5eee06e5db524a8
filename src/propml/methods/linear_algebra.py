"""Linear algebra that several methods share: products of rows, ridge systems, proximal steps, and a regressed cut.

Proximal steps: prox_{t f}(A) = argmin_B ½‖B − A‖² + t f(B); for f = ‖·‖₁ it shrinks the entries, for f = ‖·‖_* the
singular values.
"""

from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.special import expit

from propml.methods.base import CandidateClassifier, Features

# Rows up to which all inner products are kept (800 MB); above, they are computed where they are needed.
GRAM_ROWS = 10_000
# Numbers in one block of work (32 MB).
BLOCK = 2**22
# A singular value s of A is known from A'A to about 1e-16 s₁²/s; cut at t > 1e-6 s₁ that is 1e-10 s₁ at most.
NEGLIGIBLE = 1e-12


def dense(matrix: Features) -> np.ndarray:
    """The matrix as an array."""
    return sp.csr_array(matrix).toarray() if sp.issparse(matrix) else matrix


def with_bias(X: Features) -> Features:
    """A column of ones behind the features."""
    ones = np.ones((X.shape[0], 1))
    return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])


class RidgeSystem:
    """Ridge regression on fixed features for many targets: one factor of the smaller of the two equal systems."""

    def __init__(self, features: Features, alpha: float) -> None:
        n, d = features.shape
        self.features, self.alpha, self.primal = features, alpha, d <= n
        gram = dense(features.T @ features if self.primal else features @ features.T)
        gram[np.diag_indices_from(gram)] += alpha
        self.factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)

    def weights(self, targets: np.ndarray) -> np.ndarray:
        """(Φ'Φ + α I)⁻¹ Φ' B."""
        if self.primal:
            return scipy.linalg.cho_solve(self.factor, np.asarray(self.features.T @ targets), check_finite=False)
        return np.asarray(self.features.T @ scipy.linalg.cho_solve(self.factor, targets, check_finite=False))

    def fitted(self, targets: np.ndarray) -> np.ndarray:
        """H B = Φ (Φ'Φ + α I)⁻¹ Φ' B."""
        if self.primal:
            return np.asarray(self.features @ self.weights(targets))
        return targets - self.alpha * scipy.linalg.cho_solve(self.factor, targets, check_finite=False)


class LinearClassifier(CandidateClassifier):
    """Base of methods with scores that are linear in the features; the last row of ``coef_`` is the bias."""

    coef_: np.ndarray

    def _scores(self, X: Features) -> np.ndarray:
        return np.asarray(with_bias(X) @ self.coef_)


class InnerProducts:
    """Inner products of the rows: all that neighbours, reconstructions and dual machines need to know of them."""

    def __init__(self, X: Features) -> None:
        self.X = X
        self.n_rows, self.n_features = X.shape
        self.squares = np.asarray((X * X).sum(axis=1)).ravel()
        self.matrix = dense(X @ X.T) if self.n_rows <= GRAM_ROWS else None

    def block(self, rows: slice) -> np.ndarray:
        """Products of some rows with all rows, ``(n_rows, n_samples)``."""
        return self.matrix[rows] if self.matrix is not None else dense(self.X[rows] @ self.X.T)

    def among(self, rows: np.ndarray) -> np.ndarray:
        """Products within each group of rows: ``(n_groups, size)`` indices give ``(n_groups, size, size)``."""
        if self.matrix is not None:
            return self.matrix.ravel().take((rows * self.n_rows)[:, :, None] + rows[:, None, :])
        products = np.empty((*rows.shape, rows.shape[1]))
        step = 1 if sp.issparse(self.X) else max(1, BLOCK // (rows.shape[1] * self.n_features))
        for start in range(0, len(rows), step):
            members = rows[start : start + step]
            part = self.X[members[0] if step == 1 else members]
            products[start : start + step] = dense(part @ (part.T if part.ndim == 2 else part.transpose(0, 2, 1)))
        return products


class PrincipalAxes:
    """Φ = U Σ V', from the smaller of Φ'Φ and ΦΦ': one factorisation, after which ridge-like systems are divisions.

    Weights that are learned from Φ'(…) lie in the span of V, so nothing is lost: W = V B, Φ W = (U Σ) B, ‖W‖ = ‖B‖.
    Sparse features stay sparse. ``squares`` are Σ², ``(rank,)``, without zeros; ``directions`` is V where there are not
    more features than rows (``primal``), and otherwise U Σ⁻¹, so that V = Φ' U Σ⁻¹.
    """

    def __init__(self, features: Features) -> None:
        self.features, self.primal = features, features.shape[1] <= features.shape[0]
        gram = dense(features.T @ features if self.primal else features @ features.T)
        # The transpose of a symmetric matrix is itself, in the order in which LAPACK works without a copy.
        squares, vectors = scipy.linalg.eigh(gram.T, driver="evd", overwrite_a=True, check_finite=False)
        real = squares > squares[-1] * max(features.shape) * np.finfo(squares.dtype).eps
        self.squares, vectors = squares[real], vectors[:, real]
        self.directions = vectors if self.primal else vectors / np.sqrt(self.squares)

    @cached_property
    def scaled(self) -> np.ndarray:
        """U Σ = Φ V, ``(n_samples, rank)``: the rows in the coordinates of V."""
        return np.asarray(self.features @ self.directions) if self.primal else self.directions * self.squares

    def coordinates(self, weights: np.ndarray) -> np.ndarray:
        """V' W: weights of the axes from weights of the features."""
        return self.directions.T @ (weights if self.primal else np.asarray(self.features @ weights))

    def weights(self, coordinates: np.ndarray) -> np.ndarray:
        """V B: weights of the features from weights of the axes."""
        inner = self.directions @ coordinates
        return inner if self.primal else np.asarray(self.features.T @ inner)

    def solve(self, right: np.ndarray, c: float) -> np.ndarray:
        """(Φ'Φ + c I)⁻¹ R, where what is orthogonal to V is divided by c alone."""
        inside = self.coordinates(right)
        return right / c + self.weights(inside / (self.squares[:, None] + c) - inside / c)


def soft(A: np.ndarray, t: float) -> np.ndarray:
    """sign(A) max(|A| − t, 0): the proximal step of t ‖·‖₁."""
    return np.sign(A) * np.maximum(np.abs(A) - t, 0.0)


def singular_value_threshold(A: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """U max(Σ − t, 0) V' for A = U Σ V', the proximal step of t ‖·‖_*, and the singular values left in it, falling."""
    if A.shape[0] < A.shape[1]:
        shrunk, left_over = singular_value_threshold(A.T, t)
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


def regressed_cut(scores: np.ndarray, marked: np.ndarray, *, released: bool = False) -> np.ndarray:
    """The weights of a cut that is linear in the scores, regressed on :func:`best_cuts`; the last one is its bias.

        cut(f) = [f, 1] c,   c = argmin Σ_i (cut(f_i) − best_i)²,   P(j | f) = σ(4 (f_j − cut(f)))

    A. Elisseeff, J. Weston: "A Kernel Method for Multi-Labelled Classification", NIPS 2001, cut their Rank-SVM so.
    """
    return np.linalg.lstsq(with_bias(scores), best_cuts(scores, marked, released=released), rcond=None)[0]


def cut_probabilities(scores: np.ndarray, cut_coef: np.ndarray) -> np.ndarray:
    """Probabilities ``(n_samples, n_labels)``, 0.5 for a score at the cut of its row."""
    cuts = with_bias(scores) @ cut_coef
    return expit(4.0 * (scores - cuts[:, None]))


def best_cuts(scores: np.ndarray, marked: np.ndarray, *, released: bool = False) -> np.ndarray:
    """For each row the cut with the fewest errors, ``(n_samples,)``; the lowest of several.

    Cuts are tried half-way between neighbouring scores, and 0.1 below the lowest and above the highest of them.
    ``released`` tries 0.1 below the score of the *first label* instead of the lowest, a slip of PML-NI's code.

    >>> best_cuts(np.array([[0.1, 0.8, 0.4]]), np.array([[False, True, False]])).round(3)
    array([0.6])
    """
    order = np.argsort(scores, axis=1, kind="stable")
    rising, wanted = np.take_along_axis(scores, order, axis=1), np.take_along_axis(marked, order, axis=1)
    lowest = scores[:, :1] if released else rising[:, :1]
    cuts = np.hstack([lowest - 0.1, (rising[:, 1:] + rising[:, :-1]) / 2, rising[:, -1:] + 0.1])
    # Each score that a cut passes on its way up is one error more where it is marked, one less where it is not.
    change = np.cumsum(np.where(wanted, 1, -1), axis=1)
    errors = np.hstack([np.zeros((len(scores), 1), dtype=change.dtype), change])
    return cuts[np.arange(len(scores)), errors.argmin(axis=1)]
