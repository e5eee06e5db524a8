"""The report's numbers for a spreadsheet: one number per line (long), or one setting and metric per line (wide)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from math import isnan

from propml.benchmark.reporting.model import Report, Section
from propml.benchmark.reporting.tables import MetricTable, TableRow
from propml.benchmark.wording import number
from propml.csv_safety import neutralised
from propml.paper.published import Mean

LONG = (
    "experiment",
    "dataset",
    "noise",
    "method",
    "metric",
    "state",
    "ours_mean",
    "ours_std",
    "ours_n",
    "ours_place",
    "published_mean",
    "published_std",
    "published_place",
    "difference",
    "command",
)


def render_long(report: Report) -> str:
    """One line per number; in percent, with the digits that the other formats print.

    ``ours_place`` and ``published_place`` say "best" and "second" where the paper would print bold and bold italic.
    """
    lines = [
        [
            section.name,
            row.setting.dataset,
            str(row.setting.noise or ""),
            cell.method,
            table.metric,
            cell.state,
            *_mean_and_std(cell.ours),
            str(cell.ours.n) if cell.ours else "",
            cell.ours_mark,
            *_mean_and_std(cell.published),
            cell.published_mark,
            "" if cell.difference is None else f"{cell.difference:.2f}",
            section.command(row.setting, cell.method),
        ]
        for section, table, row in _rows(report)
        for cell in row.cells
        if cell.published or cell.state != "not run"
    ]
    return _text(LONG, lines)


def render_wide(report: Report) -> str:
    """One line per experiment, dataset, noise level and metric; two columns per method, ours and the paper's."""
    methods = list(dict.fromkeys(method for _, table, _ in _rows(report) for method in table.methods))
    header = ["experiment", "dataset", "noise", "metric", *methods, *(f"{method} (published)" for method in methods)]
    lines = []
    for section, table, row in _rows(report):
        ours, paper = (
            {cell.method: _mean_and_std(getattr(cell, side))[0] for cell in row.cells} for side in ("ours", "published")
        )
        numbers = [side.get(method, "") for side in (ours, paper) for method in methods]
        lines.append([section.name, row.setting.dataset, str(row.setting.noise or ""), table.metric, *numbers])
    return _text(header, lines)


def _rows(report: Report) -> Iterator[tuple[Section, MetricTable, TableRow]]:
    for section in report.sections:
        for table in section.tables:
            for row in table.rows:
                yield section, table, row


def _mean_and_std(value: Mean | None) -> tuple[str, str]:
    if value is None:
        return "", ""
    mean, std = ("" if isnan(each) else number(each) for each in (value.mean, value.std))
    return mean, std


def _text(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([neutralised(value) for value in line] for line in (header, *lines))
    return buffer.getvalue()
