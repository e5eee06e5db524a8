"""The report's numbers for a spreadsheet: one number per line (long), or one setting and metric per line (wide)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from math import isnan

from propml.benchmark.reporting.model import Report
from propml.benchmark.wording import number
from propml.noise import Noise
from propml.paper.published import Mean
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
            by_method = {cell.method: cell for cell in row.cells}
            cells = [by_method.get(method) for method in methods]
            ours = [_mean(cell.ours if cell else None) for cell in cells]
            paper = [_mean(cell.published if cell else None) for cell in cells]
            rows.append([section.name, row.setting.dataset, _noise(row.setting.noise), table.metric, *ours, *paper])
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
                        _noise(row.setting.noise),
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


def _noise(noise: Noise | None) -> str:
    return "" if noise is None else str(noise)


def _mean(value: Mean | None) -> str:
    return "" if value is None or isnan(value.mean) else number(value.mean)


def _std(value: Mean | None) -> str:
    return "" if value is None or isnan(value.std) else number(value.std)
