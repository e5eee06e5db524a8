"""Curves: methods against noise (the paper's Fig. 2), and what every λ did in training, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from propml.benchmark.figures.style import (
    INK,
    Look,
    add_legend,
    draw_band,
    legend_line,
    look,
    method_looks,
    metric_title,
    ordered_colors,
    panels,
)
from propml.benchmark.wording import dataset_title
from propml.paper.metric_names import own_name
from propml.paper.published import Mean

__all__ = ["TrainingRow", "noise_curve_data", "noise_curves", "training_curve_data", "training_curves"]

Quantity = Literal["criterion", "loss"]


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
    means: Iterable[Mean],
    metric: str = "average_precision",
    *,
    methods: Sequence[str] | None = None,
    columns: int = 2,
) -> tuple[Any, list[Any]]:
    """A metric against the noise level: a panel for each dataset, a line for each method, with standard deviations.

    Ours are solid; published numbers are dashed where both are drawn.

    Parameters
    ----------
    means : iterable of Mean
        Ours, published ones, or both.
    methods : sequence of str, optional
        Which to draw; by default all.

    Returns
    -------
    figure, list of axes
    """
    rows = noise_curve_data(means, metric, methods=methods)
    sources = sorted({_is_published(row) for row in rows})
    looks = method_looks(methods or (row.method for row in rows))
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    with look():
        place = panels(len(datasets), columns, heading=metric_title(metric), xlabel="noise ratio q")
        for dataset, axis in zip(datasets, place.axes, strict=True):
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
        add_legend(place, handles)
    return place.figure, place.axes


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


class TrainingRow(NamedTuple):
    """Mean and standard deviation over the ``n`` networks (folds and seeds) of one λ after one epoch."""

    network: str
    lam: float
    epoch: int
    mean: float
    std: float
    n: int


def training_curve_data(
    history: Sequence[Mapping[str, Any]],
    quantity: Quantity = "criterion",
    *,
    lams: Mapping[str, float] | None = None,
    criterion: str = "average_precision",
) -> list[TrainingRow]:
    """What the curves show: the epochs after which all networks of a λ were measured.

    Parameters are those of :func:`training_curves`. The average precision is given in percent; other criteria and the
    loss are as they were recorded.
    """
    if quantity not in ("criterion", "loss"):
        raise ValueError(f'quantity is {quantity!r}; choose "criterion" or "loss"')
    rows: list[TrainingRow] = []
    names = _network_names(history, lams or {})
    for number, part in enumerate(history):
        values = np.asarray(part[quantity], dtype=float)
        if quantity == "criterion" and criterion == "average_precision":
            values = 100 * (1 - values)
        for column, setting in enumerate(part["settings"]):
            networks = values[..., column].reshape(len(values), -1)
            name, lam = names[number, setting.get("order")], float(setting["lam"])
            for epoch in np.flatnonzero(np.isfinite(networks).all(axis=1)):
                mean, std = float(networks[epoch].mean()), float(networks[epoch].std())
                rows.append(TrainingRow(name, lam, int(epoch) + 1, mean, std, networks.shape[1]))
    return rows


def training_curves(
    history: Sequence[Mapping[str, Any]],
    quantity: Quantity = "criterion",
    *,
    lams: Mapping[str, float] | None = None,
    criterion: str = "average_precision",
    columns: int = 2,
) -> tuple[Any, list[Any]]:
    """One panel for each kind of network, a line for each λ: its mean over folds, with the standard deviation.

    Parameters
    ----------
    history : list of dict
        ``history_`` of a :class:`~propml.methods.propml.ProPMLClassifier`.
    quantity : {"criterion", "loss"}
        The criterion on held-out candidates, or the loss in training (which different λ do not share a scale of).
    lams : mapping of str to float, optional
        ``lam_`` of the classifier: names the networks, and the λ to set off.
    criterion : str
        The classifier's; "average_precision" is recorded as one minus itself and drawn as itself.

    Returns
    -------
    figure, list of axes
    """
    rows = training_curve_data(history, quantity, lams=lams, criterion=criterion)
    if not rows:
        raise ValueError(f"the history holds no {quantity} to draw; without folds (cv=None) only the loss is recorded")
    networks = list(dict.fromkeys(row.network for row in rows))
    shown = {"average_precision": "Average precision (%)"}.get(criterion, criterion)
    heading = f"{shown} on held-out candidates" if quantity == "criterion" else "Loss in training"
    with look():
        figure, axes, _ = panels(len(networks), columns, heading=heading, xlabel="epoch")
        for network, axis in zip(networks, axes, strict=True):
            here = [row for row in rows if row.network == network]
            tried = sorted({row.lam for row in here})
            for lam, color in zip(tried, ordered_colors(len(tried)), strict=True):
                chosen = len(tried) > 1 and bool(np.isclose((lams or {}).get(network, np.nan), lam))
                curve = [row for row in here if row.lam == lam]
                line = {"linewidth": 2.6 if chosen else 1.3, "marker": "o" if len(curve) == 1 else ""}
                label = f"λ = {lam:.2g}" + (", chosen" if chosen else "")
                draw_band(axis, curve, "epoch", color, 0.15, label=label, **line)
            axis.set_title(network)
            axis.xaxis.get_major_locator().set_params(integer=True)
            # The legend stands where curves that get better leave room, and some more.
            rising = quantity == "criterion" and criterion == "average_precision"
            low, high = axis.get_ylim()
            room = 0.12 * len(tried) * (high - low)
            axis.set_ylim(low - room if rising else low, high if rising else high + room)
            corner = "lower right" if rising else "upper right"
            axis.legend(loc=corner, handlelength=1.4, borderaxespad=0.1, labelspacing=0.25)
    return figure, axes


def _network_names(history: Sequence[Mapping[str, Any]], lams: Mapping[str, float]) -> dict[tuple[int, Any], str]:
    """A name for every (part of the history, order): the classifier's own, in its order, where they are given."""
    parts = [(number, setting.get("order")) for number, part in enumerate(history) for setting in part["settings"]]
    kinds = list(dict.fromkeys(parts))
    if len(lams) == len(kinds):
        return dict(zip(kinds, lams, strict=True))
    if len(kinds) == 1:
        return {kinds[0]: ""}
    return {
        (number, order): f"network {number + 1}" + ("" if order is None else f", order {order:g}")
        for number, order in kinds
    }
