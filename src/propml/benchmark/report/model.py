"""What a report says, as plain data: every format is written from this, so that the numbers agree everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml import __version__
from propml.benchmark.published import Published, load_published
from propml.benchmark.report.costs import MethodCost, method_costs
from propml.benchmark.report.lams import ChosenLam, chosen_lams
from propml.benchmark.report.measured import Measured, gather
from propml.benchmark.report.ranks import RankComparison, rank_comparisons
from propml.benchmark.report.reproduce import cell_command
from propml.benchmark.report.summary import Agreement, Finding, Winners, agreements, notes, own_tables, summary, winners
from propml.benchmark.report.tables import Failures, MetricTable, metric_tables, order_settings
from propml.benchmark.report.wording import counted, published_method
from propml.benchmark.results import Result, Setting

if TYPE_CHECKING:
    from propml.benchmark.experiment import Experiment
    from propml.benchmark.store import Chosen, Failure, ResultStore


@dataclass(frozen=True)
class Section:
    """Everything about one experiment.

    Attributes
    ----------
    name, title : str
    note : str
        What the experiment's file says that a reader must know first; may be empty.
    argument : str
        What ``propml benchmark run`` is given for it: its name, or a file that a user has.
    summary : tuple of Finding
        Sentences: what was measured, what is best where, and how that compares with the paper.
    notes : tuple of str
        What one must know to read the tables rightly.
    tables : tuple of MetricTable
    winners : tuple of Winners
        Who is best where, one per metric.
    agreements : tuple of Agreement
        Method by method beside the paper; empty without published numbers.
    ranks : tuple of RankComparison
    costs : tuple of MethodCost
    failures : tuple of Failure
    not_run : tuple of (Setting, str)
        Published cells, by setting and method, that ours has no number for.
    lams : tuple of ChosenLam
        Which λ was chosen where.
    known_methods : frozenset of str
        Those that were run, or that the experiment's file has.
    corruption : str or None
        What made the candidates, which says what a noise level counts; None where that is not known.
    results, published, chosen
        What curves are drawn from.
    """

    name: str
    title: str
    note: str
    argument: str
    summary: tuple[Finding, ...]
    notes: tuple[str, ...]
    tables: tuple[MetricTable, ...]
    winners: tuple[Winners, ...]
    agreements: tuple[Agreement, ...]
    ranks: tuple[RankComparison, ...]
    costs: tuple[MethodCost, ...]
    failures: tuple[Failure, ...]
    not_run: tuple[tuple[Setting, str], ...]
    lams: tuple[ChosenLam, ...]
    known_methods: frozenset[str]
    corruption: str | None
    results: tuple[Result, ...]
    published: tuple[Published, ...]
    chosen: tuple[Chosen, ...]

    @property
    def settings(self) -> list[Setting]:
        """The rows of the tables: datasets and noise levels that were measured or published."""
        return order_settings(row.setting for table in self.tables for row in table.rows)

    @property
    def won_settings(self) -> list[Setting]:
        """The settings in which some method is best."""
        return [setting for setting in self.settings if any(setting in won.best for won in self.winners)]

    @property
    def cost_datasets(self) -> list[str]:
        """The datasets that costs are known of."""
        return list(dict.fromkeys(name for cost in self.costs for name in cost.by_dataset))

    def command(self, setting: Setting, method: str) -> str:
        """What makes a number again; nothing for a method that only the paper has."""
        return cell_command(self.argument, setting, method) if method in self.known_methods else ""

    def not_run_by_methods(self) -> dict[tuple[str, ...], list[Setting]]:
        """The same gaps in fewer words: settings that lack the same methods together."""
        methods: dict[Setting, list[str]] = {}
        for setting, method in self.not_run:
            methods.setdefault(setting, []).append(method)
        groups: dict[tuple[str, ...], list[Setting]] = {}
        for setting, names in methods.items():
            groups.setdefault(tuple(names), []).append(setting)
        return groups


@dataclass(frozen=True)
class Report:
    """A report on one or more experiments.

    Attributes
    ----------
    title, lead : str
    sections : tuple of Section
    runs : tuple of mapping
        The runs that brought the results: versions, commit, device.
    version : str
        Of the package that made the report.
    command : str
        What makes the report again.
    """

    title: str
    lead: str
    sections: tuple[Section, ...]
    runs: tuple[Mapping[str, Any], ...]
    version: str
    command: str


def build_report(
    source: str | Path | ResultStore | Measured | Iterable[Result],
    *,
    experiments: Sequence[str] | None = None,
    paper: str | None = None,
    title: str = "",
    command: str = "",
) -> Report:
    """Make the report of what was measured.

    Parameters
    ----------
    source : path, ResultStore, Measured or iterable of Result
        A results folder, or what stands in one.
    experiments : sequence of str, optional
        Which experiments to report on; by default all.
    paper : str, optional
        The published experiment to stand beside ours, or ``"none"``; by default the one of the same name, if there is
        one.
    title : str
    command : str
        What the reader types to make the report again.
    """
    measured = gather(source)
    known = measured.experiments()
    missing = [name for name in experiments or () if name not in known]
    if missing or not known:
        found = f"results of {', '.join(known)}" if known else "no results yet; `propml benchmark run` makes some"
        wanted = f"there are no results of {missing[0]!r}: " if missing else ""
        raise ValueError(f"{wanted}the folder holds {found}")
    sections = tuple(_section(name, measured.of(name), _published(name, paper)) for name in experiments or known)
    return Report(
        title=title or (sections[0].title if len(sections) == 1 else "Benchmark report"),
        lead=_lead(sections),
        sections=sections,
        runs=tuple(measured.provenance),
        version=__version__,
        command=command,
    )


def _published(experiment: str, paper: str | None) -> list[Published]:
    if paper == "none":
        return []
    if paper is not None:
        return load_published(paper)
    return [row for row in load_published() if row.experiment == experiment]


def _section(name: str, measured: Measured, published: Sequence[Published]) -> Section:
    failures: Failures = {(Setting(f.dataset, f.noise), f.method): f.reason for f in measured.failures}
    experiment = _experiment(name)
    measured = replace(measured, results=_in_order(measured.results, experiment))
    tuned, corruption = measured.tuned(), measured.corruption()
    tables = metric_tables(measured.results, published, failures, tuned, corruption)
    ranks = rank_comparisons(measured.results, published, tuned, corruption)
    not_run = _not_run(measured, published)
    chosen = [row for row in measured.chosen if row.method not in measured.fixed_lams()]
    title, note = (experiment.title, experiment.note) if experiment else measured.title_and_note(name)
    return Section(
        name=name,
        title=title,
        note=note,
        argument=name if experiment else f"{name}.toml",
        summary=tuple(summary(tables, ranks, len(measured.failures), not_run)),
        notes=tuple(notes(tables, tuned)),
        tables=tuple(tables),
        winners=tuple(winners(table) for table in own_tables(tables)),
        agreements=tuple(agreements(tables)),
        ranks=tuple(ranks),
        costs=tuple(method_costs(measured.timings, tables[0].methods if tables else ())),
        failures=tuple(measured.failures),
        not_run=tuple(not_run),
        lams=tuple(chosen_lams(chosen, beside_paper=bool(published))),
        known_methods=_known_methods(measured, experiment),
        corruption=corruption,
        results=tuple(measured.results),
        published=tuple(published),
        chosen=tuple(measured.chosen),
    )


def _not_run(measured: Measured, published: Sequence[Published]) -> list[tuple[Setting, str]]:
    """Published cells without a number or a failure of ours, whatever their metric."""
    ours = {(setting, published_method(method)) for setting, method in measured.cells()}
    cells = dict.fromkeys((Setting(row.dataset, row.noise), row.method) for row in published)
    order = order_settings(setting for setting, _ in cells)
    return sorted((cell for cell in cells if cell not in ours), key=lambda cell: order.index(cell[0]))


def _experiment(name: str) -> Experiment | None:
    """The experiment's file, where there is one of that name."""
    from propml.benchmark.experiment import load_experiment

    try:
        return load_experiment(name)
    except (ValueError, OSError):
        return None


def _known_methods(measured: Measured, experiment: Experiment | None) -> frozenset[str]:
    planned = {entry.name for entry in experiment.methods} if experiment else set()
    return frozenset(planned | {method for _, method in measured.cells()})


def _in_order(results: Sequence[Result], experiment: Experiment | None) -> list[Result]:
    """Methods in the order of the experiment's file: results come in the order in which workers were done."""
    order = {method.name: place for place, method in enumerate(experiment.methods)} if experiment else {}
    return sorted(results, key=lambda row: order.get(row.method, len(order)))


def _lead(sections: Sequence[Section]) -> str:
    cells = {(s.name, row.dataset, row.noise, row.method, row.seed) for s in sections for row in s.results}
    failed = sum(len(section.failures) for section in sections)
    beside = any(section.published for section in sections)
    said = f"{counted(len(cells), 'cell')} measured (dataset × noise × method × seed), {failed or 'none'} failed"
    return f"{said}{', beside the numbers that the paper printed' if beside else ''}. Everything is in percent."
