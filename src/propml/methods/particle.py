"""PARTICLE and its two variants, PAR-MAP and PAR-VLS.

Fang and Zhang, "Partial Multi-Label Learning via Credible Label Elicitation", AAAI 2019; Zhang and Fang, TPAMI 2021.

1. Labels are propagated among neighbours and the credible ones, K, are kept
   (:mod:`propml.methods.particle_propagation`).
2. A machine for every pair of labels (LIBSVM, linear, C = 1, as in the release) learns from rows where one is credible
   and the other no candidate (:mod:`propml.methods.particle_pairs`); the variants read the votes in their own ways.

PAR-MAP, maximum a posteriori: the number of machines that vote for label j, τ_j, is an observation about it.

    P(j) = (1 + Σ_i S_ij) / (2 + n)
    P(τ | j) = (1 + c_j[τ]) / (q + Σ_t c_j[t]),     c_j[τ] = number of training rows with K_ij = 1 and τ_ij = τ
    P(τ | not j) likewise with K_ij = 0;            q labels, τ from 0 to q − 1
    score_j = P(j) P(τ_j | j) / (P(j) P(τ_j | j) + (1 − P(j)) P(τ_j | not j)),    predicted above 0.5

PAR-VLS, virtual label splitting: each label also meets the virtual label V, against which it wins in the rows where it
is credible and loses in those where it is no candidate. The vote of a machine counts as much as its accuracy on the
rows that it was trained on, a_jk:

    votes_j = Σ_{k ≠ j} a_jk [machine jk votes for j] + a_jV [machine jV votes for j]
    votes_V = Σ_j a_jV [machine jV votes for V]
    score_j = ½ + (votes_j − votes_V) / q,     predicted above ½, i.e. where votes_j > votes_V

The equations are those of the released conference code, and of the paper as it is recalled where the two differ.

Deviations of both variants, from the paper or from the released code; ``paper=True`` follows the release in the first
three, on which the published results on the Yeast sets depend (YeastCC, PAR-MAP and PAR-VLS: average precision 20.9 and
17.2, published 21.6 and 17.8; without, 41.1 and 41.7; ``docs/methods.md`` has other sets):

- Neighbours exclude the row itself. The release includes it, so that nothing is propagated: each row is rebuilt from
  itself alone.
- The propagation starts from S_ij / |S_i|, as published; the release starts from S_ij. It stops when no confidence
  changes by 1e-5, where the release takes the spectral norm of all changes. The correction of the class mass is the
  release's; its scaling of each row to [0, 1] divides by 0 where all labels are equally confident, and is left out.
- Where no candidate reaches the threshold (nine of ten rows of the Yeast sets), the candidates that come nearest are
  taken. The release takes the labels that do reach it, which are no candidates.
- Credible labels come from an inner cross-validation within the training rows. The release finds them once, before the
  outer one, and so with the candidates of the test rows.
- A pair without machine does not vote, nor does a machine with a decision of 0. In the release's PAR-MAP the lower of
  the two labels wins; as this adds the same to its votes everywhere, it changes nothing.

Of PAR-MAP:

- The counts c are taken on the training rows and their credible labels, as published. The release takes them on the
  *test* rows with their *true* labels; :meth:`PARMAPClassifier.fit_to_truth` does the same.
- The score is the posterior. The release gives the odds, scales them to [0, 1] in each row and cuts at 0.5, which
  predicts at least one label everywhere; ``paper=True`` does the same. The order of the labels is the same.

Of PAR-VLS: the release rounds all sums of votes up to whole numbers, so that many labels tie; ``paper=True`` does the
same. It also scales the scores to [0, 1] in each row, which leaves their order as it is, and so the metrics.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from propml.methods.base import CandidateClassifier, Features, check_positive, positive_int
from propml.methods.linear_algebra import InnerProducts
from propml.methods.ml_knn import count_likelihood
from propml.methods.particle_pairs import MACHINES, count_votes, train_pairs
from propml.methods.particle_propagation import credible_labels, scaled_rows
from propml.schema import Array
from propml.targets import Candidates


@dataclass(eq=False, repr=False)
class ParticleClassifier(CandidateClassifier):
    """Base of PAR-MAP and PAR-VLS, which read the votes of the machines.

    Parameters
    ----------
    k : int
        Neighbours in the propagation.
    alpha : float
        Part of a label's confidence that comes from the neighbours.
    threshold : float
        A label is credible from this confidence on; 1 is that of the most confident label of the row.
    C : float
        Weight of the errors of the pairwise machines.
    tol : float
        How exactly LIBSVM solves them.
    inner_folds : int
        Folds of the training rows in which credible labels are found.
    paper : bool
        Do as the released code does: no propagation, and credible labels that are no candidates.
    random_state : int or None
        Decides the inner folds.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    credible_ : csr_array of 0/1, shape (n_samples, n_labels)
        The credible labels of the training rows.
    machines_ : dict
        What :func:`propml.methods.particle_pairs.train_pairs` made.
    """

    k: int = 10
    alpha: float = 0.95
    threshold: float = 0.9
    C: float = 1.0
    tol: float = 1e-3
    inner_folds: int = 10
    paper: bool = False
    random_state: int | None = 0
    verbose: bool = False

    #: Whether the virtual label takes part in the pairs.
    _virtual = False

    _learned: ClassVar = {
        "credible_": Array("iu", "rows", "labels", sparse=True),
        "machines_": MACHINES,
    }

    def _fit(self, X: Features, candidates: Candidates) -> None:
        positive_int("k", self.k)
        check_positive(self, "C", "tol")
        for name, good, wanted in (
            ("alpha", 0 <= self.alpha < 1, "a part from 0 up to, but not including, 1"),
            ("threshold", 0 < self.threshold <= 1, "a number above 0 and up to 1"),
            ("inner_folds", positive_int("inner_folds", self.inner_folds) > 1, "2 folds or more"),
        ):
            if not good:
                raise ValueError(f"{name} is {getattr(self, name)}; {type(self).__name__} needs {wanted}")
        marks = candidates.to_matrix(bool)
        products, folds = InnerProducts(X), np.zeros(len(marks), dtype=np.intp)
        if len(marks) > 1:
            splitter = KFold(min(self.inner_folds, len(marks)), shuffle=True, random_state=self.random_state)
            for fold, (_, rows) in enumerate(splitter.split(folds)):
                folds[rows] = fold
        # Threads cost more than they bring in the many small systems of both stages.
        with threadpool_limits(limits=1, user_api="blas"):
            credible = credible_labels(products, marks, folds, self.k, self.alpha, self.threshold, self.paper)
            self.machines_ = train_pairs(
                products, credible, marks, self.C, self.tol, virtual=self._virtual, verbose=self.verbose
            )
        self.credible_ = sp.csr_array(credible.astype(np.int8))


class PARMAPClassifier(ParticleClassifier):
    """PARTICLE with maximum a posteriori reasoning.

    Arguments are those of :class:`ParticleClassifier`. ``paper=True`` also decides as the released code does.

    Attributes
    ----------
    credible_, machines_
        As in :class:`ParticleClassifier`.
    prior_ : ndarray, shape (n_labels,)
        P(j), from the candidates.
    log_odds_ : ndarray, shape (n_labels, n_labels)
        The logarithm of the posterior odds of a label (row) that has won some number of votes (column).

    Examples
    --------
    >>> X = np.array([[-1.0], [-0.9], [-0.8], [0.8], [0.9], [1.0]])
    >>> candidates = np.array([[1, 0], [1, 1], [1, 0], [0, 1], [1, 1], [0, 1]])
    >>> PARMAPClassifier(k=2).fit(X, candidates).credible_.toarray().T
    array([[1, 1, 1, 0, 0, 0],
           [0, 0, 0, 1, 1, 1]], dtype=int8)
    """

    _truth_rows = "test"

    _learned: ClassVar = {
        **ParticleClassifier._learned,
        "prior_?": Array("f", "labels", least=0, most=1),
        "log_odds_": Array("f", "labels", "labels"),
    }

    def _fit(self, X: Features, candidates: Candidates) -> None:
        super()._fit(X, candidates)
        self.prior_ = (1 + candidates.to_matrix(np.float64).sum(axis=0)) / (2 + X.shape[0])
        self._learn_odds(X, self.credible_.toarray().astype(bool))

    def _learn_odds(self, X: Features, relevant: np.ndarray) -> None:
        without, with_label = count_likelihood(self._votes(X), relevant, relevant.shape[1], 1.0)
        self.log_odds_ = np.log((with_label / without * (self.prior_ / (1 - self.prior_))).T)

    def fit_to_truth(self, X: Any, truth: Any) -> Self:
        """Learn how votes are to be read once more, from rows whose true labels are known.

        With the *test* rows this is what the released code does. It has then seen the answers: compare it with
        published numbers, and with nothing else.
        """
        self._learn_odds(*self._with_truth(X, truth))
        return self

    def _votes(self, X: Features) -> np.ndarray:
        return count_votes(X, self.machines_, weighted=False).astype(np.intp)

    def _scores(self, X: Features) -> np.ndarray:
        log_odds = np.take_along_axis(self.log_odds_, self._votes(X).T, axis=1).T
        if self.paper:
            return scaled_rows(np.exp(log_odds))
        return expit(log_odds)

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return scores


class PARVLSClassifier(ParticleClassifier):
    """PARTICLE with virtual label splitting.

    Arguments and attributes are those of :class:`ParticleClassifier`; the virtual label is the last of the machines.
    ``paper=True`` also rounds as the released code does.

    Examples
    --------
    >>> X = np.array([[-1.0], [-0.9], [-0.8], [0.8], [0.9], [1.0]])
    >>> candidates = np.array([[1, 0], [1, 1], [1, 0], [0, 1], [1, 1], [0, 1]])
    >>> PARVLSClassifier(k=2).fit(X, candidates).predict(X).T
    array([[1, 1, 1, 0, 0, 0],
           [0, 0, 0, 1, 1, 1]])
    """

    _virtual = True

    def _scores(self, X: Features) -> np.ndarray:
        votes = count_votes(X, self.machines_, weighted=True)
        if self.paper:
            votes = np.ceil(votes)
        return 0.5 + (votes[:, :-1] - votes[:, -1:]) / len(self.labels_)
