"""``propml benchmark``: run an experiment, see how far it is, report on it, and compare methods."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from propml.cli.stopping import exit_code

if TYPE_CHECKING:
    from propml.benchmark.comparison import PairedComparison
    from propml.benchmark.experiment import Experiment
    from propml.benchmark.store import ResultStore

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Compare methods: run the paper's experiments or your own, and report on what was measured.\n\n"
    "[bold]propml benchmark run quick[/bold], then [bold]propml benchmark report results/quick[/bold]",
)

# Of a table on a terminal; a longer title is broken.
COLUMN_WIDTH = 13

Name = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="A name of `propml benchmark list`, or the path of a .toml file.")
]
Out = Annotated[Path | None, typer.Option(help="Results folder.", show_default="results/EXPERIMENT")]
Datasets = Annotated[list[str] | None, typer.Option(help="Only these, separated by commas.", metavar="A,B")]
Methods = Annotated[list[str] | None, typer.Option(help="Only these, by their names in the tables.", metavar="A,B")]
Levels = Annotated[list[str] | None, typer.Option(help="Only these levels.", metavar="50,100|flips 0.2")]
Quick = Annotated[bool, typer.Option("--quick", help="The short form of the experiment, EXPERIMENT-quick.")]
Seeds = Annotated[list[str] | None, typer.Option(help="Only these of the experiment's seeds.", metavar="0,1")]


@app.command()
def run(
    experiment: Name,
    out: Out = None,
    datasets: Datasets = None,
    methods: Methods = None,
    noise: Levels = None,
    seeds: Seeds = None,
    quick: Quick = False,
    workers: Annotated[int, typer.Option(min=1, help="Local processes, with one thread each.")] = 1,
    ray_address: Annotated[
        str | None, typer.Option(help="Compute on this Ray cluster: auto, HOST:6379, ray://HOST:10001; local: here.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="For methods that can use a GPU: cpu, cuda, cuda:1.", show_default="experiment's")
    ] = None,
    retries: Annotated[int, typer.Option(min=0, help="Further tries where the process of a cell dies.")] = 2,
    keep_failures: Annotated[
        bool, typer.Option("--keep-failures", help="Leave what failed before as it is; else it is tried again.")
    ] = False,
) -> None:
    """Compute what an experiment lacks, and print the table.

    A cell is one method on one dataset at one noise level with one seed.
    It is kept as soon as it is done: stop or kill a run as you like, the same
    command goes on from there, and several runs may share a folder.
    A cell that fails stops no other one; the exit code is then 1.

    Example: [bold]propml benchmark run artificial --datasets birds,scene --noise 50 --workers 2[/bold]

    The paper's images, several networks at a time on one GPU: [bold]propml benchmark run vision --workers 7[/bold]
    """
    from propml.benchmark.runner import run_experiment
    from propml.benchmark.store import ResultStore

    part = _experiment(experiment, datasets, methods, noise, seeds, quick)
    folder = out or Path("results") / part.name
    try:
        summary = run_experiment(
            part,
            folder,
            workers=workers,
            ray_address=ray_address,
            retries=retries,
            keep_failures=keep_failures,
            device=device,
        )
    except KeyboardInterrupt as stop:
        raise typer.Exit(exit_code(stop)) from None  # the runner has told what is kept
    _print_means(part, ResultStore(folder))
    before = f", {len(summary.skipped)} before" if summary.skipped else ""
    typer.echo(f"cells: {len(summary.done)} done now{before}; results: {folder}")
    if summary.failed:
        lines = [f"{len(summary.failed)} of {len(part.cells())} cells failed:", *map(str, summary.failed)]
        typer.echo("\n  ".join(lines) + "\nThe same command tries them again.", err=True)
        raise typer.Exit(1)


@app.command("list")
def list_experiments() -> None:
    """The experiments that are known by name."""
    from propml.benchmark.experiment import experiment_names, load_experiment

    table = _table("name", "cells")
    table.add_column("title")
    for name in experiment_names():
        known = load_experiment(name)
        table.add_row(name, str(len(known.cells())), escape(known.title))
    Console().print(table)


@app.command()
def status(
    place: Annotated[str, typer.Argument(metavar="RESULTS|EXPERIMENT", help="A results folder, or an experiment.")],
    out: Out = None,
    datasets: Datasets = None,
    methods: Methods = None,
    noise: Levels = None,
    seeds: Seeds = None,
    quick: Quick = False,
) -> None:
    """How many cells are done, missing and failed, and of which ones the code has changed since they were computed.

    The code is the method's and that of the modules it imports; comments, docstrings and messages do not count.
    Results that earlier versions kept do not know their code: they are of unknown age.

    Example: [bold]propml benchmark status results/quick[/bold]

    A part of an experiment: [bold]propml benchmark status quick --out results/quick --methods Ridge[/bold]
    """
    from propml.benchmark.experiment import load_experiment
    from propml.benchmark.store import ResultStore

    if not (Path(place) / "results.jsonl").is_file():
        part = _experiment(place, datasets, methods, noise, seeds, quick)
        planned = {cell.key: cell.method.name for cell in part.cells()}
        _print_status(ResultStore(out or Path("results") / part.name), planned)
        return
    store = ResultStore(place)
    for name in dict.fromkeys(cell.experiment for cell in store.cells()):
        typer.echo(f"{name}:")
        # Cells of an earlier form of the experiment are counted, too.
        stored = {cell.key: cell.method for cell in store.cells(name)}
        try:
            planned = {cell.key: cell.method.name for cell in load_experiment(name).cells()}
        except ValueError:
            _print_status(store, stored, known=False)
        else:
            _print_status(store, {**planned, **stored})


def _print_status(store: ResultStore, keys: dict[str, str], known: bool = True) -> None:
    """A table of counts by method, then what failed and what is old.

    ``keys`` are the methods of the cells; where the experiment is not ``known``, nobody knows what is missing.
    """
    from propml.benchmark.provenance import age
    from propml.benchmark.wording import counted

    cells = store.cells(keys=keys)
    done = store.done() & keys.keys()
    failed = {cell.key: cell for cell in cells if cell.failure}
    table = _table("method", "done", "missing", "failed")
    for name in [*dict.fromkeys(keys.values()), "all"]:
        own = {key for key, method in keys.items() if name in (method, "all")}
        missing = str(len(own - done - failed.keys())) if known else "?"
        counts = (str(len(own & done)), missing, str(len(own & failed.keys())))
        table.add_row(escape(name), *counts, style="bold" if name == "all" else None)
    Console().print(table)
    for cell in failed.values():
        typer.echo(f"failed: {cell}")
    ages = [(age(cell), cell.method) for cell in cells if not cell.failure]
    for state, words in (("changed", "code has changed since"), ("unknown", "unknown age")):
        by_method = Counter(method for found, method in ages if found == state)
        if by_method:
            typer.echo(f"{words}: " + ", ".join(f"{name} ({counted(n, 'cell')})" for name, n in by_method.items()))
    if not known:
        typer.echo("what is missing is not known: give the experiment's .toml file, and the folder with --out")


@app.command()
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
    # What was asked for, without the folders of this machine.
    words = ["propml", "benchmark", "report", folder.name or "."]
    words += [word for name in experiment or () for word in ("--experiment", name)]
    files = benchmark.report(
        folder,
        out or folder / "report",
        formats=wanted,
        experiments=experiment,
        paper=paper,
        command=shlex.join([*words, *(["--paper", paper] if paper is not None else [])]),
    )
    for path in files:
        typer.echo(f"wrote {path}")


@app.command()
def compare(
    folder: Annotated[Path, typer.Argument(help="Results folder that holds what is judged.")],
    other: Annotated[
        Path | None, typer.Argument(help="Results folder of what it is judged by, such as those before a change.")
    ] = None,
    of: Annotated[str, typer.Option(metavar="METHOD", help="What is judged, by its name in the tables.")] = (
        "ProPML default"
    ),
    against: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="What it is judged by; the same method where two folders are given."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="What to compare; may be repeated.", show_default="average_precision")
    ] = None,
) -> None:
    """By how much one method is better than another, dataset by dataset, with a sign test over the datasets.

    Settings of one dataset are not independent: its noises are averaged, and the test counts datasets.
    A gain is in percent and positive where the judged one is better, also of losses.

    Example: [bold]propml benchmark compare results/ground-quick --against 'Extra trees' --metric OF1[/bold]

    Before and after a change: [bold]propml benchmark compare results/after results/before[/bold]
    """
    from propml.benchmark.comparison import compare_pairs

    judged, judge = _store(folder), None if other is None else _store(other)
    for name in metric or ["average_precision"]:
        _print_pair(compare_pairs(judged, of, against, other=judge, metric=name))


def _store(folder: Path) -> ResultStore:
    from propml.benchmark.store import ResultStore

    if not (folder / "results.jsonl").is_file():
        raise FileNotFoundError(f"{folder} holds no results; give a folder that `propml benchmark run` has filled")
    return ResultStore(folder)


def _print_pair(pair: PairedComparison) -> None:
    from propml.paper.published import metric_of

    arrow = "↑" if metric_of(pair.metric).higher_is_better else "↓"
    names = (pair.of, pair.against) if pair.of != pair.against else ("after", "before")
    title = f"{metric_of(pair.metric).title} {arrow}, percent: {pair.of} against {pair.against}"
    table = _table("dataset", "settings", *names, "gain", "wins", "losses", title=title)
    for each in pair.datasets:
        counts = (str(each.settings), f"{each.of:.2f}", f"{each.against:.2f}", f"{each.gain:+.2f}")
        table.add_row(each.dataset, *counts, str(each.wins), str(each.losses))
    Console().print(table)
    typer.echo(
        f"mean gain over {len(pair.datasets)} datasets: {pair.gain:+.2f}; better on {pair.won}, worse on "
        f"{pair.lost}, sign test p = {pair.p_value:.3g}; fitting takes {pair.times_as_long:.2f} × as long"
    )
    if pair.left_out:
        typer.echo(f"left out: {pair.left_out} cells that only one of the two has")


def _experiment(
    name: str,
    datasets: Sequence[str] | None,
    methods: Sequence[str] | None,
    noise: Sequence[str] | None,
    seeds: Sequence[str] | None,
    quick: bool,
) -> Experiment:
    from propml.benchmark.experiment import experiment_names, load_experiment

    if quick:
        if f"{name}-quick" not in experiment_names():
            short = ", ".join(each.removesuffix("-quick") for each in experiment_names() if each.endswith("-quick"))
            raise ValueError(f"{name} has no short form; leave out --quick, which is there for {short}")
        name = f"{name}-quick"
    whole = load_experiment(name)
    names = {entry.name for entry in whole.methods}
    return whole.narrowed(
        datasets=_parts(datasets), methods=_parts(methods, names), noise=_parts(noise), seeds=_parts(seeds)
    )


def _parts(options: Sequence[str] | None, known: Collection[str] = ()) -> list[str] | None:
    """What an option was given, once or repeatedly, separated by commas; None where it was not.

    A known name may have a comma in it.
    """
    if not options:
        return None
    pieces = [piece for option in options for piece in ([option] if option in known else option.split(","))]
    return [piece.strip() for piece in pieces if piece.strip()]


def _print_means(experiment: Experiment, store: ResultStore) -> None:
    """The first metric of the experiment, one row per method and one column per setting; the best ones are bold."""
    from propml.benchmark.results import means
    from propml.benchmark.wording import setting_name
    from propml.noise import Setting
    from propml.paper.published import metric_of

    metric, cells, console = metric_of(experiment.metrics[0]), experiment.cells(), Console()
    results = store.cells(keys={cell.key for cell in cells})
    shown = {(cell.setting, cell.method): "failed" for cell in results if cell.failure}
    settings = list(dict.fromkeys(Setting(cell.dataset, cell.noise) for cell in cells))
    for setting in settings:
        rows = means(cell for cell in results if cell.setting == setting)
        values = {row.method: row.mean for row in rows if row.metric == experiment.metrics[0]}
        best = (max if metric.higher_is_better else min)(values.values(), default=None)
        for method, value in values.items():
            shown[setting, method] = f"[bold]{value:.2f}[/bold]" if value == best else f"{value:.2f}"
    title = f"{metric.title} {'↑' if metric.higher_is_better else '↓'}, percent"
    per_table = max(1, (console.width - 20) // COLUMN_WIDTH)
    for first in range(0, len(settings), per_table):
        part = settings[first : first + per_table]
        table = _table("", *(setting_name(*setting) for setting in part), title=title)
        for entry in experiment.methods:
            table.add_row(escape(entry.name), *(shown.get((setting, entry.name), "") for setting in part))
        console.print(table)


def _table(words: str, *numbers: str, title: str = "") -> Table:
    """A table with these columns; with a title it has a frame."""
    plain: dict[str, Any] = {"box": None, "header_style": "bold", "padding": (0, 2, 0, 0), "pad_edge": False}
    table = Table(title=escape(title), title_justify="left") if title else Table(**plain)
    table.add_column(words, no_wrap=True)
    for column in numbers:
        table.add_column(escape(column), justify="right")
    return table
