"""The report's tables for other programs: LaTeX with booktabs, laid out like the paper's own, and CSV."""

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
from propml.noise import Noise, Setting, noise_order
from propml.paper.published import Mean

PREAMBLE = r"""\documentclass{article}
\usepackage[a4paper,margin=2cm]{geometry}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{booktabs,longtable}
\begin{document}
"""
SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "λ": r"$\lambda$",
        "×": r"$\times$",
        "≈": r"$\approx$",
        MINUS: "$-$",
        "–": "--",
        "“": "``",
        "”": "''",
        "’": "'",
        "…": r"\ldots{}",
        "\n": " ",
    }
)


def render_tables(report: Report) -> str:
    r"""All tables, to be read with ``\input``; they need ``\usepackage{booktabs,longtable}``."""
    head = r"% Needs \usepackage{booktabs,longtable}."
    return "\n\n".join([head, *(_longtable(s, table) for s in report.sections for table in s.tables)]) + "\n"


def render_document(report: Report, tables: str = "tables") -> str:
    """A document that reads the tables and can be compiled as it is."""
    parts = [PREAMBLE, rf"\section*{{{escaped(report.title)}}}", escaped(report.lead)]
    for section in report.sections:
        sentences = "\n".join(
            rf"  \item \textbf{{{escaped(topic)}.}} {escaped(text)}" for topic, text in section.summary
        )
        parts += [rf"\subsection*{{{escaped(section.title)}}}", *([escaped(section.note)] if section.note else [])]
        parts.append(f"\\begin{{itemize}}\n{sentences}\n\\end{{itemize}}")
        parts += [escaped(note) for note in section.notes]
    return "\n\n".join([*parts, rf"\input{{{tables}}}", r"\end{document}"]) + "\n"


def escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is; letters that its fonts lack become question marks.

    >>> escaped("50 % & x_1 ≤ λ")
    '50 \\% \\& x\\_1 ? $\\lambda$'
    """
    # T1 fonts with utf8 input know the Latin letters and no others.
    return "".join(c if ord(c) < 0x180 or ord(c) in SPECIAL else "?" for c in text).translate(SPECIAL)


def _longtable(section: Section, table: MetricTable) -> str:
    """Rows are methods within datasets, columns noise levels, each with ours, the paper's number and the difference."""
    levels = list(dict.fromkeys(row.setting.noise for row in table.rows))
    levels.sort(key=noise_order)
    per_level = 3 if table.compared else 1
    columns = "@{}l" + "r" * per_level * len(levels) + "@{}"
    heading = _heading(table, levels)
    lines = [
        r"\begingroup\scriptsize\setlength{\tabcolsep}{3pt}",
        rf"\begin{{longtable}}{{{columns}}}",
        rf"\caption{{{_caption(section, table)}}}\\",
        r"\toprule",
        *heading,
        r"\midrule",
        r"\endfirsthead",
        r"\toprule",
        *heading,
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
    ]
    datasets = list(dict.fromkeys(row.setting.dataset for row in table.rows))
    for place, dataset in enumerate(datasets):
        if place:
            lines.append(r"\addlinespace")
        lines.append(
            rf"\multicolumn{{{1 + per_level * len(levels)}}}{{@{{}}l}}{{\itshape {escaped(dataset_title(dataset))}}}\\*"
        )
        lines += _dataset_rows(table, dataset, levels)
    return "\n".join([*lines, r"\end{longtable}", r"\endgroup"])


def _caption(section: Section, table: MetricTable) -> str:
    direction = "higher" if table.higher_is_better else "lower"
    rules = " by the paper's conventions" if table.by_paper_rules else ""
    beside = r" $\Delta$ is ours minus the published mean." if table.compared else ""
    return (
        escaped(
            f"{section.title}: {table.title}{rules} in %, mean (sample standard deviation); {direction} is "
            f"better. The best result is bold, the second best bold italic."
        )
        + beside
    )


def _heading(table: MetricTable, levels: Sequence[Noise | None]) -> list[str]:
    names = [noise_title(level) or "Real" for level in levels]
    if not table.compared:
        shown = [""] if levels == [None] else [escaped(name) for name in names]
        return [" & ".join(["Method", *(shown if shown != [""] else [escaped(table.title)])]) + r" \\"]
    lines = []
    if list(levels) != [None]:
        groups = [rf"\multicolumn{{3}}{{c}}{{{escaped(name)}}}" for name in names]
        rules = "".join(rf"\cmidrule(lr){{{2 + 3 * i}-{4 + 3 * i}}}" for i in range(len(levels)))
        lines = [" & ".join(["", *groups]) + r" \\", rules]
    return [*lines, " & ".join(["Method", *["Ours", "Published", r"$\Delta$"] * len(levels)]) + r" \\"]


def _dataset_rows(table: MetricTable, dataset: str, levels: Sequence[Noise | None]) -> list[str]:
    rows = {row.setting.noise: row for row in table.rows if row.setting.dataset == dataset}
    lines = []
    for place, method in enumerate(table.methods):
        cells = [rows[level].cells[place] if level in rows else None for level in levels]
        if any(cell is not None and (cell.published or cell.state != "not run") for cell in cells):
            entries = [entry for cell in cells for entry in _entries(cell, compared=table.compared)]
            lines.append(" & ".join([rf"\quad {escaped(method)}", *entries]) + r" \\")
    return lines


def _entries(cell: TableCell | None, *, compared: bool) -> list[str]:
    if cell is None:
        return [""] * (3 if compared else 1)
    ours = _marked(cell.ours, cell.ours_mark) if cell.ours else rf"\textit{{{cell.state}}}"
    if not compared:
        return ["" if cell.state == "not run" else ours]
    difference = "" if cell.difference is None else signed(cell.difference).replace(MINUS, "$-$")
    return [ours, _marked(cell.published, cell.published_mark) if cell.published else "", difference]


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
