"""What is learned from the sample of an audit, and what it says of any row: features, models of each fold, noise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from propml.auditing.crossfit import default_auditor, fitted_on
from propml.auditing.noise import NoiseModel, fit_noise
from propml.auditing.verdicts import Verdicts
from propml.file_errors import reading
from propml.methods.many_labels import ManyLabelClassifier
from propml.methods.registry import method_from_state
from propml.persistence import read_state, state_bytes
from propml.streaming.folders import Folder
from propml.streaming.rows import digests, row_contents
from propml.streaming.sample import Population, read_population, read_sample
from propml.streaming.scores import BLOCK, judge_rows, scores_of_labels
from propml.streaming.work import Job, part_name
from propml.tables.features import Features, learn_features
from propml.targets import Candidates

__all__ = [
    "Judge",
    "StreamFeatures",
    "fit_fold",
    "fit_rates",
    "judge_of",
    "learn_columns",
    "learned_columns",
]

# Scores of the sample that the noise of many labels is found from: of so many rows, and so many labels at once.
NOISE_ROWS, NOISE_SCORES = 10_000, 2 * 10**7
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


def learn_columns(job: Job, number: int) -> None:
    """What becomes of each column, learned from the sample."""
    table = read_sample(job)
    learned = learn_features(table, categorical=job.settings.get("categorical") or ())
    told = {"features": learned.features.to_json(), "sparse": sp.issparse(learned.X), "notes": table.notes}
    Folder(job.out).write(part_name("features", number), json.dumps(told, ensure_ascii=False).encode())


def fit_fold(job: Job, number: int) -> None:
    """A model of the sample without a fold."""
    table, population = read_sample(job), read_population(job)
    X, _ = read_features(job).apply(table.source, None, job.reading)
    settings = job.settings
    train = np.flatnonzero(fold_of(X, population.folds, settings["seed"]) != number)
    if not 0 < len(train) < X.shape[0]:
        raise ValueError(f"{job.data} has too few different rows to hold any out; audit it as one file")
    auditor: Any = default_auditor(settings["seed"], False)
    if population.many:
        auditor = ManyLabelClassifier(random_state=settings["seed"])
    known = auditor.get_params()
    auditor.set_params(**{name: value for name, value in settings["params"].items() if name in known}, device="cpu")
    draw = np.random.default_rng([settings["seed"], 9, number])
    model = fitted_on(auditor, X[train], table.candidates[train], draw)
    Folder(job.out).write(part_name("models", number), state_bytes(type(model).__name__, model._state()))


def fit_rates(job: Job, number: int) -> None:
    """The noise of the sample, told for all rows."""
    table, population = read_sample(job), read_population(job)
    X, _ = read_features(job).apply(table.source, None, job.reading)
    n_rows, n_labels = table.candidates.shape
    rows, n_blocks = np.arange(n_rows), 1
    if population.many:
        rows = rows[:: n_rows // NOISE_ROWS + 1]
        n_blocks = -(-len(rows) * n_labels // NOISE_SCORES)
    X, given = X[rows], table.candidates[rows]
    fold = fold_of(X, population.folds, job.settings["seed"])
    models = _read_models(job, population.folds)
    by_frequency = np.argsort(-population.candidates, kind="stable")
    blocks = []
    for block in range(n_blocks):
        labels = np.sort(by_frequency[block::n_blocks])  # frequent and rare ones in each
        scores = np.empty((len(rows), len(labels)), dtype=np.float32)
        for own, model in enumerate(models):
            held = np.flatnonzero(fold == own)
            if len(held):
                scores[held] = scores_of_labels(model, X[held], labels, n_labels)
        names = tuple(given.labels[label] for label in labels)
        part = Candidates(given.states[:, labels], names, given.index)
        noise = job.settings["noise"]
        if isinstance(noise, Mapping):
            noise = {name: share for name, share in noise.items() if name in names}
        blocks.append((labels, fit_noise(scores, part, noise, incomplete=job.settings["incomplete"])))
    counts = [np.asarray(marked.sum(axis=0)).ravel() for marked in (given.states > 0, given.states < 0)]
    rates = _of_all_rows(_of_all_labels(blocks, n_labels), counts[0], len(given) - counts[1], population)
    told = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(rates).items()}
    Folder(job.out).write(part_name("noise", number), json.dumps(told).encode())


def _of_all_labels(blocks: list[tuple[np.ndarray, NoiseModel]], n_labels: int) -> NoiseModel:
    """The noise models of blocks of labels as one; what all labels share is the mean."""
    first = blocks[0][1]
    if len(blocks) == 1:
        return first
    shared = np.mean([(own.slope, own.offset, own.level[0] / logit(own.share[0])) for _, own in blocks], axis=0)
    told: dict[str, Any] = {}
    for name in ("share", "rate", "most", "lost", "noticed"):
        told[name] = np.empty(n_labels, dtype=getattr(first, name).dtype)
        for labels, own in blocks:
            told[name][labels] = getattr(own, name)
    return replace(first, slope=shared[0], offset=shared[1], level=shared[2] * logit(told["share"]), **told)


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

    def verdicts(self, X: Any, given: Candidates, seed: int, incomplete: bool) -> Verdicts:
        """What models say that saw neither a row nor a copy of it."""
        fold = fold_of(X, len(self.models), seed)
        found = []
        for number, model in enumerate(self.models):
            held = np.flatnonzero(fold == number)
            for start in range(0, len(held), BLOCK):
                own = held[start : start + BLOCK]
                told = judge_rows(model, self.rates, X[own], given[own], incomplete)
                found.append(replace(told, row=own[told.row]))
        columns = (np.concatenate([getattr(told, each.name) for told in found]) for each in fields(Verdicts))
        every = Verdicts(*columns)
        return every[np.lexsort((every.label, every.row))]


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
        population = read_population(job)
        _KEPT[key] = Judge(read_features(job), _read_models(job, population.folds), NoiseModel(**told), population)
    return _KEPT[key]


def read_features(job: Job) -> StreamFeatures:
    """The features of this run."""
    told = learned_columns(job)
    return StreamFeatures(Features.from_json(told["features"]), told["sparse"])


def learned_columns(job: Job) -> dict[str, Any]:
    """What :func:`learn_columns` wrote, with its notes."""
    return json.loads(Folder(job.out).read(part_name("features", 0)))


def _read_models(job: Job, folds: int) -> tuple[Any, ...]:
    models = []
    for name in (part_name("models", fold) for fold in range(folds)):
        with (
            Folder(job.out).local(name) as path,
            reading(path, "saved model", "remove it; the same command makes it again"),
        ):
            models.append(method_from_state(*read_state(path)))
    return tuple(models)
