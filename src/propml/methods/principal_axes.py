"""The principal axes of the features: one factorisation, after which ridge-like systems are divisions.

    Φ = U Σ V',   weights W = V B,   scores Φ W = (U Σ) B,   ‖W‖ = ‖B‖

Weights that are learned from Φ'(…) lie in the span of V, so nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from propml.methods.base import Features
from propml.methods.inner_products import dense


@dataclass(frozen=True)
class PrincipalAxes:
    """Φ = U Σ V', from the smaller of Φ'Φ and ΦΦ'; sparse features stay sparse.

    Attributes
    ----------
    features : ndarray or csr_array, shape (n_samples, n_features)
        Φ.
    squares : ndarray, shape (rank,)
        Σ², without zeros.
    directions : ndarray
        V itself, ``(n_features, rank)``, where there are not more features than rows; otherwise U Σ⁻¹, so that
        V = Φ' U Σ⁻¹.
    primal : bool
        Whether ``directions`` is V.
    """

    features: Features
    squares: np.ndarray
    directions: np.ndarray
    primal: bool

    @classmethod
    def of(cls, features: Features) -> PrincipalAxes:
        """Of a matrix of rows, ``(n_samples, n_features)``."""
        primal = features.shape[1] <= features.shape[0]
        gram = dense(features.T @ features if primal else features @ features.T)
        # The transpose of a symmetric matrix is itself, in the order in which LAPACK works without a copy.
        squares, vectors = scipy.linalg.eigh(gram.T, driver="evd", overwrite_a=True, check_finite=False)
        real = squares > squares[-1] * max(features.shape) * np.finfo(squares.dtype).eps
        squares, vectors = squares[real], vectors[:, real]
        return cls(features, squares, vectors if primal else vectors / np.sqrt(squares), primal)

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
