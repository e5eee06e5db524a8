"""Methods compared over blocks: a table from means, Friedman's test, the pairs, groups, and what to be careful with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from propml.benchmark import statistics
from propml.benchmark.statistics import FriedmanResult
from propml.benchmark.wording import counted
from propml.noise import Setting
from propml.paper.metric_names import METRIC_NAMES, PAPER_SUFFIX, metric_of
from propml.paper.notes import listed, slips_note
from propml.paper.published import Mean

__all__ = ["TESTS", "Blocks", "Comparison", "blocks", "compare", "compare_means"]

TESTS = ("nemenyi", "wilcoxon-holm", "bonferroni-dunn")
# Means that agree to this many digits after the point, in percent, tie: they differ by rounding of floats only.
DECIMALS = 9
# Long enough that no method is left unnamed.
ALL = 1000


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found; methods are counted in the order of the table's columns."""

    names: tuple[str, ...]  #: of the methods
    mean_ranks: np.ndarray  #: shape (n_methods,)
    critical_difference: float | None  #: of mean ranks; None for Wilcoxon's test, which has none
    p_values: np.ndarray  #: of the pairs, corrected for their number; NaN for pairs that were not tested
    different: np.ndarray  #: which pairs differ significantly; none where Friedman's test finds no difference
    #: The largest groups of two or more methods without a significant difference between any two, each from the best
    #: mean rank to the worst. For Bonferroni-Dunn: the control with the methods ranked before it that do not differ
    #: from it, and with those after it.
    cliques: tuple[tuple[int, ...], ...]
    friedman: FriedmanResult
    test: str  #: one of :data:`TESTS`
    alpha: float
    control: str | None
    warnings: tuple[str, ...]  #: sentences to show beside the outcome

    def order(self) -> list[int]:
        """The numbers of the methods from the best mean rank to the worst."""
        return _order(self.mean_ranks)

    def better_than(self, name: str) -> tuple[str, ...]:
        """The methods that a method beats: it differs from them significantly and has the better mean rank."""
        one = _index(self.names, name, "method")
        beaten = self.different[one] & (self.mean_ranks > self.mean_ranks[one])
        return tuple(self.names[other] for other in self.order() if beaten[other])

    def __str__(self) -> str:
        lines = [f"{self.names[i]:20} mean rank {self.mean_ranks[i]:.2f}" for i in self.order()]
        lines.append(
            f"Friedman: chi2 = {self.friedman.statistic:.1f}, p = {self.friedman.p_value:.2g}, "
            f"{self.friedman.n_blocks} blocks; {self.test} at {self.alpha:g}"
            + (f", critical difference {self.critical_difference:.3f}" if self.critical_difference is not None else "")
        )
        groups = (", ".join(self.names[i] for i in group) for group in self.cliques)
        lines += [f"not significantly different: {group}" for group in groups]
        lines += [f"Careful: {sentence}" for sentence in self.warnings]
        return "\n".join(lines)


def compare(
    values: Any,
    names: Sequence[str],
    *,
    higher_is_better: Any,
    test: str = "nemenyi",
    alpha: float = 0.05,
    control: str | None = None,
    warnings: Sequence[str] = (),
) -> Comparison:
    """Compare methods over blocks, as Demšar (2006) does: Friedman's test first, then the pairs.

    Where Friedman's test (χ² corrected for ties) does not reject, no pair counts as different and all methods form one
    group, whatever the p-values of the pairs.

    Parameters
    ----------
    values : array-like, shape (n_blocks, n_methods)
        For example one row per dataset.
    names : sequence of str, length n_methods
    higher_is_better : bool or array-like of shape (n_blocks,)
    test : {"nemenyi", "wilcoxon-holm", "bonferroni-dunn"}
    alpha : float
    control : str, optional
        The method that Bonferroni-Dunn compares with the others.
    warnings : sequence of str
        Sentences of whoever made the table, kept in front of those found here.

    Examples
    --------
    >>> table = [[9, 7, 5], [8, 6, 6], [9, 5, 4], [7, 6, 3], [9, 8, 5], [6, 5, 3]]
    >>> comparison = compare(table, ["A", "B", "C"], higher_is_better=True)
    >>> comparison.cliques, round(comparison.critical_difference, 3)
    (((0, 1), (1, 2)), 1.353)
    """
    if test not in TESTS:
        raise ValueError(f"test is {test!r}; choose from {', '.join(TESTS)}")
    if (control is not None) != (test == "bonferroni-dunn"):
        raise ValueError(f"control is {control!r} for {test}; only bonferroni-dunn needs one, and always does")
    ranks = statistics.rank_table(values, higher_is_better=higher_is_better)
    n, k = ranks.shape
    methods = _check_names(names, k)
    sentences = [*warnings, *statistics.too_few_blocks(test, k, n, alpha)]
    distance = None
    if test == "nemenyi":
        p_values, distance = statistics.nemenyi(ranks), statistics.nemenyi_distance(k, n, alpha)
    elif control is None:
        p_values = statistics.wilcoxon_holm(values, higher_is_better=higher_is_better)
    else:
        p_values, distance = np.full((k, k), np.nan), statistics.bonferroni_dunn_distance(k, n, alpha)
        np.fill_diagonal(p_values, 1.0)
        column = _index(methods, control, "control")
        p_values[column] = p_values[:, column] = statistics.bonferroni_dunn(ranks, column)
    omnibus = statistics.friedman(ranks)
    if omnibus.p_value <= alpha:
        different = p_values <= alpha  # false for NaN
    else:
        different = np.zeros((k, k), dtype=bool)
        sentences.append(
            f"Friedman's test finds no difference between the {k} methods (p = {omnibus.p_value:.2g}), "
            "so none between two of them counts as significant."
        )
    return Comparison(
        names=methods,
        mean_ranks=omnibus.mean_ranks,
        critical_difference=distance,
        p_values=p_values,
        different=different,
        cliques=_groups(omnibus.mean_ranks, different, None if control is None else methods.index(control)),
        friedman=omnibus,
        test=test,
        alpha=alpha,
        control=control,
        warnings=tuple(sentences),
    )


