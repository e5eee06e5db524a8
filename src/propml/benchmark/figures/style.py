"""The look of every figure, and figures as files and as SVG that stands inside a page.

Data are drawn in mid-tones that stand out on white and on near-black alike; everything else is drawn in :data:`INK`,
which :func:`svg_text` hands over to the page. So one drawing serves light and dark pages. The same figure always gives
the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from propml.atomic_files import write_whole
from propml.extras import require
from propml.paper.published import METRIC_NAMES, metric_of

INK = "#1c2430"
# Ink that steps back: grids and elbows, second-rank text.
FAINT, MUTED = 0.16, 0.68
ACCENT = "#d55e00"
# Each has a contrast of 3 : 1 and more to white and to #12161d, and no two look alike to a colour-blind eye.
PALETTE = (ACCENT, "#1c64b6", "#0da876", "#a24be0", "#77758b", "#9d5033", "#b58b46", "#3d8ec5", "#ec469f", "#8b5913")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*", "d", "8")
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
    **dict.fromkeys(("axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL),
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.4,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "axes.edgecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
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

# Nothing about the day or the machine goes into a file.
METADATA: dict[str, dict[str, None]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {"Software": None},
}
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def look() -> Any:
    """A block that draws with this look whatever the user's own settings are; those are back afterwards."""
    return require("matplotlib.style", "report").context(["default", RC])


class Look(NamedTuple):
    """How one method is drawn: colour and shape both tell methods apart."""

    color: str
    marker: str


def method_looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for every name: those of the paper have their own, the others get what is left, in their order."""
    unique = list(dict.fromkeys(names))
    taken = {KNOWN.index(name) for name in unique if name in KNOWN}
    free = iter(sorted(set(range(len(unique) + len(KNOWN))) - taken))
    slots = {name: KNOWN.index(name) if name in KNOWN else next(free) for name in unique}
    # The first colour is not given twice.
    colors = PALETTE + PALETTE[1:] * (len(unique) // (len(PALETTE) - 1) + 1)
    return {name: Look(colors[slots[name]], MARKERS[slots[name] % len(MARKERS)]) for name in unique}


def metric_title(metric: str) -> str:
    """A metric's name with an arrow to where it is better."""
    if metric not in METRIC_NAMES:
        return metric
    title, higher = metric_of(metric)
    return f"{title} (%) {'↑' if higher else '↓'}"


def panels(n: int, columns: int = 2, *, heading: str = "", xlabel: str = "") -> tuple[Any, list[Any]]:
    """A figure with ``n`` axes in rows of ``columns``, two of which are readable side by side on a phone."""
    if n < 1:
        raise ValueError("there is nothing to draw; give at least one row of data")
    columns = min(n, columns)
    rows = -(-n // columns)
    width = max(WIDTH, WIDTH / 2 * columns)
    above = 0.25 if heading else 0.0
    size = (width, above + 0.2 + rows * 1.9 * (1.2 if columns == 1 else 1.0))
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
    return figure, grid[:n]


def add_legend(figure: Any, handles: Sequence[Any]) -> None:
    """One legend for all panels, under them, in as few rows as it takes; the figure grows by its height."""
    if not handles:
        return
    renderer = measuring_renderer(figure)
    width, height = figure.get_size_inches()
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
    look = {"color": color, "marker": marker, "linestyle": line, "markersize": 6}
    return require("matplotlib.lines", "report").Line2D([], [], label=title, **look)


def save(figure: Any, path: str | Path) -> Path:
    """Write a figure, whole or not at all, as SVG, PNG or PDF by the ending of ``path``.

    The background is white. Letters stay letters in SVG, and fonts are embedded in PDF.
    """
    path = Path(path)
    kind = path.suffix.lower().lstrip(".")
    if kind not in METADATA:
        raise ValueError(f"{path.name} does not end in a kind of picture; use .svg, .png or .pdf")
    write_whole(path, _rendered(figure, kind, transparent=False))
    return path


def svg_text(figure: Any, prefix: str, *, title: str = "") -> str:
    """The ``<svg>`` element of a figure, to be put into an HTML page as it is.

    It has no background, takes the page's font and text colour (so it follows a dark page), shrinks with the page but
    does not grow, and all its ids start with ``prefix``, another one for each figure of a page. ``title`` is what the
    figure shows, for screen readers.
    """
    if not re.fullmatch(r"[A-Za-z][\w-]*", prefix, re.ASCII):
        raise ValueError(f"the prefix {prefix!r} cannot start an id; use a letter, then letters, digits, - or _")
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(_rendered(figure, "svg", transparent=True))
    for element in root.iter():
        _adopt(element, prefix)
    _, _, width, _ = root.attrib["viewBox"].split()
    root.attrib.pop("height")
    # viewBox counts points; 4/3 pixels are one.
    root.attrib.update({"id": prefix, "width": f"{float(width) * 4 / 3:.0f}", "style": "max-width:100%;height:auto"})
    root.attrib.update({"role": "img", "aria-label": title} if title else {"aria-hidden": "true"})
    return ElementTree.tostring(root, encoding="unicode")


def _adopt(element: Any, prefix: str) -> None:
    """Make one element at home in a page: its ids, its colours, its font, and no rule for anything outside."""
    if element.tag == f"{{{SVG}}}style":
        element.text = f"#{prefix} *{{stroke-linejoin:round;stroke-linecap:butt}}"
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if "id" in element.attrib:
        element.set("id", f"{prefix}-{element.get('id')}")
    for name, value in element.attrib.items():
        if name == f"{{{XLINK}}}href" and value.startswith("#"):
            value = f"#{prefix}-{value[1:]}"
        elif name == "style":
            value = re.sub(r"font-family: [^;]+", "font-family: inherit", value.replace(INK, "currentColor"))
        element.set(name, value.replace("url(#", f"url(#{prefix}-"))


def _rendered(figure: Any, kind: str, *, transparent: bool) -> bytes:
    buffer = io.BytesIO()
    with look():
        figure.savefig(buffer, format=kind, dpi=200, transparent=transparent, metadata=METADATA[kind])
    return buffer.getvalue()
