"""Curves: methods against noise (the paper's Fig. 2), and metrics against λ, the weight of excluded labels (Fig. 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from propml.benchmark.figures.style import (
    INK,
    MUTED,
    Look,
    add_legend,
    legend_line,
    look,
    method_looks,
    metric_title,
    panels,
)
from propml.benchmark.results import CellResult, deviation
from propml.benchmark.wording import counted, dataset_title, panel_title
from propml.extras import require
from propml.noise import Setting
from propml.paper.metric_names import TABULAR_METRICS, own_name
from propml.paper.published import Mean, published_lams


def noise_curve_data(
    means: Iterable[Mean], metric: str = "average_precision", *, methods: Sequence[str] | None = None
) -> list[Mean]:
    """What the curves show, ours first and noise rising: levels without a name, of datasets with two or more of them.

    Ours are compared with published numbers of the same metric without ``:paper``.

    >>> from propml.paper import load_published
    >>> noise_curve_data(load_published("vision"), "mAP", methods=["ProPML"])[0].mean
    89.43
    """
    rows = [
        row
        for row in means
        if row.metric == (metric if row.n else own_name(metric))
        and row.noise is not None
        and not row.noise.named
        and (methods is None or row.method in methods)
    ]
    levels: dict[str, set[float]] = {}
    for row in sorted(rows, key=_is_published):
        levels.setdefault(row.dataset, set()).add(_level(row))
    datasets = [dataset for dataset, some in levels.items() if len(some) > 1]
    kept = [row for row in rows if row.dataset in datasets]
    return sorted(kept, key=lambda row: (_is_published(row), datasets.index(row.dataset), _level(row)))


def noise_curves(
    means: Iterable[Mean], metric: str = "average_precision", *, methods: Sequence[str] | None = None, columns: int = 2
) -> tuple[Any, list[Any]]:
    """A metric against the noise level: a panel for each dataset, a line for each method, with standard deviations.

    Ours are solid; published numbers are dashed where both are drawn. Returns ``(figure, list of axes)``.
    """
    rows = noise_curve_data(means, metric, methods=methods)
    sources = sorted({_is_published(row) for row in rows})
    looks = method_looks(methods or (row.method for row in rows))
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    with look():
        figure, axes = panels(len(datasets), columns, heading=metric_title(metric), xlabel="noise level")
        for dataset, axis in zip(datasets, axes, strict=True):
            here = [row for row in rows if row.dataset == dataset]
            for published in sources:
                for method in looks:
                    curve = [row for row in here if (_is_published(row), row.method) == (published, method)]
                    _draw_noise_curve(axis, curve, looks[method], dashed=published and len(sources) > 1)
            levels = {_level(row): row.noise.title for row in here if row.noise}
            axis.set(xticks=sorted(levels), xticklabels=[levels[level] for level in sorted(levels)])
            axis.set_title(dataset_title(dataset))
            axis.margins(x=0.08)
        drawn = {row.method for row in rows}
        handles = [legend_line(name, color=c, marker=m) for name, (c, m) in looks.items() if name in drawn]
        if len(sources) > 1:
            handles += [legend_line(name, color=INK, line=line) for name, line in (("ours", "-"), ("published", "--"))]
        add_legend(figure, handles)
    return figure, axes


def _is_published(row: Mean) -> bool:
    return row.n == 0


def _level(row: Mean) -> float:
    return row.noise.amount if row.noise else 0.0


def _draw_noise_curve(axis: Any, curve: Sequence[Mean], style: Look, *, dashed: bool) -> None:
    if not curve:
        return
    level, mean, std = (
        np.array(values) for values in zip(*((_level(row), row.mean, row.std) for row in curve), strict=True)
    )
    first = curve[0].method == "ProPML"
    axis.plot(
        level,
        mean,
        color=style.color,
        marker=style.marker,
        linestyle="--" if dashed else "-",
        linewidth=2.2 if first else 1.4,
        zorder=3 if first else 2,
        label=f"{'published' if _is_published(curve[0]) else 'ours'}: {curve[0].method}",
    )
    known = np.isfinite(std) & (std > 0)
    axis.vlines(level[known], (mean - std)[known], (mean + std)[known], color=style.color, alpha=0.5, linewidth=1.2)


# -- against λ --------------------------------------------------------------------------------------------------------


class LambdaPoint(NamedTuple):
    """The value of a metric, a fraction, of one network with one λ on one test fold."""

    setting: Setting
    fold: int
    lam: float
    metric: str
    value: float


class LambdaRow(NamedTuple):
    """Mean and sample standard deviation over ``n`` folds, in percent."""

    setting: Setting
    metric: str
    lam: float
    mean: float
    std: float
    n: int


def given_lambda_points(cells: Iterable[CellResult]) -> list[LambdaPoint]:
    """Every metric of the paper's loss where λ was given, in the settings that were measured with two λ or more."""
    given = [(cell, cell.settings.get("params", {})) for cell in cells]
    points = [
        LambdaPoint(cell.setting, fold.fold, float(params["lam"]), metric, value)
        for cell, params in given
        if params.get("loss") == "propml" and isinstance(params.get("lam"), int | float)
        for fold in cell.folds
        for metric, value in fold.values.items()
    ]
    lams: dict[Setting, set[float]] = {}
    for point in points:
        lams.setdefault(point.setting, set()).add(point.lam)
    return [point for point in points if len(lams[point.setting]) > 1]


