"""Scores against λ: how much the weight of excluded labels matters (the paper's Fig. 3 and those of its supplement)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from propml.benchmark.figures.style import (
    INK,
    MUTED,
    add_legend,
    legend_line,
    look,
    method_looks,
    metric_title,
    ordered_colors,
    panels,
)
from propml.benchmark.metric_names import TABULAR_METRICS
from propml.benchmark.noise_levels import noise_order
from propml.benchmark.published import published_lams
from propml.benchmark.results import Noise, Result, Setting
from propml.benchmark.titles import dataset_title, level_title, panel_title
from propml.extras import require

# One λ, or one of each fold: then the middle one is marked.
Lams = Mapping[Setting, float | Sequence[float]]
CHOSEN_ON_CANDIDATES, THE_PAPERS = "λ chosen on candidates", "the paper's λ"
SHAPES = {CHOSEN_ON_CANDIDATES: "o", THE_PAPERS: "x"}


class LambdaPoint(NamedTuple):
    """The value of a metric, a fraction, of one network with one λ on one test fold."""

    dataset: str
    noise: Noise
    fold: int
    lam: float
    metric: str
    value: float


class LambdaRow(NamedTuple):
    """Mean and standard deviation over ``n`` folds, in percent."""

    dataset: str
    noise: Noise
    metric: str
    lam: float
    mean: float
    std: float
    n: int


def points_from_results(results: Iterable[Result], lams: Mapping[str, float]) -> list[LambdaPoint]:
    """The points of an experiment in which every λ is a method of its own.

    Parameters
    ----------
    lams : mapping of str to float
        The λ of each method, by its name in the experiment; other methods are left out.
    """
    return [
        LambdaPoint(row.dataset, row.noise, row.fold, lams[row.method], row.metric, row.value)
        for row in results
        if row.method in lams
    ]


def lambda_curve_data(points: Iterable[LambdaPoint], metrics: Sequence[str] | None = None) -> list[LambdaRow]:
    """What the curves show: settings in the order in which they come, λ rising.

    >>> lambda_curve_data([LambdaPoint("scene", 50, fold, 0.1, "coverage", fold / 10) for fold in (1, 3)])
    [LambdaRow(dataset='scene', noise=50, metric='coverage', lam=0.1, mean=20.0, std=10.0, n=2)]
    """
    values: dict[tuple[str, Noise, str], dict[float, list[float]]] = {}
    for point in points:
        if metrics is None or point.metric in metrics:
            curve = values.setdefault((point.dataset, point.noise, point.metric), {})
            curve.setdefault(point.lam, []).append(100 * point.value)
    return [
        LambdaRow(*key, lam, float(np.mean(curve[lam])), float(np.std(curve[lam])), len(curve[lam]))
        for key, curve in values.items()
        for lam in sorted(curve)
    ]


def lambda_curves(
    points: Iterable[LambdaPoint],
    metric: str = "average_precision",
    *,
    chosen: Lams | None = None,
    published: Lams | None = None,
    corruption: str | None = None,
    columns: int = 2,
) -> tuple[Any, list[Any]]:
    """One metric against λ: a panel for each dataset, a curve for each noise level, with its chosen λ on it.

    Parameters
    ----------
    points : iterable of LambdaPoint
    chosen : mapping of Setting to λ, optional
        What was chosen on candidates.
    published : mapping of Setting to λ, optional
        What the paper took; by default :func:`propml.benchmark.published.published_lams`.
    corruption : str, optional
        What the noise levels are levels of, see :mod:`propml.benchmark.titles`.

    Returns
    -------
    figure, list of axes
    """
    rows = lambda_curve_data(points, [metric])
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    levels = sorted({row.noise for row in rows if row.noise is not None}, key=noise_order)
    colors: dict[Noise, str] = dict(zip(levels, ordered_colors(len(levels)), strict=True))
    colors[None] = method_looks(["ProPML"])["ProPML"].color
    marks = _marks(chosen, published)
    used: set[str] = set()
    with look():
        place = panels(len(datasets), columns, heading=metric_title(metric), xlabel="λ")
        for dataset, axis in zip(datasets, place.axes, strict=True):
            axis.set_title(dataset_title(dataset))
            for noise in dict.fromkeys(row.noise for row in rows if row.dataset == dataset):
                curve = [row for row in rows if (row.dataset, row.noise) == (dataset, noise)]
                _draw_curve(axis, curve, colors[noise])
                for name, lams in marks.items():
                    if Setting(dataset, noise) in lams:
                        used.add(name)
                        _mark_on_curve(axis, curve, _middle(lams[Setting(dataset, noise)]), name, colors[noise])
            _log_axis(axis)
        handles = [legend_line(level_title(noise, corruption), color=colors[noise]) for noise in levels]
        handles += [legend_line(name, color=INK, marker=m, line="") for name, m in SHAPES.items() if name in used]
        add_legend(place, handles)
    return place.figure, place.axes


def lambda_metrics(
    points: Iterable[LambdaPoint],
    metrics: Sequence[str] = TABULAR_METRICS,
    *,
    chosen: Lams | None = None,
    published: Lams | None = None,
    corruption: str | None = None,
    columns: int = 2,
) -> tuple[Any, list[Any]]:
    """All metrics against λ, as in the paper's Fig. 3: a panel for each setting, a curve for each metric.

    Vertical lines stand at the λ that was chosen on candidates and at the paper's; for parameters see
    :func:`lambda_curves`.

    Returns
    -------
    figure, list of axes
    """
    rows = lambda_curve_data(points, metrics)
    settings = list(dict.fromkeys(Setting(row.dataset, row.noise) for row in rows))
    looks = dict(zip(metrics, method_looks(metrics).values(), strict=True))
    marks = _marks(chosen, published)
    # Dashes that are wider than the line are seen where both lie on one another.
    styles = {CHOSEN_ON_CANDIDATES: ("-", 1.0), THE_PAPERS: ("--", 2.2)}
    used: set[str] = set()
    with look():
        place = panels(len(settings), columns, xlabel="λ")
        for setting, axis in zip(settings, place.axes, strict=True):
            axis.set_title(panel_title(setting, corruption))
            for metric, (color, marker) in looks.items():
                curve = [row for row in rows if (row.dataset, row.noise, row.metric) == (*setting, metric)]
                _draw_curve(axis, curve, color, marker)
            for name, lams in marks.items():
                if setting in lams:
                    used.add(name)
                    line, width = styles[name]
                    axis.axvline(_middle(lams[setting]), color=INK, alpha=MUTED, linewidth=width, linestyle=line)
            _log_axis(axis)
            axis.set_ylim(bottom=0)
        drawn = {row.metric for row in rows}
        handles = [
            legend_line(metric_title(metric), color=color, marker=marker)
            for metric, (color, marker) in looks.items()
            if metric in drawn
        ]
        handles += [legend_line(name, color=INK, line=style) for name, (style, _) in styles.items() if name in used]
        add_legend(place, handles)
    return place.figure, place.axes


def _marks(chosen: Lams | None, published: Lams | None) -> dict[str, Lams]:
    return {CHOSEN_ON_CANDIDATES: chosen or {}, THE_PAPERS: published_lams() if published is None else published}


def _middle(lams: float | Sequence[float]) -> float:
    return float(np.median(lams))


def _draw_curve(axis: Any, curve: Sequence[LambdaRow], color: str, marker: str = "") -> None:
    if not curve:
        return
    lams, mean, std = (np.array([getattr(row, name) for row in curve]) for name in ("lam", "mean", "std"))
    axis.fill_between(lams, mean - std, mean + std, color=color, alpha=0.2, linewidth=0)
    axis.plot(lams, mean, color=color, marker=marker, markersize=4, label=curve[0].metric)


def _mark_on_curve(axis: Any, curve: Sequence[LambdaRow], lam: float, name: str, color: str) -> None:
    """A mark on the curve, between its points if need be; on the axis where the curve does not reach so far."""
    lams = [row.lam for row in curve]
    style = {"marker": SHAPES[name], "markersize": 7, "linestyle": "", "label": name}
    # In ink and above: seen where both lie on one another.
    style |= (
        {"color": INK, "markeredgewidth": 1.8, "zorder": 5} if name == THE_PAPERS else {"color": color, "zorder": 4}
    )
    if lams[0] <= lam <= lams[-1]:
        axis.plot([lam], [np.interp(np.log(lam), np.log(lams), [row.mean for row in curve])], **style)
    else:
        axis.plot([lam], [0.04], transform=axis.get_xaxis_transform(), **style)


def _log_axis(axis: Any) -> None:
    ticker = require("matplotlib.ticker", "report")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda lam, _: f"{lam:g}"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())
