"""From results to the table that the tests need: one block per setting and metric, one column per method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from propml.benchmark.metric_names import METRIC_NAMES, PAPER_SUFFIX, metric_of
from propml.benchmark.noise_levels import noise_text
from propml.benchmark.published import SLIPPED_HAMMING_LOSS, Published
from propml.benchmark.results import Result, Setting, Summary, summarise

# Means that agree to this many digits after the point, in percent, tie: they differ by rounding of floats only.
_DECIMALS = 9


class Blocks(NamedTuple):
    """A table to compare methods on.

    Attributes
    ----------
    values : ndarray, shape (n_blocks, n_methods)
        Means over folds and seeds, in percent.
    names : tuple of str
        The methods.
    labels : tuple of str
        What each block is, such as ``"birds at noise 50: Coverage"``.
    higher_is_better : bool ndarray, shape (n_blocks,)
    warnings : tuple of str
        Which settings were left out, and whether blocks depend on each other.
    """

    values: np.ndarray
    names: tuple[str, ...]
    labels: tuple[str, ...]
    higher_is_better: np.ndarray
    warnings: tuple[str, ...]


def blocks(
    measured: Iterable[Result | Published],
    metrics: str | Sequence[str],
    *,
    methods: Sequence[str] | None = None,
) -> Blocks:
    """One block per (setting, metric) for which every method has a mean; the others are left out with a warning.

    Parameters
    ----------
    measured : iterable of Result or of Published
        Of one experiment, or of several that share no setting.
    metrics : str or sequence of str
        From :data:`propml.benchmark.metric_names.METRIC_NAMES`.
    methods : sequence of str, optional
        The methods to compare and their order; by default all, in the order in which they come.

    Examples
    --------
    >>> from propml.benchmark.published import load_published
    >>> table = blocks(load_published("artificial"), ["average_precision"], methods=["PML-NI", "ProPML"])
    >>> table.values.shape, table.labels[0]
    ((15, 2), 'bibtex at noise 50: Average precision')
    """
    rows = list(measured)
    wanted = _check_metrics(metrics)
    means = _means(rows, wanted)
    names = _check_methods(methods, means)
    settings = dict.fromkeys(setting for setting, _, name in means if name in names)
    complete: list[_Block] = []
    missing: dict[_Block, list[str]] = {}
    for setting in settings:
        for metric in wanted:
            absent = [name for name in names if (setting, metric, name) not in means]
            if absent:
                missing[_Block(setting, metric)] = absent
            else:
                complete.append(_Block(setting, metric))
    if not complete:
        raise ValueError(
            f"no setting has results of {_listed(names)} alike. {_left_out(missing, wanted)[0]} "
            "Pass fewer as methods=, or measure what is missing."
        )
    sentences = [
        *_left_out(missing, wanted),
        *_uneven(complete, names, means),
        *_dependence(complete),
        *_slips(rows, complete, names),
    ]
    values = [[means[setting, metric, name].mean for name in names] for setting, metric in complete]
    return Blocks(
        values=np.round(np.array(values), _DECIMALS),
        names=names,
        labels=tuple(f"{_words(setting)}: {metric_of(metric).title}" for setting, metric in complete),
        higher_is_better=np.array([metric_of(metric).higher_is_better for _, metric in complete]),
        warnings=tuple(sentences),
    )


class _Block(NamedTuple):
    setting: Setting
    metric: str


_Means = dict[tuple[Setting, str, str], Summary]


def _means(rows: Sequence[Result | Published], metrics: Sequence[str]) -> _Means:
    """The mean of every (setting, metric, method) that has a finite one."""
    _check_experiments(rows)
    results = [row for row in rows if isinstance(row, Result)]
    means: _Means = {}
    for row in rows:
        if isinstance(row, Published) and row.metric in metrics:
            means[Setting(row.dataset, row.noise), row.metric, row.method] = Summary(row.mean, row.std, 0)
    for metric in metrics:
        for (setting, method), summary in summarise(results, metric).items():
            means[setting, metric, method] = summary
    means = {key: summary for key, summary in means.items() if np.isfinite(summary.mean)}
    if not means:
        raise ValueError(f"there are no results for {', '.join(metrics)} among the {len(rows)} given")
    return means


def _check_experiments(rows: Sequence[Result | Published]) -> None:
    """Two experiments, or the paper and ours, must not be averaged into one number."""
    sources: dict[tuple[Setting, str], tuple[type, str]] = {}
    for row in rows:
        source = (type(row), row.experiment)
        first = sources.setdefault((Setting(row.dataset, row.noise), row.method), source)
        if first != source:
            both = " and ".join(
                f"the published {experiment}" if kind is Published else f"experiment {experiment}"
                for kind, experiment in (first, source)
            )
            raise ValueError(
                f"{row.method} on {_words(Setting(row.dataset, row.noise))} is in both {both}; "
                "pass the results of one, or name the methods apart"
            )


def _check_metrics(metrics: str | Sequence[str]) -> tuple[str, ...]:
    wanted = (metrics,) if isinstance(metrics, str) else tuple(dict.fromkeys(metrics))
    unknown = [metric for metric in wanted if metric not in METRIC_NAMES]
    if unknown or not wanted:
        given = f"there is no metric {unknown[0]!r}" if unknown else "no metric is given"
        raise ValueError(f"{given}; choose from {', '.join(METRIC_NAMES)}")
    return wanted


def _check_methods(methods: Sequence[str] | None, means: _Means) -> tuple[str, ...]:
    known = dict.fromkeys(method for _, _, method in means)
    names = tuple(known if methods is None else dict.fromkeys(methods))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"there are no results of {unknown[0]!r}; there are those of {', '.join(known)}")
    if len(names) < 2:
        raise ValueError(f"{', '.join(names) or 'no method'} given; it takes two methods to compare")
    return names


def _left_out(missing: dict[_Block, list[str]], metrics: Sequence[str]) -> list[str]:
    """One sentence per set of absent methods, naming the settings, and the metrics where only some of them miss."""
    places: dict[tuple[str, ...], dict[Setting, list[str]]] = {}
    for (setting, metric), absent in missing.items():
        places.setdefault(tuple(absent), {}).setdefault(setting, []).append(metric)
    sentences = []
    for names, settings in places.items():
        named = [
            _words(setting) + ("" if len(lost) == len(metrics) else f" ({', '.join(lost)})")
            for setting, lost in settings.items()
        ]
        verb = "has" if len(names) == 1 else "have"
        sentences.append(f"Left out, because {_listed(names)} {verb} no result there: {'; '.join(named)}.")
    return sentences


def _uneven(complete: Sequence[_Block], names: Sequence[str], means: _Means) -> list[str]:
    """Means over three folds do not belong beside means over five."""
    uneven: dict[Setting, str] = {}
    for setting, metric in complete:
        counts = {name: means[setting, metric, name].n for name in names}
        if len({n for n in counts.values() if n}) > 1:
            uneven[setting] = f"{_words(setting)} ({', '.join(f'{name} {n}' for name, n in counts.items() if n)})"
    if not uneven:
        return []
    return [f"Means over different numbers of folds or seeds are compared: {'; '.join(uneven.values())}."]


def _dependence(complete: Sequence[_Block]) -> list[str]:
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
        f"The {len(complete)} blocks are not independent: they hold {' and '.join(reasons)}, of {len(datasets)} "
        f"{'dataset' if len(datasets) == 1 else 'datasets'} in all. The tests find differences too easily."
    ]


def _slips(rows: Sequence[Result | Published], complete: Sequence[_Block], names: Sequence[str]) -> list[str]:
    metrics = {metric for _, metric in complete}
    published = {row.method for row in rows if isinstance(row, Published)}
    slipped = [
        name
        for name in SLIPPED_HAMMING_LOSS
        if name in names
        and (f"hamming_loss{PAPER_SUFFIX}" in metrics or ("hamming_loss" in metrics and name in published))
    ]
    if not slipped:
        return []
    return [f"The Hamming losses of {_listed(slipped)} follow the paper's slips in coding, and so do their ranks."]


def _words(setting: Setting) -> str:
    return setting.dataset if setting.noise is None else f"{setting.dataset} at noise {noise_text(setting.noise)}"


def _listed(names: Sequence[str]) -> str:
    """Names with commas and a final "and"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
