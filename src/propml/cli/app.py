"""The root of the command line: every group of commands is attached here."""

from typing import Annotated

import typer

from propml.cli import benchmark, datasets, tune, vision
from propml.cli.audit import audit
from propml.cli.corrupt import corrupt
from propml.cli.demo import demo
from propml.cli.info import info, version
from propml.cli.models import evaluate, fit, predict
from propml.cli.review import review
from propml.cli.stopping import StoppableGroup

__all__ = ["app"]

app = typer.Typer(
    name="propml",
    cls=StoppableGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Learn from [bold]candidate labels[/bold]: sets of labels of which only some are true.

    Start with [bold]propml demo[/bold]: it trains on an embedded dataset and writes a report.
    [bold]propml audit data.csv --candidates tags[/bold] finds the labels that are wrong in your own file;
    [bold]propml fit[/bold] trains a model on such a file, [bold]propml predict[/bold] labels new rows with it and
    [bold]propml evaluate[/bold] judges it by true labels.
    [bold]propml datasets list[/bold] shows the datasets of the paper and where they are looked for;
    [bold]propml corrupt[/bold] turns clean labels into candidate labels, to try a method where the truth is known;
    [bold]propml benchmark run quick[/bold] compares all methods on it, and other experiments are the paper's tables.
    """


app.command()(audit)
app.command()(review)
app.command()(fit)
app.command()(predict)
app.command()(evaluate)
app.command()(demo)
app.command()(info)
app.command()(corrupt)
app.add_typer(datasets.app, name="datasets")
app.add_typer(benchmark.app, name="benchmark")
app.add_typer(vision.app, name="vision")
app.add_typer(tune.app, name="tune")
