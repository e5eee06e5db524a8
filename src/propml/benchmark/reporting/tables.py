"""The tables of a report: one per metric, with the paper beside ours; λ, costs, failures and runs as small ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

from propml.benchmark.results import CellResult
from propml.benchmark.wording import dataset_title, memory, noise_title, seconds
from propml.datasets import REGISTRY
from propml.metrics import METRICS
from propml.noise import Setting, noise_order
from propml.paper.published import (
    ORACLE_SUFFIX,
    PAPER_SUFFIX,
    Mean,
    metric_of,
    own_name,
    published_lams,
    published_method,
)

Mark = Literal["", "best", "second"]
ByPlace = Mapping[tuple[Setting, str], Mean]
# What the failed methods said.
Failures = Mapping[tuple[Setting, str], str]


@dataclass(frozen=True)
class TableCell:
    """One number of ours and its published counterpart, and which of them are bold; what a failed method said."""

    method: str
    ours: Mean | None
    published: Mean | None
    ours_mark: Mark = ""
    published_mark: Mark = ""
    message: str | None = None

    @property
    def state(self) -> Literal["measured", "failed", "not run"]:
        if self.ours:
            return "measured"
        return "not run" if self.message is None else "failed"

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, of the two numbers as they are printed, so that a reader finds the same."""
        if self.ours is None or self.published is None:
            return None
        difference = round(round(self.ours.mean, 2) - round(self.published.mean, 2), 2)
        return None if isnan(difference) else difference


class TableRow(NamedTuple):
    """One dataset at one noise level."""

    setting: Setting
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class MetricTable:
    """All numbers of one metric."""

    metric: str  #: as ours are recorded: with ":paper" where they follow the paper's conventions
    methods: tuple[str, ...]
    rows: tuple[TableRow, ...]
    compared: bool  #: whether published numbers stand beside ours
    secondary: bool = False  #: whether another table shows the same metric by the paper's conventions, beside the paper

    @property
    def title(self) -> str:
        return metric_of(own_name(self.metric)).title

    @property
    def higher_is_better(self) -> bool:
        return metric_of(self.metric).higher_is_better

    @property
    def by_paper_rules(self) -> bool:
        """Whether ours follow the paper's conventions, coding slips included."""
        return self.metric.endswith(PAPER_SUFFIX)

    @cached_property
    def best(self) -> dict[Setting, tuple[str, ...]]:
        """Who is best in each setting; ties share a place."""
        best = {row.setting: tuple(cell.method for cell in row.cells if cell.ours_mark == "best") for row in self.rows}
        return {setting: names for setting, names in best.items() if names}

    def gain(self, cell: TableCell) -> float | None:
        """By how many points ours is better than the paper's: positive is better, whatever the metric."""
        if cell.difference is None:
            return None
        return cell.difference if self.higher_is_better else -cell.difference


def metric_tables(
    means: Sequence[Mean], published: Sequence[Mean], failures: Failures, tuned: Collection[str] = ()
) -> list[MetricTable]:
    """The tables of one experiment; methods in ``tuned`` saw test labels, and take no part in bold.

    A metric with published numbers has a table beside the paper, from values under the paper's conventions where those
    were recorded; ours under our own conventions then make a second table.
    """
    recorded = list(dict.fromkeys(row.metric for row in means))
    methods = order_methods([*(row.method for row in means), *(method for _, method in failures)], published)
    tables = []
    for base in dict.fromkeys([*METRICS, *map(own_name, recorded)]):
        paper = {(row.setting, row.method): row for row in published if row.metric == base}
        names = [name for name in (base + PAPER_SUFFIX, base) if name in recorded]
        if not paper:
            names = names[-1:]  # the paper's conventions serve the comparison only
        for place, name in enumerate(names):
            ours = {(row.setting, row.method): row for row in means if row.metric == name}
            table = _table(name, ours, {} if place else paper, methods, failures, tuned)
            tables.append(replace(table, secondary=place > 0))
    return tables


