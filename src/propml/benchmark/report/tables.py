"""The tables of a report, one per metric: a row per setting, a column per method, the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Literal

from propml.benchmark.metric_names import PAPER_SUFFIX, metric_of
from propml.benchmark.noise_levels import noise_order
from propml.benchmark.published import Published
from propml.benchmark.report.wording import ORACLE_SUFFIX, published_method
from propml.benchmark.results import Result, Setting, Summary, summarise
from propml.datasets import REGISTRY
from propml.metrics import METRICS

Mark = Literal["", "best", "second"]
State = Literal["measured", "failed", "not run"]
Failures = Mapping[tuple[Setting, str], str]


@dataclass(frozen=True)
class TableCell:
    """One number of ours and its published counterpart, in percent.

    Attributes
    ----------
    ours, published : Summary or None
        What was measured, and what the paper prints (with ``n`` = 0: it does not say of how many values).
    ours_mark, published_mark : {"", "best", "second"}
        The paper prints the best number of a row in bold and the second best in bold italic.
    state : {"measured", "failed", "not run"}
    message : str
        What a failed method said.
    """

    method: str
    ours: Summary | None
    published: Summary | None
    ours_mark: Mark = ""
    published_mark: Mark = ""
    state: State = "measured"
    message: str = ""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, of the two numbers as they are printed, so that a reader finds the same."""
        if self.ours is None or self.published is None:
            return None
        difference = round(round(self.ours.mean, 2) - round(self.published.mean, 2), 2)
        return None if isnan(difference) else difference


@dataclass(frozen=True)
class TableRow:
    """One dataset at one noise level."""

    setting: Setting
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class MetricTable:
    """All numbers of one metric.

    Attributes
    ----------
    metric : str
        The name under which ours are recorded: with ``":paper"`` where they follow the paper's conventions.
    compared : bool
        Whether published numbers stand beside ours.
    secondary : bool
        Whether another table shows the same metric by the paper's conventions, beside the paper.
    corruption : str or None
        What the noise levels are levels of, where that is known.
    """

    metric: str
    compared: bool
    methods: tuple[str, ...]
    rows: tuple[TableRow, ...]
    secondary: bool = False
    corruption: str | None = None

    @property
    def title(self) -> str:
        return metric_of(self.metric.removesuffix(PAPER_SUFFIX)).title

    @property
    def higher_is_better(self) -> bool:
        return metric_of(self.metric).higher_is_better

    @property
    def by_paper_rules(self) -> bool:
        """Whether ours follow the paper's conventions, coding slips included."""
        return self.metric.endswith(PAPER_SUFFIX)

    def gain(self, cell: TableCell) -> float | None:
        """By how many points ours is better than the paper's: positive is better, whatever the metric."""
        if cell.difference is None:
            return None
        return cell.difference if self.higher_is_better else -cell.difference


def metric_tables(
    results: Sequence[Result],
    published: Sequence[Published],
    failures: Failures,
    tuned: Collection[str] = (),
    corruption: str | None = None,
) -> list[MetricTable]:
    """The tables of one experiment, in the order of :data:`propml.metrics.METRICS`.

    A metric with published numbers has a table beside the paper, from values under the paper's conventions where those
    were recorded; ours under our own conventions then make a second table.

    Parameters
    ----------
    failures : mapping of (Setting, method) to str
    tuned : collection of str
        Methods that were tuned on test labels: they take no part in bold.
    corruption : str, optional
    """
    recorded = list(dict.fromkeys(result.metric for result in results))
    known = dict.fromkeys([*METRICS, *(name.removesuffix(PAPER_SUFFIX) for name in recorded)])
    methods = order_methods([*(result.method for result in results), *(key[1] for key in failures)], published)
    tables = []
    for base in known:
        paper = {(Setting(p.dataset, p.noise), p.method): p for p in published if p.metric == base}
        names = [name for name in (base + PAPER_SUFFIX, base) if name in recorded]
        if not paper:
            names = names[-1:]  # the paper's conventions serve the comparison only
        for number, name in enumerate(names):
            beside = paper if number == 0 else {}
            table = _table(name, summarise(results, name), beside, methods, failures, tuned)
            tables.append(replace(table, secondary=number > 0, corruption=corruption))
    return tables


def _table(
    metric: str,
    ours: Mapping[tuple[Setting, str], Summary],
    published: Mapping[tuple[Setting, str], Published],
    methods: Sequence[str],
    failures: Failures,
    tuned: Collection[str],
) -> MetricTable:
    paper = {key: Summary(p.mean, p.std, 0) for key, p in published.items()}
    named = {published_method(method) for method in methods}
    columns = [*methods, *dict.fromkeys(method for _, method in published if method not in named)]
    higher = metric_of(metric).higher_is_better
    rows = []
    for setting in order_settings(key[0] for key in (*ours, *failures, *published)):
        fair = {method: ours[setting, method].mean for method in columns if (setting, method) in ours}
        fair = {method: mean for method, mean in fair.items() if method not in tuned}
        printed = {method: summary.mean for (at, method), summary in paper.items() if at == setting}
        bold = marks(fair, higher_is_better=higher), marks(printed, higher_is_better=higher)
        cells = [
            TableCell(
                method,
                ours.get((setting, method)),
                paper.get((setting, published_method(method))),
                bold[0].get(method, ""),
                bold[1].get(published_method(method), ""),
                _state(setting, method, ours, failures),
                failures.get((setting, method), ""),
            )
            for method in columns
        ]
        rows.append(TableRow(setting, tuple(cells)))
    return MetricTable(metric, bool(paper), tuple(columns), tuple(rows))


def _state(setting: Setting, method: str, ours: Mapping[tuple[Setting, str], Summary], failures: Failures) -> State:
    if (setting, method) in ours:
        return "measured"
    return "failed" if (setting, method) in failures else "not run"


def marks(values: Mapping[str, float], *, higher_is_better: bool) -> dict[str, Mark]:
    """The paper's rule: the best number of a row bold, the second best bold italic, equal printed numbers alike.

    >>> marks({"a": 8.95, "b": 7.28, "c": 8.951}, higher_is_better=False)
    {'b': 'best', 'a': 'second', 'c': 'second'}
    """
    printed = {name: round(value, 2) for name, value in values.items() if not isnan(value)}
    if len(printed) < 2:
        return {}
    best, *others = sorted(set(printed.values()), reverse=higher_is_better)
    marked: dict[str, Mark] = {name: "best" for name, value in printed.items() if value == best}
    if others:
        marked |= {name: "second" for name, value in printed.items() if value == others[0]}
    return marked


def order_methods(methods: Iterable[str], published: Iterable[Published]) -> list[str]:
    """Those of the paper first and in its order, each followed by its variant tuned on test labels; then the others."""
    given = list(dict.fromkeys(methods))
    paper = list(dict.fromkeys(p.method for p in published))
    first = [method for name in paper for method in given if published_method(method) == name]
    first.sort(key=lambda method: (paper.index(published_method(method)), method.endswith(ORACLE_SUFFIX)))
    return first + [method for method in given if method not in first]


def order_settings(settings: Iterable[Setting]) -> list[Setting]:
    """Datasets in the order of the registry, a user's own after them; noise upwards."""
    given = dict.fromkeys(settings)
    names = list(dict.fromkeys([*REGISTRY, *(setting.dataset for setting in given)]))
    return sorted(given, key=lambda setting: (names.index(setting.dataset), noise_order(setting.noise)))
