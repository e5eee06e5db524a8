"""The report's tables for other programs: LaTeX with booktabs, and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from math import isnan

from propml.benchmark.provenance import origin
from propml.benchmark.reporting.model import Report, Section
from propml.benchmark.reporting.tables import Mark, MetricTable, TableCell, TableRow
from propml.benchmark.results import CellResult
from propml.benchmark.wording import MINUS, dataset_title, noise_title, number, signed
from propml.csv_safety import neutralised
from propml.noise import Noise, Setting
from propml.paper.published import Mean

SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "{}$&#%_"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "λ": r"$\lambda$", MINUS: "$-$", "–": "--", "\n": " "}
    # At the start of a row a bracket would belong to the end of the row before.
    | {"[": "{[}", "]": "{]}"}
)


def render_tables(report: Report) -> str:
    r"""A table for each metric and noise level, to be read with ``\input``; they need ``\usepackage{booktabs}``."""
    head = (
        r"% Needs \usepackage{booktabs}. Percent, mean (sample standard deviation); best bold, second best bold italic."
    )
    tables = [
        _tabular(section, table, level, rows)
        for section in report.sections
        for table in section.tables
        for level, rows in table.by_noise()
    ]
    return "\n\n".join([head, *tables]) + "\n"


def escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is; letters that its fonts lack become question marks.

    >>> escaped("50 % & x_1 ≤ λ")
    '50 \\% \\& x\\_1 ? $\\lambda$'
    """
    # T1 fonts with utf8 input know the Latin letters and no others.
    return "".join(c if ord(c) < 0x180 or ord(c) in SPECIAL else "?" for c in text).translate(SPECIAL)


def _tabular(section: Section, table: MetricTable, level: Noise | None, rows: Sequence[TableRow]) -> str:
    """A row per method and a column per dataset; the paper's number and the difference stand in brackets."""
    rules = " by the paper's conventions" if table.by_paper_rules else ""
    columns = [noise_title(level), *(dataset_title(row.setting.dataset) for row in rows)]
    lines = [
        [escaped(method), *entries]
        for place, method in enumerate(table.methods)
        if any(entries := [_entry(row.cells[place]) for row in rows])
    ]
    return "\n".join(
        [
            f"% {escaped(section.title)}: {table.title}{rules}",
            rf"\begin{{tabular}}{{@{{}}l{'r' * len(rows)}@{{}}}}",
            r"\toprule",
            " & ".join(map(escaped, columns)) + r" \\",
            r"\midrule",
            *(" & ".join(line) + r" \\" for line in lines),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _entry(cell: TableCell) -> str:
    ours = _marked(cell.ours, cell.ours_mark) if cell.ours else rf"\textit{{{cell.state}}}"
    if cell.published is None:
        return "" if cell.state == "not run" else ours
    difference = "" if cell.difference is None else f", {escaped(signed(cell.difference))}"
    return f"{ours} [{_marked(cell.published, cell.published_mark)}{difference}]"


def _marked(value: Mean, mark: Mark) -> str:
    std = "" if isnan(value.std) else rf"\,({number(value.std)})"
    text = f"{number(value.mean)}{std}"
    return {"": text, "best": rf"\textbf{{{text}}}", "second": rf"\textbf{{\textit{{{text}}}}}"}[mark]


# -- CSV --------------------------------------------------------------------------------------------------------------

LONG = (
    *("experiment", "dataset", "noise", "method", "metric", "state"),
    *("ours_mean", "ours_std", "ours_n", "ours_place"),
    *("published_mean", "published_std", "published_place", "difference", "command"),
    *("commit", "code"),
)


def render_long(report: Report) -> str:
    """One line per number; in percent, with the digits that the other formats print.

    ``ours_place`` and ``published_place`` say "best" and "second" where the paper would print bold and bold italic,
    ``commit`` and ``code`` (a fingerprint, see :mod:`propml.benchmark.provenance`) what made ours; empty where unknown.
    """
    origins = _origins(report)
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
            *origins.get((section.name, row.setting, cell.method), ("", "")),
        ]
        for section, table, row in _rows(report)
        for cell in row.cells
        if cell.published or cell.state != "not run"
    ]
    return _text(LONG, lines)


def _origins(report: Report) -> dict[tuple[str, Setting, str], tuple[str, str]]:
    cells: dict[tuple[str, Setting, str], list[CellResult]] = {}
    for section in report.sections:
        for cell in section.results.done:
            cells.setdefault((section.name, cell.setting, cell.method), []).append(cell)
    return {place: origin(some) for place, some in cells.items()}


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
