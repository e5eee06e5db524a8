"""The report's tables as Markdown that reads well in a README, in the text as well as on a page."""

from __future__ import annotations

from collections.abc import Container, Sequence

from propml.benchmark.reporting.model import Report, Section
from propml.benchmark.reporting.plain_tables import PlainTable
from propml.benchmark.reporting.tables import Mark, MetricTable, TableCell
from propml.benchmark.wording import (
    dataset_title,
    listed,
    noise_title,
    number,
    run_command,
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
        parts += ["## Where the numbers come from", _plain(report.run_table)]
    command = f" with {_code(report.command)}" if report.command else ""
    parts.append(f"Made by propml {report.version}{command}.")
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text that shows as it is.

    >>> escaped("a|b *c*")
    'a\\\\|b \\\\*c\\\\*'
    """
    return text.translate(SPECIAL)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Container[int] = range(1)) -> str:
    """A table with columns that line up in the source, too; those whose numbers are in ``left`` hold words.

    >>> print(markdown_table(["name", "x"], [["a", "1.5"], ["bcd", "12"]]))
    | name |   x |
    | :--- | --: |
    | a    | 1.5 |
    | bcd  |  12 |
    """
    widths = [max(3, *(len(row[i]) for row in [columns, *rows])) for i in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [":" + "-" * (w - 1) if i in left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([line(columns), line(rule), *map(line, rows)])


def metric_tables(table: MetricTable) -> str:
    """One metric: a row per method, a column per dataset, and a table for each noise level.

    Ours come with the paper's number and the difference in brackets.
    """
    parts = []
    for level, rows in table.by_noise():
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
        parts += ["### Beside the paper", _plain(section.agreement_table)]
    for table in section.tables:
        parts += _table(table)
    if section.ranks:
        parts += ["### Which differences are significant", _ranks(section)]
    if section.lams:
        parts += ["### Which λ was chosen", _plain(section.lams)]
    if section.costs:
        parts += ["### Time and memory", _plain(section.costs)]
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


def _ranks(section: Section) -> str:
    lines = []
    for each in section.ranks:
        lines.append(f"* **{escaped(each.title)}.** {' '.join(map(escaped, (*each.sentences, *each.warnings)))}")
        for level, part in each.parts.items():
            ranks = ", ".join(f"{escaped(part.names[i])} {part.mean_ranks[i]:.2f}" for i in part.order())
            at = f" at {level.title}" if isinstance(level, Noise) else ""
            lines.append(f"  * Mean ranks{at}: {ranks}.")
    return "\n".join(lines)


def _plain(table: PlainTable) -> str:
    """One of the small tables, under its legend; words stand left of the numbers."""
    columns = table.columns
    rows = [
        [(_code if column.is_code else escaped)(column.text(value)) for column, value in zip(columns, row, strict=True)]
        for row in table.rows
    ]
    left = [place for place, column in enumerate(columns) if column.stands_left]
    text = markdown_table([escaped(column.head) for column in columns], rows, left=left)
    return f"{table.legend}\n\n{text}" if table.legend else text


def _gaps(section: Section) -> list[str]:
    parts = [_plain(section.failure_table)] if section.failures else []
    if section.not_run:
        groups = section.not_run_by_methods().items()
        lines = [
            f"* {settings_text(settings, limit=20)}: {escaped(listed(methods, 20))}" for methods, settings in groups
        ]
        parts.append("Published, and not run here:\n\n" + "\n".join(lines))
    return parts


def _code(text: str) -> str:
    """Code with a fence that is longer than any run of backticks in it, and no bar that would end a cell."""
    text = text.replace("\n", " ").replace("|", "\\|")
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"
