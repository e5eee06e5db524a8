"""What is learned from the sample of an audit, and what it says of any row: features, models of each fold, noise.

Verdicts come from the cells that say something: candidates and, where some may be missing, the best others. Nothing is
of the size rows × labels where there are many labels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from propml.auditing.crossfit import default_auditor, fitted_on, label_scores
from propml.auditing.noise import CERTAIN, NoiseModel, fit_noise
from propml.auditing.verdicts import Verdicts, give_verdicts
from propml.file_errors import reading
from propml.methods.many_labels import ManyLabelClassifier
from propml.methods.registry import method_from_state
from propml.persistence import read_state, state_bytes
from propml.streaming.folders import Folder, digests, row_contents
from propml.streaming.sample import Population, read_population, read_sample
from propml.streaming.work import Job, part_name
from propml.tables.features import Features, learn_features
from propml.targets import Candidates

# Scores of the sample that the noise of many labels is found from: of so many rows, and so many labels at once.
NOISE_ROWS, NOISE_SCORES = 10_000, 2 * 10**7
# What judges, of the run that this process works for.
_KEPT: dict[tuple[str, bytes], Judge] = {}


@dataclass(frozen=True)
class StreamFeatures:
    """Treatments of columns, and whether what they become is kept sparse, which each batch must do alike."""

    features: Features
    sparse: bool
    notes: tuple[str, ...] = ()  # on the sample

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
    params = settings["params"]
    auditor: Any = default_auditor(settings["seed"], False)
    if population.many:  # which knows some of the arguments of the other only
        auditor = ManyLabelClassifier(random_state=settings["seed"])
        params = {name: params[name] for name in params if name in auditor.get_params()}
    auditor.set_params(**params, device="cpu")
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
    noise, blocks = job.settings["noise"], []
    for block in range(n_blocks):
        labels = np.sort(by_frequency[block::n_blocks])  # frequent and rare ones in each
        scores = np.empty((len(rows), len(labels)), dtype=np.float32)
        for own, model in enumerate(models):
            if len(held := np.flatnonzero(fold == own)):
                scores[held] = scores_of_labels(model, X[held], labels, n_labels)
        names = tuple(given.labels[label] for label in labels)
        part = Candidates(given.states[:, labels], names, given.index)
        assumed = {name: noise[name] for name in noise if name in names} if isinstance(noise, Mapping) else noise
        blocks.append((labels, fit_noise(scores, part, assumed, incomplete=job.settings["incomplete"])))
    marked, unknown = (np.asarray(each.sum(axis=0)).ravel() for each in (given.states > 0, given.states < 0))
    rates = _of_all_rows(_of_all_labels(blocks, n_labels), marked, len(given) - unknown, population)
    told = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(rates).items()}
    Folder(job.out).write(part_name("noise", number), json.dumps(told).encode())


def _of_all_labels(blocks: list[tuple[np.ndarray, NoiseModel]], n_labels: int) -> NoiseModel:
    """The noise models of blocks of labels as one; what all labels share is the mean."""
    first = blocks[0][1]
    if len(blocks) == 1:
        return first
    shared = []
    for _, own in blocks:
        rarest = own.share.argmin()  # a level is the log odds times a weight, and the log odds of this label are not 0
        shared.append((own.slope, own.offset, own.level[rarest] / logit(own.share[rarest])))
    slope, offset, weight = np.mean(shared, axis=0)
    told: dict[str, Any] = {}
    for name in ("share", "rate", "most", "lost", "noticed"):
        told[name] = np.empty(n_labels, dtype=getattr(first, name).dtype)
        for labels, own in blocks:
            told[name][labels] = getattr(own, name)
    return replace(first, slope=slope, offset=offset, level=weight * logit(told["share"]), **told)


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
    """What :func:`learn_columns` wrote."""
    told = json.loads(Folder(job.out).read(part_name("features", 0)))
    return StreamFeatures(Features.from_json(told["features"]), told["sparse"], tuple(told["notes"]))


def _read_models(job: Job, folds: int) -> tuple[Any, ...]:
    out, models = Folder(job.out), []
    with TemporaryDirectory() as beside:
        for name in (part_name("models", fold) for fold in range(folds)):
            path = Path(beside, "model.safetensors")
            path.write_bytes(out.read(name))
            with reading(out.where(name), "saved model", "remove it; the same command makes it again"):
                models.append(method_from_state(*read_state(path)))
    return tuple(models)


# Models score so many rows at once, the last block filled up with zeros: the last bits of a product of matrices depend
# on their shapes, and so would verdicts on where a file ends.
BLOCK = 1024
# Of many labels, so many excluded ones of a row are looked at for one that is missing, those with the highest scores.
BEST = 100
# Labels that are looked at beyond those that are asked for, since scores that nearly tie may change places.
SPARE = 5
# What a noise model knows of each label.
BY_LABEL = ("level", "share", "rate", "most", "lost", "noticed")


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


def scores_of_labels(model: Any, X: Any, labels: np.ndarray, n_labels: int) -> np.ndarray:
    """What a model says of some of its ``n_labels`` labels, ``(n_samples, len(labels))``."""
    if not isinstance(model, ManyLabelClassifier):
        return in_blocks(partial(label_scores, model, n_labels=n_labels), X)[:, labels]
    network = model.network_
    logits = _hidden_layer(model, X) @ network["table"][labels].T + network["bias"][labels]
    return network["slope"] * logits + network["offset"]


def _scores_of_cells(model: Any, X: Any, cells: sp.csr_array) -> np.ndarray:
    """What a model says of the stored cells, one after the other."""
    row, label = _rows_of(cells), cells.indices
    if not isinstance(model, ManyLabelClassifier):
        return in_blocks(partial(label_scores, model, n_labels=cells.shape[1]), X)[row, label]
    network = model.network_
    # Cell by cell: a product of matrices would compute all labels, and rounds by the rows beside a row.
    logits = (_hidden_layer(model, X)[row] * network["table"][label]).sum(axis=1) + network["bias"][label]
    return network["slope"] * logits + network["offset"]


def _hidden_layer(model: ManyLabelClassifier, X: Any) -> np.ndarray:
    """The last hidden layer, ``(n_samples, width)``: what the network says if its table of labels is the identity."""
    width = model.network_["table"].shape[1]
    inner = copy(model)
    inner.labels_ = tuple(range(width))
    identity = {"table": np.eye(width, dtype=np.float32), "bias": np.zeros(width, dtype=np.float32)}
    inner.network_ = model.network_ | identity | {"slope": 1.0, "offset": 0.0}
    return in_blocks(inner.decision_function, X).astype(np.float32)


def top_labels(model: ManyLabelClassifier, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` best labels of each row and their probabilities, both ``(n_samples, k)``, whatever is beside it."""

    def best(block: Any) -> np.ndarray:
        # A product of matrices rounds by the shape of its blocks: it finds a few more, which scores by cell rank.
        found, _ = model.predict_top(block, min(k + SPARE, len(model.labels_)))
        ends = np.arange(0, found.size + 1, found.shape[1])
        cells = sp.csr_array((np.ones(found.size), found.ravel(), ends), shape=(len(found), len(model.labels_)))
        scores = _scores_of_cells(model, block, cells).reshape(found.shape)
        order = np.lexsort((found, -scores))[:, :k]
        return np.stack([np.take_along_axis(own, order, axis=1) for own in (found, scores)], axis=2)

    label, score = np.moveaxis(in_blocks(best, X), 2, 0)
    return label.astype(np.int64), expit(score).astype(np.float32)


