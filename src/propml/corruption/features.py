"""The features that a corruption looks at: dense, finite, one row per row of labels."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from propml.targets import Candidates


def dense_features(X: Any, clean: Candidates) -> np.ndarray:
    """The features as float64, ``(n_samples, n_features)``; sparse ones become dense, since scaling leaves no zeros."""
    features = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False, input_name="X")
    if sp.issparse(features):
        features = features.toarray()
    bad = np.argwhere(~np.isfinite(features))
    if bad.size:
        row, column = bad[0]
        raise ValueError(
            f"row {row}, feature {column} of X is {features[row, column]}; "
            f"distances need finite features, so fill or drop such values first"
        )
    if len(features) != len(clean):
        raise ValueError(f"X has {len(features)} rows and the truth {len(clean)}; give one row of labels per row of X")
    return features
