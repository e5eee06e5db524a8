"""Where everything in a critical-difference diagram goes, in points: pure geometry, with nothing drawn yet."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from propml.benchmark.figures.style import RC, SMALL, TEXT, WIDTH
from propml.extras import require

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


@dataclass(frozen=True)
class Label:
    """A method's name, broken into lines, beside its mean rank."""

    method: int
    name: str
    rank: str
    name_width: float
    rank_width: float

    @property
    def width(self) -> float:
        return self.name_width + NAME_TO_RANK + self.rank_width

    @property
    def height(self) -> float:
        return LINE * (1 + self.name.count("\n")) + BETWEEN_LABELS


@dataclass(frozen=True)
class GroupBar:
    """A bar that joins methods which do not differ significantly; level 0 is next to the axis."""

    methods: tuple[int, ...]
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
    """The text in as few lines as it takes, all about as long, broken inside a word only if it must be.

    >>> wrapped("ProPML with λ chosen on candidates").split("\\n")
    ['ProPML with', 'λ chosen on', 'candidates']
    """
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
        labels.append(Label(method, name, rank, text_width(name, TEXT, weight), rank_width))
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
    for clique in sorted((tuple(c) for c in cliques if len(c) > 1), key=lambda c: min(ranks[i] for i in c)):
        members = tuple(sorted(clique, key=lambda i: ranks[i]))
        first, last = ranks[members[0]] - reach, ranks[members[-1]] + reach
        taken = {bar.level for bar in bars if first - reach <= bar.last and bar.first <= last + reach}
        bars.append(GroupBar(members, first, last, next(level for level in range(len(bars) + 1) if level not in taken)))
    return bars


def tick_ranks(frame: Frame) -> list[int]:
    """The whole ranks that get a number: all of them where there is room, always the first."""
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100) if s * frame.points_per_rank >= 17 or s == 100)
    return [1, *(rank for rank in range(2, frame.n_ranks + 1) if (rank - 1 if step == 2 else rank) % step == 0)]
