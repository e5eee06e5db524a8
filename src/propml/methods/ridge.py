"""Ridge regression on candidate labels: the floor that everything must beat.

    W = argmin ‖Φ W − S‖² + α ‖W‖²,   Φ = [X, 1],   scores = Φ_test W

Candidates are taken for true. With α = 10 on features in [−1, 1] this is, to a few tenths of a point, what PML-NI
computes with its defaults; CPLST at full code length is ridge regression with α = 0.1 on *centred* labels.

Deviations: none; the bias is penalised like any other weight, as in the methods it stands for. Where there are more
features than rows, the equal n × n (dual) system is solved instead.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from propml.messages import former_names
from propml.methods.base import FORMER_NAMES, Features, check_positive
from propml.methods.linear_algebra import LinearClassifier, RidgeSystem, with_bias
from propml.schema import Array
from propml.targets import Candidates


@dataclass(eq=False, repr=False)
class RidgeRegressionClassifier(LinearClassifier):
    """Ridge regression on candidate labels.

    Parameters
    ----------
    alpha : float
        Strength of the penalty.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features + 1, n_labels)
        The weights; the last row is the bias.

    Examples
    --------
    >>> X, candidates = np.array([[0.0], [1.0], [2.0]]), np.array([[1, 0], [1, 1], [0, 1]])
    >>> RidgeRegressionClassifier(alpha=0.1).fit(X, candidates).predict(X)
    array([[1, 0],
           [1, 1],
           [0, 1]])
    """

    alpha: float = 10.0

    _learned: ClassVar = {"coef_": Array("f", "features+1", "labels")}

    def _fit(self, X: Features, candidates: Candidates) -> None:
        check_positive(self, "alpha")
        self.coef_ = RidgeSystem(with_bias(X), self.alpha).weights(candidates.to_matrix(np.float64))


if not TYPE_CHECKING:
    __getattr__ = former_names(__name__, FORMER_NAMES)
