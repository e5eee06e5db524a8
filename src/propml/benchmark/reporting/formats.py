"""The report as files: Markdown that reads well in a README, LaTeX with booktabs, CSV for other programs, a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Container, Iterator, Sequence
from importlib import resources
from math import isnan, nan
from typing import Any

from propml.benchmark import wording
from propml.benchmark.figures.style import svg_text
from propml.benchmark.provenance import origin
from propml.benchmark.reporting.findings import cautions
from propml.benchmark.reporting.model import TOLERANCE, Report, Section
from propml.benchmark.reporting.tables import Mark, MetricTable, PlainTable, TableCell, failure_table, run_table
from propml.benchmark.results import CellResult
from propml.benchmark.wording import MINUS, dataset_title, noise_title, number, run_command, signed
from propml.extras import require
from propml.noise import KINDS, Noise, Setting
from propml.output import neutralised, page_style
from propml.paper.published import Mean


def method_tables(table: MetricTable, entry: Callable[[TableCell], str]) -> Iterator[tuple[list[str], list[list[str]]]]:
    """For each noise level the heads and lines of a table: a row per method with a number, a column per dataset."""
    for level in dict.fromkeys(row.setting.noise for row in table.rows):
        rows = [row for row in table.rows if row.setting.noise == level]
        heads = [noise_title(level), *(dataset_title(row.setting.dataset) for row in rows)]
        lines = [[method, *(entry(row.cells[place]) for row in rows)] for place, method in enumerate(table.methods)]
        yield heads, [line for line in lines if any(line[1:])]


def entry_text(cell: TableCell, marked: Callable[[Mean, Mark], str], brackets: str) -> str:
    """Our number, with the paper's and the difference in brackets where there is one."""
    ours = marked(cell.ours, cell.ours_mark) if cell.ours else cell.state
    if cell.published is None:
        return "" if cell.state == "not run" else ours
    difference = "" if cell.difference is None else f", {signed(cell.difference)}"
    return f"{ours} {brackets[0]}{marked(cell.published, cell.published_mark)}{difference}{brackets[1]}"


# -- Markdown ---------------------------------------------------------------------------------------------------------

# What would start markup in the middle of a line or end a cell of a table.
SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~"} | {"\n": " ", "\r": " "})


