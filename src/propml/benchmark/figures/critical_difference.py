"""Critical-difference diagrams (Demšar, JMLR 2006): mean ranks on an axis, bars over methods that do not differ.

The best rank, 1, is on the left, as one reads. Methods that a bar joins are not significantly different; bars that
would meet stand on levels below one another. A ruler shows the critical difference. Lengths are in points.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from propml.benchmark.figures.style import ACCENT, INK, MUTED, PALETTE, SMALL, TEXT, look, measuring_renderer
from propml.benchmark.statistics import Comparison
from propml.benchmark.wording import level_title
from propml.extras import require
from propml.noise import Noise

# The axis, and the room beside it in which labels are measured before the figure is cut to their size.
AXIS, SIDE = 172.0, 400.0
# Letters of a label and of a title in one line.
LETTERS, TITLE_LETTERS = 16, 40
LINE = 1.2 * TEXT
BETWEEN_LABELS = 4.0
MARGIN = 4.0
# From the end of the axis to the mean ranks; the names behind their digits all begin at one place.
TO_RANK, DIGIT = 12.0, 6.2
# The bars: how far they reach beyond their outermost methods, and how far one level is below the other.
BAR_OVERHANG, BAR_STEP, BAR_WIDTH, FIRST_BAR = 3.0, 8.0, 4.0, 10.0
# Viewers set text a little wider or narrower than it was measured.
SLACK = 1.04
TICK = 4.0
CARETRIGHT = 5


def critical_difference(
    comparison: Comparison, *, title: str = "", highlight: str | None = "ProPML"
) -> tuple[Any, Any]:
    """The diagram of one comparison, as large as it has to be, with ``highlight`` drawn in colour.

    Returns ``(figure, axes)``; ``x`` is the mean rank, and ``y`` counts points from the top.
    """
    figure, (axes,) = critical_difference_stack({title: comparison}, highlight=highlight)
    return figure, axes


def critical_difference_stack(
    comparisons: Mapping[Noise | str | None, Comparison], *, highlight: str | None = "ProPML"
) -> tuple[Any, list[Any]]:
    """Diagrams one over the other with the same axis, by noise level or title: the paper's figure over noise levels.

    Returns ``(figure, list of axes)``; the figure is as large as the diagrams need, and axes go from edge to edge.
    """
    if not comparisons:
        raise ValueError("there is no comparison to draw; give at least one")
    n_ranks = max(len(each.names) for each in comparisons.values())
    with look():
        figure = require("matplotlib.figure", "report").Figure()
        axes: list[Any] = []
        heights: list[float] = []
        ruler = 0.0
        for level, comparison in comparisons.items():
            axis = figure.add_axes((0, 0, 1, 1), label=str(len(axes)))
            axis.set_axis_off()
            title = textwrap.wrap(level if isinstance(level, str) else level_title(level), TITLE_LETTERS)
            place = {"x": 0.01, "y": MARGIN, "va": "top", "transform": axis.get_yaxis_transform()}
            axis.text(s="\n".join(title), size=TEXT, weight="bold", label="title", **place)
            y = MARGIN + (LINE + 2) * len(title)
            if comparison.critical_difference != ruler:  # the same one is not drawn again
                ruler = comparison.critical_difference
                y = _draw_ruler(axis, n_ranks, ruler, y)
            y += LINE + TICK
            _draw_axis(axis, n_ranks, y)
            heights.append(_draw_methods(axis, n_ranks, comparison, highlight, y))
            axes.append(axis)
        _lay_out(figure, axes, heights, n_ranks, SIDE, SIDE)
        renderer = measuring_renderer(figure)
        texts = [text for axis in axes for text in axis.texts if text.get_label() != "title"]
        boxes = [text.get_window_extent(renderer) for text in texts]
        points = 72 / figure.dpi
        left = SIDE - points * min(box.x0 for box in boxes)
        right = points * max(box.x1 for box in boxes) - SIDE - AXIS
        _lay_out(figure, axes, heights, n_ranks, SLACK * left + MARGIN, SLACK * right + MARGIN)
    return figure, axes


def _lay_out(
    figure: Any, axes: Sequence[Any], heights: Sequence[float], n_ranks: int, left: float, right: float
) -> None:
    """Axes of these heights one below the other, with so much room on both sides of the axis."""
    total = sum(heights)
    figure.set_size_inches((left + AXIS + right) / 72, total / 72)
    for place, (axis, height) in enumerate(zip(axes, heights, strict=True)):
        axis.set_position((0, sum(heights[place + 1 :]) / total, 1, height / total))
        axis.set(xlim=(1 - ranks(left, n_ranks), n_ranks + ranks(right, n_ranks)), ylim=(height, 0))


def ranks(length: float, n_ranks: int) -> float:
    """How many ranks a length takes on the axis."""
    return length * max(n_ranks - 1, 1) / AXIS


def _draw_ruler(axes: Any, n_ranks: int, distance: float, y: float) -> float:
    """The critical difference, and what the axis counts; returns where they end."""
    y += LINE - 2
    axes.text(n_ranks, y, "mean rank, 1 = best", size=SMALL, alpha=MUTED, ha="right", label="explanation")
    axes.text(1, y, f"CD = {distance:.2f}", size=SMALL, label="explanation")
    # A ruler that is longer than the axis (few blocks) ends in an arrow.
    stop, cap = (1 + distance, "|") if 1 + distance <= n_ranks else (n_ranks, CARETRIGHT)
    axes.plot([1, stop], [y + 8, y + 8], color=INK, linewidth=1.4, solid_capstyle="butt", label="ruler")
    for x, marker in ((1, "|"), (stop, cap)):
        axes.plot([x], [y + 8], marker=marker, markersize=7, color=INK, markeredgewidth=1.4, label="cap")
    return y + 22


def _draw_axis(axes: Any, n_ranks: int, y: float) -> None:
    axes.plot([1, n_ranks], [y, y], color=INK, linewidth=1.2, solid_capstyle="projecting", label="axis")
    # Numbers stand where there is room, the first always.
    step = next(step for step in (1, 2, 5, 10, 20, 50, n_ranks) if step >= ranks(17, n_ranks) or step == n_ranks)
    for rank in range(1, n_ranks + 1):
        is_numbered = (rank - 1) % step == 0
        axes.plot([rank, rank], [y - TICK / (2 - is_numbered), y], color=INK, linewidth=1.0, label="tick")
        if is_numbered:
            axes.text(rank, y - TICK - 2, str(rank), size=SMALL, ha="center", label="tick")


def _draw_methods(axes: Any, n_ranks: int, comparison: Comparison, highlight: str | None, top: float) -> float:
    """Bars under the axis; of each method a point on it, a line to its mean rank and its name. Returns the height."""
    first = top + FIRST_BAR
    bar = {"color": PALETTE[1], "linewidth": BAR_WIDTH, "solid_capstyle": "butt", "zorder": 3, "label": "bar"}
    bars = make_bars(comparison.cliques, comparison.mean_ranks.tolist(), ranks(BAR_OVERHANG, n_ranks))
    for best, worst, level in bars:
        y = top + FIRST_BAR + BAR_STEP * level
        axes.plot([best, worst], [y, y], **bar)
        first = max(first, y + BAR_STEP)
    order = comparison.order()
    half = (len(order) + 1) // 2  # the better half on the left, outermost first: no two lines cross
    bottom, to_name = first, TO_RANK + DIGIT * len(f"{n_ranks:.2f}")
    for methods, outwards, border, side in ((order[:half], -1, 1, "right"), (order[half:][::-1], 1, n_ranks, "left")):
        below = first
        for method in methods:
            chosen = comparison.names[method] == highlight
            color, alpha, width, weight = (ACCENT, 1.0, 1.8, "bold") if chosen else (INK, MUTED, 1.0, "normal")
            # A line that shares its way with a coloured one must not cover it.
            above = 2.2 if chosen else 2
            name = textwrap.wrap(comparison.names[method], LETTERS)
            height = LINE * len(name) + BETWEEN_LABELS
            x, y = comparison.mean_ranks[method], below + height / 2
            end, rank_x, name_x = (border + outwards * ranks(far, n_ranks) for far in (TO_RANK - 4, TO_RANK, to_name))
            axes.plot([x, x, end], [top, y, y], color=color, alpha=alpha, linewidth=width, zorder=above, label="elbow")
            axes.plot([x], [top], marker="o", markersize=5, color=color, zorder=2 + above, label="method")
            where = {"ha": side, "va": "center_baseline"}
            axes.text(rank_x, y, f"{x:.2f}", size=SMALL, alpha=MUTED, label="rank", **where)
            axes.text(name_x, y, "\n".join(name), size=TEXT, color=color, weight=weight, label="name", **where)
            below += height
        bottom = max(bottom, below)
    return bottom + 2 * MARGIN


def make_bars(
    cliques: Sequence[Sequence[int]], mean_ranks: Sequence[float], reach: float
) -> list[tuple[float, float, int]]:
    """A bar for every clique: its begin, its end, and the first level under the axis where it touches no other."""
    bars: list[tuple[float, float, int]] = []
    spans = sorted((min(own), max(own)) for clique in cliques if len(own := [mean_ranks[i] for i in clique]) > 1)
    for best, worst in spans:
        first, last = best - reach, worst + reach
        taken = {level for start, stop, level in bars if first - reach <= stop and start <= last + reach}
        bars.append((first, last, next(level for level in range(len(bars) + 1) if level not in taken)))
    return bars