def _table(
    metric: str, ours: ByPlace, paper: ByPlace, methods: Sequence[str], failures: Failures, tuned: Collection[str]
) -> MetricTable:
    named = {published_method(method) for method in methods}
    columns = [*methods, *dict.fromkeys(method for _, method in paper if method not in named)]
    higher = metric_of(metric).higher_is_better
    rows = []
    for setting in order_settings(setting for setting, _ in (*ours, *failures, *paper)):
        fair = {name: row.mean for (at, name), row in ours.items() if at == setting and name not in tuned}
        printed = {name: row.mean for (at, name), row in paper.items() if at == setting}
        bold, printed_bold = (marks(values, higher_is_better=higher) for values in (fair, printed))
        cells = [
            TableCell(
                method,
                ours.get((setting, method)),
                paper.get((setting, published)),
                bold.get(method, ""),
                printed_bold.get(published, ""),
                failures.get((setting, method)),
            )
            for method, published in zip(columns, map(published_method, columns), strict=True)
        ]
        rows.append(TableRow(setting, tuple(cells)))
    return MetricTable(metric, tuple(columns), tuple(rows), compared=bool(paper))


def marks(values: Mapping[str, float], *, higher_is_better: bool) -> dict[str, Mark]:
    """The paper's rule: the best number of a row bold, the second best bold italic, equal printed numbers alike."""
    printed = {name: round(value, 2) for name, value in values.items() if not isnan(value)}
    if len(printed) < 2:
        return {}
    best, *others = sorted(set(printed.values()), reverse=higher_is_better)
    marked: dict[str, Mark] = {name: "best" for name, value in printed.items() if value == best}
    if others:
        marked |= {name: "second" for name, value in printed.items() if value == others[0]}
    return marked


def order_methods(methods: Iterable[str], published: Iterable[Mean]) -> list[str]:
    """Those of the paper first and in its order, each followed by its variant tuned on test labels; then the others."""
    given = list(dict.fromkeys(methods))
    paper = list(dict.fromkeys(row.method for row in published))
    first = [method for name in paper for method in given if published_method(method) == name]
    first.sort(key=lambda method: (paper.index(published_method(method)), method.endswith(ORACLE_SUFFIX)))
    return first + [method for method in given if method not in first]


def order_settings(settings: Iterable[Setting]) -> list[Setting]:
    """Datasets in the order of the registry, a user's own after them; noise upwards."""
    given = dict.fromkeys(settings)
    names = list(dict.fromkeys([*REGISTRY, *(setting.dataset for setting in given)]))
    return sorted(given, key=lambda setting: (names.index(setting.dataset), noise_order(setting.noise)))


# -- small tables, of values and their columns: Markdown and the page print the same ----------------------------------


class Column(NamedTuple):
    """A column: its head, how its values are written, and how the page shows them."""

    head: str
    written: Callable[[Any], str] = str
    look: str = ""  #: a class of the page: "text" and "wrap" stand left; numbers have none
    is_code: bool = False

    def text(self, value: Any) -> str:
        """A value as it is printed; nothing where there is none."""
        return "" if value is None else self.written(value)