def _groups(mean_ranks: np.ndarray, different: np.ndarray, control: int | None) -> tuple[tuple[int, ...], ...]:
    order = _order(mean_ranks)
    ordered = different[np.ix_(order, order)]
    if control is not None and different.any():
        place = order.index(control)
        alike = [i for i in range(len(order)) if not ordered[place, i]]
        sides = (tuple(i for i in alike if i <= place), tuple(i for i in alike if i >= place))
        groups = [side for side in sides if len(side) > 1]
    else:
        groups = statistics.cliques(ordered)
    return tuple(tuple(order[i] for i in group) for group in groups)


def _order(mean_ranks: np.ndarray) -> list[int]:
    return [int(i) for i in np.argsort(mean_ranks, kind="stable")]


def _check_names(names: Sequence[str], n_methods: int) -> tuple[str, ...]:
    methods = tuple(names)
    if len(methods) != n_methods:
        raise ValueError(f"{len(methods)} names for {n_methods} methods; give one name per column of values")
    twice = sorted({name for name in methods if methods.count(name) > 1})
    if twice:
        raise ValueError(f"the name {twice[0]!r} stands for more than one method; give each its own")
    return methods


def _index(methods: tuple[str, ...], name: str, what: str) -> int:
    if name not in methods:
        raise ValueError(f"{what} {name!r} is not among the methods compared: {', '.join(methods)}")
    return methods.index(name)


# -- from means -------------------------------------------------------------------------------------------------------


def compare_means(
    means: Iterable[Mean],
    metrics: str | Sequence[str],
    *,
    methods: Sequence[str] | None = None,
    test: str = "nemenyi",
    alpha: float = 0.05,
    control: str | None = None,
) -> Comparison:
    """Compare methods over all settings and metrics: :func:`blocks`, then :func:`compare`.

    Examples
    --------
    >>> from propml.paper import load_published
    >>> comparison = compare_means(load_published("real-world"), "average_precision")
    >>> dict(zip(comparison.names, comparison.mean_ranks.round(1).tolist()))
    {'CPLST': 3.0, 'ML-kNN': 5.2, 'PAR-MAP': 4.0, 'PAR-VLS': 5.0, 'PML-NI': 2.2, 'ProPML': 1.6}
    """
    table = blocks(means, metrics, methods=methods)
    sentences = list(table.warnings)
    if test == "wilcoxon-holm" and not isinstance(metrics, str) and len(metrics) > 1:
        sentences.append(
            "Wilcoxon's test ranks the differences of all metrics together, as if a point of one were worth a point of "
            "another."
        )
    higher = table.higher_is_better
    return compare(
        table.values, table.names, higher_is_better=higher, test=test, alpha=alpha, control=control, warnings=sentences
    )


class Blocks(NamedTuple):
    """A table to compare methods on: means in percent, ``(n_blocks, n_methods)``, with the names of its columns.

    ``labels`` say what each block is, such as ``"birds at noise 50: Coverage"``; ``warnings`` which settings were left
    out, and whether blocks depend on each other.
    """

    values: np.ndarray
    names: tuple[str, ...]
    labels: tuple[str, ...]
    higher_is_better: np.ndarray
    warnings: tuple[str, ...]


