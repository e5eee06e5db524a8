"""The look of every figure: one palette for light and dark pages, sizes that survive a phone, names as one reads them.

Data are drawn in mid-tones that stand out on white and on near-black alike; everything else is drawn in :data:`INK`,
which :func:`propml.benchmark.figures.saving.svg_text` hands over to the page. So one drawing serves both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from propml.benchmark.metric_names import METRIC_NAMES, metric_of
from propml.extras import require

INK = "#1c2430"
# Ink that steps back: grids and elbows, second-rank text.
FAINT, MUTED = 0.16, 0.68
ACCENT = "#d55e00"
# Each has a contrast of 3 : 1 and more to white and to #12161d, and no two look alike to a colour-blind eye.
PALETTE = (ACCENT, "#1c64b6", "#0da876", "#a24be0", "#77758b", "#9d5033", "#b58b46", "#3d8ec5", "#ec469f", "#8b5913")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*", "d", "8")
# From small to large, for an order such as λ or noise.
ORDERED = ("#2f8fd8", "#4d7fc0", "#7a6bb5", "#a85a9a", "#c8506c", "#d55e00")
# Methods that the paper names look the same in every figure.
KNOWN = ("ProPML", "PML-NI", "CPLST", "ML-kNN", "PAR-MAP", "PAR-VLS", "CDCR", "Query2Label", "ASL", "BCE", "fPML")

# Points; a figure of WIDTH inches shown 340 pixels wide still has letters of 9 pixels.
TEXT, SMALL = 10.0, 9.0
WIDTH = 4.8

RC: dict[str, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": SMALL,
    "axes.titlesize": TEXT,
    "axes.titlelocation": "left",
    "axes.labelsize": SMALL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.4,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "white",
    "figure.dpi": 100,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "axes.unicode_minus": True,
    # A dollar sign in a name is a dollar sign.
    "text.parse_math": False,
    # Letters stay letters, to be searched and read aloud. Fonts of pages are narrower than DejaVu: all that fits, fits.
    "svg.fonttype": "none",
    "svg.hashsalt": "propml",
    "pdf.fonttype": 42,
}


@contextmanager
def look() -> Iterator[None]:
    """Draw with this look whatever the user's own settings are; those are back afterwards."""
    with require("matplotlib.style", "report").context(["default", RC]):
        yield


class Look(NamedTuple):
    """How one method is drawn: by colour and by shape, so that neither alone has to be told apart."""

    color: str
    marker: str


def method_looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for every name: those of the paper have their own, the others get what is left, in their order.

    >>> method_looks(["Ridge", "ProPML"])["ProPML"].color == ACCENT
    True
    """
    unique = list(dict.fromkeys(names))
    slots = {name: KNOWN.index(name) for name in unique if name in KNOWN}
    free = iter(sorted(set(range(len(unique) + len(KNOWN))) - set(slots.values())))
    for name in unique:
        if name not in slots:
            slots[name] = next(free)
    # The first colour is not given twice.
    colors = PALETTE + PALETTE[1:] * (len(unique) // (len(PALETTE) - 1) + 1)
    return {name: Look(colors[slots[name]], MARKERS[slots[name] % len(MARKERS)]) for name in unique}


def ordered_colors(n: int) -> list[str]:
    """``n`` colours from the small end to the large end."""
    colors = require("matplotlib.colors", "report")
    scale = colors.LinearSegmentedColormap.from_list("ordered", ORDERED)
    return [colors.to_hex(scale(i / max(n - 1, 1))) for i in range(n)]


def metric_title(metric: str) -> str:
    """A metric's name with an arrow to where it is better.

    >>> metric_title("one_error")
    'One-error (%) ↓'
    """
    if metric not in METRIC_NAMES:
        return metric
    title, higher = metric_of(metric)
    return f"{title} (%) {'↑' if higher else '↓'}"


class Panels(NamedTuple):
    """A figure with axes in rows; ``spare`` is an empty place after the last of them, or None."""

    figure: Any
    axes: list[Any]
    spare: Any


def panels(n: int, columns: int = 2, *, heading: str = "", xlabel: str = "", height: float = 1.9) -> Panels:
    """A figure with ``n`` axes in rows of ``columns``, two of which are readable side by side on a phone."""
    if n < 1:
        raise ValueError("there is nothing to draw; give at least one row of data")
    columns = min(n, columns)
    rows = -(-n // columns)
    width = max(WIDTH, WIDTH / 2 * columns)
    above = 0.25 if heading else 0.0
    size = (width, above + 0.2 + rows * height * (1.2 if columns == 1 else 1.0))
    figure = require("matplotlib.figure", "report").Figure(figsize=size, layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in grid[n:]:
        spare.set_axis_off()
    for number, axis in enumerate(grid[:n]):
        axis.grid(axis="y", color=INK, alpha=FAINT, linewidth=0.6)
        axis.tick_params(length=3)
        if number + columns >= n:
            axis.set_xlabel(xlabel)
    if heading:
        figure.suptitle(heading, x=0.012, ha="left", size=TEXT, weight="bold")
    return Panels(figure, grid[:n], grid[n] if len(grid) > n else None)


def add_legend(place: Panels, handles: Sequence[Any]) -> None:
    """One legend for all panels: in a spare place if it fits in there, else under them, where the figure grows."""
    if not handles:
        return
    figure, _, spare = place
    renderer = measuring_renderer(figure)
    width, height = figure.get_size_inches()
    if spare is not None:
        legend = spare.legend(handles=list(handles), loc="center left", labelspacing=0.4)
        # The panels keep their size whatever the legend's.
        legend.set_in_layout(False)
        box = legend.get_window_extent(renderer)
        if box.width <= 0.45 * WIDTH * figure.dpi and box.height <= 1.7 * figure.dpi:
            return
        legend.remove()
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(handles=list(handles), loc="outside lower left", ncols=columns, borderaxespad=0.2)
        box = legend.get_window_extent(renderer)
        if box.width <= 0.98 * width * figure.dpi or columns == 1:
            break
        legend.remove()
    figure.set_size_inches(width, height + box.height / figure.dpi)


def measuring_renderer(figure: Any) -> Any:
    """A renderer that says how large text will be; the figure gets a canvas that can draw it."""
    return require("matplotlib.backends.backend_agg", "report").FigureCanvasAgg(figure).get_renderer()


def legend_line(title: str, *, color: str, marker: str = "", line: str = "-") -> Any:
    """An entry of a legend."""
    return require("matplotlib.lines", "report").Line2D(
        [], [], color=color, marker=marker, linestyle=line, label=title, markersize=6
    )
