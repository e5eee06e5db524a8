"""Mean average precision over classes: each class ranks the examples, as a search engine would."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.metrics.decision import Absent
from propml.metrics.inputs import BinaryMatrix, truth_and_scores
from propml.metrics.ranking import RankedTruth, Ties, rank_truth, tie_orders


@dataclass(frozen=True)
class MeanAveragePrecision:
    """The mean over classes, ``value``, a fraction; and what went into it.

    ``per_class`` is the average precision of the classes that entered the mean, ``(n_used_classes,)``, and ``classes``
    are their columns. ``n_absent_classes`` have no positive example. In ``n_tied_classes`` a positive and a negative
    example share a score, so that the tie rule matters.
    """

    value: float
    per_class: np.ndarray
    classes: np.ndarray
    n_absent_classes: int
    n_tied_classes: int

    def __float__(self) -> float:
        return self.value


def mean_average_precision(
    truth: Any, scores: Any, *, ties: Ties = "mean", absent: Absent = "skip"
) -> MeanAveragePrecision:
    """Mean over classes of the uninterpolated average precision over examples (not the VOC 11-point one).

    ``AP_c = (1/|P_c|) sum_{i in P_c} (positives of c down to example i) / (rank of i)``, with the examples ranked by
    their score for class ``c``; higher is better.

    Parameters
    ----------
    truth : 0/1 array-like, tensor, sparse matrix or Candidates, shape (n_samples, n_labels)
    scores : array-like or tensor, shape (n_samples, n_labels)
    ties : {"mean", "first", "last", "best", "worst", "paper"}
        How examples with equal scores are ordered: ``"first"`` the earlier example first, ``"last"`` and ``"paper"``
        the later one, ``"best"`` / ``"worst"`` the positives / negatives, ``"mean"`` the mean of first and last.
    absent : {"skip", "zero"}
        Whether a class without a positive example is left out of the mean or enters it with 0.

    Examples
    --------
    >>> truth = [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    >>> scores = [[0.9, 0.2, 0.5], [0.8, 0.6, 0.1], [0.1, 0.3, 0.9]]
    >>> found = mean_average_precision(truth, scores)
    >>> found.per_class, found.classes, found.n_absent_classes  # class 0: (1/1 + 2/3) / 2
    (array([0.83333333, 1.        ]), array([0, 1]), 1)
    """
    if absent not in ("skip", "zero"):
        raise ValueError(f'absent is {absent!r}; choose "skip" or "zero"')
    orders = tie_orders("mAP", ties)
    return mean_over_classes(rank_examples(*truth_and_scores(truth, scores), orders), orders, absent)


def rank_examples(truth: BinaryMatrix, scores: np.ndarray, orders: tuple[str, ...]) -> RankedTruth:
    """The ranks of each class's positive examples: those of true labels, with the matrices turned."""
    turned = sp.csr_array(truth.T) if sp.issparse(truth) else truth.T
    return rank_truth(turned, scores.T, orders)


def mean_over_classes(
    ranked: RankedTruth, orders: tuple[str, ...], absent: str, epsilon: float = 0.0
) -> MeanAveragePrecision:
    """mAP from ranks that are known already; ``epsilon`` is added to the number of positives."""
    present = ranked.n_true > 0
    if not present.any():
        raise ValueError(f"mAP is undefined: none of the {ranked.n_labels} rows has a true label")
    classes = np.flatnonzero(present) if absent == "skip" else np.arange(present.size)
    precision_sum = np.mean([ranked.by_order[order][0] for order in orders], axis=0)
    per_class = precision_sum[classes] / (np.maximum(ranked.n_true[classes], 1) + epsilon)
    return MeanAveragePrecision(
        value=float(per_class.mean()),
        per_class=per_class,
        classes=classes,
        n_absent_classes=int(np.count_nonzero(~present)),
        n_tied_classes=int(np.count_nonzero(ranked.tied)),
    )
