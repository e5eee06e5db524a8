"""The report's tables as Markdown that reads well in a README, in the text as well as on a page."""

from __future__ import annotations

from collections.abc import Sequence

from propml.benchmark.reporting.findings import TOLERANCE
from propml.benchmark.reporting.model import Report, Section
from propml.benchmark.reporting.tables import Mark, MetricTable, TableCell
from propml.benchmark.wording import (
    dataset_title,
    listed,
    memory,
    noise_title,
    number,
    run_command,
    seconds,
    settings_text,
    signed,
)
from propml.noise import Noise

# What would start markup in the middle of a line or end a cell of a table.
SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~"} | {"\n": " ", "\r": " "})


def render_markdown(report: Report) -> str:
    """All sections with their sentences and tables."""
    parts = [f"# {escaped(report.title)}", escaped(report.lead)]
    for section in report.sections:
        parts += _section(section, nested=len(report.sections) > 1)
    if report.runs:
        parts += ["## Where the numbers come from", _runs(report)]
    command = f" with {_code(report.command)}" if report.command else ""
    parts.append(f"Made by propml {report.version}{command}.")
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text that shows as it is.

    >>> escaped("a|b *c*")
    'a\\\\|b \\\\*c\\\\*'
    """
    return text.translate(SPECIAL)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A table whose first ``left`` columns are text and the others numbers, with columns that line up in the source.

    >>> print(markdown_table(["name", "x"], [["a", "1.5"], ["bcd", "12"]]))
    | name |   x |
    | :--- | --: |
    | a    | 1.5 |
    | bcd  |  12 |
    """
    widths = [max(3, *(len(row[i]) for row in [columns, *rows])) for i in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [":" + "-" * (w - 1) if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([line(columns), line(rule), *map(line, rows)])


def metric_tables(table: MetricTable) -> str:
    """One metric: a row per method, a column per dataset, and a table for each noise level.

    Ours come with the paper's number and the difference in brackets.
    """
    levels = dict.fromkeys(row.setting.noise for row in table.rows)
    parts = []
    for level in levels:
        rows = [row for row in table.rows if row.setting.noise == level]
        columns = [noise_title(level), *(escaped(dataset_title(row.setting.dataset)) for row in rows)]
        lines = [
            [escaped(method), *cells]
            for place, method in enumerate(table.methods)
            if any(cells := [table_entry(row.cells[place]) for row in rows])
        ]
        parts.append(markdown_table(columns, lines))
    return "\n\n".join(parts)


def table_entry(cell: TableCell) -> str:
    """Our number, with the paper's and the difference in brackets where there is one."""
    ours = _marked(number(cell.ours.mean), cell.ours_mark) if cell.ours else cell.state
    if cell.published is None:
        return ours if cell.ours or cell.state == "failed" else ""
    paper = _marked(number(cell.published.mean), cell.published_mark)
    beside = paper if cell.difference is None else f"{paper}, {signed(cell.difference)}"
    return f"{ours} ({beside})"


def _marked(text: str, mark: Mark) -> str:
    return {"": text, "best": f"**{text}**", "second": f"***{text}***"}[mark]


def _section(section: Section, *, nested: bool) -> list[str]:
    parts = [f"## {escaped(section.title)}" if nested else "## Summary"]
    parts += [escaped(section.note)] if section.note else []
    parts.append("\n".join(f"* **{escaped(topic)}.** {escaped(text)}" for topic, text in section.summary))
    parts += [escaped(note) for note in section.notes]
    parts.append(f"All of it again: {_code(run_command(section.argument))}.")
    if section.agreements:
        parts += ["### Beside the paper", _agreements(section)]
    for table in section.tables:
        parts += _table(table)
    if section.ranks:
        parts += ["### Which differences are significant", _ranks(section)]
    if section.lams:
        parts += ["### Which λ was chosen", _lams(section)]
    if section.costs:
        parts += ["### Time and memory", _costs(section)]
    if section.failures or section.not_run:
        parts += ["### Failures and gaps", *_gaps(section)]
    return parts


def _table(table: MetricTable) -> list[str]:
    """A heading and the tables; those by our own conventions fold away where others stand beside the paper."""
    if table.secondary:
        return [f"<details><summary>{table.title} by our own conventions</summary>", metric_tables(table), "</details>"]
    rules = " by the paper's conventions" if table.by_paper_rules else ""
    better = "higher" if table.higher_is_better else "lower"
    beside = "; in brackets the paper's number and ours minus the paper's" if table.compared else ""
    legend = (
        f"Percent, mean over folds and seeds, {better} is better. The best of a column is **bold**, the second best "
        f"***bold italic***{beside}."
    )
    return [f"### {table.title}{rules}", legend, metric_tables(table)]


def _agreements(section: Section) -> str:
    columns = ["method", "compared", f"better by > {TOLERANCE:g}", "close", f"worse by > {TOLERANCE:g}", "mean gain"]
    rows = [
        [escaped(a.method), str(a.n), str(a.better), str(a.close), str(a.worse), signed(a.mean_gain)]
        for a in section.agreements
    ]
    first = next(table for table in section.tables if table.compared)
    return f"Numbers of all metrics; mean gain in points of {first.title}.\n\n{markdown_table(columns, rows)}"


def _ranks(section: Section) -> str:
    lines = []
    for each in section.ranks:
        lines.append(f"* **{escaped(each.title)}.** {' '.join(map(escaped, (*each.sentences, *each.warnings)))}")
        for level, part in each.parts.items():
            ranks = ", ".join(f"{escaped(part.names[i])} {part.mean_ranks[i]:.2f}" for i in part.order())
            at = f" at {level.title}" if isinstance(level, Noise) else ""
            lines.append(f"  * Mean ranks{at}: {ranks}.")
    return "\n".join(lines)


def _lams(section: Section) -> str:
    rows = [
        [
            escaped(dataset_title(line.setting.dataset)),
            noise_title(line.setting.noise),
            escaped(f"{line.method} {line.part}".rstrip()),
            f"{line.middle:.3g}",
            f"{line.least:.3g} to {line.most:.3g}",
            "" if line.published is None else f"{line.published:g}",
        ]
        for line in section.lams
    ]
    return markdown_table(["dataset", "noise", "method", "median λ", "range", "paper"], rows, left=3)


def _costs(section: Section) -> str:
    datasets = section.cost_datasets
    columns = ["method", "device", "cells", "fit", "predict", "peak", *map(dataset_title, datasets)]
    rows = [
        [
            escaped(cost.method),
            escaped(cost.device),
            str(cost.n_cells),
            seconds(cost.seconds_fit),
            seconds(cost.seconds_predict),
            memory(cost.peak_bytes),
            *(seconds(cost.by_dataset[name]) if name in cost.by_dataset else "" for name in datasets),
        ]
        for cost in section.costs
    ]
    legend = "Fit and predict over all cells; by dataset, the mean time to fit all folds of a cell."
    return f"{legend}\n\n{markdown_table(columns, rows, left=2)}"


def _gaps(section: Section) -> list[str]:
    parts = []
    if section.failures:
        rows = [
            [
                escaped(dataset_title(cell.dataset)),
                noise_title(cell.noise),
                escaped(cell.method),
                str(cell.seed),
                escaped(cell.failure.reason if cell.failure else ""),
            ]
            for cell in section.failures
        ]
        parts.append(markdown_table(["dataset", "noise", "method", "seed", "what it said"], rows, left=5))
    if section.not_run:
        groups = section.not_run_by_methods().items()
        lines = [
            f"* {settings_text(settings, limit=20)}: {escaped(listed(methods, 20))}" for methods, settings in groups
        ]
        parts.append("Published, and not run here:\n\n" + "\n".join(lines))
    return parts


def _runs(report: Report) -> str:
    rows = [
        [
            escaped(str(run.get("started", ""))),
            escaped(str(run.get("propml", ""))),
            escaped((run.get("commit") or "")[:10]),
            escaped(str(run.get("device", ""))),
            _code(str(run.get("command", ""))),
        ]
        for run in report.runs
    ]
    return markdown_table(["started", "propml", "commit", "device", "command"], rows, left=5)


def _code(text: str) -> str:
    """Code with a fence that is longer than any run of backticks in it, and no bar that would end a cell."""
    text = text.replace("\n", " ").replace("|", "\\|")
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"
