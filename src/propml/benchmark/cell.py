"""A cell, (dataset, noise, method, seed): all that its numbers depend on; and computing those on tables, fold by fold.

True labels enter in the metric alone, and, with ``selection = "oracle"``, in the choice of hyper-parameters, as in the
paper.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import KFold

from propml.benchmark.problem import CandidateProblem, OwnFile, load_problem, load_truth
from propml.benchmark.provenance import watch_machine
from propml.benchmark.results import CellResult, FoldResult
from propml.benchmark.rivals import RIVALS, benchmark_class
from propml.devices import runs_on_gpu
from propml.jsonable import jsonable
from propml.methods import METHODS, CandidateClassifier
from propml.noise import Noise
from propml.paper.published import TABULAR_METRICS, evaluate_metrics
from propml.targets import Candidates

# Part of every key: raise it when the protocol changes, so that cells of the old one are not taken for done.
PROTOCOL = 1
# What hyper-parameters are chosen on: candidates, or the true labels of test rows, as in the paper.
SELECTIONS = ("candidates", "oracle")
# Arguments that change nothing, or that the seed of the cell decides.
NOT_CONFIGURATION = ("verbose", "random_state")
# What a method chose by itself, where it says so.
CHOSEN = ("lam_", "shares_", "threshold_")

Split = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Cell(ABC):
    """What one worker computes at once: a method on a dataset at a noise level with a seed."""

    experiment: str
    dataset: str
    noise: Noise | None  #: None for candidates that come with the dataset
    method: Any  #: its ``name`` is what the tables call it
    seed: int
    metrics: tuple[str, ...] = ()  #: not part of the key: scores are kept, so another metric needs no other cell

    @property
    def key(self) -> str:
        """A readable name with a hash of the configuration, safe as a file name."""
        noise = str(self.noise) if self.noise else "real"
        parts = (self.experiment, self.dataset, noise, self.method.name, str(self.seed))
        canonical = json.dumps(self.configuration(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        # The hash tells apart what is alike without the letters that no file name may have.
        safe = [re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-")[:60] for part in parts]
        return "-".join([*safe, hashlib.sha256(canonical.encode()).hexdigest()[:8]])

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """All that the scores depend on, as plain values."""

    @abstractmethod
    def on_device(self, device: str) -> Self:
        """The same cell, computed on a certain device where its method can use one."""

    @abstractmethod
    def truth(self) -> np.ndarray:
        """The true labels that the rows of kept scores count in."""

    def result(self, folds: Sequence[FoldResult] = (), **outcome: Any) -> CellResult:
        """What became of this cell; ``outcome`` are further fields of :class:`~propml.benchmark.results.CellResult`."""
        identity = (self.experiment, self.dataset, self.noise, self.method.name, self.seed)
        return CellResult(*identity, self.key, self.configuration(), tuple(folds), **outcome)


@dataclass(frozen=True)
class MethodEntry:
    """A method as an experiment on tables runs it."""

    name: str  #: what the tables call it; the published name where there is one
    method: str  #: its name in :data:`propml.methods.METHODS`, or in :data:`propml.benchmark.rivals.RIVALS`
    params: Mapping[str, Any] = field(default_factory=dict)  #: arguments of its class
    scaling: str = "unit-range"  #: features in [-1, 1] over the whole set, the paper's protocol; or "none"
    selection: str | None = None  #: one of :data:`SELECTIONS`; None takes the experiment's
    lams: tuple[float, ...] | None = None  #: the λ that "oracle" tries for ProPML


@dataclass(frozen=True)
class TabularCell(Cell):
    """All folds of a method on a dataset of tables at a noise level with a seed."""

    method: MethodEntry
    metrics: tuple[str, ...] = TABULAR_METRICS
    corruption_settings: Mapping[str, Any] = field(default_factory=dict)  #: besides the level
    rows: int | None = None  #: a random subset of so many
    folds: int = 5
    test_folds: int | None = None  #: test so many of the folds, the first ones; by default all
    stratified: bool = False
    selection: str = "candidates"  #: the method chooses by itself; "oracle": the true labels of test rows do
    file: OwnFile | None = None  #: what the dataset is read from, where it is a user's own

    def configuration(self) -> dict[str, Any]:
        # Arguments of the method include the defaults of its class.
        entry, noise = self.method, self.noise
        known = entry.method in METHODS or entry.method in RIVALS
        defaults = benchmark_class(entry.method)().get_params() if known else {}
        params = {name: value for name, value in {**defaults, **entry.params}.items() if name not in NOT_CONFIGURATION}
        candidates = {"noise": noise.written, "corruption": noise.kind, **self.corruption_settings} if noise else {}
        own = {name: getattr(self, name) for name in ("dataset", "rows", "folds", "stratified", "seed", "selection")}
        of_method = {name: getattr(entry, name) for name in ("name", "method", "scaling", "lams")}
        # Keys stay as they were: these came later, and are there where they are given; "grid" is of earlier versions.
        later = {"file": self.file and self.file.configuration(), "test_folds": self.test_folds}
        given = {name: value for name, value in later.items() if value is not None}
        made = {"protocol": PROTOCOL, "candidates": candidates, "params": params, "grid": None}
        return jsonable({**own, **of_method, **given, **made})

    def on_device(self, device: str) -> Self:
        entry = self.method
        if "device" not in benchmark_class(entry.method)().get_params():
            return self
        return replace(self, method=replace(entry, params={**entry.params, "device": device}))

    def truth(self) -> np.ndarray:
        truth = load_truth(self.dataset, self.seed, self.rows, self.file).truth
        assert truth is not None
        return truth


def compute(cell: TabularCell, *, problem: CandidateProblem | None = None) -> CellResult:
    """Train and test a cell, fold by fold, on the data that it names or on a given problem."""
    if cell.selection not in SELECTIONS:
        raise ValueError(f'selection is {cell.selection!r}; choose "candidates" or "oracle"')
    if problem is None:
        how: dict[str, Any] = {"settings": cell.corruption_settings, "rows": cell.rows, "file": cell.file}
        problem = load_problem(cell.dataset, cell.noise, cell.seed, **how)
    splits = make_splits(problem.candidates, cell.folds, seed=cell.seed, stratified=cell.stratified)[: cell.test_folds]
    models = [make_model(cell.method.method, cell.method.params, cell.seed) for _ in splits]
    with watch_machine(runs_on_gpu(models[0].get_params().get("device", "cpu"))) as machine:
        folds = _score_folds(cell, problem, models, splits)
    return cell.result([judged(cell, fold, problem.truth) for fold in folds], **machine)


def judged(cell: Cell, fold: FoldResult, truth: np.ndarray) -> FoldResult:
    """A fold with the values of the cell's metrics; ``truth`` is that of all rows."""
    # In single precision, as they are kept: scores judged again give the same, and labels alike but for rounding tie.
    values = evaluate_metrics(truth[fold.test], fold.scores, fold.predicted, cell.metrics, cell.method.name)
    return replace(fold, values=values)


