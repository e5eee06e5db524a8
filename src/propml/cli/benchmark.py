"""``propml benchmark``: run an experiment, see how far it is, report on it, and compare methods."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from propml.cli import file_options as opt
from propml.cli.stopping import exit_code

if TYPE_CHECKING:
    from propml.benchmark.experiment import Experiment
    from propml.benchmark.store import ResultStore

app = opt.group_of_commands(
    help="Compare methods: run the paper's experiments or your own, and report on what was measured.\n\n"
    "[bold]propml benchmark run quick[/bold], then [bold]propml benchmark report results/quick[/bold]"
)

# Of a table on a terminal; a longer title is broken.
COLUMN_WIDTH = 13


@dataclass(frozen=True)
class Part:
    """Which part of an experiment, and where its results are."""

    out: Path | None = opt.plain("Results folder.", show_default="results/EXPERIMENT")
    datasets: list[str] | None = opt.plain("Only these, separated by commas.", metavar="A,B")
    methods: list[str] | None = opt.plain("Only these, by their names in the tables.", metavar="A,B")
    noise: list[str] | None = opt.plain("Only these levels.", metavar="50,100|flips 0.2")
    seeds: list[str] | None = opt.plain("Only these of the experiment's seeds.", metavar="0,1")
    quick: bool = opt.plain("The short form of the experiment, EXPERIMENT-quick.", default=False)

    def of(self, name: str) -> tuple[Experiment, Path]:
        """This part of the experiment of that name, and the folder of its results."""
        from propml.benchmark.experiment import experiment_names, load_experiment

        if self.quick:
            if f"{name}-quick" not in experiment_names():
                short = ", ".join(each.removesuffix("-quick") for each in experiment_names() if each.endswith("-quick"))
                raise ValueError(f"{name} has no short form; leave out --quick, which is there for {short}")
            name = f"{name}-quick"
        whole = load_experiment(name)
        part = whole.narrowed(
            datasets=_parts(self.datasets),
            methods=_parts(self.methods, {entry.name for entry in whole.methods}),
            noise=_parts(self.noise),
            seeds=_parts(self.seeds),
        )
        return part, self.out or Path("results") / part.name


def _parts(options: Sequence[str] | None, known: Collection[str] = ()) -> list[str] | None:
    """What an option was given, once or repeatedly, separated by commas; a known name may have a comma in it."""
    if not options:
        return None
    pieces = [piece for option in options for piece in ([option] if option in known else option.split(","))]
    return [piece.strip() for piece in pieces if piece.strip()]


@app.command()
@opt.grouped
def run(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="A name of `propml benchmark list`, or a .toml.")
    ],
    part: Part,
    workers: int = opt.plain("Local processes, with one thread each.", default=1, min=1),
    ray_address: str | None = opt.plain("Compute on this Ray cluster: auto, HOST:6379, ray://HOST:10001; local: here."),
    device: str | None = opt.plain("For methods that can use a GPU: cpu, cuda, cuda:1.", show_default="experiment's"),
    retries: int = opt.plain("Further tries where the process of a cell dies.", default=2, min=0),
    keep_failures: bool = opt.plain("Leave what failed before as it is; else it is tried again.", default=False),
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

    planned, folder = part.of(experiment)
    try:
        summary = run_experiment(
            planned,
            folder,
            workers=workers,
            ray_address=ray_address,
            retries=retries,
            keep_failures=keep_failures,
            device=device,
        )
    except KeyboardInterrupt as stop:
        raise typer.Exit(exit_code(stop)) from None  # the runner has told what is kept
    _print_means(planned, ResultStore(folder))
    before = f", {len(summary.skipped)} before" if summary.skipped else ""
    typer.echo(f"cells: {len(summary.done)} done now{before}; results: {folder}")
    if summary.failed:
        lines = [f"{len(summary.failed)} of {len(planned.cells())} cells failed:", *map(str, summary.failed)]
        typer.echo("\n  ".join(lines) + "\nThe same command tries them again.", err=True)
        raise typer.Exit(1)


@app.command("list")
def list_experiments() -> None:
    """The experiments that are known by name."""
    from propml.benchmark.experiment import experiment_names, load_experiment

    table = opt.plain_table(Column("name", no_wrap=True), numbers=("cells",))
    table.add_column("title")
    for name in experiment_names():
        known = load_experiment(name)
        table.add_row(name, str(len(known.cells())), escape(known.title))
    Console().print(table)


@app.command()
@opt.grouped
def status(
    place: Annotated[str, typer.Argument(metavar="RESULTS|EXPERIMENT", help="A results folder, or an experiment.")],
    part: Part,
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
        planned, folder = part.of(place)
        _print_status(ResultStore(folder), {cell.key: cell.method.name for cell in planned.cells()})
        return
    store = ResultStore(place)
    for name in dict.fromkeys(cell.experiment for cell in store.cells()):
        typer.echo(f"{name}:")
        # Cells of an earlier form of the experiment are counted, too.
        stored = {cell.key: cell.method for cell in store.cells(name)}
        try:
            whole = load_experiment(name)
        except ValueError:
            _print_status(store, stored, known=False)
        else:
            _print_status(store, {cell.key: cell.method.name for cell in whole.cells()} | stored)


def _print_status(store: ResultStore, keys: dict[str, str], known: bool = True) -> None:
    """Counts by method, what failed and what is old; only of a ``known`` experiment one knows what is missing."""
    from propml.benchmark.provenance import age
    from propml.benchmark.wording import counted

    cells = store.cells(keys=keys)
    done = store.done() & keys.keys()
    failed = {cell.key: cell for cell in cells if cell.failure}
    table = opt.plain_table(Column("method", no_wrap=True), numbers=("done", "missing", "failed"))
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
@opt.grouped
def report(
    folder: Annotated[Path, typer.Argument(help="Results folder, as `propml benchmark run` fills it.")],
    experiment: list[str] | None = opt.plain("Only this one; may be repeated.", show_default="all in the folder"),
    out: Path | None = opt.plain("Folder for the report, made if it is not there. Default: FOLDER/report."),
    formats: str = opt.plain("What to write; svg, png or pdf: each figure.", default="html,md,tex,csv"),
    paper: str | None = opt.plain(
        "Published experiment beside ours: real-world, artificial, vision, or none.", show_default="of the same name"
    ),
) -> None:
    """Write report.html (one file, no network), report.md, tables.tex and CSV from measured results.

    Example: [bold]propml benchmark report results --experiment real-world --formats html,md[/bold]
    """
    from propml import benchmark

    # What was asked for, without the folders of this machine.
    words = ["propml", "benchmark", "report", folder.name or "."]
    words += [word for name in experiment or () for word in ("--experiment", name)]
    files = benchmark.report(
        folder,
        out or folder / "report",
        formats=_parts([formats]) or [],
        experiments=experiment,
        paper=paper,
        command=shlex.join([*words, *(["--paper", paper] if paper is not None else [])]),
    )
    for path in files:
        typer.echo(f"wrote {path}")


@app.command()
@opt.grouped
def compare(
    folder: Annotated[Path, typer.Argument(help="Results folder that holds what is judged.")],
    other: Annotated[Path | None, typer.Argument(help="Results of what it is judged by, as before a change.")] = None,
    of: str = opt.plain("What is judged, by its name in the tables.", default="ProPML default", metavar="METHOD"),
    against: str | None = opt.plain("What it is judged by.", metavar="METHOD", show_default="the same of OTHER"),
    metric: list[str] | None = opt.plain("What to compare; may be repeated.", show_default="average_precision"),
) -> None:
    """By how much one method is better than another, dataset by dataset, with a sign test over the datasets.

    Settings of one dataset are not independent: its noises are averaged, and the test counts datasets.
    A gain is in percent and positive where the judged one is better, also of losses.

    Example: [bold]propml benchmark compare results/ground-quick --against 'Extra trees' --metric OF1[/bold]

    Before and after a change: [bold]propml benchmark compare results/after results/before[/bold]
    """
    from propml.benchmark.comparison import compare_pairs
    from propml.benchmark.store import ResultStore

    stores = [ResultStore(each) for each in (folder, other) if each is not None]
    for store in stores:
        if not (store.folder / "results.jsonl").is_file():
            raise FileNotFoundError(f"{store.folder} holds no results; `propml benchmark run` fills such a folder")
    for metric_name in metric or ["average_precision"]:
        pair = compare_pairs(stores[0], of, against, other=stores[1] if other else None, metric=metric_name)
        names = (pair.of, pair.against) if pair.of != pair.against else ("after", "before")
        title = f"{_title(pair.metric)}: {pair.of} against {pair.against}"
        table = _framed(title, "dataset", "settings", *names, "gain", "wins", "losses")
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


def _print_means(experiment: Experiment, store: ResultStore) -> None:
    """The first metric of the experiment, one row per method and one column per setting; the best ones are bold."""
    from propml.benchmark.results import means
    from propml.benchmark.wording import setting_name
    from propml.noise import Setting
    from propml.paper.published import metric_of

    metric, cells, console = experiment.metrics[0], experiment.cells(), Console()
    results = store.cells(keys={cell.key for cell in cells})
    shown = {(cell.setting, cell.method): "failed" for cell in results if cell.failure}
    settings = list(dict.fromkeys(Setting(cell.dataset, cell.noise) for cell in cells))
    for setting in settings:
        rows = means(cell for cell in results if cell.setting == setting)
        values = {row.method: row.mean for row in rows if row.metric == metric}
        best = (max if metric_of(metric).higher_is_better else min)(values.values(), default=None)
        for method, value in values.items():
            shown[setting, method] = f"[bold]{value:.2f}[/bold]" if value == best else f"{value:.2f}"
    per_table = max(1, (console.width - 20) // COLUMN_WIDTH)
    for first in range(0, len(settings), per_table):
        part = settings[first : first + per_table]
        table = _framed(_title(metric), "", *(setting_name(*setting) for setting in part))
        for entry in experiment.methods:
            table.add_row(escape(entry.name), *(shown.get((setting, entry.name), "") for setting in part))
        console.print(table)


def _title(metric: str) -> str:
    from propml.paper.published import metric_of

    return f"{metric_of(metric).title} {'↑' if metric_of(metric).higher_is_better else '↓'}, percent"


def _framed(title: str, words: str, *numbers: str) -> Table:
    columns = [Column(words, no_wrap=True), *(Column(escape(name), justify="right") for name in numbers)]
    return Table(*columns, title=escape(title), title_justify="left")
