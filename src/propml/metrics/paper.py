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

from propml.metrics.decision import check_threshold, count_classes, f1_from_counts, top_k_block
from propml.metrics.inputs import boolean_rows, predicted_matrix, truth_and_scores
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
    marked = None if predicted is None else predicted_matrix(predicted, true)
    cut = check_threshold(threshold, matrix.shape[1])
    name = "".join(filter(str.isalnum, method or "")).lower()

    def predict(rows: slice) -> np.ndarray:
        if name == "cplst":
            return matrix[rows] > 0
        if marked is not None:
            return boolean_rows(marked, rows)
        # ML-kNN decides by "at least", as its authors do
        return matrix[rows] >= cut if name == "mlknn" else matrix[rows] > cut

    counts = count_classes(true, predict)
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
    true, matrix = truth_and_scores(truth, probabilities)
    return mean_over_classes(rank_examples(true, _to_half(matrix), ("last",)), ("last",), "zero", 1e-8)


def paper_f1(truth: Any, probabilities: Any) -> dict[str, float]:
    """CF1, OF1 (double sigmoid above 0.6) and CF1@3, OF1@3 (top 3, ties add labels) of the official vision code.

    Parameters
    ----------
    truth : 0/1 matrix, shape (n_samples, n_labels)
    probabilities : array-like, shape (n_samples, n_labels)
        After one sigmoid. Other scores are taken as they are; nothing in the paper corresponds to that.
    """
    true, matrix = truth_and_scores(truth, probabilities)
    k = min(TOP_K, true.shape[1])

    def above(rows: slice) -> np.ndarray:
        return double_sigmoid(matrix[rows]) > np.float16(PAPER_THRESHOLD)

    def on_top(rows: slice) -> np.ndarray:
        return top_k_block(double_sigmoid(matrix[rows]), k, "all")

    by_threshold, by_rank = (f1_from_counts(count_classes(true, rule), "zero") for rule in (above, on_top))
    return {"CF1": by_threshold.macro_f1, "OF1": by_threshold.OF1, "CF1@3": by_rank.CF1, "OF1@3": by_rank.OF1}


def _to_half(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # infinity is what float16 makes of large scores, and sorts where it should
        return values.astype(np.float16)
