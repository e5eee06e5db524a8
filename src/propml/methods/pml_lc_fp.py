"""PML-lc and PML-fp: ranking weighted by confidences, which label correlations or feature prototypes tie together.

M.-K. Xie, S.-J. Huang: "Partial Multi-Label Learning", AAAI 2018. Every candidate has a confidence p_ij; the scores
rank candidates above the other labels, each pair weighted by the confidence:

    min C₁ Σ_i Σ_{j ∈ S_i} p_ij ℓ_ij(W) + ½ ‖W‖² + ½ ‖P − S‖² + structure(P),    f = W'[x, 1]
    ℓ_ij = Σ_{k ∉ S_i} max(0, 1 − f_j + f_k)² / (|S_i| (C − |S_i|))
    0 ≤ p_ij ≤ 1 and Σ_j p_ij ≥ 1 on candidates,   p_ij = 0 elsewhere

W and P are found in turn, from P = S: W as a ranking machine, P from what the method ties it to.

PML-lc believes labels together that go together; c_jk is the part of the rows with candidate j that have candidate k
too. Accelerated projected gradient steps solve the quadratic program in P for all rows at once:

    structure(P) = C₃ Σ_i Σ_{j,k ∈ S_i} c_jk (p_ij − p_ik)²
    gradient = C₁ ℓ + (P − S) + 4 C₃ (P ∘ (S c̄) − P c̄) on candidates,   c̄ = (c + c') / 2

PML-fp believes a label where the row lies near the label's prototype. Where prototypes are those of the P before, P is
the projection of S − C₁ ℓ − C₂ e onto the constraints, e being the (relative) squared distances:

    structure(P) = C₂ Σ_i Σ_{j ∈ S_i} p_ij ‖x_i − m_j‖²,   m_j = Σ_i p_ij x_i / Σ_i p_ij

Only the abstract could be read; objective and constraints are *reconstructed*, faithful in spirit.

Deviations of both methods from the paper, as far as it is known:

* The hinge is squared, so that the objective is smooth. The paper solves a dual quadratic program by Frank-Wolfe; here
  L-BFGS runs along the principal axes of the features. The bias is penalised like any other weight.
* The term ½ ‖P − S‖² is added, and P starts at S: candidates are believed until something speaks against them.
  Without it nothing rewards belief: what PML-lc leaves of a row with eight labels is one label's worth, and PML-fp,
  whose problem in P is then linear, one single label.
* Scores of a row are cut where a linear regression on them puts the cut that best separates its believed labels
  (p > 0.5, :func:`propml.methods.linear_algebra.regressed_cut`); no true label is used.
* C₁ = C₂ = C₃ = 1, the least of the values among which the paper is said to choose by cross-validation. On Scene,
  Medical and Enron PML-lc predicts held-out *candidates* worse with larger C₁, on Birds hardly better; C₃ hardly
  matters. On all four PML-fp predicts them no better with larger ones. (C₂ = 10 believes about one label of each row,
  which suits data where most rows have one.)

Of PML-fp: squared distances are taken as the excess over the nearest prototype among a row's candidates (with Σ_j p_ij
= 1, as in the linear problem, this changes nothing; otherwise rows far from everything would lose all their labels),
and divided by their mean before that, so that C₂ means the same for any number of features. As the prototypes move, the
objective may rise now and then.

All pairs of a row are treated at once: sorted by f_j − 1 for candidates and f_k for the others, the pairs inside the
margin of a label are those behind it (or before it), and their sums are cumulative sums. A row costs C log C instead of
|S_i| (C − |S_i|).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from propml.methods.base import Features, check_positive, positive_int
from propml.methods.linear_algebra import LinearClassifier, PrincipalAxes, cut_probabilities, regressed_cut, with_bias
from propml.progress import progress_bar
from propml.schema import Array
from propml.targets import Candidates

#: Steps of L-BFGS between two updates of the confidences.
RANKING_STEPS = 20
#: New confidences, and what ties them together: structure(P).
Update = tuple[np.ndarray, float]


class ConfidenceRankingClassifier(LinearClassifier):
    """Base of PML-lc and PML-fp, which tie the confidences together.

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

    _learned: ClassVar = {
        "objective_": Array("f", "iterations"),
        "n_iter_": int,
        "coef_": Array("f", "features+1", "labels"),
        "confidences_": Array("f", "rows", "labels", sparse=True),
        "cut_coef_": Array("f", "labels+1"),
    }

    #: The weights among the arguments.
    _weights: ClassVar[tuple[str, ...]]

    def _updated(self, X: Features, marked: np.ndarray, confidences: np.ndarray, costs: np.ndarray) -> Update:
        """The confidences that follow from the costs C₁ ℓ and from what ties them together, and structure(P) there."""
        raise NotImplementedError

    def _fit(self, X: Features, candidates: Candidates) -> None:
        check_positive(self, *self._weights)
        positive_int("max_iter", self.max_iter)
        features, marked = with_bias(X), candidates.to_matrix(np.int8) > 0
        machine = RankingMachine(features, marked, self.C1)
        confidences, objective = marked.astype(np.float64), [np.inf]
        with progress_bar(type(self).__name__, self.max_iter, show=self.verbose) as bar:
            for _ in range(self.max_iter):
                machine.learn(confidences, RANKING_STEPS)
                confidences, structure = self._updated(X, marked, confidences, machine.costs)
                prior = 0.5 * np.square(confidences - marked).sum()
                objective.append(machine.objective(confidences) + prior + structure)
                bar.advance(note=f"objective {objective[-1]:.5g}")
                if abs(objective[-2] - objective[-1]) <= self.tol * abs(objective[-1]):
                    break
        self.objective_, self.n_iter_ = np.array(objective[1:]), len(objective) - 1
        self.coef_ = machine.axes.weights(machine.inner)
        self.confidences_ = sp.csr_array(confidences)
        # Believed labels are cut off from the others; true labels are not known here.
        self.cut_coef_ = regressed_cut(machine.scores, confidences > 0.5)

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return cut_probabilities(scores, self.cut_coef_)


