"""The principal axes of the features: one factorisation, after which ridge-like systems are divisions.

    Φ = U Σ V',   weights W = V B,   scores Φ W = (U Σ) B,   ‖W‖ = ‖B‖

Weights that are learned from Φ'(…) lie in the span of V, so nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from propml.methods.base import Features


@dataclass(frozen=True)
class PrincipalAxes:
    """Φ = U Σ V', from the smaller of Φ'Φ and ΦΦ'; sparse features stay sparse.

    Attributes
    ----------
    scaled : ndarray, shape (n_samples, rank)
        U Σ = Φ V, the rows in the coordinates of V.
    squares : ndarray, shape (rank,)
        Σ².
    directions : ndarray
        V itself, ``(n_features, rank)``, where there are fewer features than rows; otherwise U Σ⁻¹, so that
        V = Φ' U Σ⁻¹.
    primal : bool
        Whether ``directions`` is V.
    """

    scaled: np.ndarray
    squares: np.ndarray
    directions: np.ndarray
    primal: bool

    @classmethod
    def of(cls, features: Features) -> PrincipalAxes:
        """Of a matrix of rows, ``(n_samples, n_features)``."""
        primal = features.shape[1] <= features.shape[0]
        gram = features.T @ features if primal else features @ features.T
        gram = gram if isinstance(gram, np.ndarray) else gram.toarray()
        squares, vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False)
        real = squares > squares[-1] * len(squares) * np.finfo(squares.dtype).eps
        squares, vectors = squares[real], vectors[:, real]
        if primal:
            return cls(np.asarray(features @ vectors), squares, vectors, primal)
        return cls(vectors * np.sqrt(squares), squares, vectors / np.sqrt(squares), primal)

    def weights(self, features: Features, coordinates: np.ndarray) -> np.ndarray:
        """V B: weights of the features from weights of the axes."""
        inner = self.directions @ coordinates
        return inner if self.primal else np.asarray(features.T @ inner)
