"""Scores against noise: who holds out when candidates get worse (the paper's Fig. 2); ours and the published ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from propml.benchmark.figures.style import (
    INK,
    Look,
    add_legend,
    legend_line,
    look,
    method_looks,
    metric_title,
    panels,
)
from propml.benchmark.published import Published
from propml.benchmark.results import Result, summarise
from propml.benchmark.titles import dataset_title, noise_unit

LINES = {"ours": "-", "published": "--"}


class NoiseRow(NamedTuple):
    """Mean and standard deviation over folds and seeds, in percent; ``source`` is "ours" or "published"."""

    source: str
    dataset: str
    noise: float
    method: str
    mean: float
    std: float


def noise_curve_data(
    results: Iterable[Result] = (),
    published: Iterable[Published] = (),
    metric: str = "average_precision",
    *,
    methods: Sequence[str] | None = None,
) -> list[NoiseRow]:
    """What the curves show, noise rising: settings whose level is a number, of datasets with two levels or more.

    Ours are compared with published numbers of the same metric without ``:paper``.

    >>> from propml.benchmark.published import load_published
    >>> noise_curve_data((), load_published("vision"), "mAP", methods=["ProPML"])[0]
    NoiseRow(source='published', dataset='voc2007', noise=0.1, method='ProPML', mean=89.43, std=nan)
    """
    rows = [
        NoiseRow("ours", setting.dataset, setting.noise, method, summary.mean, summary.std)
        for (setting, method), summary in summarise(results, metric).items()
        if isinstance(setting.noise, int | float)
    ]
    rows += [
        NoiseRow("published", row.dataset, row.noise, row.method, row.mean, row.std)
        for row in published
        if row.metric == metric.removesuffix(":paper") and isinstance(row.noise, int | float)
    ]
    rows = [row for row in rows if methods is None or row.method in methods]
    levels: dict[str, set[float]] = {}
    for row in rows:
        levels.setdefault(row.dataset, set()).add(row.noise)
    order = list(levels)
    kept = [row for row in rows if len(levels[row.dataset]) > 1]
    return sorted(kept, key=lambda row: (row.source, order.index(row.dataset), row.noise))


def noise_curves(
    results: Iterable[Result] = (),
    published: Iterable[Published] = (),
    metric: str = "average_precision",
    *,
    methods: Sequence[str] | None = None,
    corruption: str | None = None,
    columns: int = 2,
) -> tuple[Any, list[Any]]:
    """A metric against the noise level: a panel for each dataset, a line for each method, with standard deviations.

    Ours are solid; published numbers are dashed where both are drawn.

    Parameters
    ----------
    results : iterable of Result
    published : iterable of Published
    methods : sequence of str, optional
        Which to draw; by default all.
    corruption : str, optional
        What the noise levels are levels of, see :mod:`propml.benchmark.titles`.

    Returns
    -------
    figure, list of axes
    """
    rows = noise_curve_data(results, published, metric, methods=methods)
    sources = {row.source for row in rows}
    lines = LINES if len(sources) > 1 else dict.fromkeys(sources, "-")
    looks = method_looks(methods or (row.method for row in rows))
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    with look():
        place = panels(len(datasets), columns, heading=metric_title(metric), xlabel="noise ratio q")
        for dataset, axis in zip(datasets, place.axes, strict=True):
            here = [row for row in rows if row.dataset == dataset]
            for source, line in lines.items():
                for method in looks:
                    curve = [row for row in here if (row.source, row.method) == (source, method)]
                    _draw_curve(axis, curve, looks[method], line)
            levels = sorted({row.noise for row in here})
            unit = noise_unit(levels, corruption)
            axis.set(xticks=levels, xticklabels=[f"{level:g}{unit}" for level in levels])
            axis.set_title(dataset_title(dataset))
            axis.margins(x=0.08)
        drawn = {row.method for row in rows}
        handles = [legend_line(name, color=c, marker=m) for name, (c, m) in looks.items() if name in drawn]
        if len(sources) > 1:
            handles += [legend_line(source, color=INK, line=line) for source, line in LINES.items()]
        add_legend(place, handles)
    return place.figure, place.axes


def _draw_curve(axis: Any, curve: Sequence[NoiseRow], style: Look, line: str) -> None:
    if not curve:
        return
    noise, mean, std = (np.array([getattr(row, name) for row in curve]) for name in ("noise", "mean", "std"))
    first = curve[0].method == "ProPML"
    axis.plot(
        noise,
        mean,
        color=style.color,
        marker=style.marker,
        linestyle=line,
        linewidth=2.2 if first else 1.4,
        zorder=3 if first else 2,
        label=f"{curve[0].source}: {curve[0].method}",
    )
    known = np.isfinite(std) & (std > 0)
    axis.vlines(noise[known], (mean - std)[known], (mean + std)[known], color=style.color, alpha=0.5, linewidth=1.2)