@dataclass(eq=False, repr=False)
class PMLlcClassifier(ConfidenceRankingClassifier):
    """Confidence-weighted ranking; confidences of labels that go together are alike (reconstructed).

    Attributes are those of :class:`ConfidenceRankingClassifier`; the objective never rises.

    Parameters
    ----------
    C1, max_iter, tol, verbose
        As in :class:`ConfidenceRankingClassifier`.
    C3 : float
        Weight of the label correlations.
    """

    C1: float = 1.0
    C3: float = 1.0
    max_iter: int = 10
    tol: float = 1e-3
    verbose: bool = False

    _weights = ("C1", "C3")

    def _updated(self, X: Features, marked: np.ndarray, confidences: np.ndarray, costs: np.ndarray) -> Update:
        return correlated_confidences(marked, confidences, costs, self.C3)


@dataclass(eq=False, repr=False)
class PMLfpClassifier(ConfidenceRankingClassifier):
    """Confidence-weighted ranking; labels are believed near their prototypes (reconstructed).

    Attributes are those of :class:`ConfidenceRankingClassifier`.

    Parameters
    ----------
    C1, max_iter, tol, verbose
        As in :class:`ConfidenceRankingClassifier`.
    C2 : float
        Weight of the distances to the prototypes.
    """

    C1: float = 1.0
    C2: float = 1.0
    max_iter: int = 10
    tol: float = 1e-3
    verbose: bool = False

    _weights = ("C1", "C2")

    def _updated(self, X: Features, marked: np.ndarray, confidences: np.ndarray, costs: np.ndarray) -> Update:
        excess = excess_distances(X, confidences, marked)
        updated = project_confidences(marked - costs - self.C2 * excess, marked)
        return updated, float(self.C2 * np.vdot(updated, excess))


