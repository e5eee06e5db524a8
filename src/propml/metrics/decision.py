"""Metrics of 0/1 predictions: Hamming loss and the F1 family; and the two rules that turn scores into predictions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from propml.folds import row_blocks
from propml.metrics.inputs import BinaryMatrix, binary_matrix, boolean_rows, compared, predicted_matrix, score_matrix

Absent: TypeAlias = Literal["skip", "zero"]


@dataclass(frozen=True)
class ClassCounts:
    """How often each class is true, predicted, and both; arrays of shape (n_labels,)."""

    n_rows: int
    true: np.ndarray
    predicted: np.ndarray
    both: np.ndarray

    def hamming_loss(self) -> float:
        """The share of entries that differ."""
        differing = self.true.sum() + self.predicted.sum() - 2 * self.both.sum()
        return float(differing / (self.n_rows * self.true.size))


@dataclass(frozen=True)
class F1Scores:
    """The F1 family; all fractions, higher is better.

    ``CP`` and ``CR`` are precision and recall of each class, averaged over the classes; a class that is never predicted
    has precision 0. ``CF1 = 2 CP CR / (CP + CR)`` is the F1 of these averages, as in the vision literature, and
    ``macro_f1`` the mean of the classes' F1, which some code calls CF1. ``OP``, ``OR`` and ``OF1`` are those over all
    entries together. ``n_absent_classes`` have no true label in any row.
    """

    CP: float
    CR: float
    CF1: float
    OP: float
    OR: float
    OF1: float
    macro_f1: float
    n_absent_classes: int

    @property
    def micro_f1(self) -> float:
        """Another name of OF1."""
        return self.OF1


def hamming_loss(truth: Any, predicted: Any) -> float:
    """The share of entries that are predicted wrongly, over all rows and labels; lower is better.

    Parameters as in :func:`f1_scores`.

    >>> hamming_loss([[1, 0, 0, 1]], [[1, 1, 0, 1]])
    0.25
    """
    return _counts_of(truth, predicted).hamming_loss()


def f1_scores(truth: Any, predicted: Any, *, absent: Absent = "skip") -> F1Scores:
    """Precision, recall and F1, by class (CP, CR, CF1, macro) and overall (OP, OR, OF1).

    Parameters
    ----------
    truth, predicted : 0/1 array-like, tensor, sparse matrix or Candidates, shape (n_samples, n_labels)
    absent : {"skip", "zero"}
        Whether a class without a true label is left out of the averages over classes, or enters them with 0
        (as in scikit-learn with ``zero_division=0``). The overall values count its false positives either way.

    Examples
    --------
    >>> f = f1_scores([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    >>> f.CP, f.CR, round(f.CF1, 4), f.macro_f1 == (2 / 3 + 1) / 2
    (1.0, 0.75, 0.8571, True)
    """
    return f1_from_counts(_counts_of(truth, predicted), absent)


def example_f1(truth: Any, predicted: Any) -> float:
    """``2 |true and predicted| / (|true| + |predicted|)`` of each row, averaged over the rows; higher is better.

    A row without a true label of which none is predicted counts as right. Parameters as in :func:`f1_scores`.

    >>> example_f1([[1, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]])  # 2/3 and 1
    0.8333333333333333
    """
    true = binary_matrix(truth, "truth")
    is_true, is_marked = (boolean_rows(matrix, slice(None)) for matrix in (true, predicted_matrix(predicted, true)))
    both = 2 * (is_true & is_marked).sum(axis=1)
    sizes = is_true.sum(axis=1) + is_marked.sum(axis=1)
    return float(np.where(sizes > 0, both / np.maximum(sizes, 1), 1.0).mean())


def predict_threshold(scores: Any, threshold: Any = 0.5) -> np.ndarray:
    """Predict every label whose score is greater than the threshold.

    Parameters
    ----------
    scores : array-like or tensor, shape (n_samples, n_labels)
    threshold : float or array-like of shape (n_labels,)

    Returns
    -------
    ndarray of int8, shape (n_samples, n_labels)
    """
    matrix = score_matrix(scores)
    return (matrix > check_threshold(threshold, matrix.shape[1])).astype(np.int8)


def predict_top_k(scores: Any, k: int, *, ties: Literal["exact", "all"] = "exact") -> np.ndarray:
    """Predict the ``k`` labels of highest score in each row.

    Parameters
    ----------
    scores : array-like or tensor, shape (n_samples, n_labels)
    k : int
    ties : {"exact", "all"}
        ``"exact"``: always ``k`` labels, the lower index first among equal scores. ``"all"``: every label whose score
        is at least the ``k``-th largest, so that ties add labels, as in the official vision code.

    Returns
    -------
    ndarray of int8, shape (n_samples, n_labels)

    Examples
    --------
    >>> predict_top_k([[0.9, 0.5, 0.5, 0.1]], k=2)
    array([[1, 1, 0, 0]], dtype=int8)
    >>> predict_top_k([[0.9, 0.5, 0.5, 0.1]], k=2, ties="all")
    array([[1, 1, 1, 0]], dtype=int8)
    """
    matrix = score_matrix(scores)
    if not 1 <= k <= matrix.shape[1]:
        raise ValueError(f"k is {k} and there are {matrix.shape[1]} labels; choose k from 1 to {matrix.shape[1]}")
    if ties not in ("exact", "all"):
        raise ValueError(f'ties is {ties!r}; choose "exact" or "all"')
    predicted = np.empty(matrix.shape, dtype=np.int8)
    for rows in row_blocks(*matrix.shape):
        predicted[rows] = top_k_block(matrix[rows], k, ties)
    return predicted


def top_k_block(scores: np.ndarray, k: int, ties: str) -> np.ndarray:
    """:func:`predict_top_k` of one block of checked scores, as booleans."""
    scores, place = compared(scores), scores.shape[1] - k
    kth = np.partition(scores, place, axis=1)[:, place, None]
    chosen = scores >= kth
    if ties == "exact" and (over := np.flatnonzero(np.count_nonzero(chosen, axis=1) > k)).size:
        above, tied = scores[over] > kth[over], scores[over] == kth[over]
        free = k - np.count_nonzero(above, axis=1)[:, None]
        chosen[over] = above | (tied & (np.cumsum(tied, axis=1) <= free))
    return chosen


def check_threshold(threshold: Any, n_labels: int) -> Any:
    """A threshold that compares with scores of shape (n_samples, n_labels)."""
    values = np.asarray(threshold)
    if values.dtype.kind not in "uif" or np.isnan(values).any() or values.shape not in ((), (n_labels,)):
        raise ValueError(f"threshold is {threshold!r}, expected one number, or one for each of the {n_labels} labels")
    return values if values.ndim else values.item()  # a plain number takes the type of the scores


def count_classes(truth: BinaryMatrix, predict: Callable[[slice], np.ndarray]) -> ClassCounts:
    """Count block by block; ``predict(rows)`` gives the predictions of some rows as booleans."""
    n_rows, n_labels = truth.shape
    true, predicted, both = np.zeros((3, n_labels), dtype=np.int64)
    for rows in row_blocks(*truth.shape):
        is_true, is_predicted = boolean_rows(truth, rows), predict(rows)
        true += np.count_nonzero(is_true, axis=0)
        predicted += np.count_nonzero(is_predicted, axis=0)
        both += np.count_nonzero(is_true & is_predicted, axis=0)
    return ClassCounts(n_rows, true, predicted, both)


def f1_from_counts(counts: ClassCounts, absent: str) -> F1Scores:
    """:func:`f1_scores` from counts that are known already."""
    if absent not in ("skip", "zero"):
        raise ValueError(f'absent is {absent!r}; choose "skip" or "zero"')
    present = counts.true > 0
    if not present.any():
        raise ValueError(f"F1 is undefined: none of the {counts.n_rows} rows has a true label")
    used = present if absent == "skip" else np.ones_like(present)
    true, predicted, both = counts.true[used], counts.predicted[used], counts.both[used]
    CP, CR = float(np.mean(both / np.maximum(predicted, 1))), float(np.mean(both / np.maximum(true, 1)))
    OP = float(counts.both.sum() / max(counts.predicted.sum(), 1))
    OR = float(counts.both.sum() / counts.true.sum())
    macro_f1 = float(np.mean(2 * both / np.maximum(true + predicted, 1)))
    CF1, OF1 = (2 * p * r / (p + r) if p + r > 0 else 0.0 for p, r in ((CP, CR), (OP, OR)))
    return F1Scores(CP, CR, CF1, OP, OR, OF1, macro_f1, n_absent_classes=int(np.count_nonzero(~present)))


def _counts_of(truth: Any, predicted: Any) -> ClassCounts:
    true = binary_matrix(truth, "truth")
    marked = predicted_matrix(predicted, true)
    return count_classes(true, lambda rows: boolean_rows(marked, rows))
