"""What is learned from the sample of an audit, and what it says of any row: features, models of each fold, noise."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from propml.auditing.crossfit import default_auditor, fitted_on, label_scores
from propml.auditing.noise import NoiseModel, fit_noise
from propml.file_errors import reading
from propml.methods.registry import method_from_state
from propml.persistence import read_state, state_bytes
from propml.streaming.folders import Folder
from propml.streaming.rows import digests, row_contents
from propml.streaming.sample import Population, read_population, read_sample
from propml.streaming.work import Job, part_name
from propml.tables.features import Features, learn_features

__all__ = [
    "Judge",
    "StreamFeatures",
    "fit_fold",
    "fit_rates",
    "in_blocks",
    "judge_of",
    "learn_columns",
    "learned_columns",
]

# Models score so many rows at once, the last block filled up with zeros: the last bits of a product of matrices depend
# on their shapes, and so would verdicts on where a file ends.
BLOCK = 1024
# What judges, of the run that this process works for.
_KEPT: dict[tuple[str, bytes], Judge] = {}


@dataclass(frozen=True)
class StreamFeatures:
    """Treatments of columns, and whether what they become is kept sparse, which each batch must do alike."""

    features: Features
    sparse: bool

    def apply(self, table: Any, rows: np.ndarray | None, reading: dict[str, Any]) -> tuple[Any, list[str]]:
        """The features of these rows of a batch, by default all, and what was strange in it."""
        how = {"decimal": reading.get("decimal"), "missing": reading.get("missing", ())}
        X, notes = self.features.apply(table, rows=rows, **how)
        if self.sparse:
            return sp.csr_array(X), notes
        return (X.toarray() if sp.issparse(X) else X), notes


def in_blocks(score: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """The scores of all rows, computed in blocks of one size."""
    parts = []
    for start in range(0, X.shape[0], BLOCK):
        block = X[start : start + BLOCK]
        if (short := BLOCK - block.shape[0]) and sp.issparse(X):
            block = sp.vstack([block, sp.csr_array((short, X.shape[1]), dtype=X.dtype)], format="csr")
        elif short:
            block = np.concatenate([block, np.zeros((short, X.shape[1]), dtype=X.dtype)])
        parts.append(score(block)[: BLOCK - short])
    return np.concatenate(parts)


def learn_columns(job: Job, number: int) -> None:
    """What becomes of each column, learned from the sample."""
    table = read_sample(job)
    learned = learn_features(table, categorical=job.settings.get("categorical") or ())
    told = {"features": learned.features.to_json(), "sparse": sp.issparse(learned.X), "notes": table.notes}
    Folder(job.out).write(part_name("features", number), json.dumps(told, ensure_ascii=False).encode())


def fit_fold(job: Job, number: int) -> None:
    """A model of the sample without a fold, and its scores of that fold."""
    table = read_sample(job)
    X, _ = read_features(job).apply(table.source, None, job.reading)
    fold = fold_of(X, job.settings["folds"], job.settings["seed"])
    train, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
    if not len(train) or not len(held):
        raise ValueError(f"{job.data} has too few different rows to hold any out; audit it as one file")
    settings = job.settings
    auditor = default_auditor(settings["seed"], False).set_params(device="cpu", **settings["params"])
    draw = np.random.default_rng([settings["seed"], 9, number])
    model = fitted_on(auditor, X[train], table.candidates[train], draw)
    scores = in_blocks(partial(label_scores, model, n_labels=table.candidates.shape[1]), X[held])
    state = {**model._state(), "held": {"rows": held, "scores": scores.astype(np.float32)}}
    Folder(job.out).write(part_name("models", number), state_bytes(type(model).__name__, state))


def fit_rates(job: Job, number: int) -> None:
    """The noise of the sample, told for all rows."""
    table = read_sample(job)
    scores = np.full(table.candidates.shape, np.nan, dtype=np.float32)
    for fold in range(job.settings["folds"]):
        _, state = _read_model(job, fold)
        scores[state["held"]["rows"]] = state["held"]["scores"]
    rates = fit_noise(scores, table.candidates, job.settings["noise"], incomplete=job.settings["incomplete"])
    counts = [
        np.asarray(marked.sum(axis=0)).ravel() for marked in (table.candidates.states > 0, table.candidates.states < 0)
    ]
    rates = _of_all_rows(rates, counts[0], len(table.candidates) - counts[1], read_population(job))
    told = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(rates).items()}
    Folder(job.out).write(part_name("noise", number), json.dumps(told).encode())


def _of_all_rows(rates: NoiseModel, candidates: np.ndarray, known: np.ndarray, population: Population) -> NoiseModel:
    """The noise model of a sample in which some labels were drawn more often, as it is where they were not.

    Drawing the rows of a label f times as often multiplies the odds that it is a candidate by f, whether it is true or
    false: c and ρ move by log f. P(true | candidate) stays as it is.
    """
    odds = [(n + 0.5) / (of - n + 0.5) for n, of in ((candidates, known), (population.candidates, population.known))]
    shift = np.log(odds[0] / odds[1])
    moved = {name: expit(logit(getattr(rates, name)) - shift) for name in ("share", "rate", "most")}
    return replace(rates, level=rates.level - shift, **moved)


@dataclass(frozen=True)
class Judge:
    """All that judges a row."""

    features: StreamFeatures
    models: tuple[Any, ...]
    rates: NoiseModel
    population: Population

    def scores(self, X: Any, seed: int) -> np.ndarray:
        """What models say that saw neither a row nor a copy of it, ``(n, n_labels)``."""
        fold = fold_of(X, len(self.models), seed)
        n_labels = len(self.population.labels.labels)
        scores = np.empty((X.shape[0], n_labels), dtype=np.float32)
        for number, model in enumerate(self.models):
            own = np.flatnonzero(fold == number)
            if len(own):
                scores[own] = in_blocks(partial(label_scores, model, n_labels=n_labels), X[own])
        return scores


def fold_of(X: Any, folds: int, seed: int) -> np.ndarray:
    """The fold of each row by its features alone: copies of a row share it, wherever they lie."""
    return digests(row_contents(X), X.shape[0], seed, "fold") % np.uint64(folds)


def judge_of(job: Job) -> Judge:
    """What this run has learned; kept from one part to the next."""
    noise = Folder(job.out).read(part_name("noise", 0))
    if (key := (job.out, noise)) not in _KEPT:
        _KEPT.clear()
        told: dict[str, Any] = {
            name: np.array(own) if isinstance(own, list) else own for name, own in json.loads(noise).items()
        }
        models = []
        for fold in range(job.settings["folds"]):
            kind, state = _read_model(job, fold)
            models.append(method_from_state(kind, {name: part for name, part in state.items() if name != "held"}))
        _KEPT[key] = Judge(read_features(job), tuple(models), NoiseModel(**told), read_population(job))
    return _KEPT[key]


def read_features(job: Job) -> StreamFeatures:
    """The features of this run."""
    told = learned_columns(job)
    return StreamFeatures(Features.from_json(told["features"]), told["sparse"])


def learned_columns(job: Job) -> dict[str, Any]:
    """What :func:`learn_columns` wrote, with its notes."""
    return json.loads(Folder(job.out).read(part_name("features", 0)))


def _read_model(job: Job, fold: int) -> tuple[str, dict[str, Any]]:
    name = part_name("models", fold)
    with (
        Folder(job.out).local(name) as path,
        reading(path, "saved model", "remove it; the same command makes it again"),
    ):
        return read_state(path)