class RankingMachine:
    """The weights, learned by L-BFGS along the principal axes of the features.

    Along an axis with singular value σ the objective bends by about h_j σ² + 1 for label j; divided by the root of it,
    all directions bend alike and a few dozen steps suffice.
    """

    def __init__(self, features: Features, candidates: np.ndarray, C1: float) -> None:
        self.candidates = candidates
        self.axes = PrincipalAxes(features)
        sizes = candidates.sum(axis=1, keepdims=True)
        others = candidates.shape[1] - sizes
        # A row where nothing, or everything, is a candidate has no pairs.
        self.per_pair = C1 / np.maximum(sizes * others, 1)
        bend = 2 * (self.per_pair * np.where(candidates, others, sizes)).mean(axis=0)
        self.scale = 1 / np.sqrt(bend * self.axes.squares[:, None] + 1)
        self.scaled = np.zeros_like(self.scale)

    def learn(self, confidences: np.ndarray, steps: int) -> None:
        """At most ``steps`` steps down from where the weights are; ``scores`` and ``costs``, C₁ ℓ, are those there."""

        def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
            inner = flat.reshape(self.scale.shape) * self.scale
            costs, slopes = ranking_costs(self.axes.scaled @ inner, self.candidates, confidences)
            value = np.vdot(self.per_pair * costs, confidences) + 0.5 * np.vdot(inner, inner)
            gradient = self.scale * (self.axes.scaled.T @ (self.per_pair * slopes) + inner)
            return float(value), gradient.ravel()

        options = {"maxiter": steps, "ftol": 1e-6, "gtol": 1e-6}
        found = minimize(value_and_gradient, self.scaled.ravel(), jac=True, method="L-BFGS-B", options=options)
        self.scaled = found.x.reshape(self.scale.shape)
        self.inner = self.scaled * self.scale
        self.scores = self.axes.scaled @ self.inner
        self.costs = self.per_pair * ranking_costs(self.scores, self.candidates, confidences)[0]

    def objective(self, confidences: np.ndarray) -> float:
        """C₁ Σ p ℓ + ½ ‖W‖² at the weights that were learned last."""
        return float(np.vdot(self.costs, confidences) + 0.5 * np.square(self.inner).sum())


def ranking_costs(scores: np.ndarray, candidates: np.ndarray, confidences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared hinge losses over all pairs of a candidate and another label of the same row.

    Costs are Σ_k max(0, 1 − f_j + f_k)² for every candidate j, zero elsewhere; slopes are the gradient of Σ p · costs
    with respect to the scores. The confidences p are zero where there is no candidate.

    >>> ranking_costs(np.array([[0.5, 0.0, -2.0]]), np.array([[True, False, False]]), np.array([[1.0, 0.0, 0.0]]))
    (array([[0.25, 0.  , 0.  ]]), array([[-1.,  1.,  0.]]))
    """
    order = np.argsort(np.where(candidates, scores - 1, scores), axis=1)
    f, inside, p = (np.take_along_axis(each, order, axis=1) for each in (scores, candidates, confidences))
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


def correlated_confidences(candidates: np.ndarray, confidences: np.ndarray, costs: np.ndarray, C3: float) -> Update:
    """The update of PML-lc, by accelerated projected gradient from the confidences so far."""
    together = correlation(candidates)
    degrees = np.where(candidates, candidates.astype(np.float64) @ together, 0.0)

    def laplacian(p: np.ndarray) -> np.ndarray:
        return np.where(candidates, p * degrees - p @ together, 0.0)

    # The problem bends by 1 at least and by so much at most.
    steepest = 1 + 8 * C3 * degrees.max()
    momentum = (np.sqrt(steepest) - 1) / (np.sqrt(steepest) + 1)
    ahead = confidences
    for _ in range(int(20 * np.sqrt(steepest)) + 20):
        gradient = costs + (ahead - candidates) + 4 * C3 * laplacian(ahead)
        before, confidences = confidences, project_confidences(ahead - gradient / steepest, candidates)
        if np.abs(confidences - before).max() < 1e-6:
            break
        ahead = confidences + momentum * (confidences - before)
    return confidences, float(2 * C3 * np.vdot(confidences, laplacian(confidences)))


def correlation(candidates: np.ndarray) -> np.ndarray:
    """How often two labels are candidates together, as a part of either, averaged over both; zero on the diagonal."""
    counts = candidates.T.astype(np.float64) @ candidates
    parts = counts / np.maximum(np.diag(counts), 1)[:, None]
    np.fill_diagonal(parts, 0.0)
    return (parts + parts.T) / 2


def excess_distances(X: Features, confidences: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """How much farther candidates' prototypes are than the nearest one: squared distances, divided by their mean."""
    weights = confidences.sum(axis=0)
    prototypes = np.asarray(X.T @ confidences) / np.where(weights > 0, weights, 1.0)
    lengths = np.asarray((X * X).sum(axis=1)).reshape(-1, 1)
    squared = lengths - 2 * np.asarray(X @ prototypes) + np.square(prototypes).sum(axis=0)
    nearest = np.where(candidates, squared, np.inf).min(axis=1, keepdims=True)
    mean = squared[candidates].mean()
    if not mean > 0:  # all rows are alike
        return np.zeros_like(squared)
    return np.where(candidates, (squared - np.where(np.isfinite(nearest), nearest, 0.0)) / mean, 0.0)
