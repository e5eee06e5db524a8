"""All metrics in one call, with the counts one needs to trust them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from propml.metrics.decision import check_threshold, count_classes, f1_from_counts, top_k_block
from propml.metrics.inputs import boolean_rows, predicted_matrix, truth_and_scores
from propml.metrics.paper import TOP_K, paper_f1, paper_hamming_loss, paper_mean_average_precision
from propml.metrics.ranking import RANKING_METRICS, mean_over_rows, rank_truth, tie_orders
from propml.metrics.retrieval import mean_over_classes, rank_examples


class Metric(NamedTuple):
    """What a report needs to know about a metric."""

    title: str
    higher_is_better: bool


METRICS: dict[str, Metric] = {
    "average_precision": Metric("Average precision", True),
    "coverage": Metric("Coverage", False),
    "hamming_loss": Metric("Hamming loss", False),
    "ranking_loss": Metric("Ranking loss", False),
    "one_error": Metric("One-error", False),
    "mAP": Metric("mAP", True),
    "CF1": Metric("CF1", True),
    "OF1": Metric("OF1", True),
    "CF1@3": Metric("CF1 (top 3)", True),
    "OF1@3": Metric("OF1 (top 3)", True),
}
# Those that are usual for images.
VISION_METRICS = ("mAP", "CF1", "OF1", "CF1@3", "OF1@3")


@dataclass(frozen=True)
class Evaluation(Mapping[str, float]):
    """The value of every metric by name, as fractions; a mapping, so ``dict(evaluation)`` is a plain dictionary.

    ``metrics`` holds the values by the names of :data:`METRICS`, and the counts say what they rest on. ``n_valid_rows``
    have at least one true and one false label: those are behind average precision, ranking loss and one-error. In
    ``n_tied_rows`` a true and a false label share a score, so that the tie rule matters. ``n_absent_classes`` have no
    true label in any row.
    """

    metrics: dict[str, float]
    n_rows: int
    n_valid_rows: int
    n_rows_without_truth: int
    n_tied_rows: int
    n_absent_classes: int

    def __getitem__(self, name: str) -> float:
        return self.metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def counts(self) -> dict[str, int]:
        """What the values rest on, by name."""
        return {name: value for name, value in vars(self).items() if name != "metrics"}

    def __str__(self) -> str:
        lines = [f"{METRICS[name].title:18} {100 * value:6.2f} %" for name, value in self.metrics.items()]
        lines.append(
            f"{self.n_rows} rows, {self.n_rows_without_truth} of them without a true label, {self.n_valid_rows} valid, "
            f"{self.n_tied_rows} with ties between true and false labels; {self.n_absent_classes} absent classes"
        )
        return "\n".join(lines)


def evaluate(
    truth: Any,
    scores: Any,
    predicted: Any = None,
    *,
    threshold: Any = 0.5,
    paper: bool = False,
    method: str | None = None,
) -> Evaluation:
    """All metrics of one matrix of scores; each row is ranked once.

    Parameters
    ----------
    truth : 0/1 array-like, tensor, sparse matrix or Candidates, shape (n_samples, n_labels)
    scores : array-like or tensor, shape (n_samples, n_labels)
    predicted : 0/1 matrix, shape (n_samples, n_labels), optional
        What Hamming loss, CF1 and OF1 judge; by default the labels with a score above ``threshold``.
    threshold : float or array-like of shape (n_labels,)
    paper : bool
        Use the conventions behind the paper's tables, quirks included: the tie rules of the MATLAB functions, coverage
        over all rows, and what :mod:`propml.metrics.paper` describes. For comparison with published numbers only.
    method : str, optional
        With ``paper=True``, the name of the method that made the scores, which decides on its Hamming loss.

    Returns
    -------
    Evaluation
        The metrics named in :data:`METRICS`, and counts of rows, ties and absent classes.

    Examples
    --------
    >>> result = evaluate([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.2, 0.7, 0.4]])
    >>> round(result["average_precision"], 4), result["ranking_loss"], result.n_tied_rows
    (0.9167, 0.25, 0)
    """
    true, matrix = truth_and_scores(truth, scores)
    marked = None if predicted is None else predicted_matrix(predicted, true)
    cut = check_threshold(threshold, matrix.shape[1])
    ties = "paper" if paper else "mean"
    ranked = rank_truth(true, matrix, {order for name in RANKING_METRICS for order in tie_orders(name, ties)})
    rows = dict.fromkeys(RANKING_METRICS, "valid") | {"coverage": "all" if paper else "labelled"}
    values = {name: mean_over_rows(name, ranked, rows[name], ties) for name in RANKING_METRICS}
    if paper:
        values["hamming_loss"] = paper_hamming_loss(true, matrix, method, predicted=marked, threshold=threshold)
        by_class = paper_mean_average_precision(true, matrix)
        values |= paper_f1(true, matrix)
    else:
        orders = tie_orders("mAP", ties)
        by_class = mean_over_classes(rank_examples(true, matrix, orders), orders, "skip")
        k = min(TOP_K, matrix.shape[1])
        counts = count_classes(true, lambda some: matrix[some] > cut if marked is None else boolean_rows(marked, some))
        above = f1_from_counts(counts, "skip")
        top = f1_from_counts(count_classes(true, lambda some: top_k_block(matrix[some], k, "exact")), "skip")
        values |= {"hamming_loss": counts.hamming_loss(), "CF1": above.CF1, "OF1": above.OF1}
        values |= {"CF1@3": top.CF1, "OF1@3": top.OF1}
    values["mAP"] = by_class.value
    return Evaluation(
        metrics={name: values[name] for name in METRICS},
        n_rows=matrix.shape[0],
        n_valid_rows=int(np.count_nonzero((ranked.n_true > 0) & (ranked.n_true < matrix.shape[1]))),
        n_rows_without_truth=int(np.count_nonzero(ranked.n_true == 0)),
        n_tied_rows=int(np.count_nonzero(ranked.tied)),
        n_absent_classes=by_class.n_absent_classes,
    )
