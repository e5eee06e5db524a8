"""What a report says, as plain data: every format is written from this, so that the numbers agree everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from propml import __version__
from propml.benchmark.figures.critical_difference import critical_difference_stack
from propml.benchmark.figures.curves import (
    lambda_means,
    lambda_metrics,
    lambda_sentences,
    noise_curve_data,
    noise_curves,
)
from propml.benchmark.reporting.findings import (
    Finding,
    RankComparison,
    own_tables,
    rank_comparisons,
    recommendation,
    summary,
)
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

# The topic of the first finding.
RECOMMENDED = "Recommendation"


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
    ranks: Sequence[RankComparison]
    tuned: frozenset[str]  #: methods that were tuned on test labels, as their settings or their names tell
    known_methods: frozenset[str]  #: those that were run, or that the experiment's file has

    @property
    def summary(self) -> list[Finding]:
        """What to use, what was measured, what is best where, and how that compares with the paper."""
        use = [Finding(RECOMMENDED, self.recommendation)] if self.recommendation else []
        findings = summary(self.tables, len(self.results.failed), self.not_run)
        return [*use, *findings, *(Finding("Against λ", text) for text in lambda_sentences(self.given_lams))]

    @cached_property
    def recommendation(self) -> str:
        """Which method to take; empty where there are no two to choose from."""
        return recommendation(self.results.means(), self.tuned)

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
    def own_tables(self) -> list[MetricTable]:
        return own_tables(self.tables)

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
        return lambda_means(self.results.done)

    @cached_property
    def not_run(self) -> list[tuple[Setting, str]]:
        """Published cells, by setting and method, that ours has neither a number nor a failure for."""
        ours = {(cell.setting, published_method(cell.method)) for cell in self.results.cells}
        cells = dict.fromkeys((row.setting, row.method) for row in self.published)
        order = order_settings(setting for setting, _ in cells)
        return sorted((cell for cell in cells if cell not in ours), key=lambda cell: order.index(cell[0]))

    def pictures(self) -> dict[str, list[Picture]]:
        """All that there is data for: mean ranks, the first metric against noise, metrics against λ."""
        ranks = [
            Picture(f"ranks-{each.name}", each.title, critical_difference_stack(each.parts)[0], each.sentences)
            for each in self.ranks
            if each.parts
        ]
        curves = []
        for first in self.own_tables[:1]:
            sources = {"ours": ("ours", self.results.means()), "paper": ("the paper's numbers", self.published)}
            curves = [
                Picture(f"noise-{name}", f"{first.title} against noise, {words}", noise_curves(means, first.metric)[0])
                for name, (words, means) in sources.items()
                if noise_curve_data(means, first.metric)
            ]
        lams = []
        if self.given_lams:
            # By our own conventions; the paper's figure has these five metrics, images have others.
            metrics = [name for name in METRICS if any(point.metric == name for point in self.given_lams)]
            drawn = [name for name in metrics if name in TABULAR_METRICS] or metrics
            figure, _ = lambda_metrics(self.given_lams, drawn, published=None if self.published else {})
            lams = [Picture("lambda-metrics", "Metrics against λ", figure, lambda_sentences(self.given_lams))]
        return {"ranks": ranks, "curves": curves, "lams": lams}

    def command(self, setting: Setting, method: str) -> str:
        """What makes a number again; nothing for a method that only the paper has."""
        return cell_command(self.argument, setting, method) if method in self.known_methods else ""


@dataclass(frozen=True)
class Report:
    """A report on one or more experiments, with the runs that brought the results and the command that makes it again.

    ``version`` is that of the package that made it.
    """

    title: str
    lead: str
    sections: Sequence[Section]
    runs: Sequence[Mapping[str, Any]]
    version: str
    command: str


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
    return Report(
        title=title or (sections[0].title if len(sections) == 1 else "Benchmark report"),
        lead=_lead(sections),
        sections=sections,
        runs=results.runs,
        version=__version__,
        command=command,
    )


def _section(name: str, results: Results, published: Sequence[Mean]) -> Section:
    from propml.benchmark.experiment import load_experiment  # whoever reads results needs no torch

    try:
        experiment = load_experiment(name)
    except (ValueError, OSError):  # a user's own, whose file may be anywhere
        experiment = None
    planned = [entry.name for entry in experiment.methods] if experiment else []
    # Methods in the order of the experiment's file: results come in the order in which workers were done.
    place = {method: number for number, method in enumerate(planned)}
    cells = sorted(results.cells, key=lambda cell: place.get(cell.method, len(place)))
    results = Results(cells, results.runs)
    done = results.done
    by_name = {cell.method for cell in done if cell.method.endswith(ORACLE_SUFFIX)}
    tuned = frozenset(by_name | {cell.method for cell in done if cell.settings.get("selection") == "oracle"})
    failures = {(cell.setting, cell.method): cell.failure.reason for cell in cells if cell.failure}
    # The file may be gone: each run keeps what it said.
    runs = [run for run in results.runs if run.get("experiment") == name]
    title, note = (runs[-1]["title"], runs[-1]["note"]) if runs else (name, "")
    return Section(
        name=name,
        title=experiment.title if experiment else title,
        note=experiment.note if experiment else note,
        argument=name if experiment else f"{name}.toml",
        results=results,
        published=published,
        tables=metric_tables(results.means(), published, failures, tuned),
        ranks=rank_comparisons(results.means(), published, tuned),
        tuned=tuned,
        known_methods=frozenset({*planned, *(cell.method for cell in cells)}),
    )


def _lead(sections: Sequence[Section]) -> str:
    cells = {(s.name, *cell.setting, cell.method, cell.seed) for s in sections for cell in s.results.done}
    failed = sum(len(section.results.failed) for section in sections)
    beside = any(section.published for section in sections)
    text = f"{counted(len(cells), 'cell')} measured (dataset × noise × method × seed), {failed or 'none'} failed"
    return f"{text}{', beside the numbers that the paper printed' if beside else ''}. Everything is in percent."
