"""``propml demo``: the whole story on the embedded dataset, in a minute or two."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Folder for results and report; made if it is not there.")] = Path("demo"),
    methods: Annotated[
        list[str] | None, typer.Option(help="Only these, by their names in the tables.", metavar="A,B")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Local processes, with one thread each.")] = 2,
) -> None:
    """Corrupt the embedded digits mosaic, train every method on its candidate labels alone, and write a report.

    Needs no data and no network. The same as [bold]propml benchmark run quick[/bold] and its report.

    Example: [bold]propml demo --out demo --methods ProPML,BCE,Ridge[/bold]
    """
    from propml.benchmark.report import write_report
    from propml.cli.benchmark import run
    from propml.extras import require

    require("matplotlib", "report")
    require("jinja2", "report")
    run("quick", out=out / "results", methods=methods, workers=workers)
    write_report(out / "results", out, formats=["html", "md", "csv"], command="propml demo")
    typer.echo(f"report: {out / 'report.html'}")
