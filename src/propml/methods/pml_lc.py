"""PML-lc: partial multi-label learning, confidences tied by label correlations.

M.-K. Xie, S.-J. Huang: "Partial Multi-Label Learning", AAAI 2018. Every candidate has a confidence p_ij; the scores
rank candidates above the other labels, each pair weighted by the confidence, and labels that go together shall be
believed together:

    min C₁ Σ_i Σ_{j ∈ S_i} p_ij ℓ_ij(W) + ½ ‖W‖² + C₃ Σ_i Σ_{j,k ∈ S_i} c_jk (p_ij − p_ik)²
    ℓ_ij = Σ_{k ∉ S_i} max(0, 1 − f_j + f_k) / (|S_i| (C − |S_i|)),    0 ≤ p_ij ≤ 1,   Σ_j p_ij ≥ 1

where c_jk is the part of the rows with candidate j that have candidate k too. W and P are found in turn: W as a ranking
machine, P as a quadratic program, which accelerated projected gradient steps solve for all rows at once:

    gradient = C₁ ℓ + (P − S) + 4 C₃ (P ∘ (S c̄) − P c̄) on candidates,   c̄ = (c + c') / 2

Only the abstract could be read; objective and constraints are *reconstructed*, faithful in spirit.

Deviations: those of :mod:`propml.methods.confidence_ranking` (squared hinge, L-BFGS, the cut), and

* The term ½ ‖P − S‖² is added, and P starts at S: candidates are believed until something speaks against them.
  Without it nothing rewards belief, the least total of 1 is always the best one, and what is left of a row with eight
  labels is one label's worth.
* C₁ = C₃ = 1, the least of the values among which the paper is said to choose by cross-validation: on Scene, Medical
  and Enron held-out *candidates* are predicted worse with larger C₁, on Birds hardly better; C₃ hardly matters.

Published numbers were made on features in [−1, 1].
"""

from __future__ import annotations

import numpy as np

from propml.methods.base import Features
from propml.methods.confidence_ranking import ConfidenceRankingClassifier, Structure, project_confidences


class PMLlcClassifier(ConfidenceRankingClassifier):
    """Confidence-weighted ranking; confidences of labels that go together are alike (reconstructed).

    Parameters
    ----------
    C1, max_iter, tol, verbose
        As in :class:`~propml.methods.confidence_ranking.ConfidenceRankingClassifier`.
    C3 : float
        Weight of the label correlations.

    Attributes
    ----------
    coef_, confidences_, cut_coef_, objective_, n_iter_
        As in :class:`~propml.methods.confidence_ranking.ConfidenceRankingClassifier`; the objective never rises.
    """

    def __init__(
        self, C1: float = 1.0, C3: float = 1.0, max_iter: int = 10, tol: float = 1e-3, verbose: bool = False
    ) -> None:
        self.C1 = C1
        self.C3 = C3
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _structure(self, X: Features, candidates: np.ndarray) -> Structure:
        return LabelCorrelation(candidates, self.C3)


class LabelCorrelation:
    """C₃ Σ_i Σ_{j,k ∈ S_i} c_jk (p_ij − p_ik)²."""

    def __init__(self, candidates: np.ndarray, C3: float) -> None:
        self.candidates, self.C3 = candidates, C3
        self.together = correlation(candidates)
        self.degrees = np.where(candidates, candidates.astype(np.float64) @ self.together, 0.0)

    def penalty(self, confidences: np.ndarray) -> float:
        """The term itself, as 2 C₃ p'(D − c̄) p in each row."""
        return float(2 * self.C3 * np.vdot(confidences, self._laplacian(confidences)))

    def update(self, confidences: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """Accelerated projected gradient; the problem bends by 1 at least and by ``steepest`` at most."""
        steepest = 1 + 8 * self.C3 * self.degrees.max()
        momentum = (np.sqrt(steepest) - 1) / (np.sqrt(steepest) + 1)
        ahead = confidences
        for _ in range(int(20 * np.sqrt(steepest)) + 20):
            gradient = costs + (ahead - self.candidates) + 4 * self.C3 * self._laplacian(ahead)
            before, confidences = confidences, project_confidences(ahead - gradient / steepest, self.candidates)
            if np.abs(confidences - before).max() < 1e-6:
                break
            ahead = confidences + momentum * (confidences - before)
        return confidences

    def _laplacian(self, confidences: np.ndarray) -> np.ndarray:
        return np.where(self.candidates, confidences * self.degrees - confidences @ self.together, 0.0)


def correlation(candidates: np.ndarray) -> np.ndarray:
    """How often two labels are candidates together, as a part of either, averaged over both; zero on the diagonal.

    >>> correlation(np.array([[True, True], [True, False]]))
    array([[0.  , 0.75],
           [0.75, 0.  ]])
    """
    counts = candidates.T.astype(np.float64) @ candidates
    parts = counts / np.maximum(np.diag(counts), 1)[:, None]
    np.fill_diagonal(parts, 0.0)
    return (parts + parts.T) / 2
