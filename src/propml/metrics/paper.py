"""Quirks behind published numbers. Use them to reproduce those numbers, never to report new ones.

**Hamming loss of two methods.** The published values of ML-kNN and CPLST (52 to 99 %) fit two slips in coding:

- ML-kNN's predictions, coded -1/+1, are compared with a truth coded 0/1, so that every predicted negative is "wrong"
  and the loss is ``1 - (true positives) / (n_samples * n_labels)``;
- CPLST's scores, regressed from 0/1 labels, are cut at 0 instead of 0.5.

**Vision metrics of the official code.**

- Probabilities are float16, which ties the very small and the very large ones; a second sigmoid is then put on top of
  them before the F1 scores, where all below about 0.001 collapse to 0.5. mAP takes the single sigmoid.
- A label is predicted where that double sigmoid is above 0.6, that is from a probability of about 0.4055 on (0.4065
  with the rounding of float16, in which the comparison is made, too); CF1 is then the mean of the classes' F1
  (macro F1), not the F1 of the mean precision and recall.
- The top-3 rule predicts every label whose score is at least the third largest, so that ties add labels.
- In mAP the later image comes first among ties, 1e-8 is added to the number of positives, and a class without positives
  counts as 0.
"""

from typing import Any

import numpy as np

from propml.metrics.decision import (
    ClassCounts,
    check_threshold,
    count_classes,
    f1_from_counts,
    top_k_block,
)
from propml.metrics.inputs import BinaryMatrix, binary_matrix, boolean_rows, check_same_shape, truth_and_scores
from propml.metrics.retrieval import MeanAveragePrecision, mean_over_classes, rank_examples

PAPER_THRESHOLD = 0.6
TOP_K = 3


def paper_hamming_loss(
    truth: Any, scores: Any, method: str | None, *, predicted: Any = None, threshold: Any = 0.5
) -> float:
    """Hamming loss as the paper's table has it for a method: with a slip for ML-kNN and CPLST, as usual for others.

    Parameters
    ----------
    truth : 0/1 matrix, shape (n_samples, n_labels)
    scores : array-like, shape (n_samples, n_labels)
        For CPLST the raw regression scores: they are cut at 0, which probabilities never are.
    method : str or None
        The method's name; case and hyphens do not matter.
    predicted : 0/1 matrix, optional
        Predictions to use instead of a threshold on the scores (CPLST does not look at them).
    threshold : float or array-like of shape (n_labels,)

    Examples
    --------
    >>> truth, scores = [[1, 0, 0, 1]], [[0.9, 0.6, 0.2, 0.1]]
    >>> paper_hamming_loss(truth, scores, "ML-kNN")  # 1 - 1/4
    0.75
    >>> paper_hamming_loss(truth, scores, "CPLST")  # everything is above 0
    0.5
    """
    true, matrix = truth_and_scores(truth, scores)
    marked = None if predicted is None else binary_matrix(predicted, "predicted")
    if marked is not None:
        check_same_shape(true, marked, "predicted")
    return hamming_loss_of_method(true, matrix, method, marked, check_threshold(threshold, matrix.shape[1]))


def hamming_loss_of_method(
    truth: BinaryMatrix, scores: np.ndarray, method: str | None, predicted: BinaryMatrix | None, threshold: Any
) -> float:
    """:func:`paper_hamming_loss` of checked arguments."""
    name = "".join(filter(str.isalnum, method or "")).lower()

    def predict(rows: slice) -> np.ndarray:
        if name == "cplst":
            return scores[rows] > 0
        if predicted is not None:
            return boolean_rows(predicted, rows)
        # ML-kNN decides by "at least", as its authors do
        return scores[rows] >= threshold if name == "mlknn" else scores[rows] > threshold

    counts = count_classes(truth, predict)
    if name == "mlknn":
        return float(1 - counts.both.sum() / (counts.n_rows * counts.both.size))
    return counts.hamming_loss()


def double_sigmoid(probabilities: np.ndarray) -> np.ndarray:
    """The sigmoid of float16 probabilities, in float16 again.

    >>> double_sigmoid(np.array([0.0, 0.0004, 0.4055, 1.0]))
    array([0.5  , 0.5  , 0.6  , 0.731], dtype=float16)
    """
    halves = _to_half(probabilities).astype(np.float32)
    return (1 / (1 + np.exp(-halves))).astype(np.float16)


def paper_mean_average_precision(truth: Any, probabilities: Any) -> MeanAveragePrecision:
    """mAP as the official vision code computes it (see the top of this module)."""
    return map_of_halves(*truth_and_scores(truth, probabilities))


def map_of_halves(truth: BinaryMatrix, probabilities: np.ndarray) -> MeanAveragePrecision:
    """:func:`paper_mean_average_precision` of checked arguments."""
    return mean_over_classes(rank_examples(truth, _to_half(probabilities), ("last",)), ("last",), "zero", 1e-8)


def paper_f1(truth: Any, probabilities: Any) -> dict[str, float]:
    """CF1, OF1 (double sigmoid above 0.6) and CF1@3, OF1@3 (top 3, ties add labels) of the official vision code.

    Parameters
    ----------
    truth : 0/1 matrix, shape (n_samples, n_labels)
    probabilities : array-like, shape (n_samples, n_labels)
        After one sigmoid. Other scores are taken as they are; nothing in the paper corresponds to that.
    """
    return f1_of_double_sigmoid(*truth_and_scores(truth, probabilities))


def f1_of_double_sigmoid(truth: BinaryMatrix, probabilities: np.ndarray) -> dict[str, float]:
    """:func:`paper_f1` of checked arguments."""
    k = min(TOP_K, truth.shape[1])
    above = f1_from_counts(_count(truth, probabilities, lambda halves: halves > np.float16(PAPER_THRESHOLD)), "zero")
    top = f1_from_counts(
        _count(truth, probabilities, lambda halves: top_k_block(halves.astype(np.float32), k, "all")), "zero"
    )
    return {"CF1": above.macro_f1, "OF1": above.OF1, "CF1@3": top.CF1, "OF1@3": top.OF1}


def _count(truth: BinaryMatrix, probabilities: np.ndarray, decide: Any) -> ClassCounts:
    return count_classes(truth, lambda rows: decide(double_sigmoid(probabilities[rows])))


def _to_half(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # infinity is what float16 makes of large scores, and sorts where it should
        return values.astype(np.float16)
