"""Curves: methods against noise (the paper's Fig. 2), and metrics against λ, the weight of excluded labels (Fig. 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from propml.benchmark.figures import style
from propml.benchmark.figures.style import INK, legend_line, metric_title
from propml.benchmark.results import CellResult, means
from propml.benchmark.wording import counted, dataset_title, panel_title
from propml.extras import require
from propml.noise import Setting
from propml.paper.published import TABULAR_METRICS, Mean, own_name, published_lams


def noise_curve_data(
    means: Iterable[Mean], metric: str = "average_precision", *, methods: Sequence[str] | None = None
) -> list[Mean]:
    """What the curves show, ours first and noise rising: levels without a name, of datasets with two or more of them.

    Ours are compared with published numbers of the same metric without ``:paper``.
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
    looks = style.method_looks(methods or (row.method for row in rows))
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    with style.look():
        figure, axes = style.panels(len(datasets), columns, heading=metric_title(metric), xlabel="noise level")
        for dataset, axis in zip(datasets, axes, strict=True):
            here = [row for row in rows if row.dataset == dataset]
            for published in sources:
                line = "--" if published and len(sources) > 1 else "-"
                for method in looks:
                    curve = [row for row in here if (_is_published(row), row.method) == (published, method)]
                    width = {"linewidth": 2.2, "zorder": 3} if method == "ProPML" else {"linewidth": 1.4}
                    label = f"{'published' if published else 'ours'}: {method}"
                    _draw(axis, _level, curve, looks[method], linestyle=line, label=label, **width)
            levels = {_level(row): row.noise.title for row in here if row.noise}
            axis.set(xticks=sorted(levels), xticklabels=[levels[level] for level in sorted(levels)])
            axis.set_title(dataset_title(dataset))
            axis.margins(x=0.08)
        drawn = {row.method for row in rows}
        handles = [legend_line(name, color=c, marker=m) for name, (c, m) in looks.items() if name in drawn]
        if len(sources) > 1:
            handles += [legend_line(name, color=INK, line=line) for name, line in (("ours", "-"), ("published", "--"))]
        style.add_legend(figure, handles)
    return figure, axes


def _is_published(row: Mean) -> bool:
    return row.n == 0


def _level(row: Mean) -> float:
    return row.noise.amount if row.noise else 0.0


def _draw(axis: Any, place: Callable[[Mean], float], curve: Sequence[Mean], look: style.Look, **line: Any) -> None:
    """Means as points on a line, with a bar for each standard deviation that there is."""
    if not curve:
        return
    along, mean, std = np.array([(place(row), row.mean, row.std) for row in curve]).T
    axis.plot(along, mean, color=look.color, marker=look.marker, **line)
    known = std > 0
    axis.vlines(along[known], (mean - std)[known], (mean + std)[known], color=look.color, alpha=0.5, linewidth=1.2)


# -- against λ --------------------------------------------------------------------------------------------------------


def lambda_means(cells: Iterable[CellResult]) -> list[Mean]:
    """Every metric of the paper's loss where λ was given, in the settings that were measured with two λ or more.

    The ``method`` of each mean is its λ, whatever the tables call it.
    """
    given = [
        replace(cell, method=repr(float(params["lam"])))
        for cell in cells
        if (params := cell.settings.get("params", {})).get("loss") == "propml"
        and isinstance(params.get("lam"), int | float)
    ]
    lams: dict[Setting, set[str]] = {}
    for cell in given:
        lams.setdefault(cell.setting, set()).add(cell.method)
    return means(cell for cell in given if len(lams[cell.setting]) > 1)


def _lam(row: Mean) -> float:
    return float(row.method)


def _lambda_curve(rows: Iterable[Mean], setting: Setting, metric: str) -> list[Mean]:
    return sorted((row for row in rows if (row.setting, row.metric) == (setting, metric)), key=_lam)


def lambda_sentences(rows: Sequence[Mean]) -> list[str]:
    """What the paper says of λ, setting by setting: how far average precision moves, and whether Hamming loss falls."""
    sentences = []
    for setting in dict.fromkeys(row.setting for row in rows):
        precision, loss = (_lambda_curve(rows, setting, metric) for metric in ("average_precision", "hamming_loss"))
        parts = []
        if precision:
            low, high = (pick(precision, key=lambda row: row.mean) for pick in (min, max))
            parts.append(f"average precision between {low.mean:.2f} and {high.mean:.2f}, best at λ = {_lam(high):g}")
        if loss:
            steps = [second.mean < first.mean for first, second in pairwise(loss)]
            parts.append(
                f"Hamming loss from {loss[0].mean:.2f} to {loss[-1].mean:.2f}, lower after {sum(steps)} of "
                f"{counted(len(steps), 'step')}"
            )
        if parts:
            ends = precision or loss
            lams = f"λ from {_lam(ends[0]):g} to {_lam(ends[-1]):g}"
            sentences.append(f"{panel_title(setting)}, {lams}: {'; '.join(parts)}.")
    return sentences


def lambda_metrics(
    rows: Sequence[Mean],
    metrics: Sequence[str] = TABULAR_METRICS,
    *,
    published: Mapping[Setting, float] | None = None,
    columns: int = 2,
) -> tuple[Any, list[Any]]:
    """All metrics against λ, as in the paper's Fig. 3: a panel for each setting, a curve for each metric.

    ``rows`` come from :func:`lambda_means`. A dashed line stands at the λ that the paper took, by default
    :func:`propml.paper.published_lams`. Returns ``(figure, list of axes)``.
    """
    settings = list(dict.fromkeys(row.setting for row in rows if row.metric in metrics))
    looks = style.method_looks(metrics)
    paper = published_lams() if published is None else published
    ticker = require("matplotlib.ticker", "report")
    with style.look():
        figure, axes = style.panels(len(settings), columns, xlabel="λ")
        for setting, axis in zip(settings, axes, strict=True):
            axis.set_title(panel_title(setting))
            for metric in metrics:
                _draw(axis, _lam, _lambda_curve(rows, setting, metric), looks[metric], markersize=4, label=metric)
            if setting in paper:
                axis.axvline(paper[setting], color=INK, alpha=style.MUTED, linewidth=2.2, linestyle="--")
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda lam, _: f"{lam:g}"))
            axis.xaxis.set_minor_formatter(ticker.NullFormatter())
            axis.set_ylim(bottom=0)
        drawn = {row.metric for row in rows}
        shown = [(metric_title(name), look) for name, look in looks.items() if name in drawn]
        handles = [legend_line(title, color=look.color, marker=look.marker) for title, look in shown]
        handles += [legend_line("the paper's λ", color=INK, line="--")] if paper.keys() & set(settings) else []
        style.add_legend(figure, handles)
    return figure, axes
