"""Critical-difference diagrams (Demšar, JMLR 2006): mean ranks on an axis, bars over methods that do not differ.

The best rank, 1, is on the left, as one reads. Methods that a bar joins are not significantly different; bars that
would meet stand on levels below one another. A ruler shows the critical difference. Lengths are in points.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from propml.benchmark.figures.style import ACCENT, INK, MUTED, PALETTE, RC, SMALL, TEXT, WIDTH, look
from propml.benchmark.statistics import Comparison
from propml.benchmark.wording import level_title
from propml.extras import require
from propml.noise import Noise

# Letters of a label in one line, and the shortest axis.
LETTERS, SHORTEST_AXIS = 16, 170.0
LINE = 1.2 * TEXT
BETWEEN_LABELS = 4.0
MARGIN = 4.0
# From the end of the axis to the labels.
GUTTER = 12.0
NAME_TO_RANK = 4.0
# The bars: how far they reach beyond their outermost methods, and how far one level is below the other.
BAR_OVERHANG, BAR_STEP, BAR_WIDTH, FIRST_BAR = 3.0, 8.0, 4.0, 10.0
# Viewers set text a little wider or narrower than it was measured.
SLACK = 1.04
# Height that the ruler takes, and length of a tick.
RULER, TICK = 16.0, 4.0
CARETRIGHT = 5
BAR_COLOR = PALETTE[1]


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
    with look():
        sides = [make_labels(each.names, each.mean_ranks.tolist(), highlight) for each in comparisons.values()]
        frame = make_frame(sides)
        figure = require("matplotlib.figure", "report").Figure()
        axes: list[Any] = []
        heights: list[float] = []
        ruler = 0.0
        for (level, comparison), labels in zip(comparisons.items(), sides, strict=True):
            axis = figure.add_axes((0, 0, 1, 1), label=str(len(axes)))
            axis.set_axis_off()
            has_ruler = comparison.critical_difference != ruler  # the same one is not drawn again
            ruler = comparison.critical_difference
            title = level if isinstance(level, str) else level_title(level)
            axis_y = _draw_heading(axis, frame, title, ruler if has_ruler else None)
            _draw_axis(axis, frame, axis_y)
            labels_y = _draw_bars(axis, frame, comparison, axis_y)
            axes.append(axis)
            heights.append(_draw_labels(axis, frame, comparison, labels, highlight, (axis_y, labels_y)))
        total = sum(heights)
        figure.set_size_inches(frame.width / 72, total / 72)
        reach = (1 - frame.left / frame.points_per_rank, frame.n_ranks + frame.right / frame.points_per_rank)
        for place, (axis, height) in enumerate(zip(axes, heights, strict=True)):
            axis.set_position((0, sum(heights[place + 1 :]) / total, 1, height / total))
            axis.set(xlim=reach, ylim=(height, 0))
    return figure, axes


def _draw_heading(axes: Any, frame: Frame, title: str, ruler: float | None) -> float:
    """Title, ruler and what the axis counts; returns where the axis is, below them and its numbers."""
    letters = int((frame.width - 2 * MARGIN) / text_width("n", TEXT, "bold"))
    lines = wrapped(title, letters).split("\n") if title else []
    left = 1 - (frame.left - MARGIN) / frame.points_per_rank
    for number, line in enumerate(lines):
        axes.text(left, MARGIN + (LINE + 2) * number + 0.8 * TEXT, line, size=TEXT, weight="bold", label="title")
    # A title that fits beside the axis takes no height.
    beside = text_width(title, TEXT, "bold") <= frame.left - 2 * MARGIN
    y = MARGIN + (0.0 if beside else (LINE + 2) * len(lines))
    if ruler is not None:
        y += LINE - 2
        end = frame.n_ranks
        axes.text(end, y, "mean rank, 1 = best", size=SMALL, alpha=MUTED, ha="right", label="explanation")
        axes.text(1, y, f"CD = {ruler:.2f}", size=SMALL, label="explanation")
        # A ruler that is longer than the axis (few blocks) ends in an arrow.
        stop, cap = (1 + ruler, "|") if 1 + ruler <= end else (end, CARETRIGHT)
        axes.plot([1, stop], [y + 8, y + 8], color=INK, linewidth=1.4, solid_capstyle="butt", label="ruler")
        for x, marker in ((1, "|"), (stop, cap)):
            axes.plot([x], [y + 8], marker=marker, markersize=7, color=INK, markeredgewidth=1.4, label="cap")
        y += 6 + RULER
    return y + LINE + TICK


def _draw_axis(axes: Any, frame: Frame, y: float) -> None:
    axes.plot([1, frame.n_ranks], [y, y], color=INK, linewidth=1.2, solid_capstyle="projecting", label="axis")
    numbered = tick_ranks(frame)
    for rank in range(1, frame.n_ranks + 1):
        length = TICK if rank in numbered else TICK / 2
        axes.plot([rank, rank], [y - length, y], color=INK, linewidth=1.0, label="tick")
    for rank in numbered:
        axes.text(rank, y - TICK - 2, str(rank), size=SMALL, ha="center", label="tick")


def _draw_bars(axes: Any, frame: Frame, comparison: Comparison, axis_y: float) -> float:
    """The bars of groups, under the axis; returns where the labels may begin."""
    bars = make_bars(comparison.cliques, comparison.mean_ranks.tolist(), frame.points_per_rank)
    style = {"color": BAR_COLOR, "solid_capstyle": "butt", "zorder": 3, "label": "bar"}
    for bar in bars:
        y = axis_y + FIRST_BAR + BAR_STEP * bar.level
        axes.plot([bar.first, bar.last], [y, y], linewidth=BAR_WIDTH, **style)
    return axis_y + FIRST_BAR + BAR_STEP * max((bar.level + 1 for bar in bars), default=0)


def _draw_labels(
    axes: Any,
    frame: Frame,
    comparison: Comparison,
    sides: tuple[list[Label], list[Label]],
    highlight: str | None,
    between: tuple[float, float],
) -> float:
    """Of each method a point on the axis, a line down and outwards, its mean rank and its name; returns the height.

    ``between`` are the heights of the axis and of the first label.
    """
    top, per_rank = between[0], frame.points_per_rank
    for labels, outwards, border, side in zip(sides, (-1, 1), (1, frame.n_ranks), ("right", "left"), strict=True):
        below = between[1]
        for label in labels:
            chosen = comparison.names[label.method] == highlight
            color, alpha, width, weight = (ACCENT, 1.0, 1.8, "bold") if chosen else (INK, MUTED, 1.0, "normal")
            # A line that shares its way with a coloured one must not cover it.
            order = 2.2 if chosen else 2
            x, y = comparison.mean_ranks[label.method], below + label.height / 2
            end, rank_x = (border + outwards * distance / per_rank for distance in (GUTTER - 4, GUTTER))
            axes.plot([x, x, end], [top, y, y], color=color, alpha=alpha, linewidth=width, zorder=order, label="elbow")
            axes.plot([x], [top], marker="o", markersize=5, color=color, zorder=2 + order, label="method")
            axes.text(rank_x, y + 0.36 * SMALL, label.rank, size=SMALL, alpha=MUTED, ha=side, label="rank")
            name_x = rank_x + outwards * (label.rank_width + NAME_TO_RANK) / per_rank
            lines = label.name.split("\n")
            first = y + 0.36 * TEXT - LINE * (len(lines) - 1) / 2
            for number, line in enumerate(lines):
                place = (name_x, first + LINE * number)
                axes.text(*place, line, size=TEXT, color=color, weight=weight, ha=side, label="name")
            below += label.height
    return between[1] + max(sum(label.height for label in labels) for labels in sides) + 2 * MARGIN


# -- where everything goes, in points ---------------------------------------------------------------------------------


class Label(NamedTuple):
    """A method's name, broken into lines, beside its mean rank."""

    method: int
    name: str
    rank: str
    rank_width: float
    width: float  #: of both
    height: float