def make_model(method: str, params: Mapping[str, Any], seed: int) -> CandidateClassifier:
    """A method or a rival by its name, with the seed where it draws random numbers."""
    model = benchmark_class(method)(**params)
    return model.set_params(random_state=seed) if "random_state" in model.get_params() else model


def score(
    model: Any, X: Any, candidates: Candidates, new: Any, test: np.ndarray, fold: int = 0, *, shown: Any = None
) -> FoldResult:
    """Fit a method and let it score ``new`` rows, which are those of ``test``.

    It sees no true label, unless features and true labels are ``shown``, for authors' code that looks at them.
    """
    start = time.perf_counter()
    model.fit(X, candidates)
    if shown is not None:
        model.fit_to_truth(*shown)
    fitted = time.perf_counter()
    scores = model.decision_function(new)
    seconds: dict[str, Any] = {"seconds_fit": fitted - start, "seconds_predict": time.perf_counter() - fitted}
    chosen = {name.removesuffix("_"): jsonable(getattr(model, name)) for name in CHOSEN if hasattr(model, name)}
    predicted = model.predict(new).astype(np.uint8)
    return FoldResult(fold, test, scores.astype(np.float32), predicted, **seconds, chosen=chosen)


def _score_folds(
    cell: TabularCell, problem: CandidateProblem, models: Sequence[Any], splits: Sequence[Split]
) -> list[FoldResult]:
    """The folds, without the values of metrics."""
    entry, truth, oracle = cell.method, problem.truth, cell.selection == "oracle"
    X = problem.scaled(entry.scaling)
    if oracle and entry.method == "propml":
        from propml.paper.oracle import best_networks

        picked = best_networks(models[0], X, problem.candidates, truth, splits, lams=entry.lams, seed=cell.seed)
        return [FoldResult(n, splits[n][1], **fold._asdict()) for n, fold in enumerate(picked)]
    if oracle and not hasattr(models[0], "fit_to_truth"):
        raise ValueError(f'{entry.name} has selection = "oracle" and nothing to pick by true labels; leave it out')
    folds = []
    for number, (model, (train, test)) in enumerate(zip(models, splits, strict=True)):
        rows = train if oracle and model._truth_rows == "train" else test
        shown = (X[rows], truth[rows]) if oracle else None
        folds.append(score(model, X[train], problem.candidates[train], X[test], test, number, shown=shown))
    return folds


