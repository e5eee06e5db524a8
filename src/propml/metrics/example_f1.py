"""F1 of each example, averaged over the examples."""

from typing import Any

import numpy as np

from propml.metrics.inputs import binary_matrix, boolean_rows, check_same_shape


def example_f1(truth: Any, predicted: Any) -> float:
    """``2 |true and predicted| / (|true| + |predicted|)`` of each row, averaged over the rows; higher is better.

    A row without a true label of which none is predicted counts as right.

    Parameters
    ----------
    truth, predicted : 0/1 array-like, tensor, sparse matrix or Candidates, shape (n_samples, n_labels)

    Examples
    --------
    >>> example_f1([[1, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]])  # 2/3 and 1
    0.8333333333333333
    """
    true, marked = binary_matrix(truth, "truth"), binary_matrix(predicted, "predicted")
    check_same_shape(true, marked, "predicted")
    everything = slice(0, true.shape[0])
    is_true, is_marked = boolean_rows(true, everything), boolean_rows(marked, everything)
    both = 2 * (is_true & is_marked).sum(axis=1)
    sizes = is_true.sum(axis=1) + is_marked.sum(axis=1)
    return float(np.where(sizes > 0, both / np.maximum(sizes, 1), 1.0).mean())
