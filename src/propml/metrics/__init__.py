"""Metrics of multi-label predictions, each with its conventions in its arguments.

All values are fractions in [0, 1]; :func:`evaluate` returns them all. Where published numbers follow other conventions,
``ties="paper"``, ``paper=True`` and the ``paper_…`` functions reproduce those.
"""

from propml.metrics.decision import F1Scores, example_f1, f1_scores, hamming_loss, predict_threshold, predict_top_k
from propml.metrics.evaluation import METRICS, VISION_METRICS, Evaluation, Metric, evaluate
from propml.metrics.paper import double_sigmoid, paper_f1, paper_hamming_loss, paper_mean_average_precision
from propml.metrics.ranking import average_precision, coverage, n_tied_rows, one_error, ranking_loss
from propml.metrics.retrieval import MeanAveragePrecision, mean_average_precision
from propml.metrics.top import ndcg_at_k, precision_at_k, psp_at_k

__all__ = [
    "METRICS", "VISION_METRICS", "Evaluation", "F1Scores", "MeanAveragePrecision", "Metric", "average_precision",
    "coverage", "double_sigmoid", "evaluate", "example_f1", "f1_scores", "hamming_loss", "mean_average_precision",
    "n_tied_rows", "ndcg_at_k", "one_error", "paper_f1", "paper_hamming_loss", "paper_mean_average_precision",
    "precision_at_k", "predict_threshold", "predict_top_k", "psp_at_k", "ranking_loss",
]  # fmt: skip
