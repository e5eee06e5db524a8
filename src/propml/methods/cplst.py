"""CPLST: conditional principal label space transformation.

Y.-N. Chen, H.-T. Lin: "Feature-aware Label Space Dimension Reduction for Multi-label Classification", NIPS 2012.
Labels are coded by M numbers, chosen such that they keep the labels *and* can be predicted from the features:

    min ‖Φ W − Y V‖² + λ ‖W‖² + ‖Y − Y V V'‖²   over W and orthonormal V (C × M),   Φ = [X, 1],  Y = S − 1 m'

with m the column means of the candidates S. For given V, W = (Φ'Φ + λ I)⁻¹ Φ' Y V; what is left is a constant minus
tr(V' Y' H Y V) with H = Φ (Φ'Φ + λ I)⁻¹ Φ', so that V are the leading M eigenvectors of Y' H Y. Scores are
Φ_test W V' + m, cut at 0.5. There is no iteration.

With M = C, the default, V V' = I and CPLST *is* ridge regression on the centred labels: coding then changes nothing.
That, with λ = 0.1, reproduces the published numbers. (RidgeRegressionClassifier(0.1) does not centre the labels: the
scores of the two differ by terms of order λ / n_samples.)

Deviations:

* Labels are coded 0/1, not −1/+1, and cut at 0.5, not at 0: the same predictions, as all is centred.
  ``propml.metrics.paper_hamming_loss`` reproduces the published Hamming losses, of 0/1 labels that were cut at 0.
* The authors' code has no bias column in H, only in Φ; here both have one, as in MLC_toolbox, so that V minimises the
  objective above. It makes no difference where M = C.
* Candidates are taken for true labels, since the method knows only those.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from propml.methods.base import CandidateClassifier, Features, check_positive
from propml.methods.linear_algebra import RidgeSystem, with_bias
from propml.schema import Array
from propml.targets import Candidates


@dataclass(eq=False, repr=False)
class CPLSTClassifier(CandidateClassifier):
    """Ridge regression onto principal codes of the candidate labels.

    Parameters
    ----------
    code_length : int or float, optional
        The number of codes M, or a fraction of the number of labels in (0, 1]; by default as many as labels.
    lam : float
        Strength λ of the penalty.

    Attributes
    ----------
    codes_ : ndarray, shape (n_labels, n_codes)
        The directions V in label space, most predictable first.
    coef_ : ndarray, shape (n_features + 1, n_codes)
        The weights W; the last row is the bias.
    means_ : ndarray, shape (n_labels,)
        The share of rows of which a label is a candidate.

    Examples
    --------
    >>> X, candidates = np.array([[0.0], [1.0], [2.0]]), np.array([[1, 0], [1, 1], [0, 1]])
    >>> CPLSTClassifier(code_length=1).fit(X, candidates).codes_.shape
    (2, 1)
    """

    code_length: int | float | None = None
    lam: float = 0.1

    _learned: ClassVar = {
        "means_": Array("f", "labels"),
        "codes_": Array("f", "labels", "codes"),
        "coef_": Array("f", "features+1", "codes"),
    }

    def _fit(self, X: Features, candidates: Candidates) -> None:
        check_positive(self, "lam")
        features, labels = with_bias(X), candidates.to_matrix(np.float64)
        n_labels = labels.shape[1]
        n_codes = self._n_codes(n_labels)
        self.means_ = labels.mean(axis=0)
        labels -= self.means_
        weights = RidgeSystem(features, self.lam).weights(labels)
        explained = np.asarray(features.T @ labels).T @ weights  # Y' H Y
        _, vectors = scipy.linalg.eigh(explained, subset_by_index=(n_labels - n_codes, n_labels - 1))
        self.codes_ = np.ascontiguousarray(vectors[:, ::-1])
        self.coef_ = weights @ self.codes_

    def _n_codes(self, n_labels: int) -> int:
        length = n_labels if self.code_length is None else self.code_length
        if isinstance(length, float) and 0 < length <= 1:
            return max(1, round(length * n_labels))
        if isinstance(length, float) or not 1 <= length <= n_labels:
            raise ValueError(
                f"code_length is {length} for {n_labels} labels; give a whole number from 1 to {n_labels}, "
                f"or a fraction in (0, 1]"
            )
        return int(length)

    def _scores(self, X: Features) -> np.ndarray:
        return np.asarray(with_bias(X) @ self.coef_) @ self.codes_.T + self.means_
