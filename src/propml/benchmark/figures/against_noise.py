"""Methods against noise: the paper's Fig. 2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from propml.benchmark.figures.style import INK, Look, add_legend, legend_line, look, method_looks, metric_title, panels
from propml.benchmark.wording import dataset_title
from propml.paper.metric_names import own_name
from propml.paper.published import Mean


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
