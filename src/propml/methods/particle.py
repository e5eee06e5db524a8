"""PARTICLE: what its two variants, PAR-MAP and PAR-VLS, share.

Fang and Zhang, "Partial Multi-Label Learning via Credible Label Elicitation", AAAI 2019; Zhang and Fang, TPAMI 2021.

1. Labels are propagated among neighbours and the credible ones are kept (:mod:`propml.methods.particle_propagation`).
2. A machine for every pair of labels (LIBSVM, linear, C = 1, as in the release) learns from rows where one is credible
   and the other no candidate (:mod:`propml.methods.particle_pairs`); the variants read the votes in their own ways.

Published numbers are on features scaled to [−1, 1]. The equations are those of the released conference code, and of the
paper as it is recalled where the two differ.

Deviations of both variants, from the paper or from the released code:

- Neighbours exclude the row itself. The release includes it, so that each row is rebuilt from itself alone, the
  transition matrix is the identity and nothing is propagated.
- The propagation starts from S_ij / |S_i|, as published; the release starts from S_ij. It stops when no confidence
  changes by 1e-5, where the release takes the spectral norm of all changes. The correction of the class mass that
  follows is the release's; its scaling of each row to [0, 1] divides by 0 where all labels are equally confident and
  is left out, since the credible labels are scaled anyway.
- Where no candidate reaches the threshold, the release takes the labels that do, which are no candidates. This
  contradicts what candidates are, and concerns nine of ten rows of the Yeast sets. Here the candidates that come
  nearest are taken.
- ``paper=True`` does in these three points as the release does: the published results on the Yeast sets depend on
  them (YeastCC, PAR-MAP and PAR-VLS: average precision 20.9 and 17.2, published 21.6 and 17.8; without, 41.1 and 41.7).
  On Scene at 100 % it is 83.6 and 83.5 (published 83.9 and 83.9); without, 84.6 and 85.0.
- Credible labels come from an inner cross-validation within the training rows. The release finds them once, before the
  outer one, and so with the candidates of the test rows.
- A pair without machine does not vote, nor does a machine with a decision of 0. In the release's PAR-MAP the lower of
  the two labels wins; as this adds the same to its votes everywhere, it changes nothing.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from propml.methods.base import CandidateClassifier, Features
from propml.methods.inner_products import InnerProducts
from propml.methods.particle_pairs import MACHINES, train_pairs
from propml.methods.particle_propagation import credible_labels
from propml.schema import Array
from propml.targets import Candidates


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

    #: Whether the virtual label takes part in the pairs.
    _virtual = False

    _learned: ClassVar = {
        "credible_": Array("iu", "rows", "labels", sparse=True),
        "machines_": MACHINES,
    }

    def __init__(
        self,
        k: int = 10,
        alpha: float = 0.95,
        threshold: float = 0.9,
        C: float = 1.0,
        tol: float = 1e-3,
        inner_folds: int = 10,
        paper: bool = False,
        random_state: int | None = 0,
        verbose: bool = False,
    ) -> None:
        self.k = k
        self.alpha = alpha
        self.threshold = threshold
        self.C = C
        self.tol = tol
        self.inner_folds = inner_folds
        self.paper = paper
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, X: Features, candidates: Candidates) -> None:
        self._check_arguments()
        marks = candidates.to_matrix(bool)
        products = InnerProducts(X)
        # Threads cost more than they bring in the many small systems of both stages.
        with threadpool_limits(limits=1, user_api="blas"):
            credible = credible_labels(
                products,
                marks,
                k=self.k,
                alpha=self.alpha,
                threshold=self.threshold,
                folds=self._deal(len(marks)),
                released=self.paper,
            )
            self.machines_ = train_pairs(
                products, credible, marks, self.C, self.tol, virtual=self._virtual, verbose=self.verbose
            )
        self.credible_ = sp.csr_array(credible.astype(np.int8))

    def _deal(self, n: int) -> np.ndarray:
        """The inner fold of each row."""
        folds = np.zeros(n, dtype=np.intp)
        if n > 1:
            splitter = KFold(min(self.inner_folds, n), shuffle=True, random_state=self.random_state)
            for fold, (_, rows) in enumerate(splitter.split(folds)):
                folds[rows] = fold
        return folds

    def _check_arguments(self) -> None:
        for name, good, wanted in (
            ("k", isinstance(self.k, int | np.integer) and self.k >= 1, "an integer number of neighbours, 1 or more"),
            ("alpha", 0 <= self.alpha < 1, "a part from 0 up to, but not including, 1"),
            ("threshold", 0 < self.threshold <= 1, "a number above 0 and up to 1"),
            ("C", self.C > 0, "a positive number"),
            ("tol", self.tol > 0, "a positive number"),
            (
                "inner_folds",
                isinstance(self.inner_folds, int | np.integer) and self.inner_folds >= 2,
                "an integer number of folds, 2 or more",
            ),
        ):
            if not good:
                raise ValueError(f"{name} is {getattr(self, name)}; {type(self).__name__} needs {wanted}")
