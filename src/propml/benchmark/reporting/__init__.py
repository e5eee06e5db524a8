"""What was measured, as a page to read and tables to use: HTML, Markdown, LaTeX and CSV from one model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from propml.atomic_files import write_whole
from propml.benchmark.figures.style import save
from propml.benchmark.reporting.formats import render_html, render_long, render_markdown, render_tables
from propml.benchmark.reporting.model import Report, Section, build_report
from propml.benchmark.results import Results

__all__ = ["FORMATS", "Report", "Section", "build_report", "write_report"]

# By format, a file's name and what fills it.
RENDERED = {
    "html": ("report.html", render_html),
    "md": ("report.md", render_markdown),
    "tex": ("tables.tex", render_tables),
    "csv": ("results-long.csv", render_long),
}
FORMATS = tuple(RENDERED)
# Figures that stand in the page anyway, as files of their own.
PICTURES = ("svg", "png", "pdf")


def write_report(
    source: str | Path | Results | Report,
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
    source : path, Results or Report
        A results folder, what stands in one, or a report that is made already.
    folder : path
        Where to; made if it is not there.
    formats : sequence of {"html", "md", "tex", "csv", "svg", "png", "pdf"}
        ``report.html``, ``report.md`` and ``tables.tex``; ``results-long.csv``; each figure as a file,
        such as ``vision-noise-ours.svg``.
    experiments : sequence of str, optional
        Which experiments to report on; by default all.
    paper : str, optional
        The published experiment to stand beside ours, or ``"none"``; by default the one of the same name.
    title, command : str
        The title, and what the reader types to make the report again.

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
    paths = []
    for kind, (name, render) in RENDERED.items():
        if kind in formats:
            paths.append(Path(folder) / name)
            write_whole(paths[-1], render(report).encode())
    kinds = [kind for kind in PICTURES if kind in formats]
    for section in report.sections if kinds else ():
        for picture in (picture for group in section.pictures().values() for picture in group):
            paths += [save(picture.figure, Path(folder) / f"{section.name}-{picture.name}.{kind}") for kind in kinds]
    return paths
