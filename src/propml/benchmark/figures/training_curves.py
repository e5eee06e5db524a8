"""Training curves: what every λ did to held-out candidates and to the loss, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from propml.benchmark.figures.style import look, ordered_colors, panels

Quantity = Literal["criterion", "loss"]


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
            of_setting = values[..., column].reshape(len(values), -1)
            measured = np.flatnonzero(np.isfinite(of_setting).all(axis=1))
            name = names[number, setting.get("order")]
            rows += [
                TrainingRow(
                    name,
                    float(setting["lam"]),
                    int(epoch) + 1,
                    float(of_setting[epoch].mean()),
                    float(of_setting[epoch].std()),
                    of_setting.shape[1],
                )
                for epoch in measured
            ]
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
                chosen = len(tried) > 1 and bool(lams) and np.isclose((lams or {}).get(network, np.nan), lam)
                _draw_curve(axis, [row for row in here if row.lam == lam], color, bool(chosen))
            axis.set_title(network)
            axis.xaxis.get_major_locator().set_params(integer=True)
            # Where curves that get better leave room, and some more.
            rising = quantity == "criterion" and criterion == "average_precision"
            low, high = axis.get_ylim()
            room = 0.12 * len(tried) * (high - low)
            axis.set_ylim(low - room if rising else low, high if rising else high + room)
            axis.legend(
                loc="lower right" if rising else "upper right", handlelength=1.4, borderaxespad=0.1, labelspacing=0.25
            )
    return figure, axes


def _network_names(history: Sequence[Mapping[str, Any]], lams: Mapping[str, float]) -> dict[tuple[int, Any], str]:
    """A name for every (part of the history, order): the classifier's own, in its order, where they are given."""
    kinds = list(
        dict.fromkeys(
            (number, setting.get("order")) for number, part in enumerate(history) for setting in part["settings"]
        )
    )
    if len(lams) == len(kinds):
        return dict(zip(kinds, lams, strict=True))
    if len(kinds) == 1:
        return {kinds[0]: ""}
    return {
        (number, order): f"network {number + 1}" + ("" if order is None else f", order {order:g}")
        for number, order in kinds
    }


def _draw_curve(axis: Any, curve: Sequence[TrainingRow], color: str, chosen: bool) -> None:
    epochs, mean, std = (np.array([getattr(row, name) for row in curve]) for name in ("epoch", "mean", "std"))
    axis.fill_between(epochs, mean - std, mean + std, color=color, alpha=0.15, linewidth=0)
    axis.plot(
        epochs,
        mean,
        color=color,
        linewidth=2.6 if chosen else 1.3,
        marker="o" if len(curve) == 1 else "",
        label=f"λ = {curve[0].lam:.2g}" + (", chosen" if chosen else ""),
    )
