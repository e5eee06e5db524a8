"""Metrics by the names that experiments use: those of :data:`propml.metrics.METRICS`, the same with ``:paper``, and F1.

``average_precision`` follows our conventions, ``average_precision:paper`` those behind the published tables (the tie
rules of the MATLAB functions, the slips in two columns of Hamming losses): what published numbers are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from propml.metrics import METRICS, Metric, evaluate, example_f1

__all__ = ["METRIC_NAMES", "PAPER_SUFFIX", "TABULAR_METRICS", "evaluate_metrics", "metric_of", "own_name"]

PAPER_SUFFIX = ":paper"
TABULAR_METRICS = ("average_precision", "coverage", "hamming_loss", "ranking_loss", "one_error")
EXAMPLE_F1 = "example_F1"
METRIC_NAMES = (*METRICS, EXAMPLE_F1, *(f"{name}{PAPER_SUFFIX}" for name in METRICS))


def own_name(name: str) -> str:
    """The metric by our conventions.

    >>> own_name("one_error:paper"), own_name("one_error")
    ('one_error', 'one_error')
    """
    return name.removesuffix(PAPER_SUFFIX)


def metric_of(name: str) -> Metric:
    """Title and direction of a metric, with or without the suffix; one of the user's own counts as a gain.

    >>> metric_of("one_error:paper"), metric_of("my_score")
    (Metric(title='One-error (paper)', higher_is_better=False), Metric(title='My score', higher_is_better=True))
    """
    words = own_name(name).replace("_", " ")
    metric = METRICS.get(own_name(name)) or Metric(words[:1].upper() + words[1:], True)
    return metric._replace(title=f"{metric.title} (paper)") if name.endswith(PAPER_SUFFIX) else metric


def evaluate_metrics(
    truth: np.ndarray, scores: np.ndarray, predicted: np.ndarray, names: Sequence[str], method: str
) -> dict[str, float]:
    """The named metrics of one matrix of scores, as fractions.

    Parameters
    ----------
    truth, scores, predicted : ndarray, shape (n_samples, n_labels)
    names : sequence of str
        From :data:`METRIC_NAMES`.
    method : str
        The name in the tables: the published Hamming losses of "ML-kNN" and "CPLST" follow rules of their own.

    Examples
    --------
    >>> truth, scores = np.array([[1, 0, 0]]), np.array([[0.5, 0.5, 0.1]])
    >>> evaluate_metrics(truth, scores, scores > 0.3, ["ranking_loss", "ranking_loss:paper"], "Ridge")
    {'ranking_loss': 0.25, 'ranking_loss:paper': 0.5}
    """
    conventions = {name.endswith(PAPER_SUFFIX) for name in names if name != EXAMPLE_F1}
    by_convention = {paper: evaluate(truth, scores, predicted, paper=paper, method=method) for paper in conventions}

    def value(name: str) -> float:
        if name == EXAMPLE_F1:
            return example_f1(truth, predicted)
        return float(by_convention[name.endswith(PAPER_SUFFIX)][own_name(name)])

    return {name: value(name) for name in names}