class Folded(NamedTuple):
    """A text with more to it, which the page folds away under a summary."""

    text: str
    summary: str
    more: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class PlainTable:
    """Columns, rows of values, and what a reader must know; a table without rows is false."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    legend: str = ""

    def __bool__(self) -> bool:
        return bool(self.rows)


def words(head: str, written: Callable[[Any], str] = str) -> Column:
    """A column of words."""
    return Column(head, written, "text")


def lam_table(cells: Sequence[CellResult], *, beside_paper: bool) -> PlainTable:
    """The λ that methods chose, one line per setting and method: median and range over folds and seeds."""
    values: dict[tuple[Setting, str], list[float]] = {}
    for cell in cells:
        for fold in cell.folds:
            for part, lam in _lam_parts(fold.chosen.get("lam")).items():
                values.setdefault((cell.setting, f"{cell.method} {part}".rstrip()), []).append(lam)
    paper = published_lams() if beside_paper else {}
    order = order_settings(setting for setting, _ in values)
    rows = [
        (*setting, method, median(lams), min(lams), max(lams), len(lams), paper.get(setting))
        for (setting, method), lams in sorted(values.items(), key=lambda item: order.index(item[0][0]))
    ]
    digits = "{:.3g}".format
    columns = [words("Dataset", dataset_title), Column("Noise", noise_title), words("Method")]
    columns += [*(Column(head, digits) for head in ("Median", "Least", "Most")), Column("Values")]
    columns.append(Column("Paper", "{:g}".format))
    legend = "Median and range over folds and seeds."
    legend += " The paper's λ was chosen on test labels." if paper else ""
    # Without the columns that have no value at all, such as the noise of real candidates.
    kept = [place for place in range(len(columns)) if any(row[place] is not None for row in rows)]
    return PlainTable([columns[place] for place in kept], [[row[place] for place in kept] for row in rows], legend)


def _lam_parts(lam: Any) -> dict[str, float]:
    """One λ, or one of each part of a mixture; that of its network needs no name."""
    parts = lam if isinstance(lam, Mapping) else {"": lam}
    return {
        "" if part == "network" else str(part): float(value)
        for part, value in parts.items()
        if isinstance(value, int | float)
    }


def cost_table(cells: Sequence[CellResult], methods: Sequence[str]) -> PlainTable:
    """Seconds and memory, one line per method and device, in the order of ``methods``."""
    groups: dict[tuple[str, str], list[CellResult]] = {}
    for cell in cells:
        groups.setdefault((cell.method, cell.device), []).append(cell)
    order = list(dict.fromkeys([*methods, *(method for method, _ in groups)]))
    datasets = list(dict.fromkeys(setting.dataset for setting in order_settings(cell.setting for cell in cells)))
    rows = []
    for method, device in sorted(groups, key=lambda key: (order.index(key[0]), key[1])):
        own = groups[method, device]
        fits = {name: [cell.seconds_fit for cell in own if cell.dataset == name] for name in datasets}
        fit, predict = (sum(getattr(cell, name) for cell in own) for name in ("seconds_fit", "seconds_predict"))
        means = (fmean(some) if some else None for some in fits.values())
        rows.append((method, device, len(own), fit, predict, max(cell.peak_bytes for cell in own), *means))
    columns = [words("Method"), words("Device"), Column("Cells"), Column("Fit", seconds), Column("Predict", seconds)]
    columns += [Column("Peak", memory), *(Column(dataset_title(name), seconds) for name in datasets)]
    legend = (
        "Fit and predict: all cells together. Peak: the most memory of any cell's process. By dataset: mean time to "
        "fit all folds of a cell."
    )
    return PlainTable(columns, rows, legend)


def failure_table(cells: Sequence[CellResult]) -> PlainTable:
    """What the cells that failed said."""
    columns = [words("Dataset", dataset_title), Column("Noise", noise_title), words("Method"), Column("Seed")]
    columns += [Column("What it said", look="wrap")]
    rows = [
        (cell.dataset, cell.noise, cell.method, cell.seed, Folded(cell.failure.reason, "Trace", cell.failure.trace))
        for cell in cells
        if cell.failure
    ]
    return PlainTable(columns, rows)


def run_table(runs: Sequence[Mapping[str, Any]]) -> PlainTable:
    """The runs that brought the results; all that was recorded of a run is folded away."""
    heads = ("Started (UTC)", "propml", "Commit", "Device")
    columns = [*map(words, heads), Column("Command", look="wrap", is_code=True)]
    rows = []
    for run in runs:
        commit = f"{(run.get('commit') or '')[:10]}{' (changed)' if run.get('dirty') else ''}"
        facts = {**run, **run.get("packages", {}), "packages": None}
        told = [f"{name.replace('_', ' ')}: {value}" for name, value in facts.items() if value not in (None, "")]
        command = Folded(str(run.get("command", "")), "Everything that was recorded", "\n".join(told))
        rows.append((run.get("started", ""), run.get("propml", ""), commit, run.get("device", ""), command))
    return PlainTable(columns, rows)
