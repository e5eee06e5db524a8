"""The report as one HTML file: no network, no second file, for a phone and for a large screen, light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from math import isnan
from typing import Any

from propml.benchmark import wording
from propml.benchmark.figures.style import svg_text
from propml.benchmark.reporting.findings import TOLERANCE
from propml.benchmark.reporting.model import Report, Section
from propml.benchmark.reporting.pictures import Picture, draw
from propml.extras import require
from propml.noise import KINDS, Noise


def render_html(report: Report) -> str:
    """The page; everything that comes from data is escaped."""
    jinja2 = require("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= {name: getattr(wording, name) for name in wording.__all__}
    environment.globals |= {"flat": flat_facts, "sort_key": sort_key, "tolerance": TOLERANCE}
    # A number is not parted from its sign of percent at the end of a line.
    environment.filters["tight"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    Markup = require("markupsafe", "report").Markup
    return environment.get_template("report.html").render(
        report=report,
        css=Markup(_file("report.css")),
        js=Markup(_file("report.js")),
        figures=[_drawn(section, f"f{number}") for number, section in enumerate(report.sections, start=1)],
    )


def _drawn(section: Section, prefix: str) -> dict[str, list[Any]]:
    """The pictures of a section, each with its drawing, and what is to be said of several of them."""
    Markup = require("markupsafe", "report").Markup
    pictures = draw(section)

    def with_svg(picture: Picture) -> tuple[Picture, Any]:
        return picture, Markup(svg_text(picture.figure, f"{prefix}-{picture.name}", title=picture.title))

    groups = {name: [with_svg(picture) for picture in group] for name, group in pictures._asdict().items()}
    return {**groups, "shared": pictures.shared_warnings()}


def flat_facts(facts: Mapping[str, Any]) -> dict[str, str]:
    """Nested facts on one level, without the empty ones.

    >>> flat_facts({"propml": "1.0", "packages": {"numpy": "2.1"}, "commit": None})
    {'propml': '1.0', 'numpy': '2.1'}
    """
    flat: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            flat |= flat_facts(value)
        elif value is not None and value != "":
            flat[name.replace("_", " ")] = str(value)
    return flat


def sort_key(value: float | Noise | None) -> str:
    """What a column is sorted by; nothing for what is missing, which comes last. Kinds of noise stand in their order.

    >>> sort_key(1.5), sort_key(None), sort_key(float("nan")), sort_key(Noise("svm", 0.5))
    ('1.5', '', '', '50.0')
    """
    if isinstance(value, Noise):
        return repr(1e6 * list(KINDS).index(value.kind) * value.named + value.amount)
    return "" if value is None or isnan(value) else repr(float(value))


def _file(name: str) -> str:
    return (resources.files("propml.benchmark.reporting") / "page" / name).read_text(encoding="utf-8")
