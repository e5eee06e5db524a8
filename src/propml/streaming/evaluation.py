"""``propml evaluate --stream``: what each part adds to the metrics of all rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from propml.messages import argument
from propml.metrics import METRICS, Evaluation
from propml.metrics import evaluate as all_metrics
from propml.metrics.decision import ClassCounts, count_classes, f1_from_counts, top_k_block
from propml.progress import progress_bar
from propml.streaming.folders import Folder
from propml.streaming.models import saved_model, with_model
from propml.streaming.rows import over, read_labels, tables_of
from propml.streaming.scores import in_blocks
from propml.streaming.work import Job, workers
from propml.tables.labels import FlagLabels, same_spelling
from propml.tables.truth import certain

__all__ = ["stream_evaluate"]

# Within a bin of scores examples are not ranked. Bins are 1/32 of a logit wide, from -16 to 16.
BINS, PER_LOGIT = 1024, 32
TOP = 3
# Over which rows the mean of a metric goes: those with a true and a false label, or all that have a true one.
MEANS = {"average_precision": "valid", "ranking_loss": "valid", "one_error": "valid", "coverage": "labelled"}


class Counted(NamedTuple):
    """What rows add to the metrics.

    ``sums`` are of single rows. ``above`` and ``top``, ``(3, n_labels)``, tell how often each label is true, predicted
    and both, by thresholds and by the three best labels. ``bins``, ``(2, n_labels, 1024)``, count the true examples of
    each label by their score, and the others.
    """

    sums: dict[str, list[float]]
    above: np.ndarray
    top: np.ndarray
    bins: np.ndarray


def stream_evaluate(
    model: str | Path,
    data: str,
    *,
    reading: Mapping[str, Any],
    ignore_unseen: bool = False,
    ray_address: str | None = None,
) -> Evaluation:
    """All metrics over all rows. mAP ranks examples by 1,024 bins of the score; the others are exact.

    Parameters
    ----------
    model : path
        A folder that ``propml fit`` wrote.
    data : str
        A folder of Parquet files, by path or URL.
    reading : mapping
        ``candidates`` (here the column of true labels) and ``sep``, or ``label_columns``; ``decimal``, ``missing``.
    ignore_unseen : bool
        Leave out true labels that the model does not have; otherwise they are an error.
    ray_address : str, optional
        A Ray cluster, or ``"local"``.
    """
    job = with_model("evaluate", model, data, None, reading, {"ignore_unseen": ignore_unseen})
    if isinstance(job.labels, FlagLabels):
        labels = map(str, saved_model(job)[0].model.labels_)
        if absent := [name for name in labels if name not in job.labels.columns]:
            raise ValueError(f"{data} has no column {absent[0]!r}, a label of the model; name one for each label")
    parts = {}
    with workers(ray_address) as run, progress_bar("evaluating", len(job.parts), long_steps=True) as bar:
        for number, told in run(evaluate_part, job, range(len(job.parts))):
            parts[number] = told
            bar.advance()
    return _evaluation([parts[number] for number in range(len(job.parts))], data)


def evaluate_part(job: Job, number: int) -> Counted:
    """What the rows of a part add."""
    saved, features = saved_model(job)
    labels = [str(name) for name in saved.model.labels_]
    merges = saved.card["settings"].get("reading", {}).get("merge_labels", False)
    how = {"matched_by": same_spelling if merges else str, "ignore_unseen": job.settings["ignore_unseen"]}
    assert job.labels is not None
    total = None
    for table in tables_of(Folder(job.data), job.parts[number], [*job.columns, *job.labels.columns]):
        truth = np.zeros((table.n_rows, len(labels)), dtype=bool)
        if (given := read_labels(job.labels, table)) is not None:
            sentence = f"which the model never saw; remove it, or give {argument('ignore_unseen', True)}"
            truth = certain(table, over(given, labels, job.labels, table, sentence, **how)).to_matrix() > 0
        X, _ = features.apply(table, None, job.reading)
        scores = in_blocks(saved.model.predict_proba, X)
        own = _counted(truth, scores, scores > saved.model.thresholds_)
        total = own if total is None else _added([total, own])
    assert total is not None, "a part has rows"
    return total


def _counted(truth: np.ndarray, scores: np.ndarray, predicted: np.ndarray) -> Counted:
    n_true = np.count_nonzero(truth, axis=1)
    labelled = n_true > 0
    sums: dict[str, list[float]] = {"rows": [len(truth)], "labelled": [int(labelled.sum())]}
    sums["valid"] = [int((labelled & (n_true < truth.shape[1])).sum())]
    if sums["valid"][0]:
        found = all_metrics(truth[labelled], scores[labelled], predicted[labelled])
        sums |= {name: [found[name] * sums[rows][0]] for name, rows in MEANS.items()} | {"tied": [found.n_tied_rows]}
    best = top_k_block(scores, min(TOP, truth.shape[1]), "exact")
    place = np.clip((logit(scores) * PER_LOGIT).astype(np.int64) + BINS // 2, 0, BINS - 1)
    bins = np.zeros((2, truth.shape[1], BINS), dtype=np.int64)
    np.add.at(bins, (1 - truth.astype(np.int64), np.arange(truth.shape[1]), place), 1)
    return Counted(sums, _classes(truth, predicted), _classes(truth, best), bins)


def _classes(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    counts = count_classes(truth, lambda rows: predicted[rows])
    return np.stack([counts.true, counts.predicted, counts.both])


def _added(parts: list[Counted]) -> Counted:
    names = dict.fromkeys(name for part in parts for name in part.sums)
    sums = {name: [value for part in parts for value in part.sums.get(name, ())] for name in names}
    arrays = (sum(getattr(part, name) for part in parts) for name in ("above", "top", "bins"))
    return Counted(sums, *arrays)


def _evaluation(parts: list[Counted], data: str) -> Evaluation:
    total = _added(parts)
    sums = {name: math.fsum(values) for name, values in total.sums.items()}
    if not sums["valid"]:
        raise ValueError(f"{data}: no row has a true label that the model knows, so nothing can be judged")
    rows = int(sums["rows"])
    above, top = (ClassCounts(rows, *counts) for counts in (total.above, total.top))
    f1, best = f1_from_counts(above, "skip"), f1_from_counts(top, "skip")
    values = {name: sums[name] / sums[of] for name, of in MEANS.items()}
    values |= {"hamming_loss": above.hamming_loss(), "CF1": f1.CF1, "OF1": f1.OF1, "mAP": _mean_precision(total.bins)}
    values |= {f"CF1@{TOP}": best.CF1, f"OF1@{TOP}": best.OF1}
    return Evaluation(
        metrics={name: values[name] for name in METRICS},
        n_rows=rows,
        n_valid_rows=int(sums["valid"]),
        n_rows_without_truth=rows - int(sums["labelled"]),
        n_tied_rows=int(sums["tied"]),
        n_absent_classes=f1.n_absent_classes,
    )


def _mean_precision(bins: np.ndarray) -> float:
    """mAP from counts by bin; examples of a bin are taken to be mixed evenly.

    >>> bins = np.zeros((2, 1, BINS), dtype=int)
    >>> bins[0, 0, [9, 5]] = bins[1, 0, 7] = 1  # true, false, true
    >>> round(_mean_precision(bins), 4)  # (1/1 + 2/3) / 2
    0.8333
    """
    true, false = (counts[:, ::-1] for counts in bins)
    both = true + false
    rank_of_true, rank = np.cumsum(true, axis=1) - (true - 1) / 2, np.cumsum(both, axis=1) - (both - 1) / 2
    positives = true.sum(axis=1)
    by_class = (true * rank_of_true / np.maximum(rank, 1)).sum(axis=1)[positives > 0]
    return float(np.mean(by_class / positives[positives > 0]))
