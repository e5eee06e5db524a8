"""Figures as files, and as SVG that stands inside a page: the same bytes for the same figure."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from propml.benchmark.figures.style import INK, look
from propml.durable import write_whole

# Nothing about the day or the machine goes into a file.
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
PNG_DPI = 200
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
REFERENCE = re.compile(r"url\(#([^)]+)\)")
FONT_FAMILY = re.compile(r"font-family: [^;]+")


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
    does not grow, and all its ids start with ``prefix``: several figures stand in one page without a clash.

    Parameters
    ----------
    prefix : str
        A letter, then letters, digits, ``-`` or ``_``; another one for each figure of a page.
    title : str
        What the figure shows, for those who hear the page.
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
            value = FONT_FAMILY.sub("font-family: inherit", value.replace(INK, "currentColor"))
        element.set(name, REFERENCE.sub(rf"url(#{prefix}-\1)", value))


def _rendered(figure: Any, kind: str, *, transparent: bool) -> bytes:
    buffer = io.BytesIO()
    with look():
        figure.savefig(buffer, format=kind, dpi=PNG_DPI, transparent=transparent, metadata=METADATA[kind])
    return buffer.getvalue()
