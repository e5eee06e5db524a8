"""The scaling of the paper's protocol, with which all its methods but the networks are given features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from propml.targets import Features


class RangeScaler(TransformerMixin, BaseEstimator):
    """Each feature to [-1, 1] by its smallest and largest value; a constant one to 0. Sparse features become dense.

    Examples
    --------
    >>> RangeScaler().fit_transform(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]))
    array([[-1.,  0.],
           [ 0.,  0.],
           [ 1.,  0.]])
    """

    def fit(self, X: Features, y: Any = None) -> Self:
        """Learn the range of each feature."""
        features = self._dense(X, reset=True)
        self.low_, self.high_ = features.min(axis=0), features.max(axis=0)
        return self

    def transform(self, X: Features) -> np.ndarray:
        """The scaled features; what lies beyond the range that was learned comes to lie beyond [-1, 1]."""
        check_is_fitted(self)
        features = self._dense(X, reset=False)
        varies = self.high_ > self.low_
        span = np.where(varies, self.high_ - self.low_, 1.0)
        return np.where(varies, 2 * (features - self.low_) / span - 1, 0.0)

    def _dense(self, X: Features, *, reset: bool) -> np.ndarray:
        checked = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)
        return checked.toarray() if sp.issparse(checked) else checked

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
