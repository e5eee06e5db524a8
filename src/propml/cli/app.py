"""The root of the command line: every group of commands is attached here; and ``propml demo`` and ``propml info``."""

from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from propml import __version__
from propml.cli import benchmark, datasets, tune, vision
from propml.cli.audit import audit, review
from propml.cli.corrupt import corrupt
from propml.cli.file_options import group_of_commands, grouped, plain
from propml.cli.models import evaluate, fit, predict
from propml.cli.stopping import StoppableGroup

app = group_of_commands(name="propml", cls=StoppableGroup, add_completion=False)


def _version(show: bool) -> None:
    if show:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
@grouped
def root(version: bool = plain("Print the version and stop.", default=False, callback=_version, is_eager=True)) -> None:
    """Learn from [bold]candidate labels[/bold]: sets of labels of which only some are true.

    Start with [bold]propml demo[/bold]: it trains on an embedded dataset and writes a report.
    [bold]propml audit data.csv --candidates tags[/bold] finds the labels that are wrong in your own file;
    [bold]propml fit[/bold] trains a model on such a file, [bold]propml predict[/bold] labels new rows with it and
    [bold]propml evaluate[/bold] judges it by true labels.
    [bold]propml datasets list[/bold] shows the datasets of the paper and the folders that are searched for them;
    [bold]propml corrupt[/bold] turns clean labels into candidate labels, to test methods where the truth is known;
    [bold]propml benchmark run quick[/bold] compares all methods on the embedded dataset, and other experiments repeat
    the paper's tables.
    """


@grouped
def demo(
    out: Path = plain("Folder for results and report; created if needed.", default=Path("demo")),
    methods: list[str] | None = plain("Only these, by their names in the tables.", metavar="A,B"),
    workers: int = plain("Local processes, with one thread each.", default=2, min=1),
) -> None:
    """Corrupt the embedded digits mosaic, train every method on its candidate labels alone, and write a report.

    Then an audit of the candidate labels: review.html shows which of them are wrong, to keep or drop.
    Needs no data and no network. The first part is [bold]propml benchmark run quick[/bold] and its report.

    Example: [bold]propml demo --out demo --methods ProPML,BCE,Ridge[/bold]
    """
    from propml import audit
    from propml.auditing.review import write_review
    from propml.benchmark import report
    from propml.corruption import svm_confusions
    from propml.datasets import digits_mosaic
    from propml.extras import require

    require("matplotlib", "report")
    require("jinja2", "report")
    benchmark.run(experiment="quick", out=out / "results", methods=methods, workers=workers)
    report(out / "results", out, formats=["html", "md", "csv"], command="propml demo")
    mosaics = digits_mosaic(600)
    candidates = svm_confusions(mosaics.X, mosaics.truth, 1.0, labels=mosaics.label_names, verbose=True)
    judged = audit(mosaics.X, candidates, noise="confusions", verbose=True)
    pictures = [(255 * (1 - row.reshape(16, 16) / mosaics.X.max())).astype("uint8") for row in mosaics.X]
    write_review(judged, out / "review.html", images=pictures, title="Which digits are not in the mosaic?")
    typer.echo(f"report: {out / 'report.html'}\nreview: {out / 'review.html'}")


def info() -> None:
    """Print versions, the device that would be used, the data folders and the installed extras."""
    import torch

    from propml.datasets.locations import data_dirs
    from propml.extras import EXTRAS, installed, versions

    table = Table(show_header=False, box=None)
    for package, installed_version in versions().items():
        table.add_row(package, installed_version)
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
    table.add_row("device", f"cuda ({gpu})" if gpu else f"cpu ({torch.get_num_threads()} threads)")
    for number, folder in enumerate(data_dirs()):
        table.add_row("" if number else "data folders", f"{folder}{'' if folder.is_dir() else '  (not there)'}")
    for extra in EXTRAS:
        state = "installed" if installed(extra) else f"missing: pip install 'propml[{extra}]'"
        table.add_row(f"extra {extra}", state, style=None if installed(extra) else "dim")
    Console(soft_wrap=True).print(table, markup=False)


for command in (audit, review, fit, predict, evaluate, demo, info, corrupt):
    app.command()(command)
for name, group in {"datasets": datasets, "benchmark": benchmark, "vision": vision, "tune": tune}.items():
    app.add_typer(group.app, name=name)
