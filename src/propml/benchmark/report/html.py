"""The report as one HTML file: no network, no second file, for a phone and for a large screen, light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from math import isnan
from typing import Any, NamedTuple

from propml.benchmark import titles
from propml.benchmark.figures.saving import svg_text
from propml.benchmark.noise_levels import noise_order
from propml.benchmark.report import wording
from propml.benchmark.report.model import Report, Section
from propml.benchmark.report.pictures import Picture, draw
from propml.benchmark.report.reproduce import run_command
from propml.benchmark.report.summary import TOLERANCE
from propml.extras import require


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
    environment.globals |= {name: getattr(module, name) for module in (titles, wording) for name in module.__all__}
    environment.globals |= {
        "run_command": run_command,
        "flat": flat_facts,
        "sort_key": sort_key,
        "tolerance": TOLERANCE,
    }
    # A number is not parted from its sign of percent at the end of a line.
    environment.filters["tight"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    Markup = require("markupsafe", "report").Markup
    return environment.get_template("report.html").render(
        report=report,
        css=Markup(_file("report.css")),
        js=Markup(_file("report.js")),
        figures=[_drawn(section, f"f{number}") for number, section in enumerate(report.sections, start=1)],
    )


class _Drawn(NamedTuple):
    """The pictures of a section, each with its drawing, and what is to be said of several of them."""

    together: list[tuple[Picture, Any]]
    single: list[tuple[Picture, Any]]
    curves: list[tuple[Picture, Any]]
    shared: list[str]


def _drawn(section: Section, prefix: str) -> _Drawn:
    Markup = require("markupsafe", "report").Markup
    pictures = draw(section)

    def with_svg(group: list[Picture]) -> list[tuple[Picture, Any]]:
        return [(made, Markup(svg_text(made.figure, f"{prefix}-{made.name}", title=made.title))) for made in group]

    shared = pictures.shared_warnings()
    return _Drawn(with_svg(pictures.together), with_svg(pictures.single), with_svg(pictures.curves), shared)


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


def sort_key(value: float | str | None) -> str:
    """What a column is sorted by; nothing for what is missing, which comes last. Kinds of noise stand in their order.

    >>> sort_key(1.5), sort_key(None), sort_key(float("nan")), sort_key("svm 50")
    ('1.5', '', '', '50.0')
    """
    if isinstance(value, str):
        kind, level = noise_order(value)
        return repr(1e6 * kind + level)
    return "" if value is None or isnan(value) else repr(float(value))


def _file(name: str) -> str:
    return (resources.files("propml.benchmark.report") / "page" / name).read_text(encoding="utf-8")
