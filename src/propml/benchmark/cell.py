"""A cell on tables, (dataset, noise, method, seed): all that its numbers depend on, and computing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from propml.benchmark.any_cell import PROTOCOL, AnyCell, CellOutcome, FoldOutcome
from propml.benchmark.fold_scores import FoldScores, make_model, score_fold, uses_gpu
from propml.benchmark.folds import make_splits
from propml.benchmark.machine import watch_machine
from propml.benchmark.metric_names import TABULAR_METRICS, evaluate_metrics
from propml.benchmark.problem import Problem, load_problem
from propml.benchmark.rivals import RIVALS, benchmark_class
from propml.methods import METHODS
from propml.plain_values import plain
from propml.progress import track

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
        Its name in :data:`propml.methods.METHODS`, or in :data:`propml.benchmark.rivals.RIVALS`.
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
class Cell(AnyCell):
    """All folds of a method on a dataset of tables at a noise level with a seed.

    Attributes
    ----------
    experiment, dataset, noise, seed, metrics
        See :class:`~propml.benchmark.any_cell.AnyCell`.
    method : MethodEntry
    corruption : str
    corruption_settings : mapping
        Its arguments besides the level.
    rows : int or None
        A random subset of so many rows.
    folds : int
    test_folds : int or None
        Test so many of the folds, the first ones; by default all.
    stratified : bool
    selection : str
        ``"candidates"``: the method chooses by itself, on candidates; ``"oracle"``: see :mod:`propml.benchmark.oracle`.

    Examples
    --------
    >>> Cell("artificial", "birds", 50.0, MethodEntry("PML-NI", "pml-ni"), 0).key.rpartition("-")[0]
    'artificial-birds-50-PML-NI-0'
    """

    method: MethodEntry
    metrics: tuple[str, ...] = TABULAR_METRICS
    corruption: str = "svm"
    corruption_settings: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    folds: int = 5
    test_folds: int | None = None
    stratified: bool = False
    selection: str = "candidates"

    def configuration(self) -> dict[str, Any]:
        """All that the scores depend on, as plain values; arguments of the method include the defaults of its class."""
        entry = self.method
        known = entry.method in METHODS or entry.method in RIVALS
        defaults = benchmark_class(entry.method)().get_params() if known else {}
        params = {name: value for name, value in {**defaults, **entry.params}.items() if name not in NOT_CONFIGURATION}
        candidates: dict[str, Any] = {}
        if self.noise is not None:
            level = self.noise if isinstance(self.noise, str) else float(self.noise)
            candidates = {"noise": level, "corruption": self.corruption, **self.corruption_settings}
        return plain(
            {
                "protocol": PROTOCOL,
                "dataset": self.dataset,
                "candidates": candidates,
                "rows": self.rows,
                "folds": self.folds,
                **({} if self.test_folds is None else {"test_folds": self.test_folds}),
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

    def on_device(self, device: str) -> Self:
        """The same cell, its method on that device where it has such an argument."""
        entry = self.method
        if "device" not in benchmark_class(entry.method)().get_params():
            return self
        return replace(self, method=replace(entry, params={**entry.params, "device": device}))


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
    splits = splits[: cell.test_folds]
    gpu = uses_gpu(make_model(cell.method.method, cell.method.params, cell.seed))
    with watch_machine(gpu) as machine:
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

        return oracle_scores(entry, X, problem.candidates, problem.truth, splits, seed=cell.seed, show=show)
    if cell.selection != "candidates":
        raise ValueError(f'selection is {cell.selection!r}; choose "candidates" or "oracle"')
    return [
        score_fold(make_model(entry.method, entry.params, cell.seed), X, problem.candidates, split)
        for split in track(splits, f"{cell.dataset}, {entry.name}", len(splits), show=show)
    ]