def telling_cells(model: Any, X: Any, states: sp.csr_array, incomplete: bool) -> sp.csr_array:
    """The states of all candidates and, where true labels may be missing, of the best excluded labels, stored as 0."""
    given = sp.csr_array(states).sorted_indices()
    if not incomplete:
        return given
    n_rows, n_labels = given.shape
    others = np.broadcast_to(np.arange(n_labels), given.shape)
    if isinstance(model, ManyLabelClassifier):
        others = in_blocks(lambda block: model.predict_top(block, min(BEST, n_labels))[0], X)
    row = np.repeat(np.arange(n_rows), others.shape[1])
    mark = 4  # far from the states, so that both can be told from their sum
    cells = sp.csr_array((np.full(row.size, mark, np.int8), (row, others.ravel())), shape=given.shape) + given
    cells.data[cells.data >= mark - 1] -= mark
    return cells


def judge_rows(model: Any, rates: NoiseModel, X: Any, given: Candidates, incomplete: bool) -> Verdicts:
    """The verdicts on some rows by a model that saw none of them."""
    cells = telling_cells(model, X, given.states, incomplete)
    scores = _scores_of_cells(model, X, cells).astype(np.float32)
    own = replace(rates, **{name: getattr(rates, name)[cells.indices] for name in BY_LABEL})
    truth = own.of_candidates(scores)
    if incomplete:
        truth = np.where(cells.data > 0, truth, own.of_others(scores))
    # Rows moved together, so that the k-th column is the k-th cell of each row: verdicts look at rows, not at labels.
    row = _rows_of(cells)
    column = np.arange(cells.nnz) - cells.indptr[row]
    shape = (len(given), int(np.diff(cells.indptr).max()))
    moved = sp.csr_array((cells.data, column, cells.indptr), shape=shape)
    together = Candidates(moved, tuple(range(shape[1])), given.index)
    probabilities = np.zeros(shape, dtype=np.float32)
    probabilities[row, column] = np.maximum(truth, 1 - CERTAIN)
    told = give_verdicts(probabilities, together, incomplete=incomplete)
    return replace(told, label=cells.indices[cells.indptr[told.row] + told.label].astype(np.int64))


def _rows_of(cells: sp.csr_array) -> np.ndarray:
    return np.repeat(np.arange(cells.shape[0]), np.diff(cells.indptr))
