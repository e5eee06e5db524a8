"""λ, the weight of excluded labels: how much scores depend on it, and what choosing it without clean labels costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from propml.benchmark.figures.style import (
    FAINT,
    INK,
    MUTED,
    PALETTE,
    SMALL,
    WIDTH,
    add_legend,
    draw_band,
    legend_line,
    look,
    method_looks,
    metric_title,
    ordered_colors,
    panels,
)
from propml.benchmark.results import CellResult, deviation
from propml.benchmark.wording import counted, dataset_title, level_title, panel_title
from propml.extras import require
from propml.noise import Noise, Setting, noise_order
from propml.paper.metric_names import TABULAR_METRICS, own_name
from propml.paper.published import Mean, published_lams

# One λ, or one of each fold: then the middle one is marked.
Lams = Mapping[Setting, float | Sequence[float]]
CHOSEN_ON_CANDIDATES, THE_PAPERS = "λ chosen on candidates", "the paper's λ"
MARKERS = {CHOSEN_ON_CANDIDATES: "o", THE_PAPERS: "x"}


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


def lambda_points(cells: Iterable[CellResult]) -> list[LambdaPoint]:
    """The paths over λ that searches on test labels recorded: average precision, which is what they look at."""
    metric = "average_precision"
    return [
        LambdaPoint(cell.setting, fold.fold, step["lam"], metric, step[metric])
        for cell in cells
        for fold in cell.folds
        for step in fold.chosen.get("path") or ()
        if "lam" in step and step.get(metric) is not None and "order" not in step
    ]


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


def lambda_curves(
    points: Iterable[LambdaPoint],
    metric: str = "average_precision",
    *,
    chosen: Lams | None = None,
    published: Lams | None = None,
    columns: int = 2,
) -> tuple[Any, list[Any]]:
    """One metric against λ: a panel for each dataset, a curve for each noise level, with its chosen λ on it.

    ``chosen`` are the λ chosen on candidates, ``published`` those that the paper took, by default
    :func:`propml.paper.published_lams`. Returns ``(figure, list of axes)``.
    """
    rows = lambda_curve_data(points, [metric])
    settings = list(dict.fromkeys(row.setting for row in rows))
    datasets = list(dict.fromkeys(setting.dataset for setting in settings))
    levels = sorted({setting.noise for setting in settings if setting.noise is not None}, key=noise_order)
    colors: dict[Noise | None, str] = dict(zip(levels, ordered_colors(len(levels)), strict=True))
    colors[None] = method_looks(["ProPML"])["ProPML"].color
    marks = _marks(chosen, published)
    used: set[str] = set()
    with look():
        place = panels(len(datasets), columns, heading=metric_title(metric), xlabel="λ")
        for dataset, axis in zip(datasets, place.axes, strict=True):
            axis.set_title(dataset_title(dataset))
            for setting in settings:
                if setting.dataset != dataset:
                    continue
                curve, color = [row for row in rows if row.setting == setting], colors[setting.noise]
                draw_band(axis, curve, "lam", color, 0.2, markersize=4, label=metric)
                for name, lams in marks.items():
                    if setting in lams:
                        used.add(name)
                        _mark_on_curve(axis, curve, float(np.median(lams[setting])), name, color)
            _log_axis(axis)
        handles = [legend_line(level_title(noise), color=colors[noise]) for noise in levels]
        handles += [legend_line(name, color=INK, marker=m, line="") for name, m in MARKERS.items() if name in used]
        add_legend(place, handles)
    return place.figure, place.axes


def lambda_metrics(
    points: Iterable[LambdaPoint],
    metrics: Sequence[str] = TABULAR_METRICS,
    *,
    chosen: Lams | None = None,
    published: Lams | None = None,
    columns: int = 2,
) -> tuple[Any, list[Any]]:
    """All metrics against λ, as in the paper's Fig. 3: a panel for each setting, a curve for each metric.

    Vertical lines stand at the λ that was chosen on candidates and at the paper's; for parameters see
    :func:`lambda_curves`.
    """
    rows = lambda_curve_data(points, metrics)
    settings = list(dict.fromkeys(row.setting for row in rows))
    looks = dict(zip(metrics, method_looks(metrics).values(), strict=True))
    marks = _marks(chosen, published)
    # Dashes that are wider than the line are seen where both lie on one another.
    styles = {CHOSEN_ON_CANDIDATES: ("-", 1.0), THE_PAPERS: ("--", 2.2)}
    used: set[str] = set()
    with look():
        place = panels(len(settings), columns, xlabel="λ")
        for setting, axis in zip(settings, place.axes, strict=True):
            axis.set_title(panel_title(setting))
            for metric, (color, marker) in looks.items():
                curve = [row for row in rows if row[:2] == (setting, metric)]
                if curve:
                    draw_band(axis, curve, "lam", color, 0.2, marker=marker, markersize=4, label=metric)
            for name, lams in marks.items():
                if setting in lams:
                    used.add(name)
                    line, width = styles[name]
                    lam = float(np.median(lams[setting]))
                    axis.axvline(lam, color=INK, alpha=MUTED, linewidth=width, linestyle=line)
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


def _mark_on_curve(axis: Any, curve: Sequence[LambdaRow], lam: float, name: str, color: str) -> None:
    """A mark on the curve, between its points if need be; on the axis where the curve does not reach so far."""
    lams = [row.lam for row in curve]
    style = {"marker": MARKERS[name], "markersize": 7, "linestyle": "", "label": name}
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


# -- chosen on candidates, beside chosen on test labels ---------------------------------------------------------------

# attribute -> (title, colour, marker)
SHAPES = {
    "oracle": ("the oracle's λ, chosen on test labels", PALETTE[1], "D"),
    "chosen": ("λ chosen on candidates", PALETTE[0], "o"),
    "published": ("published (λ chosen on test labels)", PALETTE[4], "x"),
}
ROW = 0.27


class ChoiceRow(NamedTuple):
    """One setting: means in percent, ``published`` is NaN where the paper has none."""

    setting: Setting
    chosen: float
    oracle: float
    published: float

    @property
    def gap(self) -> float:
        """Chosen minus oracle."""
        return self.chosen - self.oracle


def lambda_choice_data(
    means: Iterable[Mean], metric: str = "average_precision", *, method: str = "ProPML", oracle: str = "ProPML (oracle)"
) -> list[ChoiceRow]:
    """What the figure shows: the settings that were measured both ways, with λ chosen on candidates and by the oracle.

    ``means`` are ours, and published ones, whose λ were chosen on test labels, too.
    """
    rows = list(means)
    ours = {(row.method, row.setting): row.mean for row in rows if row.n and row.metric == metric}
    printed = {(row.method, row.setting): row.mean for row in rows if not row.n and row.metric == own_name(metric)}
    return [
        ChoiceRow(setting, mean, ours[oracle, setting], printed.get((method, setting), np.nan))
        for (name, setting), mean in ours.items()
        if name == method and (oracle, setting) in ours
    ]


def lambda_choice(rows: Iterable[ChoiceRow], metric: str = "average_precision") -> tuple[Any, Any]:
    """How far the chosen λ stays behind the oracle's: a line for each setting, and both scores as numbers beside it.

    Returns ``(figure, axes)``; ``x`` is the difference to the oracle's score in points, ``y`` the number of the row.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("no setting was measured both with chosen λ and with the oracle's; there is nothing to draw")
    with look():
        place = panels(1, 1, heading=metric_title(metric), xlabel="points above the oracle's λ")
        place.figure.set_size_inches(WIDTH, 0.95 + ROW * len(rows))
        (axis,) = place.axes
        heights = range(len(rows))
        axis.hlines(heights, 0, [row.gap for row in rows], color=INK, alpha=MUTED, linewidth=1.6)
        shown = {name: shape for name, shape in SHAPES.items() if np.isfinite([getattr(r, name) for r in rows]).any()}
        points = {"markersize": 6, "markeredgewidth": 1.5, "linestyle": ""}
        for name, (title, color, marker) in shown.items():
            differences = [getattr(row, name) - row.oracle for row in rows]
            axis.plot(differences, heights, color=color, marker=marker, label=title, **points)
        axis.grid(visible=False, axis="y")
        axis.grid(axis="x", color=INK, alpha=FAINT, linewidth=0.6)
        axis.set(yticks=heights, yticklabels=[panel_title(row.setting) for row in rows])
        axis.set_ylim(len(rows) - 0.5, -0.7)
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        _numbers(axis, rows)
        add_legend(place, [legend_line(title, color=c, marker=m, line="") for title, c, m in shown.values()])
    return place.figure, axis


def _numbers(axis: Any, rows: Sequence[ChoiceRow]) -> None:
    """Both scores in columns on the right."""
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right", "va": "center"}
    for name, right in (("chosen", 38), ("oracle", 76)):
        texts = [(-1, name), *((height, f"{getattr(row, name):.1f}") for height, row in enumerate(rows))]
        for height, text in texts:
            axis.annotate(text, (1, height), xytext=(right, 0), size=SMALL, color=SHAPES[name][1], **place)
