"""Metrics of the top of a ranking, for labels by the thousand: the truth is sparse, and k positions per row are enough.

``ranked`` is either of two, told apart by type:

- whole numbers ``(n_samples, at least k)``: positions of labels, the best first, as
  :meth:`propml.methods.many_labels.ManyLabelClassifier.predict_top` gives them;
- floating-point scores ``(n_samples, n_labels)``. They are compared in float32, as everywhere in this package, and of
  equal ones the lower position comes first.

Rows without a true label are left out: nothing could be found there.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.folds import row_blocks
from propml.metrics.inputs import binary_matrix, compared, score_matrix


def precision_at_k(truth: Any, ranked: Any, k: int = 5) -> float:
    """The share of true labels among the k on top, ``mean_i |top_i ∩ P_i| / k``; higher is better.

    Parameters
    ----------
    truth : 0/1 array-like, tensor, sparse matrix or Candidates, shape (n_samples, n_labels)
    ranked : positions (n_samples, at least k) or scores (n_samples, n_labels)
    k : int

    Examples
    --------
    >>> precision_at_k([[1, 0, 1, 0]], [[2, 1, 0]], k=2)
    0.5
    >>> precision_at_k([[1, 0, 1, 0]], [[0.7, 0.8, 0.9, 0.1]], k=2)
    0.5
    """
    return float(found_on_top(truth, ranked, k)[2].mean())


def ndcg_at_k(truth: Any, ranked: Any, k: int = 5) -> float:
    """Normalised discounted cumulative gain: a label found at rank r counts ``1 / log2(r + 1)``; higher is better.

    The sum over the k on top is divided by the largest one that the row allows, that of min(k, |P|) true labels on top;
    arguments as in :func:`precision_at_k`.

    >>> round(ndcg_at_k([[1, 0, 1, 0]], [[2, 1, 0]], k=3), 4)  # (1 + 1/2) / (1 + 1/log2 3)
    0.9197
    """
    true, _, hits = found_on_top(truth, ranked, k)
    gain = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(gain)[np.minimum(np.diff(true.indptr), k) - 1]
    return float(np.mean(hits @ gain / ideal))


def psp_at_k(truth: Any, ranked: Any, k: int = 5, *, train: Any, a: float = 0.55, b: float = 1.5) -> float:
    """Propensity-scored precision: a rare label that is found counts more; higher is better.

    A label is seen in the data, where it is true, with probability (propensity)
    ``p = 1 / (1 + (log N - 1) (b + 1)^a (n + b)^-a)``, for n of N training rows that have it; a hit counts ``1 / p``.
    The sum over all rows is divided by the largest one that a ranking could have, as in the tables of the Extreme
    Classification Repository.

    Parameters
    ----------
    truth, ranked, k
        As in :func:`precision_at_k`.
    train : 0/1 array-like, tensor, sparse matrix or Candidates, shape (n_training_samples, n_labels)
        The labels of the training rows.
    a, b : float
        How propensities rise with frequency; 0.55 and 1.5 are the authors' for most data, 0.5 and 0.4 theirs for
        Wikipedia, 0.6 and 2.6 for Amazon.

    References
    ----------
    Jain, Prabhu, Varma: Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking & Other Missing Label
    Applications. KDD 2016.

    Examples
    --------
    >>> train = [[1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1]]
    >>> psp_at_k([[1, 1, 0]], [[0]], k=1, train=train) < psp_at_k([[1, 1, 0]], [[1]], k=1, train=train) == 1.0
    True
    """
    true, top, hits = found_on_top(truth, ranked, k)
    labels = _sparse(train, "train")
    if labels.shape[1] != true.shape[1]:
        raise ValueError(f"train has {labels.shape[1]} labels and truth {true.shape[1]}; both need the same columns")
    if not (a >= 0 and b > 0):
        raise ValueError(f"a is {a} and b is {b}; give a of at least 0 and b above 0")
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    found, best = propensity_sums(true, top, hits, inverse_propensity(counts, labels.shape[0], a, b))
    return found / best


def inverse_propensity(counts: np.ndarray, n_rows: int, a: float = 0.55, b: float = 1.5) -> np.ndarray:
    """What a hit counts, for labels that so many of ``n_rows`` training rows have."""
    # Of two rows log N - 1 is negative, which would make the rare labels the cheap ones.
    return 1 + max(np.log(n_rows) - 1, 0) * (b + 1) ** a * (counts + b) ** -a


def propensity_sums(true: sp.csr_array, top: np.ndarray, hits: np.ndarray, worth: np.ndarray) -> tuple[float, float]:
    """What the labels on top are worth where they are true, and what the best ones would be, over all rows."""
    # The most valuable true labels of each row come first.
    row = np.repeat(np.arange(true.shape[0]), np.diff(true.indptr))
    values = worth[true.indices]
    order = np.lexsort((-values, row))
    place = np.arange(len(order)) - true.indptr[row]
    return float((hits * worth[top]).sum()), float(values[order][place < top.shape[1]].sum())


def found_on_top(truth: Any, ranked: Any, k: int) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """The rows with true labels, their k labels on top, ``(n_rows, k)``, and which of these are true."""
    true = _sparse(truth)
    top = _top_positions(ranked, true.shape[1], k)
    if len(top) != true.shape[0]:
        raise ValueError(f"truth has {true.shape[0]} rows and ranked has {len(top)}; both need the same")
    labelled = np.diff(true.indptr) > 0
    if not labelled.any():
        raise ValueError(f"none of the {len(top)} rows has a true label, so there is nothing to find")
    true, top = true[labelled], top[labelled]
    row = np.repeat(np.arange(len(top)), np.diff(true.indptr))
    keys = np.arange(len(top))[:, None] * true.shape[1] + top
    return true, top, np.isin(keys, row * true.shape[1] + true.indices)


def _sparse(matrix: Any, name: str = "truth") -> sp.csr_array:
    true = sp.csr_array(binary_matrix(matrix, name), copy=True)
    true.eliminate_zeros()
    return true.astype(np.int8)


def _top_positions(ranked: Any, n_labels: int, k: int) -> np.ndarray:
    """The k positions on top, ``(n_rows, k)``."""
    given = np.asarray(ranked.detach().cpu() if hasattr(ranked, "detach") else ranked)
    if given.ndim != 2 or given.dtype.kind not in "iuf":
        raise ValueError(
            f"ranked holds {given.dtype} values of shape {given.shape}; give positions of labels as whole numbers, "
            f"(n_samples, k), or scores as floating-point numbers, (n_samples, n_labels)"
        )
    if not 1 <= k <= given.shape[1]:
        raise ValueError(f"k is {k}; choose it from 1 to {given.shape[1]}, the columns of ranked")
    if given.dtype.kind == "f":
        scores = score_matrix(given)
        if scores.shape[1] != n_labels:
            raise ValueError(f"ranked has scores of {scores.shape[1]} labels and truth has {n_labels}")
        blocks = row_blocks(*scores.shape)
        return np.concatenate([np.argsort(-compared(scores[b]), axis=1, kind="stable")[:, :k] for b in blocks])
    top = given[:, :k].astype(np.int64)
    if top.min() < 0 or top.max() >= n_labels:
        raise ValueError(f"ranked names labels from {top.min()} to {top.max()}, and there are {n_labels}, from 0 on")
    if (twice := np.flatnonzero((np.diff(np.sort(top, axis=1), axis=1) == 0).any(axis=1))).size:
        raise ValueError(f"row {twice[0]} of ranked names a label twice; each label has one rank")
    return top
