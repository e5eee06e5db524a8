"""Methods compared: all of them over the settings and metrics of a table of means, or two, dataset by dataset."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import binomtest

from propml.benchmark.results import CellResult
from propml.benchmark.statistics import Comparison, compare
from propml.benchmark.wording import counted
from propml.noise import Noise, Setting
from propml.paper.published import METRIC_NAMES, PAPER_SUFFIX, Mean, listed, metric_of, slips_note

if TYPE_CHECKING:
    from propml.benchmark.store import ResultStore

# Means that agree to this many digits after the point, in percent, tie: they differ by rounding of floats only.
DECIMALS = 9


def compare_means(
    means: Iterable[Mean], metrics: str | Sequence[str], *, methods: Sequence[str] | None = None, alpha: float = 0.05
) -> Comparison:
    """Compare methods over all settings and metrics: :func:`blocks`, then Friedman's and Nemenyi's tests.

    Means are ours or published, of one experiment, or of several that share no setting; ``methods`` are those to
    compare, by default all.

    Examples
    --------
    >>> from propml.paper import load_published
    >>> comparison = compare_means(load_published("real-world"), "average_precision")
    >>> dict(zip(comparison.names, comparison.mean_ranks.round(1).tolist()))
    {'CPLST': 3.0, 'ML-kNN': 5.2, 'PAR-MAP': 4.0, 'PAR-VLS': 5.0, 'PML-NI': 2.2, 'ProPML': 1.6}
    """
    return compare(**blocks(means, metrics, methods=methods)._asdict(), alpha=alpha)


class BlockTable(NamedTuple):
    """A table to compare methods on, and what to doubt about it."""

    values: np.ndarray  #: means in percent, (n_blocks, n_methods)
    names: tuple[str, ...]  #: of the methods
    higher_is_better: np.ndarray  #: block by block
    warnings: tuple[str, ...]  #: which settings were left out, and whether blocks depend on each other


# By setting and metric.
ByBlock = dict[tuple[Setting, str], dict[str, Mean]]


def blocks(means: Iterable[Mean], metrics: str | Sequence[str], *, methods: Sequence[str] | None = None) -> BlockTable:
    """One block per (setting, metric) for which every method has a mean; the others are left out with a warning."""
    rows = list(means)
    wanted = (metrics,) if isinstance(metrics, str) else tuple(dict.fromkeys(metrics))
    for metric in wanted or ("",):
        if metric not in METRIC_NAMES:
            raise ValueError(f"there is no metric {metric!r}; choose from {', '.join(METRIC_NAMES)}")
    _check_sources(rows)
    finite = [row for row in rows if row.metric in wanted and np.isfinite(row.mean)]
    if not finite:
        raise ValueError(f"there are no results for {', '.join(wanted)} among the {len(rows)} given")
    known = dict.fromkeys(row.method for row in finite)
    names = tuple(known if methods is None else dict.fromkeys(methods))
    for name in names:
        if name not in known:
            raise ValueError(f"there are no results of {name!r}; there are those of {', '.join(known)}")
    if len(names) < 2:
        raise ValueError(f"{', '.join(names) or 'no method'} given; it takes two methods to compare")
    table = {(row.setting, row.metric, row.method): row for row in finite}
    by_block: ByBlock = {
        (setting, metric): {name: table[setting, metric, name] for name in names if (setting, metric, name) in table}
        for setting in dict.fromkeys(row.setting for row in finite if row.method in names)
        for metric in wanted
    }
    complete = {block: there for block, there in by_block.items() if len(there) == len(names)}
    left_out = _left_out(by_block, names, wanted)
    if not complete:
        raise ValueError(
            f"no setting has results of {listed(names, len(names))} alike. {left_out[0]} "
            "Pass fewer as methods=, or measure what is missing."
        )
    return BlockTable(
        values=np.round([[there[name].mean for name in names] for there in complete.values()], DECIMALS),
        names=names,
        higher_is_better=np.array([metric_of(metric).higher_is_better for _, metric in complete]),
        warnings=(*left_out, *_doubts(complete)),
    )


def _check_sources(rows: Sequence[Mean]) -> None:
    """Two experiments, or the paper and ours, must not be taken for one."""
    sources: dict[tuple[Setting, str], str] = {}
    for row in rows:
        source = f"experiment {row.experiment}" if row.n else f"the published {row.experiment}"
        first = sources.setdefault((row.setting, row.method), source)
        if first != source:
            raise ValueError(
                f"{row.method} on {_words(row.setting)} is in both {first} and {source}; "
                "pass the results of one, or name the methods apart"
            )


def _left_out(by_block: ByBlock, names: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """One sentence per set of absent methods, naming the settings, and the metrics where only some of them miss."""
    places: dict[tuple[str, ...], dict[Setting, list[str]]] = {}
    for (setting, metric), there in by_block.items():
        absent = tuple(name for name in names if name not in there)
        if absent:
            places.setdefault(absent, {}).setdefault(setting, []).append(metric)
    sentences = []
    for absent, settings in places.items():
        where = [
            _words(setting) + ("" if len(lost) == len(metrics) else f" ({', '.join(lost)})")
            for setting, lost in settings.items()
        ]
        verb = "has" if len(absent) == 1 else "have"
        sentences.append(f"Left out, because {listed(absent, len(absent))} {verb} no result there: {'; '.join(where)}.")
    return sentences


def _doubts(complete: ByBlock) -> Iterator[str]:
    """Means over different numbers of folds, blocks that depend on each other, and slips in the paper's numbers."""
    uneven: dict[Setting, str] = {}
    for (setting, _), there in complete.items():
        counts = {name: row.n for name, row in there.items() if row.n}
        if len(set(counts.values())) > 1:
            uneven[setting] = f"{_words(setting)} ({', '.join(f'{name} {n}' for name, n in counts.items())})"
    if uneven:
        yield f"Means over different numbers of folds or seeds are compared: {'; '.join(uneven.values())}."
    settings = {setting for setting, _ in complete}
    datasets = {setting.dataset for setting in settings}
    reasons = ["several metrics of the same predictions"] if len(complete) > len(settings) else []
    reasons += ["several noise levels of the same dataset"] if len(settings) > len(datasets) else []
    if reasons:
        yield (
            f"The {len(complete)} blocks are not independent: they hold {' and '.join(reasons)}, of "
            f"{counted(len(datasets), 'dataset')} in all. The tests find differences too easily."
        )
    rows = [row for there in complete.values() for row in there.values()]
    slipped = {row.method for row in rows if row.metric == f"hamming_loss{PAPER_SUFFIX}"}
    slipped |= {row.method for row in rows if row.metric == "hamming_loss" and not row.n}
    if note := slips_note(slipped):
        yield note


