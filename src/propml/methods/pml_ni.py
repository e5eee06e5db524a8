"""PML-NI: partial multi-label learning with noisy label identification.

M.-K. Xie, S.-J. Huang: "Partial Multi-Label Learning with Noisy Label Identification", AAAI 2020 (extended in TPAMI).
The classifier W is split into a low-rank part U, which predicts, and a sparse part V, which is to identify noise:

    min ½ ‖Φ W − S‖² + λ/2 ‖W‖² + β ‖U‖_* + γ ‖V‖₁   subject to W = U + V,   Φ = [X, 1],   W, U, V (d + 1) × C

The authors' code solves it by an augmented Lagrangian; from U = V = L = 0 and μ = 10⁻⁴, at most 500 times:

    W = (Φ'Φ + (λ + μ) I)⁻¹ (Φ'S + μ (U + V) + L)
    U = SVT(W − V − L/μ, β/μ),     V = soft(W − U − L/μ, γ/μ)
    if μ ‖U − U_before‖ < 10⁻⁵ ‖W‖:  μ = min(1.1 μ, 10¹⁰), and stop if also ‖W − U − V‖ < 10⁻⁷ ‖W‖
    L = L + μ (U + V − W)

Scores are Φ_test U. Defaults λ = 10, β = γ = 0.5 are the authors'.

What to know about it: **for γ ≥ β, and so with the defaults, V is zero in every step.** What SVT leaves of its argument
has no singular value above β/μ, hence no entry above γ/μ, and soft(…) makes zero of it. The method is then ridge
regression with a nuclear norm, and β = 0.5 beside λ = 10 moves no score by more than 0.01 on Scene and 0.02 on Bibtex:
in effect, ridge regression. To see V at work, choose γ < β.

Deviations:

* How it is computed, not what: one eigendecomposition Φ'Φ = Q Λ Q' serves all μ. Where V is zero, all steps commute
  with Q, so they are made on Q'W, where the solve is a division. They agree with the direct ones to about 10⁻¹².
* The cut of the scores, and so predictions and the Hamming loss, but no ranking. Here it is 0.5, or, with
  ``cut="regression"``, linear in the scores of the row and fitted to the candidates. A public port of the authors' code
  fits it to the *true* labels of the training rows, which nobody has, and predicts from scores without the bias of the
  classifier. So does ``cut="released"`` with :meth:`PMLNIClassifier.fit_to_truth`, which comes near the published
  Hamming losses (``docs/methods.md``).
* The paper describes accelerated proximal gradient steps for the same objective; the code's updates are followed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from propml.methods.base import Features, check_positive, choice_of, positive_int
from propml.methods.linear_algebra import (
    LinearClassifier,
    PrincipalAxes,
    cut_probabilities,
    regressed_cut,
    singular_value_threshold,
    soft,
    with_bias,
)
from propml.progress import track
from propml.schema import Array
from propml.targets import Candidates


@dataclass(eq=False, repr=False)
class PMLNIClassifier(LinearClassifier):
    """Low-rank plus sparse regression on candidate labels.

    Parameters
    ----------
    lam : float
        Weight λ of the squared penalty.
    beta : float
        Weight β of the nuclear norm of the classifier.
    gamma : float
        Weight γ of the absolute values of the noise identifier; from β on, there is none.
    max_iter : int
    cut : {"half", "regression", "released"}
        Where scores are cut for predictions: at 0.5, or at a linear function of the row's scores that ``fit`` learns
        from candidates. "released" does so as the released code does, slips included; to have all of it, let
        :meth:`fit_to_truth` look at the true labels of the training rows.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features + 1, n_labels)
        The classifier U; the last row is the bias.
    noise_coef_ : ndarray, shape (n_features + 1, n_labels)
        The noise identifier V.
    cut_coef_ : ndarray, shape (n_labels + 1,)
        The cut as a linear function of a row's scores; the last entry is its bias.
    n_iter_ : int

    Examples
    --------
    >>> X, candidates = np.array([[0.0], [1.0], [2.0]]), np.array([[1, 0], [1, 1], [0, 1]])
    >>> PMLNIClassifier(lam=0.1, beta=0.01).fit(X, candidates).predict(X)
    array([[1, 0],
           [1, 1],
           [0, 1]])
    """

    lam: float = 10.0
    beta: float = 0.5
    gamma: float = 0.5
    max_iter: int = 500
    cut: Literal["half", "regression", "released"] = "half"
    verbose: bool = False

    _truth_rows = "train"

    _learned: ClassVar = {
        "n_iter_": int,
        "coef_": Array("f", "features+1", "labels"),
        "noise_coef_": Array("f", "features+1", "labels"),
        "cut_coef_": Array("f", "labels+1"),
    }

    def _fit(self, X: Features, candidates: Candidates) -> None:
        check_positive(self, "lam", "beta", "gamma")
        positive_int("max_iter", self.max_iter)
        choice_of("cut", self.cut, ("half", "regression", "released"))
        features, labels = with_bias(X), candidates.to_matrix(np.float64)
        axes = PrincipalAxes(features)
        moments = np.asarray(features.T @ labels)
        if self.gamma < self.beta:
            self.coef_, self.noise_coef_ = self._alternate(axes.solve, moments)
        else:
            squares = axes.squares[:, None]
            coordinates, _ = self._alternate(lambda right, c: right / (squares + c), axes.coordinates(moments))
            self.coef_ = axes.weights(coordinates)
            self.noise_coef_ = np.zeros_like(self.coef_)
        self.cut_coef_ = self._cut(features, labels > 0)

    def _cut(self, features: Features, marked: np.ndarray) -> np.ndarray:
        if self.cut == "half":
            return np.append(np.zeros(marked.shape[1]), 0.5)
        released = self.cut == "released"
        coef = regressed_cut(np.asarray(features @ self.coef_), marked, released=released)
        if released:
            coef[-1] -= coef[:-1] @ self.coef_[-1]  # it reads scores without the classifier's bias
        return coef

    def fit_to_truth(self, X: Any, truth: Any) -> Self:
        """Learn the cut once more, from rows whose true labels are known; scores stay as they are.

        With ``cut="released"`` and the training rows this is what the released code does. It has then seen labels that
        partial multi-label learning does not have: compare it with published numbers, and with nothing else.
        """
        if self.cut == "half":
            raise ValueError("cut is 'half', which learns nothing; give 'regression' or 'released'")
        features, marked = self._with_truth(X, truth)
        self.cut_coef_ = self._cut(with_bias(features), marked)
        return self

    def _alternate(
        self, solve: Callable[[np.ndarray, float], np.ndarray], moments: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The steps at the top of this module: U and V; ``solve`` goes from R and c to (Φ'Φ + c I)⁻¹ R."""
        mu = 1e-4
        U, V, L = np.zeros((3, *moments.shape))
        both = U
        for iteration in track(range(1, self.max_iter + 1), "PML-NI", self.max_iter, show=self.verbose):
            before, self.n_iter_ = U, iteration
            W = solve(mu * both + moments + L, self.lam + mu)
            aim = W - L / mu
            if self.gamma < self.beta:
                U, _ = singular_value_threshold(aim - V, self.beta / mu)
                V = soft(aim - U, self.gamma / mu)
                both = U + V
            else:
                U, _ = singular_value_threshold(aim, self.beta / mu)
                both = U
            size = max(float(np.linalg.norm(W)), np.finfo(float).tiny)
            settled = mu * np.linalg.norm(np.subtract(U, before, out=before)) < 1e-5 * size
            gap = np.subtract(both, W, out=W)
            if settled:
                mu = min(1.1 * mu, 1e10)
                if np.linalg.norm(gap) < 1e-7 * size:
                    break
            L += np.multiply(gap, mu, out=gap)
        return U, V

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return cut_probabilities(scores, self.cut_coef_)
