"""Two methods, or one method before and after a change, side by side: dataset by dataset.

Settings of one dataset (its kinds of noise, folds and seeds) are not independent, so the sign test counts datasets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from propml.benchmark.metric_names import metric_of
from propml.benchmark.results import Noise

if TYPE_CHECKING:
    from propml.benchmark.store import ResultStore

__all__ = ["DatasetDifference", "PairedComparison", "compare_pairs", "sign_test"]

# What a cell's numbers depend on besides the method.
PROBLEM = ("kind", "dataset", "candidates", "rows", "images", "folds", "test_folds", "stratified", "seed")


class DatasetDifference(NamedTuple):
    """Two methods on one dataset, in percent.

    Attributes
    ----------
    dataset : str
    settings : int
        Kinds and levels of noise.
    of, against : float
        Means over the settings.
    gain : float
        By how much ``of`` is better; negative where it is worse, also of losses.
    wins, losses : int
        Settings in which it is better, and worse.
    """

    dataset: str
    settings: int
    of: float
    against: float
    gain: float
    wins: int
    losses: int


@dataclass(frozen=True)
class PairedComparison:
    """What :func:`compare_pairs` found.

    Attributes
    ----------
    metric, of, against : str
    datasets : tuple of DatasetDifference
    left_out : int
        Cells of one of the two for which the other has no cell on the same problem.
    times_as_long : float
        Seconds of fitting, ``of`` divided by ``against``: the geometric mean over the datasets.
    """

    metric: str
    of: str
    against: str
    datasets: tuple[DatasetDifference, ...]
    left_out: int
    times_as_long: float

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
        """Of the sign test over the datasets."""
        return sign_test(self.won, self.lost)


def sign_test(won: int, lost: int) -> float:
    """How likely a split at least this uneven is where either side wins by chance; ties are left out beforehand.

    >>> sign_test(6, 0), sign_test(3, 3), sign_test(0, 0)
    (0.03125, 1.0, 1.0)
    """
    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


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

    Parameters
    ----------
    store : ResultStore
        What holds ``of``.
    of, against : str
        Names as the tables print them; ``against`` is ``of`` where another folder is given.
    other : ResultStore, optional
        What holds ``against``; by default the same store.
    metric : str
        Anything that was measured.
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
    pairs: dict[str, list[tuple[_Cell, _Cell]]] = {}
    for problem in shared:
        pairs.setdefault(first[problem].dataset, []).append((first[problem], second[problem]))
    rows = tuple(_difference(dataset, some, sign) for dataset, some in pairs.items())
    ratios = [np.mean([np.log(a.seconds / b.seconds) for a, b in some]) for some in pairs.values()]
    left_out = len(first) + len(second) - 2 * len(shared)
    return PairedComparison(metric, of, against, rows, left_out, float(np.exp(np.mean(ratios))))


class _Cell(NamedTuple):
    dataset: str
    noise: Noise
    value: float
    seconds: float


def _cells(store: ResultStore, method: str, metric: str) -> dict[str, _Cell]:
    """The cells of a method, in percent, by the problem that they are computed on."""
    values: dict[tuple[Any, ...], list[float]] = {}
    known, measured = set(), set()
    for result in store.results():
        known.add(result.method)
        measured.add(result.metric)
        if (result.method, result.metric) == (method, metric):
            identity = (result.experiment, result.dataset, result.noise, result.seed)
            values.setdefault(identity, []).append(100 * result.value)
    if not values:
        absent, there = ("method", known) if method not in known else ("metric", measured)
        name = method if absent == "method" else metric
        raise ValueError(f"{store.folder} has no results of the {absent} {name!r}; there are {_listed(there)}")
    found: dict[str, _Cell] = {}
    # Both go through the same cells in the same order.
    for timing, settings in zip(store.timings(), store.settings().values(), strict=True):
        identity = (timing.experiment, timing.dataset, timing.noise, timing.seed)
        if timing.method == method and identity in values:
            mean = float(np.mean(values[identity]))
            seconds = max(timing.seconds_fit, 1e-6)  # a clock may not tell two moments apart
            found[_problem(settings)] = _Cell(timing.dataset, timing.noise, mean, seconds)
    return found


def _problem(settings: Mapping[str, Any]) -> str:
    return json.dumps({name: settings.get(name) for name in PROBLEM}, sort_keys=True)


def _difference(dataset: str, pairs: Iterable[tuple[_Cell, _Cell]], sign: int) -> DatasetDifference:
    """Seeds of a setting are averaged before anybody wins."""
    by_noise: dict[Noise, list[tuple[float, float]]] = {}
    for a, b in pairs:
        by_noise.setdefault(a.noise, []).append((a.value, b.value))
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


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none at all"
