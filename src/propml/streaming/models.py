"""``propml fit``, ``predict`` and ``evaluate --stream``: a model of a sample, and a saved model taken to every row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logit

from propml.auditing.model_card import MODEL, SavedModel, make_card, read_model, write_model
from propml.extras import require
from propml.messages import argument
from propml.methods.base import CandidateClassifier
from propml.methods.many_labels import ManyLabelClassifier
from propml.metrics import METRICS, Evaluation, ndcg_at_k, precision_at_k
from propml.metrics import evaluate as all_metrics
from propml.metrics.decision import ClassCounts, count_classes, f1_from_counts, top_k_block
from propml.metrics.top import found_on_top, inverse_propensity, propensity_sums
from propml.streaming.folders import Folder, over, read_labels, tables_of
from propml.streaming.judging import StreamFeatures, in_blocks, top_labels
from propml.streaming.sample import draw_sample, read_sample, sampled
from propml.streaming.work import Job, begin, do_parts, part_name, workers
from propml.tables.dataset import certain
from propml.tables.embeddings import Embedded
from propml.tables.features import learn_features
from propml.tables.labels import FlagLabels
from propml.tables.treatments import Matrix, Text
from propml.targets import Candidates

# Within a bin of scores examples are not ranked. Bins are 1/32 of a logit wide, from -16 to 16.
BINS, PER_LOGIT = 1024, 32
TOP = 3
# Over which rows the mean of a metric goes: those with a true and a false label, or all that have a true one.
MEANS = {"average_precision": "valid", "ranking_loss": "valid", "one_error": "valid", "coverage": "labelled"}
# Of many labels: how many of a row are predicted by default, and how far down their ranking is judged.
TOP_OF_MANY, JUDGED = 5, (1, 3, 5)


class Fitted(NamedTuple):
    """A model that was fitted on a sample: its folder, what became of columns, notes, and what was drawn."""

    folder: Path
    columns: dict[str, str]
    notes: list[str]
    sample: dict[str, Any]


def stream_fit(
    data: str,
    out: str | Path,
    model: CandidateClassifier | Callable[[Candidates], CandidateClassifier],
    *,
    reading: Mapping[str, Any],
    categorical: Sequence[str] | None = None,
    seed: int = 0,
    ray_address: str | None = None,
    **settings: Any,
) -> Fitted:
    """Fit a model on a sample of a folder of Parquet files, and save it; the sample is kept in ``out/stream``.

    Parameters
    ----------
    model : CandidateClassifier, or a function of the sample's candidates that makes one
        It is fitted here, in this process.
    settings : dict
        What else the card of the model should tell.

    The other parameters are those of :func:`~propml.streaming.audit.stream_audit`.
    """
    asked = {"seed": seed, "categorical": categorical}
    job = begin("fit", data, str(Path(out, "stream")), reading=reading, settings=asked)
    with workers(ray_address) as run:
        draw_sample(run, job, None)
    table = read_sample(job)
    learned = learn_features(table, categorical=categorical or (), verbose=True)
    made = model if isinstance(model, CandidateClassifier) else model(table.candidates)
    made.fit(learned.X, table.candidates)
    drawn = sampled(job)
    card = make_card(made, table, learned.features, seed=seed, reading=dict(reading), sample=drawn, **settings)
    folder = write_model(out, made, learned.features, card)
    return Fitted(folder, learned.features.describe(), table.notes, drawn)


def stream_predict(
    model: str | Path,
    data: str,
    out: str,
    *,
    top: int | None = None,
    probabilities: bool = False,
    reading: Mapping[str, Any],
    ray_address: str | None = None,
) -> int:
    """Write the predicted labels of all rows, one Parquet file for each part; the number of rows is returned.

    Parameters
    ----------
    model : path
        A folder that ``propml fit`` wrote.
    top : int, optional
        So many labels of each row, however probable; of a model of many labels five, with their probabilities.
    probabilities : bool
        Also the probability of every label.
    reading : mapping
        ``id_column``, ``decimal`` and ``missing``.
    """
    job = _with_model("predict", model, data, out, reading, {"top": top, "probabilities": probabilities})
    with workers(ray_address) as run:
        do_parts(run, predict_part, job, "predictions", len(job.parts))
    return job.n_rows


def predict_part(job: Job, number: int) -> None:
    """The predictions of a part."""
    pyarrow = require("pyarrow", "data")
    saved, features = _saved_model(job.model)
    names = pyarrow.array([str(label) for label in saved.model.labels_])
    model, top = saved.model, job.settings["top"]
    shares = [pyarrow.field(f"p({name})", pyarrow.float32()) for name in names if job.settings["probabilities"]]
    if isinstance(model, ManyLabelClassifier):
        shares = [pyarrow.field("probability", pyarrow.list_(pyarrow.float32()))]
    predicted = pyarrow.field("predicted", pyarrow.list_(pyarrow.string()))
    schema = pyarrow.schema([pyarrow.field(job.id_column or "item", pyarrow.string()), predicted, *shares])
    columns = [*job.columns, *([job.id_column] if job.id_column else [])]
    with Folder(job.out).writing_table(part_name("predictions", number), schema) as write:
        for table in tables_of(Folder(job.data), job.parts[number], columns):
            X, _ = features.apply(table, None, job.reading)
            if isinstance(model, ManyLabelClassifier):
                label, proba = top_labels(model, X, top)
                ends = np.arange(0, label.size + 1, top, dtype=np.int32)
                others = [pyarrow.ListArray.from_arrays(ends, proba.ravel())]
            else:
                proba = in_blocks(model.predict_proba, X)
                if top is None:  # the best first, of equals the first
                    row, label = np.nonzero(proba > model.thresholds_)
                    label = label[np.lexsort((-proba[row, label], row))]
                    ends = np.searchsorted(row, np.arange(len(proba) + 1)).astype(np.int32)
                else:
                    label = np.argsort(-proba, axis=1, kind="stable")[:, :top]
                    ends = (np.arange(len(proba) + 1) * label.shape[1]).astype(np.int32)
                others = list(proba.T.astype(np.float32) if shares else ())
            chosen = pyarrow.ListArray.from_arrays(ends, names.take(pyarrow.array(label.ravel())))
            given = [table.items(job.id_column), chosen, *others]
            write(pyarrow.table([pyarrow.array(own) for own in given], schema=schema))


def labels_on_top(model: CandidateClassifier, folder: str | Path, top: int | None, probabilities: bool) -> int | None:
    """How many labels of each row are predicted; None where those are whose probability is above a threshold."""
    if not isinstance(model, ManyLabelClassifier):
        return top
    if probabilities:
        raise ValueError(
            f"the model in {folder} has {len(model.labels_)} labels, and {argument('probabilities', True)} makes a "
            f"column of each; leave it out: the probabilities of the best labels are there without it"
        )
    return min(top or TOP_OF_MANY, len(model.labels_))


def _with_model(
    kind: str, folder: str | Path, data: str, out: str | None, reading: Mapping[str, Any], settings: dict[str, Any]
) -> Job:
    """A run of a saved model, which goes to the workers with it."""
    saved = read_model(folder)
    if kind == "predict":
        settings = settings | {"top": labels_on_top(saved.model, folder, **settings)}
    if isinstance(saved.features.treatments[0], Matrix):
        raise ValueError(f"the model in {folder} was trained on a matrix of features, and a stream has columns")
    if embedded := [each.name for each in saved.features.treatments if isinstance(each, Embedded)]:
        raise ValueError(f"the model in {folder} embeds the text in {embedded[0]!r}, which is not done in a stream")
    content = Path(folder, MODEL).read_bytes()
    known = saved.card["settings"].get("reading", {})
    used = {"decimal": reading.get("decimal") or known.get("decimal"), "missing": known.get("missing", ())}
    used |= {name: value for name, value in reading.items() if name != "decimal" and value is not None}
    columns = [each.name for each in saved.features.treatments if each.features]
    settings = settings | {"model": hashlib.sha256(content).hexdigest()}
    job = begin(kind, data, out, reading=used, settings=settings, columns=columns, former_id=known.get("id_column"))
    return replace(job, model=content)


@lru_cache(maxsize=1)
def _saved_model(content: bytes) -> tuple[SavedModel, StreamFeatures]:
    """The model of a run, kept from one part to the next."""
    with TemporaryDirectory() as folder:
        Path(folder, MODEL).write_bytes(content)
        saved = read_model(folder)
    if hasattr(saved.model, "device"):
        saved.model.device = "cpu"
    # Words are many and mostly absent; which batches hold few of them must not matter.
    return saved, StreamFeatures(saved.features, any(isinstance(each, Text) for each in saved.features.treatments))


def stream_evaluate(
    model: str | Path,
    data: str,
    *,
    reading: Mapping[str, Any],
    ignore_unseen: bool = False,
    ray_address: str | None = None,
) -> Evaluation | TopEvaluation:
    """All metrics over all rows. mAP ranks examples by 1,024 bins of the score; the others are exact.

    Of a model of many labels, the best labels of each row are judged: precision, nDCG and propensity-scored precision.

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
    job = _with_model("evaluate", model, data, None, reading, {"ignore_unseen": ignore_unseen})
    labels = [str(name) for name in _saved_model(job.model)[0].model.labels_]
    if isinstance(job.labels, FlagLabels) and (absent := [name for name in labels if name not in job.labels.columns]):
        raise ValueError(f"{data} has no column {absent[0]!r}, a label of the model; name one for each label")
    with workers(ray_address) as run:
        sums = _added(do_parts(run, evaluate_part, job, "evaluating", len(job.parts)))
    if not sums.get("valid", sums["labelled"]):
        raise ValueError(f"{data}: no row has a true label that the model knows, so nothing can be judged")
    return top_evaluation(sums) if "worth" in sums else _evaluation(sums)