def render_markdown(report: Report) -> str:
    """All sections with their sentences and tables."""
    parts = [f"# {escaped(report.title)}", escaped(report.lead)]
    for section in report.sections:
        parts += _section(section, nested=len(report.sections) > 1)
    if report.runs:
        parts += ["## Where the numbers come from", _plain(run_table(report.runs))]
    command = f" with {_code(report.command)}" if report.command else ""
    parts.append(f"Made by propml {report.version}{command}.")
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text that shows as it is."""
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
    rule = [":" + "-" * (w - 1) if i in left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    sides = ["<" if i in left else ">" for i in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        padded = [f"{cell:{side}{width}}" for cell, side, width in zip(cells, sides, widths, strict=True)]
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(columns), line(rule), *map(line, rows)])


def markdown_tables(table: MetricTable) -> str:
    """One metric: a row per method, a column per dataset, and a table for each noise level."""

    def marked(value: Mean, mark: Mark) -> str:
        stars = {"": "", "best": "**", "second": "***"}[mark]
        return f"{stars}{number(value.mean)}{stars}"

    return "\n\n".join(
        markdown_table([escaped(head) for head in heads], [[escaped(line[0]), *line[1:]] for line in lines])
        for heads, lines in method_tables(table, lambda cell: entry_text(cell, marked, "()"))
    )


def _section(section: Section, *, nested: bool) -> list[str]:
    parts = [f"## {escaped(section.title)}" if nested else "## Summary"]
    parts += [escaped(section.note)] if section.note else []
    use = [("Recommendation", section.recommendation)] if section.recommendation else []
    findings = "\n".join(f"* **{escaped(topic)}.** {escaped(text)}" for topic, text in [*use, *section.summary])
    parts += [findings] if findings else []
    parts += [escaped(note) for note in section.notes]
    parts.append(f"All of it again: {_code(run_command(section.argument))}.")
    for table in section.tables:
        if table.secondary:  # folds away: another one stands beside the paper
            summary = f"<details><summary>{table.title} by our own conventions</summary>"
            parts += [summary, markdown_tables(table), "</details>"]
            continue
        rules = " by the paper's conventions" if table.by_paper_rules else ""
        better = "higher" if table.higher_is_better else "lower"
        beside = "; in brackets the paper's number and ours minus the paper's" if table.compared else ""
        legend = (
            f"Percent, mean over folds and seeds, {better} is better. The best of a column is **bold**, the second "
            f"best ***bold italic***{beside}."
        )
        parts += [f"### {table.title}{rules}", legend, markdown_tables(table)]
    if section.ranks:
        parts += ["### Which differences are significant", _ranks(section)]
    small = {
        "Which λ was chosen": section.lams,
        "Time and memory": section.costs,
        "Failures": failure_table(section.results.failed),
    }
    parts += [part for head, table in small.items() if table for part in (f"### {head}", _plain(table))]
    return parts


def _ranks(section: Section) -> str:
    lines = []
    for each in section.ranks:
        lines.append(f"* **{escaped(each.title)}.** {' '.join(map(escaped, each.sentences))}")
        for level, part in each.parts.items():
            ranks = ", ".join(f"{escaped(part.names[i])} {part.mean_ranks[i]:.2f}" for i in part.order())
            at = f" at {level.title}" if isinstance(level, Noise) else ""
            lines.append(f"  * Mean ranks{at}: {ranks}.")
    lines += [f"* Careful with **{escaped(topic)}.** {escaped(text)}" for topic, text in cautions(section.ranks)]
    return "\n".join(lines)


def _plain(table: PlainTable) -> str:
    """One of the small tables, under its legend; words stand left of the numbers."""
    columns = table.columns
    rows = [
        [(_code if column.is_code else escaped)(column.text(value)) for column, value in zip(columns, row, strict=True)]
        for row in table.rows
    ]
    left = [place for place, column in enumerate(columns) if column.look]
    text = markdown_table([escaped(column.head) for column in columns], rows, left=left)
    return f"{table.legend}\n\n{text}" if table.legend else text


def _code(text: str) -> str:
    """Code with a fence that is longer than any run of backticks in it, and no bar that would end a cell."""
    text = text.replace("\n", " ").replace("|", "\\|")
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"


# -- LaTeX ------------------------------------------------------------------------------------------------------------

# What numbers are written with, and what means something to LaTeX.
SIGNS = str.maketrans({MINUS: "$-$", "–": "--"})
LATEX = SIGNS | str.maketrans(
    {character: f"\\{character}" for character in "{}$&#%_"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "λ": r"$\lambda$", "\n": " "}
    # At the start of a row a bracket would belong to the end of the row before.
    | {"[": "{[}", "]": "{]}"}
)


def render_tables(report: Report) -> str:
    r"""A table for each metric and noise level, to be read with ``\input``; they need ``\usepackage{booktabs}``."""
    parts = [
        r"% Needs \usepackage{booktabs}. Percent, mean (sample standard deviation); best bold, second best bold italic."
    ]
    for section in report.sections:
        for table in section.tables:
            rules = " by the paper's conventions" if table.by_paper_rules else ""
            for heads, methods in method_tables(table, _latex_entry):
                rows = [[latex(name), *entries] for name, *entries in methods]
                head, *body = (" & ".join(row) + r" \\" for row in [list(map(latex, heads)), *rows])
                columns = rf"{{@{{}}l{'r' * (len(heads) - 1)}@{{}}}}"
                title = f"% {latex(section.title)}: {table.title}{rules}"
                lines = [rf"\begin{{tabular}}{columns}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
                parts.append("\n".join([title, *lines, r"\end{tabular}"]))
    return "\n\n".join(parts) + "\n"


def latex(text: str) -> str:
    r"""Text that LaTeX prints as it is; letters that its fonts lack become question marks."""
    # T1 fonts with utf8 input know the Latin letters and no others.
    return "".join(c if ord(c) < 0x180 or ord(c) in LATEX else "?" for c in text).translate(LATEX)


def _latex_entry(cell: TableCell) -> str:
    def marked(value: Mean, mark: Mark) -> str:
        std = "" if isnan(value.std) else rf"\,({number(value.std)})"
        text = f"{number(value.mean)}{std}"
        return {"": text, "best": rf"\textbf{{{text}}}", "second": rf"\textbf{{\textit{{{text}}}}}"}[mark]

    return entry_text(cell, marked, "[]").translate(SIGNS)


# -- CSV --------------------------------------------------------------------------------------------------------------

LONG = (
    *("experiment", "dataset", "noise", "method", "metric", "state"),
    *("ours_mean", "ours_std", "ours_n", "ours_place"),
    *("published_mean", "published_std", "published_place", "difference", "command"),
    *("commit", "code"),
)


def render_long(report: Report) -> str:
    """One line per number; in percent, with the digits that the other formats print.

    Places are "best" and "second" where the paper would print bold and bold italic; ``code`` is a fingerprint.
    """
    made: dict[tuple[str, Setting, str], list[CellResult]] = {}
    for section in report.sections:
        for done in section.results.done:
            made.setdefault((section.name, done.setting, done.method), []).append(done)
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
            *origin(made.get((section.name, row.setting, cell.method), ())),
        ]
        for section in report.sections
        for table in section.tables
        for row in table.rows
        for cell in row.cells
        if cell.published or cell.state != "not run"
    ]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([neutralised(value) for value in line] for line in (LONG, *lines))
    return buffer.getvalue()


def _mean_and_std(value: Mean | None) -> list[str]:
    values = (value.mean, value.std) if value else (nan, nan)
    return ["" if isnan(each) else number(each) for each in values]


# -- HTML: one file, figures included, without a network; for a phone and a large screen, light and dark ---------------


def render_html(report: Report) -> str:
    """The page; everything that comes from data is escaped."""
    jinja2, Markup = require("jinja2", "report"), require("markupsafe", "report").Markup
    how = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    environment = jinja2.Environment(**how)
    environment.globals |= {name: value for name, value in vars(wording).items() if callable(value)}
    environment.globals |= {each.__name__: each for each in (cautions, failure_table, run_table, sort_key)}
    environment.globals["tolerance"] = TOLERANCE
    # A number is not parted from its sign of percent at the end of a line.
    environment.filters["tight"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    page = resources.files("propml.benchmark.reporting") / "page"
    template, css, js = ((page / f"report.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    figures = [
        {
            group: [(each, Markup(svg_text(each.figure, f"f{number}-{each.name}", title=each.title))) for each in some]
            for group, some in section.pictures().items()
        }
        for number, section in enumerate(report.sections, start=1)
    ]
    style = Markup(page_style(css))
    return environment.from_string(template).render(report=report, css=style, js=Markup(js), figures=figures)


def sort_key(value: Any) -> str:
    """What a column is sorted by; nothing for what is missing, which comes last; kinds of noise in their order."""
    if isinstance(value, Noise):
        return repr(1e6 * list(KINDS).index(value.kind) * value.named + value.amount)
    if isinstance(value, int | float):
        return "" if isnan(value) else repr(float(value))
    return "" if value is None else str(value)