# A setting and a metric.
Block = tuple[Setting, str]
ByBlock = dict[Block, dict[str, Mean]]


def blocks(means: Iterable[Mean], metrics: str | Sequence[str], *, methods: Sequence[str] | None = None) -> Blocks:
    """One block per (setting, metric) for which every method has a mean; the others are left out with a warning.

    Parameters
    ----------
    means : iterable of Mean
        Ours or published; of one experiment, or of several that share no setting.
    metrics : str or sequence of str
        From :data:`propml.paper.METRIC_NAMES`.
    methods : sequence of str, optional
        The methods to compare and their order; by default all, in the order in which they come.

    Examples
    --------
    >>> from propml.paper import load_published
    >>> table = blocks(load_published("artificial"), ["average_precision"], methods=["PML-NI", "ProPML"])
    >>> table.values.shape, table.labels[0]
    ((15, 2), 'bibtex at noise 50: Average precision')
    """
    rows = list(means)
    wanted = _check_metrics(metrics)
    _check_sources(rows)
    finite = [row for row in rows if row.metric in wanted and np.isfinite(row.mean)]
    if not finite:
        raise ValueError(f"there are no results for {', '.join(wanted)} among the {len(rows)} given")
    names = _check_methods(methods, finite)
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
            f"no setting has results of {listed(names, ALL)} alike. {left_out[0]} "
            "Pass fewer as methods=, or measure what is missing."
        )
    return Blocks(
        values=np.round([[there[name].mean for name in names] for there in complete.values()], DECIMALS),
        names=names,
        labels=tuple(f"{_words(setting)}: {metric_of(metric).title}" for setting, metric in complete),
        higher_is_better=np.array([metric_of(metric).higher_is_better for _, metric in complete]),
        warnings=(*left_out, *_uneven(complete), *_dependence(complete), *_slips(complete)),
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


def _check_metrics(metrics: str | Sequence[str]) -> tuple[str, ...]:
    wanted = (metrics,) if isinstance(metrics, str) else tuple(dict.fromkeys(metrics))
    unknown = [metric for metric in wanted if metric not in METRIC_NAMES]
    if unknown or not wanted:
        given = f"there is no metric {unknown[0]!r}" if unknown else "no metric is given"
        raise ValueError(f"{given}; choose from {', '.join(METRIC_NAMES)}")
    return wanted


def _check_methods(methods: Sequence[str] | None, rows: Sequence[Mean]) -> tuple[str, ...]:
    known = dict.fromkeys(row.method for row in rows)
    names = tuple(known if methods is None else dict.fromkeys(methods))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"there are no results of {unknown[0]!r}; there are those of {', '.join(known)}")
    if len(names) < 2:
        raise ValueError(f"{', '.join(names) or 'no method'} given; it takes two methods to compare")
    return names


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
        sentences.append(f"Left out, because {listed(absent, ALL)} {verb} no result there: {'; '.join(where)}.")
    return sentences


def _uneven(complete: ByBlock) -> list[str]:
    """Means over three folds do not belong beside means over five."""
    uneven: dict[Setting, str] = {}
    for (setting, _), there in complete.items():
        counts = {name: row.n for name, row in there.items() if row.n}
        if len(set(counts.values())) > 1:
            uneven[setting] = f"{_words(setting)} ({', '.join(f'{name} {n}' for name, n in counts.items())})"
    if not uneven:
        return []
    return [f"Means over different numbers of folds or seeds are compared: {'; '.join(uneven.values())}."]


def _dependence(complete: ByBlock) -> list[str]:
    settings = {setting for setting, _ in complete}
    datasets = {setting.dataset for setting in settings}
    reasons = []
    if len(complete) > len(settings):
        reasons.append("several metrics of the same predictions")
    if len(settings) > len(datasets):
        reasons.append("several noise levels of the same dataset")
    if not reasons:
        return []
    return [
        f"The {len(complete)} blocks are not independent: they hold {' and '.join(reasons)}, of "
        f"{counted(len(datasets), 'dataset')} in all. The tests find differences too easily."
    ]


def _slips(complete: ByBlock) -> list[str]:
    slipped = {
        row.method
        for there in complete.values()
        for row in there.values()
        if row.metric == f"hamming_loss{PAPER_SUFFIX}" or (row.metric == "hamming_loss" and not row.n)
    }
    return [note] if (note := slips_note(slipped)) else []


def _words(setting: Setting) -> str:
    return setting.dataset if setting.noise is None else f"{setting.dataset} at noise {setting.noise}"
