"""The report's numbers for a spreadsheet: one number per line (long), or one setting and metric per line (wide)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from math import isnan

from propml.benchmark.noise_levels import noise_text
from propml.benchmark.report.model import Report
from propml.benchmark.report.wording import number
from propml.benchmark.results import Summary
from propml.spreadsheet import neutralised

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
    return _text(LONG, _long_rows(report))


def render_wide(report: Report) -> str:
    """One line per experiment, dataset, noise level and metric; two columns per method, ours and the paper's."""
    tables = [(section, table) for section in report.sections for table in section.tables]
    methods = list(dict.fromkeys(method for _, table in tables for method in table.methods))
    header = ["experiment", "dataset", "noise", "metric", *methods, *(f"{method} (published)" for method in methods)]
    rows = []
    for section, table in tables:
        for row in table.rows:
            cells = {cell.method: cell for cell in row.cells}
            found = [cells.get(method) for method in methods]
            ours = [_mean(cell.ours if cell else None) for cell in found]
            paper = [_mean(cell.published if cell else None) for cell in found]
            rows.append([section.name, row.setting.dataset, noise_text(row.setting.noise), table.metric, *ours, *paper])
    return _text(header, rows)


def _long_rows(report: Report) -> Iterable[list[str]]:
    for section in report.sections:
        for table in section.tables:
            for row in table.rows:
                for cell in row.cells:
                    if cell.ours is None and cell.published is None and cell.state == "not run":
                        continue
                    yield [
                        section.name,
                        row.setting.dataset,
                        noise_text(row.setting.noise),
                        cell.method,
                        table.metric,
                        cell.state,
                        _mean(cell.ours),
                        _std(cell.ours),
                        str(cell.ours.n) if cell.ours else "",
                        cell.ours_mark,
                        _mean(cell.published),
                        _std(cell.published),
                        cell.published_mark,
                        "" if cell.difference is None else f"{cell.difference:.2f}",
                        section.command(row.setting, cell.method),
                    ]


def _text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([neutralised(value) for value in row] for row in (header, *rows))
    return buffer.getvalue()


def _mean(summary: Summary | None) -> str:
    return "" if summary is None or isnan(summary.mean) else number(summary.mean)


def _std(summary: Summary | None) -> str:
    return "" if summary is None or isnan(summary.std) else number(summary.std)
