"""PML-fp: partial multi-label learning, confidences tied to feature prototypes.

M.-K. Xie, S.-J. Huang: "Partial Multi-Label Learning", AAAI 2018. Every candidate has a confidence p_ij; the scores
rank candidates above the other labels, each pair weighted by the confidence, and a label is believed where the row
lies near the label's prototype:

    min C₁ Σ_i Σ_{j ∈ S_i} p_ij ℓ_ij(W) + ½ ‖W‖² + C₂ Σ_i Σ_{j ∈ S_i} p_ij ‖x_i − m_j‖²,   m_j = Σ_i p_ij x_i / Σ_i p_ij
    ℓ_ij = Σ_{k ∉ S_i} max(0, 1 − f_j + f_k) / (|S_i| (C − |S_i|)),    0 ≤ p_ij ≤ 1,   Σ_j p_ij ≥ 1

W and P are found in turn: W as a ranking machine; P, where prototypes are those of the P before, is the projection of
S − C₁ ℓ − C₂ e onto the constraints, e being the (relative) squared distances.

Only the abstract could be read; objective and constraints are *reconstructed*, faithful in spirit.

Deviations: those of :mod:`propml.methods.confidence_ranking` (squared hinge, L-BFGS, the cut), and

* The term ½ ‖P − S‖² is added, and P starts at S: candidates are believed until something speaks against them.
  Without it the problem in P is linear and its solution one single label for each row, however many are true.
* Squared distances are taken as the excess over the nearest prototype among a row's candidates (with Σ_j p_ij = 1, as
  in the linear problem, this changes nothing; otherwise rows far from everything would lose all their labels), and
  divided by their mean before that, so that C₂ means the same for any number of features. As the prototypes move, the
  objective may rise now and then.
* C₁ = C₂ = 1, the least of the values among which the paper is said to choose by cross-validation: on Birds, Scene,
  Medical and Enron held-out *candidates* are predicted no better with larger ones. (C₂ = 10 believes about one label
  of each row, which suits data where most rows have one.)

Published numbers were made on features in [−1, 1].
"""

from __future__ import annotations

import numpy as np

from propml.methods.base import Features
from propml.methods.confidence_ranking import ConfidenceRankingClassifier, Structure, project_confidences


class PMLfpClassifier(ConfidenceRankingClassifier):
    """Confidence-weighted ranking; labels are believed near their prototypes (reconstructed).

    Parameters
    ----------
    C1, max_iter, tol, verbose
        As in :class:`~propml.methods.confidence_ranking.ConfidenceRankingClassifier`.
    C2 : float
        Weight of the distances to the prototypes.

    Attributes
    ----------
    coef_, confidences_, cut_coef_, objective_, n_iter_
        As in :class:`~propml.methods.confidence_ranking.ConfidenceRankingClassifier`.
    """

    def __init__(
        self, C1: float = 1.0, C2: float = 1.0, max_iter: int = 10, tol: float = 1e-3, verbose: bool = False
    ) -> None:
        self.C1 = C1
        self.C2 = C2
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _structure(self, X: Features, candidates: np.ndarray) -> Structure:
        return FeaturePrototypes(X, candidates, self.C2)


class FeaturePrototypes:
    """C₂ Σ_i Σ_{j ∈ S_i} p_ij e_ij, e the relative squared distance of row i to the prototype of label j."""

    def __init__(self, X: Features, candidates: np.ndarray, C2: float) -> None:
        self.X, self.candidates, self.C2 = X, candidates, C2
        self.excess = np.zeros(candidates.shape)

    def penalty(self, confidences: np.ndarray) -> float:
        """The term itself, at the prototypes of the last update."""
        return float(self.C2 * np.vdot(confidences, self.excess))

    def update(self, confidences: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """Prototypes of the confidences so far, then the confidences that they ask for."""
        self.excess = excess_distances(self.X, confidences, self.candidates)
        return project_confidences(self.candidates - costs - self.C2 * self.excess, self.candidates)


def excess_distances(X: Features, confidences: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """How much farther each candidate's prototype is than the nearest candidate's, zero where there is no candidate.

    Squared distances, divided by their mean over all candidates.

    >>> X, both = np.array([[0.0], [2.0]]), np.ones((2, 2), dtype=bool)
    >>> excess_distances(X, np.array([[1.0, 0.0], [0.0, 1.0]]), both)
    array([[0., 2.],
           [2., 0.]])
    """
    weights = confidences.sum(axis=0)
    prototypes = np.asarray(X.T @ confidences) / np.where(weights > 0, weights, 1.0)
    lengths = np.asarray((X * X).sum(axis=1)).reshape(-1, 1)
    squared = lengths - 2 * np.asarray(X @ prototypes) + np.square(prototypes).sum(axis=0)
    nearest = np.where(candidates, squared, np.inf).min(axis=1, keepdims=True)
    mean = squared[candidates].mean()
    if not mean > 0:  # all rows are alike
        return np.zeros_like(squared)
    return np.where(candidates, (squared - np.where(np.isfinite(nearest), nearest, 0.0)) / mean, 0.0)