def make_splits(candidates: Candidates, n_folds: int, *, seed: int, stratified: bool = False) -> list[Split]:
    """The (training, test) rows of every fold, each in ascending order; stratification looks at no true label."""
    n = len(candidates)
    if not 2 <= n_folds <= n:
        raise ValueError(f"folds is {n_folds} and there are {n} rows; give between 2 and {n} folds")
    if not stratified:
        return list(KFold(n_folds, shuffle=True, random_state=seed).split(np.arange(n)))
    fold_of = stratified_folds(candidates, n_folds, seed)
    return [(np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in range(n_folds)]


def stratified_folds(candidates: Candidates, n_folds: int, seed: int) -> np.ndarray:
    """The fold of each row, so that every fold holds about the same share of every candidate label.

    Iterative stratification (Sechidis, Tsoumakas, Vlahavas: *On the stratification of multi-label data*, ECML PKDD
    2011), which scikit-learn lacks: the label with the fewest rows left is dealt out first, each of its rows to the
    fold that lacks most of that label, then to the one that lacks most rows, then by chance.
    """
    rng = np.random.default_rng(seed)
    carried = candidates.to_sparse().astype(np.int64)
    rows_of = sp.csc_array(carried)
    n_rows = len(candidates)
    fold_of = np.full(n_rows, -1)
    lacking_rows = np.full(n_folds, n_rows / n_folds)
    left = np.diff(rows_of.indptr).astype(np.int64)
    lacking = np.outer(left / n_folds, np.ones(n_folds))  # (n_labels, n_folds)

    def put(row: int, fold: int) -> None:
        labels = carried.indices[carried.indptr[row] : carried.indptr[row + 1]]
        fold_of[row] = fold
        lacking[labels, fold] -= 1
        lacking_rows[fold] -= 1
        left[labels] -= 1

    def largest(values: np.ndarray) -> int:
        """The place of the largest value, one of them by chance where several are alike."""
        return int(rng.choice(np.flatnonzero(values >= values.max() - 1e-9)))

    while left.any():
        label = largest(np.where(left > 0, -left, -np.inf))
        rows = rows_of.indices[rows_of.indptr[label] : rows_of.indptr[label + 1]]
        for row in rng.permutation(rows[fold_of[rows] < 0]):
            most = lacking[label] >= lacking[label].max() - 1e-9
            put(row, largest(np.where(most, lacking_rows, -np.inf)))
    for row in rng.permutation(np.flatnonzero(fold_of < 0)):  # rows without a candidate fill the smallest folds
        put(row, largest(lacking_rows))
    return fold_of
