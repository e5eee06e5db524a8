"""What it costs to choose without clean labels: the score with λ chosen on candidates beside that of the oracle's λ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    legend_line,
    look,
    metric_title,
    panels,
)
from propml.benchmark.published import Published
from propml.benchmark.results import Noise, Result, Setting, summarise
from propml.benchmark.titles import panel_title

# attribute -> (title, colour, marker)
SHAPES = {
    "oracle": ("the oracle's λ, chosen on test labels", PALETTE[1], "D"),
    "chosen": ("λ chosen on candidates", PALETTE[0], "o"),
    "published": ("published (λ chosen on test labels)", PALETTE[4], "x"),
}
ROW = 0.27


class ChoiceRow(NamedTuple):
    """One setting: means in percent, ``published`` is NaN where the paper has none."""

    dataset: str
    noise: Noise
    chosen: float
    oracle: float
    published: float

    @property
    def gap(self) -> float:
        """Chosen minus oracle."""
        return self.chosen - self.oracle


def lambda_choice_data(
    chosen: Iterable[Result],
    oracle: Iterable[Result],
    metric: str = "average_precision",
    *,
    method: str = "ProPML",
    oracle_method: str | None = None,
    published: Iterable[Published] = (),
) -> list[ChoiceRow]:
    """What the figure shows: the settings that were measured both ways.

    Parameters
    ----------
    chosen, oracle : iterable of Result
        With ``selection = "candidates"`` and with ``selection = "oracle"``; one list if the methods' names differ.
    method : str
    oracle_method : str, optional
        Its name in ``oracle``, where it is another one.
    published : iterable of Published
        The paper's λ were chosen on test labels, too.
    """
    ours = _means(chosen, metric, method)
    theirs = _means(oracle, metric, oracle_method or method)
    printed = {
        Setting(row.dataset, row.noise): row.mean
        for row in published
        if (row.method, row.metric) == (method, metric.removesuffix(":paper"))
    }
    return [
        ChoiceRow(*setting, ours[setting], theirs[setting], printed.get(setting, np.nan))
        for setting in ours
        if setting in theirs
    ]


def lambda_choice(
    rows: Iterable[ChoiceRow], metric: str = "average_precision", *, corruption: str | None = None
) -> tuple[Any, Any]:
    """How far the chosen λ stays behind the oracle's: a line for each setting, and both scores as numbers beside it.

    Parameters
    ----------
    rows : iterable of ChoiceRow
        From :func:`lambda_choice_data`.
    corruption : str, optional
        What the noise levels are levels of, see :mod:`propml.benchmark.titles`.

    Returns
    -------
    figure, axes
        ``x`` is the difference to the oracle's score in points, ``y`` the number of the row.
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
        for name, (title, color, marker) in shown.items():
            differences = [getattr(row, name) - row.oracle for row in rows]
            axis.plot(
                differences,
                heights,
                color=color,
                marker=marker,
                markersize=6,
                markeredgewidth=1.5,
                linestyle="",
                label=title,
            )
        axis.grid(visible=False, axis="y")
        axis.grid(axis="x", color=INK, alpha=FAINT, linewidth=0.6)
        titles = [panel_title(Setting(row.dataset, row.noise), corruption) for row in rows]
        axis.set(yticks=heights, yticklabels=titles)
        axis.set_ylim(len(rows) - 0.5, -0.7)
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        _numbers(axis, rows)
        add_legend(place, [legend_line(title, color=c, marker=m, line="") for title, c, m in shown.values()])
    return place.figure, axis


def _numbers(axis: Any, rows: Sequence[ChoiceRow]) -> None:
    """Both scores in columns on the right."""
    for name, right in (("chosen", 38), ("oracle", 76)):
        texts = [(-1, name), *((height, f"{getattr(row, name):.1f}") for height, row in enumerate(rows))]
        for height, text in texts:
            axis.annotate(
                text,
                (1, height),
                xycoords=("axes fraction", "data"),
                xytext=(right, 0),
                textcoords="offset points",
                size=SMALL,
                color=SHAPES[name][1],
                ha="right",
                va="center",
            )


def _means(results: Iterable[Result], metric: str, method: str) -> dict[Setting, float]:
    return {setting: s.mean for (setting, name), s in summarise(results, metric).items() if name == method}
