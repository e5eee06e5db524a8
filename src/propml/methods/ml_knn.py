"""ML-kNN: multi-label lazy learning by the k nearest neighbours.

M.-L. Zhang, Z.-H. Zhou: "ML-KNN: A Lazy Learning Approach to Multi-label Learning", Pattern Recognition 40, 2007.
For each label j, the number r of neighbours that carry it is weighed by how often r was seen with and without it:

    prior_j   = (s + Σᵢ S_ij) / (2 s + n)
    c_j[r]    = #{i : S_ij = 1 and r of the k nearest *other* rows carry j},   c̄_j[r] likewise where S_ij = 0
    P_j(r|1)  = (s + c_j[r]) / (s (k+1) + Σ c_j),     P_j(r|0) = (s + c̄_j[r]) / (s (k+1) + Σ c̄_j)
    score     = prior_j P_j(r|1) / (prior_j P_j(r|1) + (1 − prior_j) P_j(r|0)),   predicted from 0.5 on

where S are the candidates, taken for true, and distances are Euclidean. Published numbers use k = 10 and s = 1; on
unscaled Birds the average precision is 13 points lower.

Deviations:

* Where there are not more than k rows, k is the number of the *other* rows.
* Distances that agree to nine digits count as equal; among equals the row that comes first is nearer, as with the
  stable sort of the authors' MATLAB code: the same neighbours on every machine, for dense and for sparse features.
* Predictions are 0/1. Published Hamming losses fit −1/+1 beside a truth of 0/1 (``metrics.paper_hamming_loss``).

scikit-multilearn, by default, counts each training row among its own neighbours; that is not done here.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from propml.methods.base import CandidateClassifier, Features, check_positive, positive_int
from propml.methods.neighbours import nearest_rows
from propml.schema import Array
from propml.targets import Candidates


@dataclass(eq=False, repr=False)
class MLkNNClassifier(CandidateClassifier):
    """k nearest neighbours, weighed label by label.

    Parameters
    ----------
    k : int
        The number of neighbours.
    s : float
        Smoothing: how often everything is taken to have been seen before.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    prior_ : ndarray, shape (n_labels,)
    likelihood_ : ndarray, shape (2, k + 1, n_labels)
        The chance that r neighbours carry a label, without it (0) and with it (1).
    posterior_ : ndarray, shape (k + 1, n_labels)
        The score of a label that r neighbours carry.
    rows_, carried_ : training rows, and their candidates as a csr_array

    Examples
    --------
    >>> X, candidates = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]), np.repeat([[1, 0], [0, 1]], 3, axis=0)
    >>> MLkNNClassifier(k=2).fit(X, candidates).predict([[0.3], [4.9]])
    array([[1, 0],
           [0, 1]])
    """

    k: int = 10
    s: float = 1.0
    verbose: bool = False

    _learned: ClassVar = {
        "rows_": Array("f", "rows", "features", sparse=True),
        "carried_": Array("iu", "rows", "labels", sparse=True, least=0, most=1),
        "prior_": Array("f", "labels"),
        "likelihood_": Array("f", 2, "counts", "labels"),
        "posterior_": Array("f", "counts", "labels", least=0, most=1),
    }

    def _fit(self, X: Features, candidates: Candidates) -> None:
        check_positive(self, "s")
        n_rows, n_labels = candidates.shape
        k = min(positive_int("k", self.k), n_rows - 1)
        self.rows_, self.carried_ = X, candidates.to_sparse().astype(np.int32)
        counts = self._counts(nearest_rows(X, X, k, leave_out_self=True, verbose=self.verbose))
        present = self.carried_.sum(axis=0)
        absent = n_rows - present
        self.prior_ = (self.s + present) / (2 * self.s + absent + present)
        self.likelihood_ = count_likelihood(counts, self.carried_.toarray(), k + 1, self.s)
        without, with_label = (1 - self.prior_) * self.likelihood_[0], self.prior_ * self.likelihood_[1]
        self.posterior_ = with_label / (with_label + without)
        # "Above" everywhere else, "from 0.5 on" here.
        self.thresholds_ = np.full(n_labels, np.nextafter(0.5, 0.0))

    def _scores(self, X: Features) -> np.ndarray:
        counts = self._counts(nearest_rows(X, self.rows_, len(self.posterior_) - 1))
        return self.posterior_[counts, np.arange(counts.shape[1])]

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return scores

    def _counts(self, nearest: np.ndarray) -> np.ndarray:
        """How many of a row's neighbours carry each label."""
        n, k = nearest.shape
        starts = k * np.arange(n + 1)
        graph = sp.csr_array((np.ones(n * k, np.int32), nearest.ravel(), starts), (n, self.carried_.shape[0]))
        return (graph @ self.carried_).toarray()


def count_likelihood(counts: np.ndarray, marked: np.ndarray, n_counts: int, s: float) -> np.ndarray:
    """How probable each count is without a label (0) and with it (1), ``(2, n_counts, n_labels)``, smoothed by ``s``.

    ``counts``, from 0 to ``n_counts - 1``, and marks of 0/1 are ``(n_samples, n_labels)``.
    """
    n_labels = counts.shape[1]
    cells = (marked * n_counts + counts) * n_labels + np.arange(n_labels)
    seen = np.bincount(cells.ravel(), minlength=2 * n_counts * n_labels).reshape(2, n_counts, n_labels)
    return (s + seen) / (s * n_counts + seen.sum(axis=1, keepdims=True))
