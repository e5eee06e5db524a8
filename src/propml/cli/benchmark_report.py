"""``propml benchmark report``: what a results folder holds, as a page to read and tables to use."""

import shlex
from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="Results folder, as `propml benchmark run` fills it.")],
    experiment: Annotated[
        list[str] | None,
        typer.Option(help="Report on this experiment only; may be repeated. By default all that the folder holds."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report, made if it is not there. Default: FOLDER/report.")
    ] = None,
    formats: Annotated[
        str, typer.Option(help="What to write, separated by commas; svg, png or pdf: each figure.")
    ] = "html,md,tex,csv",
    paper: Annotated[
        str | None,
        typer.Option(
            help="Published experiment to stand beside ours: real-world, artificial, vision, or none. "
            "By default the one of the same name, if there is one."
        ),
    ] = None,
) -> None:
    """Write report.html (one file, no network), report.md, tables.tex and CSV from measured results.

    Example: [bold]propml benchmark report results --experiment real-world --formats html,md[/bold]
    """
    from propml import benchmark

    wanted = [name for part in formats.split(",") if (name := part.strip())]
    files = benchmark.report(
        folder,
        out or folder / "report",
        formats=wanted,
        experiments=experiment,
        paper=paper,
        command=_command(folder, experiment, paper),
    )
    for path in files:
        typer.echo(f"wrote {path}")


def _command(folder: Path, experiments: list[str] | None, paper: str | None) -> str:
    """What was asked for, without the folders of this machine."""
    words = ["propml", "benchmark", "report", folder.name or "."]
    for name in experiments or ():
        words += ["--experiment", name]
    return shlex.join([*words, *(["--paper", paper] if paper is not None else [])])
