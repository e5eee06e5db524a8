"""What a report says, as plain data: every format is written from this, so that the numbers agree everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from propml import __version__
from propml.benchmark.figures import critical_difference_stack, curves
from propml.benchmark.reporting import findings
from propml.benchmark.reporting.findings import Finding
from propml.benchmark.reporting.tables import (
    MetricTable,
    PlainTable,
    cost_table,
    lam_table,
    metric_tables,
    order_settings,
)
from propml.benchmark.results import Results, load_results
from propml.benchmark.wording import cell_command, counted
from propml.metrics import METRICS
from propml.noise import Setting
from propml.paper.published import ORACLE_SUFFIX, TABULAR_METRICS, Mean, load_published, published_method, reading_notes

# Folds and seeds alone move a mean by about this much, in points of percent: the page shows what is beyond in bold.
TOLERANCE = 1.0


class Picture(NamedTuple):
    """A matplotlib figure with a name for links and files, a title, and sentences to stand below it."""

    name: str
    title: str
    figure: Any
    sentences: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """Everything about one experiment."""

    name: str
    title: str
    note: str  #: what the experiment's file says that a reader must know first; may be empty
    argument: str  #: what ``propml benchmark run`` is given for it: its name, or a file that a user has
    results: Results
    published: Sequence[Mean]  #: the paper's numbers that stand beside ours; may be empty
    tables: Sequence[MetricTable]
    ranks: Sequence[findings.RankComparison]
    tuned: frozenset[str]  #: methods that were tuned on test labels, as their settings or their names tell
    known_methods: frozenset[str]  #: those that were run, or that the experiment's file has

    @property
    def summary(self) -> list[Finding]:
        """What is best where, what is missing, and how numbers move with λ."""
        found = findings.summary(self.tables, len(self.results.failed), self.not_run)
        return [*found, *(Finding("Against λ", text) for text in curves.lambda_sentences(self.given_lams))]

    @cached_property
    def recommendation(self) -> str:
        """Which method to take; empty where there are no two to choose from."""
        return findings.recommendation(self.results.means(), self.tuned)

    @property
    def notes(self) -> list[str]:
        """What one must know to read the tables rightly."""
        compared = [table for table in self.tables if table.compared]
        return reading_notes(
            [method for table in self.tables for method in table.methods],
            {row.setting.dataset for table in compared for row in table.rows},
            self.tuned,
            compared=bool(compared),
            paper_rules=any(table.by_paper_rules for table in compared),
        )

    @property
    def costs(self) -> PlainTable:
        return cost_table(self.results.done, self.tables[0].methods if self.tables else ())

    @property
    def lams(self) -> PlainTable:
        """Which λ was chosen where; not those that were given."""
        given = [cell.settings.get("params", {}).get("lam") for cell in self.results.done]
        free = [cell for cell, lam in zip(self.results.done, given, strict=True) if not isinstance(lam, int | float)]
        return lam_table(free, beside_paper=bool(self.published))

    @cached_property
    def given_lams(self) -> list[Mean]:
        """What was measured with several λ that were given; empty where there is at most one."""
        return curves.lambda_means(self.results.done)

    @cached_property
    def not_run(self) -> list[tuple[Setting, str]]:
        """Published cells, by setting and method, that ours has neither a number nor a failure for."""
        ours = {(cell.setting, published_method(cell.method)) for cell in self.results.cells}
        cells = dict.fromkeys((row.setting, row.method) for row in self.published)
        order = order_settings(setting for setting, _ in cells)
        return sorted((cell for cell in cells if cell not in ours), key=lambda cell: order.index(cell[0]))

    def pictures(self) -> dict[str, list[Picture]]:
        """All that there is data for: mean ranks, the first metric against noise, metrics against λ."""
        drawn: dict[str, list[Picture]] = {"ranks": [], "curves": [], "lams": []}
        for each in self.ranks:
            if each.parts:
                figure, _ = critical_difference_stack(each.parts)
                drawn["ranks"].append(Picture(f"ranks-{each.name}", each.title, figure, each.sentences))
        sources = (("ours", "ours", self.results.means()), ("paper", "the paper's numbers", self.published))
        for first in findings.own_tables(self.tables)[:1]:
            for name, words, means in sources:
                if curves.noise_curve_data(means, first.metric):
                    figure, _ = curves.noise_curves(means, first.metric)
                    drawn["curves"].append(Picture(f"noise-{name}", f"{first.title} against noise, {words}", figure))
        if self.given_lams:
            # By our own conventions; the paper's figure has these five metrics, images have others.
            metrics = [name for name in METRICS if any(point.metric == name for point in self.given_lams)]
            shown = [name for name in metrics if name in TABULAR_METRICS] or metrics
            figure, _ = curves.lambda_metrics(self.given_lams, shown, published=None if self.published else {})
            sentences = curves.lambda_sentences(self.given_lams)
            drawn["lams"] = [Picture("lambda-metrics", "Metrics against λ", figure, sentences)]
        return drawn

    def command(self, setting: Setting, method: str) -> str:
        """What makes a number again; nothing for a method that only the paper has."""
        return cell_command(self.argument, setting, method) if method in self.known_methods else ""


@dataclass(frozen=True)
class Report:
    """A report on one or more experiments."""

    title: str
    lead: str
    sections: Sequence[Section]
    runs: Sequence[Mapping[str, Any]]  #: those that brought the results
    version: str  #: of the package that made it
    command: str  #: what makes it again


def build_report(
    source: str | Path | Results,
    *,
    experiments: Sequence[str] | None = None,
    paper: str | None = None,
    title: str = "",
    command: str = "",
) -> Report:
    """The report on a results folder or what stands in one; arguments as in :func:`propml.benchmark.report`."""
    results = source if isinstance(source, Results) else load_results(source)
    known = list(dict.fromkeys(cell.experiment for cell in results.cells))
    missing = [name for name in experiments or () if name not in known]
    if missing or not known:
        held = f"results of {', '.join(known)}" if known else "no results yet; `propml benchmark run` makes some"
        wanted = f"there are no results of {missing[0]!r}: " if missing else ""
        raise ValueError(f"{wanted}the folder holds {held}")
    published = [] if paper == "none" else load_published(paper)
    sections = tuple(
        _section(name, results.of(name), [row for row in published if paper or row.experiment == name])
        for name in experiments or known
    )
    cells = {(each.name, *cell.setting, cell.method, cell.seed) for each in sections for cell in each.results.done}
    failed = sum(len(section.results.failed) for section in sections)
    lead = f"{counted(len(cells), 'cell')} measured (dataset × noise × method × seed), {failed or 'none'} failed"
    beside = ", beside the numbers that the paper printed" if any(section.published for section in sections) else ""
    return Report(
        title or (sections[0].title if len(sections) == 1 else "Benchmark report"),
        f"{lead}{beside}. Everything is in percent.",
        sections,
        results.runs,
        __version__,
        command,
    )


def _section(name: str, results: Results, published: Sequence[Mean]) -> Section:
    from propml.benchmark.experiment import load_experiment  # whoever reads results needs no torch

    # The file may be gone: each run keeps what it said.
    runs = [run for run in results.runs if run.get("experiment") == name]
    title, note = (runs[-1]["title"], runs[-1]["note"]) if runs else (name, "")
    argument = f"{name}.toml"
    planned: list[str] = []
    with suppress(ValueError, OSError):  # a user's own, whose file may be anywhere
        experiment = load_experiment(name)
        title, note, argument = experiment.title, experiment.note, name
        planned = [entry.name for entry in experiment.methods]
    # Methods in the order of the experiment's file: results come in the order in which workers were done.
    place = {method: number for number, method in enumerate(planned)}
    cells = sorted(results.cells, key=lambda cell: place.get(cell.method, len(place)))
    results = Results(cells, results.runs)
    tuned = frozenset(
        cell.method
        for cell in results.done
        if cell.settings.get("selection") == "oracle" or cell.method.endswith(ORACLE_SUFFIX)
    )
    failures = {(cell.setting, cell.method): cell.failure.reason for cell in cells if cell.failure}
    return Section(
        *(name, title, note, argument, results, published),
        tables=metric_tables(results.means(), published, failures, tuned),
        ranks=findings.rank_comparisons(results.means(), published, tuned),
        tuned=tuned,
        known_methods=frozenset({*planned, *(cell.method for cell in cells)}),
    )
