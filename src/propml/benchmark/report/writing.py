"""Reports on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from propml.benchmark.figures.saving import save
from propml.benchmark.report import csv, latex
from propml.benchmark.report.html import render_html
from propml.benchmark.report.markdown import render_markdown
from propml.benchmark.report.measured import Measured
from propml.benchmark.report.model import Report, build_report
from propml.benchmark.report.pictures import draw
from propml.benchmark.results import Result
from propml.durable import write_whole

if TYPE_CHECKING:
    from propml.benchmark.store import ResultStore

FORMATS = ("html", "md", "tex", "csv")
# Figures that stand in the page anyway, as files of their own.
PICTURES = ("svg", "png", "pdf")


def write_report(
    source: str | Path | ResultStore | Measured | Report | Iterable[Result],
    folder: str | Path,
    *,
    formats: Sequence[str] = FORMATS,
    experiments: Sequence[str] | None = None,
    paper: str | None = None,
    title: str = "",
    command: str = "",
) -> list[Path]:
    """Write a report; each file whole or not at all.

    Parameters
    ----------
    source : path, ResultStore, Measured, Report or iterable of Result
        A results folder, what stands in one, or a report that is made already.
    folder : path
        Where to; made if it is not there.
    formats : sequence of {"html", "md", "tex", "csv", "svg", "png", "pdf"}
        ``report.html`` and ``report.md``; ``tables.tex`` with ``report.tex`` around it; ``results-long.csv`` and
        ``results-wide.csv``; each figure as a file, such as ``vision-noise-ours.svg``.
    experiments, paper, title, command
        See :func:`build_report`.

    Returns
    -------
    list of Path
        The files.
    """
    unknown = [name for name in formats if name not in FORMATS + PICTURES]
    if unknown or not formats:
        given = f"there is no format {unknown[0]!r}" if unknown else "no format is given"
        raise ValueError(f"{given}; choose from {', '.join(FORMATS + PICTURES)}")
    if isinstance(source, Report):
        report = source
    else:
        report = build_report(source, experiments=experiments, paper=paper, title=title, command=command)
    written = []
    for name in dict.fromkeys(name for name in formats if name in FORMATS):
        for file, text in _files(report, name).items():
            path = Path(folder) / file
            write_whole(path, text.encode())
            written.append(path)
    return written + _write_pictures(report, Path(folder), [kind for kind in PICTURES if kind in formats])


def _write_pictures(report: Report, folder: Path, kinds: Sequence[str]) -> list[Path]:
    if not kinds:
        return []
    drawn = [(section.name, made) for section in report.sections for group in draw(section) for made in group]
    return [save(made.figure, folder / f"{name}-{made.name}.{kind}") for name, made in drawn for kind in kinds]


def _files(report: Report, kind: str) -> dict[str, str]:
    if kind == "html":
        return {"report.html": render_html(report)}
    if kind == "md":
        return {"report.md": render_markdown(report)}
    if kind == "tex":
        return {"tables.tex": latex.render_tables(report), "report.tex": latex.render_document(report)}
    return {"results-long.csv": csv.render_long(report), "results-wide.csv": csv.render_wide(report)}