def _words(setting: Setting) -> str:
    return setting.dataset if setting.noise is None else f"{setting.dataset} at noise {setting.noise}"


# -- two methods, or one method before and after a change, dataset by dataset -----------------------------------------

# What a cell's numbers depend on besides the method.
PROBLEM = ("kind", "dataset", "file", "candidates", "rows", "images", "folds", "test_folds", "stratified", "seed")


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
    """What :func:`compare_pairs` found.

    Settings of one dataset (its kinds of noise, folds and seeds) are not independent, so the sign test counts datasets.
    """

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
        return sum(each.gain > 0 for each in self.datasets)

    @property
    def lost(self) -> int:
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
    """Compare a method with another one, or with itself in another folder, on the cells that share their problem.

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
    pairs: dict[str, list[tuple[CellResult, CellResult]]] = {}
    for problem in shared:
        pairs.setdefault(first[problem].dataset, []).append((first[problem], second[problem]))
    rows = tuple(_difference(dataset, some, metric) for dataset, some in pairs.items())
    # A clock may not tell two moments apart.
    seconds = [[[max(cell.seconds_fit, 1e-6) for cell in pair] for pair in some] for some in pairs.values()]
    ratios = [np.mean(np.log(np.divide(*np.transpose(some)))) for some in seconds]
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


def _difference(dataset: str, pairs: Iterable[tuple[CellResult, CellResult]], metric: str) -> DatasetDifference:
    """Seeds of a setting are averaged before anybody wins."""
    by_noise: dict[Noise | None, list[list[float]]] = {}
    for pair in pairs:
        values = [float(np.mean([100 * fold.values[metric] for fold in cell.folds])) for cell in pair]
        by_noise.setdefault(pair[0].noise, []).append(values)
    of, against = np.array([np.mean(values, axis=0) for values in by_noise.values()]).T
    gains = of - against if metric_of(metric).higher_is_better else against - of
    wins, losses = (int((sign * gains > 0).sum()) for sign in (1, -1))
    one, other, gain = (float(each.mean()) for each in (of, against, gains))
    return DatasetDifference(dataset, len(gains), one, other, gain, wins, losses)
