"""The report as one HTML file, figures included: no network, for a phone and a large screen, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from math import isnan
from typing import Any

from propml.benchmark import wording
from propml.benchmark.figures.critical_difference import critical_difference_stack
from propml.benchmark.figures.curves import lambda_metrics, lambda_sentences, noise_curve_data, noise_curves
from propml.benchmark.figures.style import svg_text
from propml.benchmark.reporting.findings import TOLERANCE, RankComparison
from propml.benchmark.reporting.model import RECOMMENDED, Report, Section
from propml.extras import require
from propml.metrics import METRICS
from propml.noise import KINDS, Noise
from propml.output import page_style
from propml.paper.metric_names import TABULAR_METRICS


def render_html(report: Report) -> str:
    """The page; everything that comes from data is escaped."""
    jinja2 = require("jinja2", "report")
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= {name: value for name, value in vars(wording).items() if callable(value)}
    environment.globals |= {"sort_key": sort_key, "tolerance": TOLERANCE, "recommended": RECOMMENDED}
    # A number is not parted from its sign of percent at the end of a line.
    environment.filters["tight"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    Markup = require("markupsafe", "report").Markup
    return environment.from_string(_file("report.html")).render(
        report=report,
        css=Markup(page_style(_file("report.css"))),
        js=Markup(_file("report.js")),
        figures=[_drawn(section, f"f{number}") for number, section in enumerate(report.sections, start=1)],
    )


def _drawn(section: Section, prefix: str) -> dict[str, list[Any]]:
    """The pictures of a section, each with its drawing, and what is to be said of all the diagrams of one metric."""
    Markup = require("markupsafe", "report").Markup
    pictures = draw(section)
    drawn: dict[str, list[Any]] = {
        name: [(each, Markup(svg_text(each.figure, f"{prefix}-{each.name}", title=each.title))) for each in group]
        for name, group in pictures.items()
    }
    said = [picture.warnings for picture in pictures["single"]]
    shared = [sentence for sentence in said[0] if all(sentence in each for each in said)] if len(said) > 1 else []
    return {**drawn, "shared": shared}


def sort_key(value: Any) -> str:
    """What a column is sorted by; nothing for what is missing, which comes last. Kinds of noise stand in their order.

    >>> sort_key(1.5), sort_key("Ridge"), sort_key(None), sort_key(float("nan")), sort_key(Noise("svm", 0.5))
    ('1.5', 'Ridge', '', '', '50.0')
    """
    if isinstance(value, Noise):
        return repr(1e6 * list(KINDS).index(value.kind) * value.named + value.amount)
    if isinstance(value, int | float):
        return "" if isnan(value) else repr(float(value))
    return "" if value is None else str(value)


def _file(name: str) -> str:
    return (resources.files("propml.benchmark.reporting") / "page" / name).read_text(encoding="utf-8")


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure with a name for links and files, a title, and sentences to stand below it."""

    name: str
    title: str
    figure: Any
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def draw(section: Section) -> dict[str, list[Picture]]:
    """Everything that there is data for: mean ranks over all metrics and by one each, curves against noise and λ."""
    return {
        "together": _ranks([each for each in section.ranks if not each.single]),
        "single": _ranks([each for each in section.ranks if each.single]),
        "curves": _noise(section),
        "lams": _lams(section),
    }


def _ranks(comparisons: Sequence[RankComparison]) -> list[Picture]:
    return [
        Picture(
            f"ranks-{each.name}", each.title, critical_difference_stack(each.parts)[0], each.sentences, each.warnings
        )
        for each in comparisons
        if each.parts
    ]


def _noise(section: Section) -> list[Picture]:
    """The first metric against noise: ours, and the paper's."""
    if not section.tables:
        return []
    first = section.own_tables[0]
    sources = {"ours": ("ours", section.results.means()), "paper": ("the paper's numbers", section.published)}
    return [
        Picture(f"noise-{name}", f"{first.title} against noise, {words}", noise_curves(means, first.metric)[0])
        for name, (words, means) in sources.items()
        if noise_curve_data(means, first.metric)
    ]


def _lams(section: Section) -> list[Picture]:
    """How much the scores depend on λ, where it was given."""
    if not section.given_lams:
        return []
    # By our own conventions; the paper's figure has these five metrics, images have others.
    measured = {point.metric for point in section.given_lams}
    metrics = [name for name in METRICS if name in measured]
    drawn = [name for name in metrics if name in TABULAR_METRICS] or metrics
    figure, _ = lambda_metrics(section.given_lams, drawn, published=None if section.published else {})
    return [Picture("lambda-metrics", "Metrics against λ", figure, tuple(lambda_sentences(section.given_lams)))]
