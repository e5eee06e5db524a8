"""The core of PML-lc and PML-fp: a ranking machine weighted by confidences, and the confidences.

    min C₁ Σ_i Σ_{j ∈ S_i} p_ij ℓ_ij(W) + ½ ‖W‖² + ½ ‖P − S‖² + structure(P),    f = W'[x, 1]
    ℓ_ij = Σ_{k ∉ S_i} max(0, 1 − f_j + f_k)² / (|S_i| (C − |S_i|))
    0 ≤ p_ij ≤ 1 and Σ_j p_ij ≥ 1 on candidates,   p_ij = 0 elsewhere

It is minimised over W and P in turn, from P = S. What the structure is, the two methods say.

Deviations of both methods from the paper, as far as it is known:

* The hinge is squared, so that the objective is smooth. The paper solves a dual quadratic program by Frank-Wolfe; here
  L-BFGS runs along the principal axes of the features. The bias is penalised like any other weight.
* Scores of a row are cut where a linear regression on them puts the cut that best separates its believed labels
  (p > 0.5, :mod:`propml.methods.linear_algebra`); no true label is used.

All pairs of a row are treated at once: sorted by f_j − 1 for candidates and f_k for the others, the pairs inside the
margin of a label are those behind it (or before it), and their sums are cumulative sums. A row costs C log C instead of
|S_i| (C − |S_i|).
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from propml.methods.base import CandidateClassifier, Features
from propml.methods.linear_algebra import PrincipalAxes, cut_probabilities, regressed_cut, with_bias
from propml.progress import progress_bar
from propml.schema import Array
from propml.targets import Candidates

#: Steps of L-BFGS between two updates of the confidences.
RANKING_STEPS = 20


class Structure(Protocol):
    """What ties the confidences to each other, or to the features."""

    def update(self, confidences: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """The confidences that minimise Σ p c + ½ ‖P − S‖² + structure(P)."""

    def penalty(self, confidences: np.ndarray) -> float:
        """structure(P)."""


class ConfidenceRankingClassifier(CandidateClassifier):
    """Base of PML-lc and PML-fp, which bring their structure and its weight.

    Parameters
    ----------
    C1 : float
        Weight of the ranking loss.
    max_iter : int
        Rounds over weights and confidences.
    tol : float
        Stop when a round changes the objective by less than this fraction.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features + 1, n_labels)
        The weights; the last row is the bias.
    confidences_ : csr_array, shape (n_samples, n_labels)
        How much each candidate of the training rows is believed.
    cut_coef_ : ndarray, shape (n_labels + 1,)
        Where a row's scores are cut, as a linear function of them; the last entry is its bias.
    objective_ : ndarray, shape (n_iter_,)
        The objective after every round.
    n_iter_ : int
    """

    C1: float
    max_iter: int
    tol: float
    verbose: bool

    def _structure(self, X: Features, candidates: np.ndarray) -> Structure:
        """The structure of the method; ``candidates`` is boolean, ``(n_samples, n_labels)``."""
        raise TypeError(f"{type(self).__name__} does not say what ties its confidences; give it a _structure")

    _learned: ClassVar = {
        "objective_": Array("f", "iterations"),
        "n_iter_": int,
        "coef_": Array("f", "features+1", "labels"),
        "confidences_": Array("f", "rows", "labels", sparse=True),
        "cut_coef_": Array("f", "labels+1"),
    }

    def _fit(self, X: Features, candidates: Candidates) -> None:
        for name in ("C1", "C2", "C3"):
            if not getattr(self, name, 1.0) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive weight")
        if self.max_iter < 1:
            raise ValueError(f"max_iter is {self.max_iter}; give a positive number")
        features, marked = with_bias(X), candidates.to_matrix(np.int8) > 0
        machine, structure = RankingMachine(features, marked, self.C1), self._structure(X, marked)
        confidences, objective = marked.astype(np.float64), [np.inf]
        with progress_bar(type(self).__name__, self.max_iter, show=self.verbose) as bar:
            for _ in range(self.max_iter):
                machine.learn(confidences, RANKING_STEPS)
                confidences = structure.update(confidences, machine.costs)
                prior = 0.5 * np.square(confidences - marked).sum()
                objective.append(machine.objective(confidences) + prior + structure.penalty(confidences))
                bar.advance(note=f"objective {objective[-1]:.5g}")
                if abs(objective[-2] - objective[-1]) <= self.tol * abs(objective[-1]):
                    break
        self.objective_, self.n_iter_ = np.array(objective[1:]), len(objective) - 1
        self.coef_ = machine.weights()
        self.confidences_ = sp.csr_array(confidences)
        # Believed labels are cut off from the others; true labels are not known here.
        self.cut_coef_ = regressed_cut(machine.scores(), confidences > 0.5)

    def _scores(self, X: Features) -> np.ndarray:
        return np.asarray(with_bias(X) @ self.coef_)

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return cut_probabilities(scores, self.cut_coef_)


class RankingMachine:
    """The weights, learned by L-BFGS along the principal axes of the features.

    Along an axis with singular value σ the objective bends by about h_j σ² + 1 for label j; divided by the root of it,
    all directions bend alike and a few dozen steps suffice.
    """

    def __init__(self, features: Features, candidates: np.ndarray, C1: float) -> None:
        self.candidates = candidates
        self.axes = PrincipalAxes.of(features)
        sizes = candidates.sum(axis=1, keepdims=True)
        others = candidates.shape[1] - sizes
        # A row where nothing, or everything, is a candidate has no pairs.
        self.per_pair = C1 / np.maximum(sizes * others, 1)
        bend = 2 * (self.per_pair * np.where(candidates, others, sizes)).mean(axis=0)
        self.scale = 1 / np.sqrt(bend * self.axes.squares[:, None] + 1)
        self.scaled = np.zeros_like(self.scale)
        self.costs = np.zeros(candidates.shape)

    def learn(self, confidences: np.ndarray, steps: int) -> None:
        """At most ``steps`` steps down from where the weights are; ``costs`` are C₁ ℓ there."""

        def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
            inner = flat.reshape(self.scale.shape) * self.scale
            costs, slopes = ranking_costs(self.axes.scaled @ inner, self.candidates, confidences)
            value = np.vdot(self.per_pair * costs, confidences) + 0.5 * np.vdot(inner, inner)
            gradient = self.scale * (self.axes.scaled.T @ (self.per_pair * slopes) + inner)
            return float(value), gradient.ravel()

        options = {"maxiter": steps, "ftol": 1e-6, "gtol": 1e-6}
        found = minimize(value_and_gradient, self.scaled.ravel(), jac=True, method="L-BFGS-B", options=options)
        self.scaled = found.x.reshape(self.scale.shape)
        self.costs = self.per_pair * ranking_costs(self.scores(), self.candidates, confidences)[0]

    def scores(self) -> np.ndarray:
        """Of the training rows."""
        return np.asarray(self.axes.scaled @ (self.scaled * self.scale))

    def objective(self, confidences: np.ndarray) -> float:
        """C₁ Σ p ℓ + ½ ‖W‖² at the weights that were learned last."""
        return float(np.vdot(self.costs, confidences) + 0.5 * np.square(self.scaled * self.scale).sum())

    def weights(self) -> np.ndarray:
        """W, of the features themselves."""
        return self.axes.weights(self.scaled * self.scale)


def ranking_costs(scores: np.ndarray, candidates: np.ndarray, confidences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared hinge losses over all pairs of a candidate and another label of the same row.

    All matrices are ``(n_samples, n_labels)``; ``confidences`` are weights p of the candidates, zero elsewhere. Costs
    are Σ_k max(0, 1 − f_j + f_k)² for every candidate j, zero elsewhere; slopes are the gradient of Σ p · costs with
    respect to the scores.

    >>> ranking_costs(np.array([[0.5, 0.0, -2.0]]), np.array([[True, False, False]]), np.array([[1.0, 0.0, 0.0]]))
    (array([[0.25, 0.  , 0.  ]]), array([[-1.,  1.,  0.]]))
    """
    order = np.argsort(np.where(candidates, scores - 1, scores), axis=1)
    f, inside = np.take_along_axis(scores, order, axis=1), np.take_along_axis(candidates, order, axis=1)
    p = np.take_along_axis(confidences, order, axis=1)
    number, total, squares = (_behind(np.where(inside, 0.0, f**power)) for power in range(3))
    margin = 1 - f
    sorted_costs = np.where(inside, margin * (number * margin + 2 * total) + squares, 0.0)
    weight, weighted = np.cumsum(p, axis=1), np.cumsum(p * f, axis=1)
    sorted_slopes = 2 * np.where(inside, -p * (number * margin + total), weight * (1 + f) - weighted)
    costs, slopes = np.empty_like(f), np.empty_like(f)
    np.put_along_axis(costs, order, np.maximum(sorted_costs, 0.0), axis=1)
    np.put_along_axis(slopes, order, sorted_slopes, axis=1)
    return costs, slopes


