"""A cell of a results table, (dataset, noise, method, seed): all that its numbers depend on, and computing them."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from propml.benchmark.fold_scores import FoldScores, make_model, plain, score_fold, uses_gpu
from propml.benchmark.folds import make_splits
from propml.benchmark.metric_names import TABULAR_METRICS, evaluate_metrics
from propml.benchmark.problem import Problem, load_problem
from propml.benchmark.results import Noise
from propml.methods import METHODS, method_class
from propml.progress import track

# Part of every key: raise it when the protocol changes, so that cells of the old one are not taken for done.
PROTOCOL = 1
# Arguments that change nothing, or that the seed of the cell decides.
NOT_CONFIGURATION = ("verbose", "random_state")


@dataclass(frozen=True)
class MethodEntry:
    """A method as an experiment runs it.

    Attributes
    ----------
    name : str
        What the tables call it; the published name where there is one.
    method : str
        Its name in :data:`propml.methods.METHODS`.
    params : mapping
        Arguments of its class.
    scaling : str
        ``"unit-range"`` (features in [-1, 1] over the whole set, the paper's protocol) or ``"none"``.
    selection : str or None
        ``"candidates"`` or ``"oracle"``; ``None`` takes the experiment's.
    lams : tuple of float or None
        The λ that ``"oracle"`` tries for ProPML.
    grid : mapping or None
        The values of each argument that ``"oracle"`` tries for other methods.
    """

    name: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    scaling: str = "unit-range"
    selection: str | None = None
    lams: tuple[float, ...] | None = None
    grid: Mapping[str, Sequence[Any]] | None = None


@dataclass(frozen=True)
class Cell:
    """What one worker computes at once: all folds of a method on a dataset at a noise level with a seed.

    Attributes
    ----------
    experiment, dataset : str
    noise : float or None
        ``None`` for candidates that come with the dataset.
    method : MethodEntry
    seed : int
    corruption : str
    corruption_settings : mapping
        Its arguments besides the level.
    rows : int or None
        A random subset of so many rows.
    folds : int
    stratified : bool
    selection : str
        ``"candidates"``: the method chooses by itself, on candidates; ``"oracle"``: see :mod:`propml.benchmark.oracle`.
    metrics : tuple of str
        What is measured. Not part of :attr:`key`: scores are kept, so another metric needs no other cell.
    """

    experiment: str
    dataset: str
    noise: Noise
    method: MethodEntry
    seed: int
    corruption: str = "svm"
    corruption_settings: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    folds: int = 5
    stratified: bool = False
    selection: str = "candidates"
    metrics: tuple[str, ...] = TABULAR_METRICS

    @property
    def key(self) -> str:
        """A readable name with a hash of the configuration, safe as a file name.

        >>> Cell("artificial", "birds", 50.0, MethodEntry("PML-NI", "pml-ni"), 0).key.rpartition("-")[0]
        'artificial-birds-50-PML-NI-0'
        """
        noise = "real" if self.noise is None else f"{self.noise:g}"
        parts = (self.experiment, self.dataset, noise, self.method.name, str(self.seed))
        canonical = json.dumps(self.configuration(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return "-".join([*map(_safe, parts), hashlib.sha256(canonical.encode()).hexdigest()[:8]])

    def configuration(self) -> dict[str, Any]:
        """All that the scores depend on, as plain values; arguments of the method include the defaults of its class."""
        entry = self.method
        defaults = method_class(entry.method)().get_params() if entry.method in METHODS else {}
        params = {name: value for name, value in {**defaults, **entry.params}.items() if name not in NOT_CONFIGURATION}
        candidates = {}
        if self.noise is not None:
            candidates = {"noise": float(self.noise), "corruption": self.corruption, **self.corruption_settings}
        return plain(
            {
                "protocol": PROTOCOL,
                "dataset": self.dataset,
                "candidates": candidates,
                "rows": self.rows,
                "folds": self.folds,
                "stratified": self.stratified,
                "seed": self.seed,
                "name": entry.name,
                "method": entry.method,
                "params": params,
                "scaling": entry.scaling,
                "selection": self.selection,
                "lams": entry.lams,
                "grid": entry.grid,
            }
        )


@dataclass(frozen=True, eq=False)
class FoldOutcome:
    """A fold of a cell.

    Attributes
    ----------
    fold : int
    test : ndarray of int, shape (n_test,)
        The rows that were tested, counted among those that have a true label.
    scores : ndarray of float32, shape (n_test, n_labels)
    predicted : ndarray of uint8, shape (n_test, n_labels)
    values : dict
        Metrics by name, as fractions.
    seconds_fit, seconds_predict : float
    chosen : dict
        What was chosen on the way, such as λ.
    """

    fold: int
    test: np.ndarray
    scores: np.ndarray
    predicted: np.ndarray
    values: dict[str, float]
    seconds_fit: float
    seconds_predict: float
    chosen: dict[str, Any]


@dataclass(frozen=True, eq=False)
class CellOutcome:
    """What computing a cell gave.

    Attributes
    ----------
    cell : Cell
    folds : tuple of FoldOutcome
    peak_bytes : int
        On a GPU the most that was allocated there; otherwise the most that the process held (where the system cannot
        forget, since it began).
    device : str
        The name of the GPU, or ``"cpu"``.
    """

    cell: Cell
    folds: tuple[FoldOutcome, ...]
    peak_bytes: int
    device: str


def compute(cell: Cell, *, problem: Problem | None = None, show: bool = False) -> CellOutcome:
    """Train and test a cell, fold by fold.

    Parameters
    ----------
    cell : Cell
    problem : Problem, optional
        The data; by default what the cell names.
    show : bool
        Show progress bars.
    """
    if problem is None:
        problem = load_problem(
            cell.dataset,
            cell.noise,
            cell.seed,
            corruption=cell.corruption,
            settings=cell.corruption_settings,
            rows=cell.rows,
            show=show,
        )
    splits = make_splits(problem.candidates, cell.folds, seed=cell.seed, stratified=cell.stratified)
    gpu = uses_gpu(make_model(cell.method.method, cell.method.params, cell.seed))
    with _machine(gpu) as machine:
        parts = _fold_scores(cell, problem, splits, show)
    outcomes = []
    for fold, (part, (_, test)) in enumerate(zip(parts, splits, strict=True)):
        # By the scores as they are kept, in single precision: judged again they give the same values, and labels that a
        # method cannot tell apart are tied instead of being ordered by rounding errors.
        values = evaluate_metrics(problem.truth[test], part.scores, part.predicted, cell.metrics, cell.method.name)
        outcomes.append(
            FoldOutcome(
                fold, test, part.scores, part.predicted, values, part.seconds_fit, part.seconds_predict, part.chosen
            )
        )
    return CellOutcome(cell, tuple(outcomes), machine.peak_bytes, machine.device)


def _fold_scores(cell: Cell, problem: Problem, splits: Sequence[Any], show: bool) -> list[FoldScores]:
    entry = cell.method
    X = problem.scaled(entry.scaling)
    if cell.selection == "oracle":
        from propml.benchmark.oracle import oracle_scores

        return oracle_scores(
            entry,
            X,
            problem.candidates,
            problem.truth,
            splits,
            selection=cell.selection,
            seed=cell.seed,
            show=show,
        )
    if cell.selection != "candidates":
        raise ValueError(f'selection is {cell.selection!r}; choose "candidates" or "oracle"')
    return [
        score_fold(make_model(entry.method, entry.params, cell.seed), X, problem.candidates, split)
        for split in track(splits, f"{cell.dataset}, {entry.name}", len(splits), show=show)
    ]


@dataclass
class _Machine:
    device: str = "cpu"
    peak_bytes: int = 0


@contextmanager
def _machine(gpu: bool) -> Iterator[_Machine]:
    """Where a cell runs, and how much memory it takes there."""
    machine = _Machine()
    if gpu:
        import torch

        torch.cuda.reset_peak_memory_stats()
        machine.device = torch.cuda.get_device_name()
        yield machine
        machine.peak_bytes = int(torch.cuda.max_memory_allocated())
        return
    _forget_most_memory()
    # One thread: cells run side by side, and BLAS threads that wait for each other cost more than they bring.
    with threadpool_limits(1, user_api="blas"):
        yield machine
    machine.peak_bytes = _most_memory()


def _forget_most_memory() -> None:
    """Let the peak of this process start anew, so that a cell is not charged for the one before; Linux can do that."""
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _most_memory() -> int:
    """The most that this process has held, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _safe(part: str) -> str:
    """What may stand in any file name; the hash tells apart what this makes alike."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-")[:60]