class GroupBar(NamedTuple):
    """A bar that joins methods which do not differ significantly; level 0 is next to the axis."""

    first: float
    last: float
    level: int


@dataclass(frozen=True)
class Frame:
    """What diagrams one over the other share: the axis from rank 1 to ``n_ranks`` and the width of labels."""

    n_ranks: int
    left: float
    right: float
    axis: float

    @property
    def width(self) -> float:
        return self.left + self.axis + self.right

    @property
    def points_per_rank(self) -> float:
        return self.axis / max(self.n_ranks - 1, 1)


@cache
def text_width(text: str, size: float, weight: str = "normal") -> float:
    """The width of the widest line, in points."""
    fonts = require("matplotlib.font_manager", "report").FontProperties(
        family=RC["font.family"], size=size, weight=weight
    )
    measure = require("matplotlib.textpath", "report").TextToPath().get_text_width_height_descent
    return SLACK * max(float(measure(line, fonts, ismath=False)[0]) if line else 0.0 for line in text.split("\n"))


def wrapped(text: str, letters: int = LETTERS) -> str:
    """The text in as few lines as it takes, all about as long, broken inside a word only if it must be."""
    lines, longest = textwrap.wrap(text, letters), max(map(len, text.split()), default=letters)
    # Narrower as long as that costs no line and breaks no word.
    while (letters := letters - 1) >= longest and len(narrower := textwrap.wrap(text, letters)) == len(lines):
        lines = narrower
    return "\n".join(lines)


