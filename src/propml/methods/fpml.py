"""fPML: feature-induced partial multi-label learning, by joint factorisation of labels and features.

G. Yu, X. Chen, C. Domeniconi, J. Wang, Z. Li, Z. Zhang, X. Wu: "Feature-Induced Partial Multi-label Learning",
ICDM 2018. The objective is *reconstructed* from the abstract and from later papers that quote its settings; no code was
released, and rank and constraints of the factors are not known to us.

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
* The rank k decides most of the outcome: on Birds at 50 % noise the average precision is 49 for k = 9, 56 for k = 19,
  59 for k = 50. The default is the larger of the number of labels and 100: fewer dimensions than labels cannot hold S
  even without noise, and with few labels the factors are spent on X. Held-out *candidates* say the same (Medical at
  100 % noise, average precision on candidates: 84.4 for k = C = 45, 85.1 for 50, 87.6 for 100 and for 200);
  no true label was used.
* The factors are not constrained to be non-negative.
* W is never formed while iterating: Φ W = H G Q' with H = Φ (Φ'Φ + (λ₃/λ₂) I)⁻¹ Φ', which one Cholesky factor of the
  smaller of the two equal systems applies to the k columns of G. Sparse features stay sparse.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from propml.methods.base import Features, check_positive, positive_int
from propml.methods.linear_algebra import LinearClassifier, RidgeSystem, with_bias
from propml.progress import progress_bar
from propml.schema import Array
from propml.targets import Candidates


@dataclass(eq=False, repr=False)
class FPMLClassifier(LinearClassifier):
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

    rank: int | None = None
    lam1: float = 1.0
    lam2: float = 1.0
    lam3: float = 10.0
    max_iter: int = 100
    tol: float = 1e-4
    random_state: int = 0
    verbose: bool = False

    _learned: ClassVar = {
        "coef_": Array("f", "features+1", "labels"),
        "sample_factor_": Array("f", "rows", "rank"),
        "label_factor_": Array("f", "labels", "rank"),
        "objective_": Array("f", "iterations"),
        "n_iter_": int,
    }

    def _fit(self, X: Features, candidates: Candidates) -> None:
        check_positive(self, "lam1", "lam2", "lam3")
        positive_int("max_iter", self.max_iter)
        lam1, lam2, S = self.lam1, self.lam2, candidates.to_sparse().astype(np.float64)
        k = max(S.shape[1], 100) if self.rank is None else positive_int("rank", self.rank)
        G = np.random.default_rng(self.random_state).uniform(size=(X.shape[0], min(k, X.shape[0])))
        Q, smooth = np.zeros((S.shape[1], G.shape[1])), np.zeros_like(G)
        system = RidgeSystem(with_bias(X), self.lam3 / lam2)
        size_of_S, size_of_X = _squared(S), _squared(X)
        objective: list[float] = []
        with progress_bar("fPML", self.max_iter, show=self.verbose) as bar:
            for _ in range(self.max_iter):
                # Φ W = smooth Q', with the Q that W was made with.
                inverse, old_Q = scipy.linalg.pinvh(G.T @ G), Q
                Q = (S.T @ G + lam2 * old_Q @ (smooth.T @ G)) @ inverse / (1 + lam2)
                F = np.asarray(X.T @ G) @ inverse
                right = S @ Q + lam2 * smooth @ (old_Q.T @ Q) + lam1 * np.asarray(X @ F)
                G = right @ scipy.linalg.pinvh((1 + lam2) * Q.T @ Q + lam1 * F.T @ F)
                smooth = system.fitted(G)
                # The objective at the best W, from k × k traces: nothing of the size of S or X is made.
                inner, labels = G.T @ G, Q.T @ Q
                of_labels = size_of_S - 2 * np.vdot(S.T @ G, Q) + np.vdot(inner, labels)
                of_features = size_of_X - 2 * np.vdot(np.asarray(X.T @ G), F) + np.vdot(inner, F.T @ F)
                of_mapping = np.vdot(inner - G.T @ smooth, labels)
                objective.append(float(of_labels + lam1 * of_features + lam2 * of_mapping))
                bar.advance(note=f"objective {objective[-1]:.6g}")
                if len(objective) > 1 and objective[-2] - objective[-1] < self.tol * objective[-2]:
                    break
        self.coef_ = system.weights(G) @ Q.T
        self.sample_factor_, self.label_factor_ = G, Q
        self.objective_ = np.array(objective)
        self.n_iter_ = len(objective)


def _squared(matrix: Features) -> float:
    values = matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.data)
    return float(np.vdot(values, values))