def lambda_sentences(points: Iterable[LambdaPoint]) -> list[str]:
    """What the paper says of λ, setting by setting: how far average precision moves, and whether Hamming loss falls.

    >>> at = Setting("birds", None)
    >>> values = {"average_precision": (0.6, 0.62, 0.59), "hamming_loss": (0.09, 0.05, 0.06)}
    >>> lambda_sentences(
    ...     [LambdaPoint(at, 0, lam, m, v) for m, some in values.items() for lam, v in zip((0.1, 0.3, 1.0), some)]
    ... )
    ['Birds, λ from 0.1 to 1: average precision between 59.00 and 62.00, best at λ = 0.3; Hamming loss from 9.00 to \
6.00, lower after 1 of 2 steps.']
    """
    rows = lambda_curve_data(points, ["average_precision", "hamming_loss"])
    sentences = []
    for setting in dict.fromkeys(row.setting for row in rows):
        curves = {
            metric: [row for row in rows if row[:2] == (setting, metric)]
            for metric in ("average_precision", "hamming_loss")
        }
        parts = []
        if curve := curves["average_precision"]:
            low, high = (pick(curve, key=lambda row: row.mean) for pick in (min, max))
            parts.append(f"average precision between {low.mean:.2f} and {high.mean:.2f}, best at λ = {high.lam:g}")
        if curve := curves["hamming_loss"]:
            steps = [second.mean < first.mean for first, second in pairwise(curve)]
            parts.append(
                f"Hamming loss from {curve[0].mean:.2f} to {curve[-1].mean:.2f}, lower after {sum(steps)} of "
                f"{counted(len(steps), 'step')}"
            )
        if parts:
            lams = sorted({row.lam for row in rows if row.setting == setting})
            sentences.append(f"{panel_title(setting)}, λ from {lams[0]:g} to {lams[-1]:g}: {'; '.join(parts)}.")
    return sentences


def lambda_curve_data(points: Iterable[LambdaPoint], metrics: Sequence[str] | None = None) -> list[LambdaRow]:
    """What the curves show: settings in the order in which they come, λ rising."""
    values: dict[tuple[Setting, str], dict[float, list[float]]] = {}
    for point in points:
        if metrics is None or point.metric in metrics:
            curve = values.setdefault((point.setting, point.metric), {})
            curve.setdefault(point.lam, []).append(100 * point.value)
    return [
        LambdaRow(*key, lam, float(np.mean(curve[lam])), deviation(curve[lam]), len(curve[lam]))
        for key, curve in values.items()
        for lam in sorted(curve)
    ]


def lambda_metrics(
    points: Iterable[LambdaPoint],
    metrics: Sequence[str] = TABULAR_METRICS,
    *,
    published: Mapping[Setting, float] | None = None,
    columns: int = 2,
) -> tuple[Any, list[Any]]:
    """All metrics against λ, as in the paper's Fig. 3: a panel for each setting, a curve for each metric.

    A dashed line stands at the λ that the paper took, by default :func:`propml.paper.published_lams`. Returns
    ``(figure, list of axes)``.
    """
    rows = lambda_curve_data(points, metrics)
    settings = list(dict.fromkeys(row.setting for row in rows))
    looks = dict(zip(metrics, method_looks(metrics).values(), strict=True))
    paper = published_lams() if published is None else published
    ticker = require("matplotlib.ticker", "report")
    with look():
        figure, axes = panels(len(settings), columns, xlabel="λ")
        for setting, axis in zip(settings, axes, strict=True):
            axis.set_title(panel_title(setting))
            for metric, (color, marker) in looks.items():
                curve = [row for row in rows if row[:2] == (setting, metric)]
                if not curve:
                    continue
                along, mean, std = (np.array([getattr(row, part) for row in curve]) for part in ("lam", "mean", "std"))
                axis.fill_between(along, mean - std, mean + std, color=color, alpha=0.2, linewidth=0)
                axis.plot(along, mean, color=color, marker=marker, markersize=4, label=metric)
            if setting in paper:
                axis.axvline(paper[setting], color=INK, alpha=MUTED, linewidth=2.2, linestyle="--")
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda lam, _: f"{lam:g}"))
            axis.xaxis.set_minor_formatter(ticker.NullFormatter())
            axis.set_ylim(bottom=0)
        drawn = {row.metric for row in rows}
        handles = [
            legend_line(metric_title(metric), color=color, marker=marker)
            for metric, (color, marker) in looks.items()
            if metric in drawn
        ]
        handles += [legend_line("the paper's λ", color=INK, line="--")] if paper.keys() & set(settings) else []
        add_legend(figure, handles)
    return figure, axes