def make_labels(
    names: Sequence[str], ranks: Sequence[float], bold: str | None = None
) -> tuple[list[Label], list[Label]]:
    """Labels of the left side (the better half) and of the right side, the outermost first: so no two lines cross."""
    labels = []
    # The names of a side begin at one place, however many digits the ranks have.
    rank_width = max(text_width(f"{rank:.2f}", SMALL) for rank in ranks)
    for method in sorted(range(len(names)), key=lambda i: ranks[i]):
        weight = "bold" if names[method] == bold else "normal"
        name, rank = wrapped(names[method]), f"{ranks[method]:.2f}"
        width = text_width(name, TEXT, weight) + NAME_TO_RANK + rank_width
        labels.append(Label(method, name, rank, rank_width, width, LINE * (1 + name.count("\n")) + BETWEEN_LABELS))
    half = (len(labels) + 1) // 2
    return labels[:half], labels[half:][::-1]


def make_frame(sides: Sequence[tuple[list[Label], list[Label]]]) -> Frame:
    """The frame in which all these diagrams have room."""
    left, right = (
        max((label.width for pair in sides for label in pair[side]), default=0.0) + GUTTER + MARGIN for side in (0, 1)
    )
    n_ranks = max(len(pair[0]) + len(pair[1]) for pair in sides)
    return Frame(n_ranks, left, right, max(72 * WIDTH - left - right, SHORTEST_AXIS))


def make_bars(cliques: Sequence[Sequence[int]], ranks: Sequence[float], points_per_rank: float) -> list[GroupBar]:
    """A bar for every clique of two and more, on the first level where it touches no other bar."""
    reach = BAR_OVERHANG / points_per_rank
    bars: list[GroupBar] = []
    spans = sorted((min(own), max(own)) for clique in cliques if len(own := [ranks[i] for i in clique]) > 1)
    for best, worst in spans:
        first, last = best - reach, worst + reach
        taken = {bar.level for bar in bars if first - reach <= bar.last and bar.first <= last + reach}
        bars.append(GroupBar(first, last, next(level for level in range(len(bars) + 1) if level not in taken)))
    return bars


def tick_ranks(frame: Frame) -> list[int]:
    """The whole ranks that get a number: all of them where there is room, always the first."""
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100) if s * frame.points_per_rank >= 17 or s == 100)
    return [1, *(rank for rank in range(2, frame.n_ranks + 1) if (rank - 1 if step == 2 else rank) % step == 0)]
