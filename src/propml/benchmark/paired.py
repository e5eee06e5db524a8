"""Two methods, or one method before and after a change, side by side: dataset by dataset.

Settings of one dataset (its kinds of noise, folds and seeds) are not independent, so the sign test counts datasets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import binomtest

from propml.benchmark.results import CellResult
from propml.noise import Noise
from propml.paper.metric_names import metric_of

if TYPE_CHECKING:
    from propml.benchmark.store import ResultStore

__all__ = ["DatasetDifference", "PairedComparison", "compare_pairs"]

# What a cell's numbers depend on besides the method.
PROBLEM = ("kind", "dataset", "candidates", "rows", "images", "folds", "test_folds", "stratified", "seed")


class DatasetDifference(NamedTuple):
    """Two methods on one dataset, in percent."""

    dataset: str
    settings: int  #: kinds and levels of noise
    of: float  #: mean over the settings
    against: float
    gain: float  #: by how much ``of`` is better; negative where it is worse, also of losses
    wins: int  #: settings in which it is better
    losses: int


@dataclass(frozen=True)
class PairedComparison:
    """What :func:`compare_pairs` found."""

    metric: str
    of: str
    against: str
    datasets: tuple[DatasetDifference, ...]
    left_out: int  #: cells of one of the two for which the other has no cell on the same problem
    times_as_long: float  #: seconds of fitting, ``of`` divided by ``against``: geometric mean over the datasets

    @property
    def gain(self) -> float:
        """The mean over the datasets, each counted once."""
        return float(np.mean([each.gain for each in self.datasets]))

    @property
    def won(self) -> int:
        """Datasets on which ``of`` is better."""
        return sum(each.gain > 0 for each in self.datasets)

    @property
    def lost(self) -> int:
        """Datasets on which ``of`` is worse."""
        return sum(each.gain < 0 for each in self.datasets)

    @property
    def p_value(self) -> float:
        """Of the sign test over the datasets: the chance of a split at least this uneven; ties are left out."""
        return float(binomtest(self.won, self.won + self.lost).pvalue) if self.won + self.lost else 1.0


def compare_pairs(
    store: ResultStore,
    of: str,
    against: str | None = None,
    *,
    other: ResultStore | None = None,
    metric: str = "average_precision",
) -> PairedComparison:
    """Compare a method with another one, or with itself in another folder.

    Only cells on the same problem are compared: the same dataset, candidates, rows, folds and seed.

    ``store`` holds ``of``, and ``other`` (by default the same) ``against``, which is ``of`` where another folder is
    given; both are names as the tables print them.
    """
    if against is None and other is None:
        raise ValueError(f"what shall {of} be compared with? name a method with --against, or give a second folder")
    against, other = against or of, other or store
    first, second = (_cells(place, name, metric) for place, name in ((store, of), (other, against)))
    shared = [problem for problem in first if problem in second]
    if not shared:
        raise ValueError(
            f"{of} in {store.folder} and {against} in {other.folder} have no cell on the same problem (dataset, "
            f"candidates, rows, folds and seed alike); run the same experiment with both"
        )
    sign = 1 if metric_of(metric).higher_is_better else -1
    pairs: dict[str, list[tuple[CellResult, CellResult]]] = {}
    for problem in shared:
        pairs.setdefault(first[problem].dataset, []).append((first[problem], second[problem]))
    rows = tuple(_difference(dataset, some, metric, sign) for dataset, some in pairs.items())
    ratios = [np.mean([np.log(_seconds(a) / _seconds(b)) for a, b in some]) for some in pairs.values()]
    left_out = len(first) + len(second) - 2 * len(shared)
    return PairedComparison(metric, of, against, rows, left_out, float(np.exp(np.mean(ratios))))


def _cells(store: ResultStore, method: str, metric: str) -> dict[str, CellResult]:
    """The cells of a method, by the problem that they are computed on."""
    done = [cell for cell in store.cells() if not cell.failure]
    cells = [cell for cell in done if cell.method == method and any(metric in fold.values for fold in cell.folds)]
    if not cells:
        methods = {cell.method for cell in done}
        metrics = {name for cell in done for fold in cell.folds for name in fold.values}
        absent, name, there = ("metric", metric, metrics) if method in methods else ("method", method, methods)
        known = ", ".join(sorted(there)) or "none at all"
        raise ValueError(f"{store.folder} has no results of the {absent} {name!r}; there are {known}")
    return {json.dumps({name: cell.settings.get(name) for name in PROBLEM}, sort_keys=True): cell for cell in cells}


def _difference(
    dataset: str, pairs: Iterable[tuple[CellResult, CellResult]], metric: str, sign: int
) -> DatasetDifference:
    """Seeds of a setting are averaged before anybody wins."""
    by_noise: dict[Noise | None, list[tuple[float, ...]]] = {}
    for pair in pairs:
        by_noise.setdefault(pair[0].noise, []).append(tuple(_percent(cell, metric) for cell in pair))
    of, against = np.array([np.mean(values, axis=0) for values in by_noise.values()]).T
    gains = sign * (of - against)
    return DatasetDifference(
        dataset,
        len(gains),
        float(of.mean()),
        float(against.mean()),
        float(gains.mean()),
        int((gains > 0).sum()),
        int((gains < 0).sum()),
    )


def _percent(cell: CellResult, metric: str) -> float:
    return float(np.mean([100 * fold.values[metric] for fold in cell.folds]))


def _seconds(cell: CellResult) -> float:
    return max(cell.seconds_fit, 1e-6)  # a clock may not tell two moments apart
