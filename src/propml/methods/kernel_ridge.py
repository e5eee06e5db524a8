"""Kernel ridge regression on candidate labels: what a smooth nonlinear model gives without any disambiguation.

C. Saunders, A. Gammerman, V. Vovk: "Ridge Regression Learning Algorithm in Dual Variables", ICML 1998, here with an RBF
kernel, all labels at once, candidates taken for true.

    k(x, z) = exp(−γ ‖x − z‖²) + 1,   A = (K + α I)⁻¹ S,   scores(x) = Σᵢ k(x, xᵢ) Aᵢ

The 1 in the kernel is a bias, penalised like any other weight, as in :mod:`propml.methods.ridge`. γ is by default
``"scale"``, 1 / (n_features · variance of all entries of X), which is what the SVMs of the noise protocol use.

Deviations: none from the textbook; the methods of the literature that build on random RBF features (PML-PLR, PML-MA)
come down to this when every row is an anchor. The n × n kernel of the training rows is held in memory once, in float64
(0.8 GB for 10 000 rows); prediction goes by blocks of rows. Scale the features first: those with a large range rule
the distance.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy.linalg
import sklearn
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import gen_batches
from sklearn.utils.sparsefuncs import mean_variance_axis

from propml.methods.base import CandidateClassifier, Features, check_positive
from propml.schema import Array
from propml.targets import Candidates

# Entries of the kernel between new rows and training rows that are held at once: 64 MB.
BLOCK = 2**23


@dataclass(eq=False, repr=False)
class KernelRidgeClassifier(CandidateClassifier):
    """RBF kernel ridge regression on candidate labels.

    Parameters
    ----------
    alpha : float
        Strength of the penalty.
    gamma : float or "scale"
        Width of the kernel; "scale" is 1 / (n_features · X.var()).

    Attributes
    ----------
    rows_ : ndarray or csr_array, shape (n_train, n_features)
        The training rows.
    dual_coef_ : ndarray, shape (n_train, n_labels)
    gamma_ : float
        The width that was used.

    Examples
    --------
    >>> X, candidates = np.array([[0.0], [1.0], [2.0]]), np.array([[1, 0], [0, 1], [1, 0]])
    >>> KernelRidgeClassifier(alpha=0.1).fit(X, candidates).predict(X)  # no line separates these
    array([[1, 0],
           [0, 1],
           [1, 0]])
    """

    alpha: float = 1.0
    gamma: float | Literal["scale"] = "scale"

    _learned: ClassVar = {
        "gamma_": float,
        "rows_": Array("f", "rows", "features", sparse=True),
        "dual_coef_": Array("f", "rows", "labels"),
    }

    def _fit(self, X: Features, candidates: Candidates) -> None:
        check_positive(self, "alpha")
        self.gamma_ = self._width(X)
        self.rows_ = X
        kernel = self._kernel(X)
        kernel.flat[:: len(kernel) + 1] += self.alpha
        # The transpose of a symmetric matrix is itself, in the order in which LAPACK works without a copy.
        factor = scipy.linalg.cho_factor(kernel.T, lower=True, overwrite_a=True, check_finite=False)
        coef = scipy.linalg.cho_solve(factor, candidates.to_matrix(np.float64), check_finite=False)
        self.dual_coef_ = np.ascontiguousarray(coef)

    def _width(self, X: Features) -> float:
        if self.gamma == "scale":
            if isinstance(X, np.ndarray):
                variance = float(X.var())
            else:
                means, variances = mean_variance_axis(X, axis=0)
                variance = float(variances.mean() + means.var())
            return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        if isinstance(self.gamma, str) or not self.gamma > 0:
            raise ValueError(f"gamma is {self.gamma!r}; give a positive number or 'scale'")
        return float(self.gamma)

    def _kernel(self, X: Features) -> np.ndarray:
        # Features were checked once; a check of all training rows for every block is time lost.
        with sklearn.config_context(assume_finite=True):
            kernel = rbf_kernel(X, self.rows_, gamma=self.gamma_)
        kernel += 1.0
        return kernel

    def _scores(self, X: Features) -> np.ndarray:
        size = max(1, BLOCK // self.rows_.shape[0])
        return np.vstack([self._kernel(X[rows]) @ self.dual_coef_ for rows in gen_batches(X.shape[0], size)])
