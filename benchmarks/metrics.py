"""How fast the metrics are: ratios against scikit-learn and plain loops in one run, and the time of a large matrix.

Run with ``python benchmarks/metrics.py``; ``--rows`` and ``--labels`` change the large matrix.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from sklearn.metrics import coverage_error, label_ranking_average_precision_score, label_ranking_loss

from propml import metrics
from propml.metrics.ranking import RANKING_METRICS, mean_over_rows, rank_truth


def make_case(n_rows: int, n_labels: int, *, levels: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Three true labels in a hundred, and float32 scores; with ``levels``, so few values that every row has ties."""
    rng = np.random.default_rng(0)
    truth = rng.random((n_rows, n_labels), dtype=np.float32) < 0.03
    truth[:, 0], truth[:, 1] = True, False  # every row is valid, so that all conventions agree
    scores = rng.random((n_rows, n_labels), dtype=np.float32)
    return truth, scores if levels is None else np.floor(scores * levels) / np.float32(levels)


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """The best of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def four_metrics(truth: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """The ranking metrics together: one sort per row."""
    ranked = rank_truth(truth, scores, ("first", "last"))
    return {name: mean_over_rows(name, ranked, "valid", "mean") for name in RANKING_METRICS}


def loops(truth: np.ndarray, scores: np.ndarray) -> float:
    """Average precision as one would write it at first."""
    total = 0.0
    for true, score in zip(truth, scores, strict=True):
        hits = true[np.argsort(-score, kind="stable")]
        ranks = np.flatnonzero(hits) + 1
        total += float(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return total / len(truth)


def compare(n_rows: int, n_labels: int) -> None:
    """Ours against the alternatives on one matrix."""
    truth, scores = make_case(n_rows, n_labels)
    pairs = {
        "average precision / scikit-learn": (
            metrics.average_precision,
            label_ranking_average_precision_score,
        ),
        "coverage / scikit-learn": (metrics.coverage, coverage_error),
        "ranking loss / scikit-learn": (metrics.ranking_loss, label_ranking_loss),
        "average precision / loop over rows": (metrics.average_precision, loops),
        "all four / scikit-learn's three": (
            four_metrics,
            lambda t, s: (label_ranking_average_precision_score(t, s), coverage_error(t, s), label_ranking_loss(t, s)),
        ),
    }
    print(f"{n_rows} × {n_labels}, float32{'':12} ours     theirs   times faster")
    for name, (ours, theirs) in pairs.items():
        mine, other = seconds(lambda f=ours: f(truth, scores)), seconds(lambda f=theirs: f(truth, scores), 1)
        print(f"{name:36} {mine:6.3f} s {other:8.3f} s {other / mine:8.1f}")


def large(n_rows: int, n_labels: int) -> None:
    """The time of a large matrix, and the memory that comes on top of the two matrices."""
    for levels in (None, 64):
        truth, scores = make_case(n_rows, n_labels, levels=levels)
        ranking = seconds(lambda: four_metrics(truth, scores), 1)  # noqa: B023
        tracemalloc.start()
        four_metrics(truth, scores)
        more = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        mean_ap = seconds(lambda: metrics.mean_average_precision(truth, scores), 1)  # noqa: B023
        everything = seconds(lambda: metrics.evaluate(truth, scores), 1)  # noqa: B023
        kind = "distinct scores" if levels is None else f"{levels} score values, all rows tied"
        print(
            f"{n_rows} × {n_labels}, {kind}: four ranking metrics {ranking:.1f} s "
            f"(at most {more:.0f} MB beside the matrices), mAP {mean_ap:.1f} s, evaluate {everything:.1f} s"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=1000)
    arguments = parser.parse_args()
    compare(10_000, 200)
    large(arguments.rows, arguments.labels)
