"""``propml demo``: the whole story on the embedded dataset, in seconds."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report; made if it is not there.")] = Path("demo"),
    samples: Annotated[int, typer.Option(min=50, help="Training mosaics.")] = 800,
    ratio: Annotated[float, typer.Option(min=0.0, help="False candidates per true label.")] = 1.0,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data, at most.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other mosaics.")] = 0,
) -> None:
    """Corrupt the embedded digits mosaic, train on its candidate labels alone, and write a report.

    Needs no data and no network. Example: [bold]propml demo --out demo --ratio 1.5[/bold]
    """
    from propml.benchmark.demo import run_demo, table, write_report
    from propml.extras import require

    require("matplotlib", "report")
    require("jinja2", "report")
    made = run_demo(n_samples=samples, ratio=ratio, epochs=epochs, seed=seed, show=True)
    columns, rows = table(made)
    shown = Table(title="Test mosaics, judged by true labels (percent)")
    for number, column in enumerate(columns):
        shown.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        shown.add_row(*row)
    Console(width=120).print(shown)
    command = f"propml demo --samples {samples} --ratio {ratio:g} --epochs {epochs} --seed {seed}"
    page = write_report(made, out / "report.html", command=command)
    typer.echo(f"report: {page}")
