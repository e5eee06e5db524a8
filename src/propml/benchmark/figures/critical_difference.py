"""Critical-difference diagrams (Demšar, JMLR 2006): mean ranks on an axis, bars over methods that do not differ.

The best rank, 1, is on the left, as one reads. Methods that a bar joins are not significantly different; bars that
would meet stand on levels below one another. A ruler shows the critical difference. Lengths are in points.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from propml.benchmark.figures import rank_layout as layout
from propml.benchmark.figures.rank_layout import Frame, GroupBar, Label
from propml.benchmark.figures.style import ACCENT, INK, MUTED, PALETTE, SMALL, TEXT, look
from propml.benchmark.statistics import Comparison
from propml.benchmark.wording import level_title
from propml.extras import require
from propml.noise import Noise

__all__ = ["RankRow", "critical_difference", "critical_difference_data", "critical_difference_stack"]

# Height that the ruler takes, and length of a tick.
RULER, TICK = 16.0, 4.0
CARETRIGHT = 5
BAR_COLOR = PALETTE[1]


class RankRow(NamedTuple):
    """One method of a diagram; methods with a letter in common are joined by a bar."""

    method: str
    mean_rank: float
    groups: str


def critical_difference_data(comparison: Comparison) -> list[RankRow]:
    """What the diagram shows, from the best to the worst."""
    ranks = [float(rank) for rank in comparison.mean_ranks]
    bars = layout.make_bars(comparison.cliques, ranks, points_per_rank=1.0)
    letters = [string.ascii_letters[n] if n < 52 else f"({n + 1})" for n in range(len(bars))]
    return [
        RankRow(
            comparison.names[i],
            ranks[i],
            "".join(letter for letter, bar in zip(letters, bars, strict=True) if i in bar.methods),
        )
        for i in comparison.order()
    ]


def critical_difference(
    comparison: Comparison, *, title: str = "", highlight: str | None = "ProPML"
) -> tuple[Any, Any]:
    """The diagram of one comparison, as large as it has to be, with ``highlight`` drawn in colour.

    Returns ``(figure, axes)``; ``x`` is the mean rank, and ``y`` counts points from the top.
    """
    with look():
        figure, (axes,) = _draw_stack([_Diagram(comparison, title, highlight)])
    return figure, axes


def critical_difference_stack(
    comparisons: Mapping[Noise | str | None, Comparison], *, highlight: str | None = "ProPML"
) -> tuple[Any, list[Any]]:
    """Diagrams one over the other with the same axis: the paper's figure over noise levels.

    Parameters
    ----------
    comparisons : mapping of noise level (or title) to Comparison

    Returns
    -------
    figure, list of axes
    """
    if not comparisons:
        raise ValueError("there is no comparison to draw; give at least one")
    with look():
        diagrams: list[_Diagram] = []
        ruler = None
        for key, comparison in comparisons.items():
            title = key if isinstance(key, str) else level_title(key)
            # The same ruler is not drawn again.
            same = bool(diagrams) and comparison.critical_difference == ruler
            diagrams.append(_Diagram(comparison, title, highlight, with_ruler=not same))
            ruler = comparison.critical_difference
        return _draw_stack(diagrams)


def _draw_stack(diagrams: Sequence[_Diagram]) -> tuple[Any, list[Any]]:
    """A figure of the size that the diagrams need, with axes from edge to edge, one over the other."""
    frame = layout.make_frame([diagram.sides for diagram in diagrams])
    heights = [diagram.height(frame) for diagram in diagrams]
    total = sum(heights)
    figure = require("matplotlib.figure", "report").Figure(figsize=(frame.width / 72, total / 72))
    below = [sum(heights[i + 1 :]) for i in range(len(heights))]
    axes = [figure.add_axes((0, b / total, 1, h / total)) for b, h in zip(below, heights, strict=True)]
    for diagram, axis in zip(diagrams, axes, strict=True):
        diagram.draw(axis, frame)
    return figure, axes


@dataclass(frozen=True)
class _Diagram:
    comparison: Comparison
    title: str
    highlight: str | None
    with_ruler: bool = True

    @property
    def ranks(self) -> list[float]:
        return [float(rank) for rank in self.comparison.mean_ranks]

    @property
    def sides(self) -> tuple[list[Label], list[Label]]:
        return layout.make_labels(self.comparison.names, self.ranks, self.highlight)

    def title_lines(self, frame: Frame) -> list[str]:
        letters = int((frame.width - 2 * layout.MARGIN) / layout.text_width("n", TEXT, "bold"))
        return layout.wrapped(self.title, letters).split("\n") if self.title else []

    def axis_y(self, frame: Frame) -> float:
        """How far the axis is below the top: under a title that does not fit beside it, a ruler, and numbers."""
        beside = self.title and layout.text_width(self.title, TEXT, "bold") <= frame.left - 2 * layout.MARGIN
        title = 0.0 if beside else (layout.LINE + 2) * len(self.title_lines(frame))
        explained = layout.LINE + 4 + RULER if self.with_ruler else 0.0
        return layout.MARGIN + title + explained + layout.LINE + TICK

    def bars(self, frame: Frame) -> list[GroupBar]:
        return layout.make_bars(self.comparison.cliques, self.ranks, frame.points_per_rank)

    def labels_y(self, frame: Frame) -> float:
        levels = max((bar.level + 1 for bar in self.bars(frame)), default=0)
        return self.axis_y(frame) + layout.FIRST_BAR + layout.BAR_STEP * levels

    def height(self, frame: Frame) -> float:
        tallest = max(sum(label.height for label in side) for side in self.sides)
        return self.labels_y(frame) + tallest + 2 * layout.MARGIN

    def draw(self, axes: Any, frame: Frame) -> None:
        per_rank = frame.points_per_rank
        axes.set_axis_off()
        axes.set(xlim=(1 - frame.left / per_rank, frame.n_ranks + frame.right / per_rank), ylim=(self.height(frame), 0))
        self._heading(axes, frame)
        self._axis(axes, frame)
        for bar in self.bars(frame):
            self._bar(axes, frame, bar)
        for side, outwards in zip(self.sides, (-1, 1), strict=True):
            y = self.labels_y(frame)
            for label in side:
                self._label(axes, frame, label, y + label.height / 2, outwards)
                y += label.height

    def _heading(self, axes: Any, frame: Frame) -> None:
        """Title, ruler and what the axis counts."""
        left = 1 - (frame.left - layout.MARGIN) / frame.points_per_rank
        for number, line in enumerate(self.title_lines(frame)):
            y = layout.MARGIN + (layout.LINE + 2) * number + 0.8 * TEXT
            axes.text(left, y, line, size=TEXT, weight="bold", label="title")
        if not self.with_ruler:
            return
        end, ruler = frame.n_ranks, self.comparison.critical_difference
        y = self.axis_y(frame) - TICK - layout.LINE - 6 - RULER
        axes.text(end, y, "mean rank, 1 = best", size=SMALL, alpha=MUTED, ha="right", label="explanation")
        axes.text(1, y, f"CD = {ruler:.2f}", size=SMALL, label="explanation")
        y += 8
        # A ruler that is longer than the axis (few blocks) ends in an arrow.
        stop, cap = (1 + ruler, "|") if 1 + ruler <= end else (end, CARETRIGHT)
        axes.plot([1, stop], [y, y], color=INK, linewidth=1.4, solid_capstyle="butt", label="ruler")
        for x, marker in ((1, "|"), (stop, cap)):
            axes.plot([x], [y], marker=marker, markersize=7, color=INK, markeredgewidth=1.4, label="cap")

    def _axis(self, axes: Any, frame: Frame) -> None:
        y = self.axis_y(frame)
        axes.plot([1, frame.n_ranks], [y, y], color=INK, linewidth=1.2, solid_capstyle="projecting", label="axis")
        numbered = layout.tick_ranks(frame)
        for rank in range(1, frame.n_ranks + 1):
            length = TICK if rank in numbered else TICK / 2
            axes.plot([rank, rank], [y - length, y], color=INK, linewidth=1.0, label="tick")
        for rank in numbered:
            axes.text(rank, y - TICK - 2, str(rank), size=SMALL, ha="center", label="tick")

    def _bar(self, axes: Any, frame: Frame, bar: GroupBar) -> None:
        y = self.axis_y(frame) + layout.FIRST_BAR + layout.BAR_STEP * bar.level
        style = {"color": BAR_COLOR, "solid_capstyle": "butt", "zorder": 3, "label": "bar"}
        axes.plot([bar.first, bar.last], [y, y], linewidth=layout.BAR_WIDTH, **style)

    def _label(self, axes: Any, frame: Frame, label: Label, y: float, outwards: int) -> None:
        """A point on the axis, a line down and outwards, the mean rank at its end and the name beside it."""
        chosen = self.comparison.names[label.method] == self.highlight
        color, alpha, width, weight = (ACCENT, 1.0, 1.8, "bold") if chosen else (INK, MUTED, 1.0, "normal")
        x, top, per_rank = self.ranks[label.method], self.axis_y(frame), frame.points_per_rank
        border, side = (frame.n_ranks, "left") if outwards > 0 else (1, "right")
        end, rank_x = (border + outwards * distance / per_rank for distance in (layout.GUTTER - 4, layout.GUTTER))
        name_x = rank_x + outwards * (label.rank_width + layout.NAME_TO_RANK) / per_rank
        # A line that shares its way with a coloured one must not cover it.
        order = 2.2 if chosen else 2
        axes.plot([x, x, end], [top, y, y], color=color, alpha=alpha, linewidth=width, zorder=order, label="elbow")
        axes.plot([x], [top], marker="o", markersize=5, color=color, zorder=2 + order, label="method")
        axes.text(rank_x, y + 0.36 * SMALL, label.rank, size=SMALL, alpha=MUTED, ha=side, label="rank")
        lines = label.name.split("\n")
        first = y + 0.36 * TEXT - layout.LINE * (len(lines) - 1) / 2
        for number, line in enumerate(lines):
            place = (name_x, first + layout.LINE * number)
            axes.text(*place, line, size=TEXT, color=color, weight=weight, ha=side, label="name")