def _behind(values: np.ndarray) -> np.ndarray:
    """In each row, the sum of what comes after each entry."""
    return values.sum(axis=1, keepdims=True) - np.cumsum(values, axis=1)


def project_confidences(confidences: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """The nearest confidences with 0 ≤ p ≤ 1 and a sum of at least 1 in each row, zero where there is no candidate.

    >>> project_confidences(np.array([[1.5, 0.4], [0.3, 0.1]]), np.ones((2, 2), dtype=bool))
    array([[1. , 0.4],
           [0.6, 0.4]])
    """
    nearest = np.where(candidates, np.clip(confidences, 0.0, 1.0), 0.0)
    short = (nearest.sum(axis=1) < 1) & candidates.any(axis=1)
    if short.any():
        nearest[short] = _onto_simplex(confidences[short], candidates[short])
    return nearest


def _onto_simplex(values: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Nearest non-negative entries that sum to 1: all are shifted alike, and those below zero are left out."""
    falling = -np.sort(np.where(candidates, -values, np.inf), axis=1)
    with np.errstate(invalid="ignore"):
        shift = (np.cumsum(falling, axis=1) - 1) / np.arange(1, values.shape[1] + 1)
        kept = (falling > shift).sum(axis=1)
    return np.where(candidates, np.maximum(values - shift[np.arange(len(kept)), kept - 1][:, None], 0.0), 0.0)
