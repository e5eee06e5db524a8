"""fPML: feature-induced partial multi-label learning, by joint factorisation of labels and features.

G. Yu, X. Chen, C. Domeniconi, J. Wang, Z. Li, Z. Zhang, X. Wu: "Feature-Induced Partial Multi-label Learning",
ICDM 2018. The objective is *reconstructed* from the paper's abstract and from later papers that quote its settings; no
code was released, and rank and constraints of the factors are not known to us.

    min ‖S − G Q'‖² + λ₁ ‖X − G F'‖² + λ₂ ‖Φ W − G Q'‖² + λ₃ ‖W‖²,   Φ = [X, 1]

over G (n × k, samples), Q (C × k, labels), F (d × k, features) and W ((d + 1) × C). G Q' is the confidence in the
labels: candidates that neither the other candidates nor the features support do not fit into k dimensions. Every block
has an exact minimum given the others, so the objective never rises:

    A = S + λ₂ Φ W,    Q = A' G (G'G)⁺ / (1 + λ₂),    F = X' G (G'G)⁺
    G = (A Q + λ₁ X F) ((1 + λ₂) Q'Q + λ₁ F'F)⁺
    W = (Φ'Φ + (λ₃/λ₂) I)⁻¹ Φ' G Q'

Scores are Φ_test W, cut at 0.5.

Deviations, all of them choices that the reconstruction leaves open:

* W has a bias, without which a cut at 0.5 means nothing on features in [−1, 1]; the factorisation of X has none.
* The rank k decides most of the outcome (the factors must hold X as well as S, and d is larger than C): on Birds at
  50 % noise the average precision is 49 for k = 9, 56 for k = 19, 59 for k = 50. The default is the larger of the
  number of labels and 100: fewer dimensions than labels cannot hold S even without noise, and with few labels the
  factors are spent on X. Held-out *candidates* say the same (Medical at 100 % noise, average precision on candidates:
  84.4 for k = C = 45, 85.1 for 50, 87.6 for 100 and for 200); no true label was used.
* The factors are not constrained to be non-negative.
* W is never formed while iterating: Φ W = H G Q' with H = Φ (Φ'Φ + (λ₃/λ₂) I)⁻¹ Φ', which one Cholesky factor of the
  smaller of the two equal systems applies to the k columns of G. Sparse features stay sparse.

Published numbers were made on features in [−1, 1].
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from propml.methods.base import CandidateClassifier, Features
from propml.methods.linear_algebra import dense, with_bias
from propml.progress import progress_bar
from propml.schema import Array
from propml.targets import Candidates


class FPMLClassifier(CandidateClassifier):
    """Joint low-rank factorisation of candidate labels and features (reconstructed).

    Parameters
    ----------
    rank : int, optional
        The number of shared dimensions k; by default the larger of the number of labels and 100, at most the number
        of rows.
    lam1, lam2, lam3 : float
        Weights of the features' factorisation, of the mapping from features to confidences, and of the penalty; 1, 1
        and 10 are what later papers quote.
    max_iter : int
    tol : float
        Stop when the objective falls by less than this fraction of itself.
    random_state : int
        Seed of the first G, uniform on [0, 1].
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features + 1, n_labels)
        The weights W; the last row is the bias.
    sample_factor_ : ndarray, shape (n_samples, rank)
        G of the training rows; G Q' is the confidence in their labels.
    label_factor_ : ndarray, shape (n_labels, rank)
        Q.
    objective_ : ndarray, shape (n_iter_,)
        The objective after every iteration.
    n_iter_ : int
    """

    _learned: ClassVar = {
        "coef_": Array("f", "features+1", "labels"),
        "sample_factor_": Array("f", "rows", "rank"),
        "label_factor_": Array("f", "labels", "rank"),
        "objective_": Array("f", "iterations"),
        "n_iter_": int,
    }

    def __init__(
        self,
        rank: int | None = None,
        lam1: float = 1.0,
        lam2: float = 1.0,
        lam3: float = 10.0,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.lam1 = lam1
        self.lam2 = lam2
        self.lam3 = lam3
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, X: Features, candidates: Candidates) -> None:
        self._check_arguments()
        S = candidates.to_sparse().astype(np.float64)
        k = self.rank or max(S.shape[1], 100)
        G = np.random.default_rng(self.random_state).uniform(size=(X.shape[0], min(k, X.shape[0])))
        smoother = Smoother(with_bias(X), self.lam3 / self.lam2)
        smooth = np.zeros_like(G)  # H G
        Q = np.zeros((S.shape[1], G.shape[1]))
        norms = _squared(S), _squared(X)
        objective: list[float] = []
        with progress_bar("fPML", self.max_iter, show=self.verbose) as bar:
            for _ in range(self.max_iter):
                G, Q, F = self._sweep(X, S, G, Q, smooth)
                smooth = smoother.fitted(G)
                objective.append(self._objective(X, S, norms, (G, Q, F), smooth))
                bar.advance(note=f"objective {objective[-1]:.6g}")
                if len(objective) > 1 and objective[-2] - objective[-1] < self.tol * objective[-2]:
                    break
        self.coef_ = smoother.weights(G) @ Q.T
        self.sample_factor_, self.label_factor_ = G, Q
        self.objective_ = np.array(objective)
        self.n_iter_ = len(objective)

    def _sweep(
        self, X: Features, S: sp.csr_array, G: np.ndarray, Q: np.ndarray, smooth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Q, F and G, each at its minimum given the others; Φ W = ``smooth`` Q' with the Q that W was made with."""
        inverse = scipy.linalg.pinvh(G.T @ G)
        new_Q = (S.T @ G + self.lam2 * Q @ (smooth.T @ G)) @ inverse / (1 + self.lam2)
        F = np.asarray(X.T @ G) @ inverse
        system = (1 + self.lam2) * new_Q.T @ new_Q + self.lam1 * F.T @ F
        right = S @ new_Q + self.lam2 * smooth @ (Q.T @ new_Q) + self.lam1 * np.asarray(X @ F)
        return right @ scipy.linalg.pinvh(system), new_Q, F

    def _objective(
        self,
        X: Features,
        S: sp.csr_array,
        norms: tuple[float, float],
        factors: tuple[np.ndarray, np.ndarray, np.ndarray],
        smooth: np.ndarray,
    ) -> float:
        """The objective at the best W, from k × k traces: nothing of the size of S or X is made."""
        G, Q, F = factors
        inner, labels = G.T @ G, Q.T @ Q
        of_labels = norms[0] - 2 * np.vdot(S.T @ G, Q) + np.vdot(inner, labels)
        of_features = norms[1] - 2 * np.vdot(np.asarray(X.T @ G), F) + np.vdot(inner, F.T @ F)
        of_mapping = np.vdot(inner - G.T @ smooth, labels)
        return float(of_labels + self.lam1 * of_features + self.lam2 * of_mapping)

    def _scores(self, X: Features) -> np.ndarray:
        return np.asarray(with_bias(X) @ self.coef_)

    def _check_arguments(self) -> None:
        for name in ("lam1", "lam2", "lam3"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; fPML needs positive weights")
        if self.rank is not None and self.rank < 1:
            raise ValueError(f"rank is {self.rank}; give a positive number of dimensions, or None")
        if self.max_iter < 1:
            raise ValueError(f"max_iter is {self.max_iter}; give a positive number")


class Smoother:
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


def _squared(matrix: Features) -> float:
    values = matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.data)
    return float(np.vdot(values, values))