def evaluate_part(job: Job, number: int) -> dict[str, Any]:
    """What the rows of a part add to the metrics."""
    saved, features = _saved_model(job.model)
    labels = [str(name) for name in saved.model.labels_]
    how = {"merge": saved.card["settings"].get("reading", {}).get("merge_labels", False)}
    how["ignore_unseen"] = job.settings["ignore_unseen"]
    counted = []
    for table in tables_of(Folder(job.data), job.parts[number], [*job.columns, *job.labels.columns]):
        truth = sp.csr_array((table.n_rows, len(labels)), dtype=np.int8)
        if (given := read_labels(job.labels, table)) is not None:
            sentence = f"which the model never saw; remove it, or give {argument('ignore_unseen', True)}"
            truth = certain(table, over(given, labels, job.labels, table, sentence, **how)).states
        X, _ = features.apply(table, None, job.reading)
        if isinstance(saved.model, ManyLabelClassifier):
            top, _ = top_labels(saved.model, X, min(JUDGED[-1], len(labels)))
            counted.append(top_sums(truth, top, saved.card))
        else:
            scores = in_blocks(saved.model.predict_proba, X)
            counted.append(_counted(truth.toarray() > 0, scores, scores > saved.model.thresholds_))
    return _added(counted)


def _counted(truth: np.ndarray, scores: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """What some rows add.

    How often each label is true, predicted and both ``(3, n_labels)``, by thresholds ("above") and by the best labels
    ("top"); and its true examples, and the others, by the bin of their score ``(2, n_labels, 1024)``.
    """
    n_true = np.count_nonzero(truth, axis=1)
    labelled = n_true > 0
    valid = int((labelled & (n_true < truth.shape[1])).sum())
    sums: dict[str, Any] = {"rows": len(truth), "labelled": int(labelled.sum()), "valid": valid}
    if valid:
        found = all_metrics(truth[labelled], scores[labelled], predicted[labelled])
        sums |= {name: found[name] * sums[rows] for name, rows in MEANS.items()} | {"tied": found.n_tied_rows}
    best = top_k_block(scores, min(TOP, truth.shape[1]), "exact")
    for name, chosen in (("above", predicted), ("top", best)):
        counts = count_classes(truth, chosen.__getitem__)
        sums[name] = np.stack([counts.true, counts.predicted, counts.both])
    place = np.clip((logit(scores) * PER_LOGIT).astype(np.int64) + BINS // 2, 0, BINS - 1)
    sums["bins"] = np.zeros((2, truth.shape[1], BINS), dtype=np.int64)
    np.add.at(sums["bins"], (1 - truth.astype(np.int64), np.arange(truth.shape[1]), place), 1)
    return sums


def top_sums(truth: sp.csr_array, top: np.ndarray, card: dict[str, Any]) -> dict[str, Any]:
    """What some rows add to the metrics of a model of many labels; ``top`` is the best of each, ``(n_rows, k)``."""
    n_rows, k = top.shape
    sums: dict[str, Any] = {"rows": n_rows, "labelled": int(np.count_nonzero(np.diff(truth.indptr))), "worth": 0.0}
    if not sums["labelled"]:
        return sums
    sums |= {f"precision@{n}": sums["labelled"] * precision_at_k(truth, top, n) for n in JUDGED if n <= k}
    sums[f"nDCG@{k}"] = sums["labelled"] * ndcg_at_k(truth, top, k)
    counts = np.array([label["candidate_in_rows"] for label in card["labels"]])
    worth = inverse_propensity(counts, card["data"]["rows"])
    sums[f"psP@{k}"], sums["worth"] = propensity_sums(*found_on_top(truth, top, k), worth)
    return sums


class TopEvaluation(dict[str, float]):
    """Metrics of the best labels of each row, as fractions, by name; and the number of rows behind them."""

    def __init__(self, metrics: dict[str, float], n_rows: int, n_rows_without_truth: int) -> None:
        super().__init__(metrics)
        self.n_rows, self.n_rows_without_truth = n_rows, n_rows_without_truth

    def counts(self) -> dict[str, int]:
        """What the values rest on, by name."""
        return dict(vars(self))

    def __str__(self) -> str:
        lines = [f"{name:18} {100 * value:6.2f} %" for name, value in self.items()]
        return "\n".join([*lines, f"{self.n_rows} rows, {self.n_rows_without_truth} of them without a true label"])


def top_evaluation(sums: dict[str, Any]) -> TopEvaluation:
    """The metrics that the sums of all rows make."""
    behind = {name: "worth" if name.startswith("psP") else "labelled" for name in sums if "@" in name}
    metrics = {name: sums[name] / sums[of] for name, of in behind.items()}
    return TopEvaluation(metrics, sums["rows"], sums["rows"] - sums["labelled"])


def _added(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for part in parts:
        total |= {name: total.get(name, 0) + value for name, value in part.items()}
    return total


def _evaluation(sums: dict[str, Any]) -> Evaluation:
    above, top = (ClassCounts(sums["rows"], *sums[name]) for name in ("above", "top"))
    f1, best = f1_from_counts(above, "skip"), f1_from_counts(top, "skip")
    values = {name: sums[name] / sums[of] for name, of in MEANS.items()}
    values |= {"hamming_loss": above.hamming_loss(), "CF1": f1.CF1, "OF1": f1.OF1, "mAP": _mean_precision(sums["bins"])}
    values |= {f"CF1@{TOP}": best.CF1, f"OF1@{TOP}": best.OF1}
    return Evaluation(
        metrics={name: values[name] for name in METRICS},
        n_rows=sums["rows"],
        n_valid_rows=sums["valid"],
        n_rows_without_truth=sums["rows"] - sums["labelled"],
        n_tied_rows=sums["tied"],
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
