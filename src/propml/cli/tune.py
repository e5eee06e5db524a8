"""``propml tune``: search the hyper-parameters of a method on a table, or of the vision trainer on images."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from propml.cli import file_options as opt
from propml.cli.stopping import told_when_stopped
from propml.vision.recipe import PAPER as DEFAULT

if TYPE_CHECKING:
    from propml.tuning.result import SearchResult
    from propml.tuning.tasks import Task

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Search hyper-parameters on candidate labels: TPE proposes, Hyperband stops early what does badly.\n\n"
    "Try it in a minute, without data: [bold]propml tune table digits-mosaic --noise 50 --trials 30 --epochs 9[/bold]",
)

SEARCH, SPACE, MACHINES = "Search", "Space", "Machines"
# Options that say how a file of one's own is read.
OF_FILES = (*opt.READING, "truth", "categorical")

Out = Annotated[Path, typer.Option(help="Folder for study, best.toml, trials.csv and search.html; goes on if there.")]
Trials = Annotated[
    int, typer.Option(min=1, rich_help_panel=SEARCH, help="Trials that the study is to have, earlier ones included.")
]
Timeout = Annotated[
    float | None, typer.Option(rich_help_panel=SEARCH, metavar="SECONDS", help="Begin no epoch after so long.")
]
Objective = Annotated[
    str,
    typer.Option(
        rich_help_panel=SEARCH,
        help="What held-out rows are judged by: candidates; or oracle, their true labels, for comparisons only.",
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        rich_help_panel=SPACE,
        metavar="NAME=…",
        help="Change the space: lam=0.01..1, 'lam=log:0.01..1', 'hidden=[256,256]|[512]', or fix: loss=propml.",
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=MACHINES,
        metavar="URL",
        help="Where the study is kept: a file, or postgresql://user@host/database.",
        show_default="OUT/study.db",
    ),
]
Study = Annotated[str, typer.Option(rich_help_panel=MACHINES, help="Name of the study in its storage.")]
Workers = Annotated[int, typer.Option(min=1, rich_help_panel=MACHINES, help="Processes on this machine.")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=MACHINES, help="Run trials on this Ray cluster: auto, HOST:6379, ray://HOST:10001; local: here."
    ),
]


@app.command()
def table(
    context: typer.Context,
    data: Annotated[str, typer.Argument(metavar="DATASET|FILE", help="One of `propml datasets list`, or your file.")],
    out: Out = Path("tuned"),
    method: Annotated[str, typer.Option(rich_help_panel=SEARCH, help="propml, ridge, ml-knn, pml-ni, …")] = "propml",
    trials: Trials = 50,
    timeout: Timeout = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, rich_help_panel=SEARCH, help="The whole budget of a trial.", show_default="by rows"),
    ] = None,
    objective: Objective = "candidates",
    cv: Annotated[int, typer.Option(min=2, rich_help_panel=SEARCH, help="Folds that every trial is judged on.")] = 3,
    param: Param = None,
    storage: Storage = None,
    study: Study = "propml",
    workers: Workers = 1,
    ray_address: RayAddress = None,
    noise: Annotated[
        float | None,
        typer.Option(rich_help_panel=opt.LABELS, help="DATASET with clean labels: percent of false ones.", min=0),
    ] = None,
    candidates: opt.Candidates = None,
    sep: opt.Sep = ";",
    label_columns: opt.LabelColumns = None,
    votes: opt.Votes = None,
    votes_columns: opt.VotesColumns = "item,annotator,label",
    min_votes: opt.MinVotes = 1,
    min_confidence: opt.MinConfidence = 0.0,
    merge_labels: opt.MergeLabels = False,
    xml: opt.Xml = None,
    truth: Annotated[
        str | None,
        typer.Option(rich_help_panel=opt.LABELS, metavar="COLUMN", help="Column of true labels, for oracle."),
    ] = None,
    features: opt.Features = None,
    ignore: opt.Ignore = None,
    id_column: opt.Id = None,
    text: opt.Text = None,
    embed: opt.Embed = None,
    categorical: opt.Categorical = None,
    file_format: opt.Format = None,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    decimal: opt.Decimal = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
) -> None:
    """Find the best arguments of a method on a table, without a clean label.

    A trial trains one network per fold and is judged by how well it ranks held-out candidate labels.
    A whole rung of trials trains as one stacked model.
    Stop or kill a search as you like: the same command goes on from there.

    OUT then holds trials.csv, [bold]search.html[/bold] (importance, history, parallel coordinates) and
    [bold]best.toml[/bold]; that of a dataset runs as it is: [bold]propml benchmark run OUT/best.toml[/bold].

    Examples:

    [bold]propml tune table scene --noise 100 --trials 50 --out tuned[/bold]

    [bold]propml tune table photos.csv --candidates tags --method ridge --trials 30[/bold]

    [bold]propml tune table birds --noise 50 --param lam=0.02..1 --param loss=propml[/bold]  (the paper's range)

    [bold]propml tune table birds --noise 50 --workers 2 --storage postgresql://me@host/studies[/bold]

    [bold]propml tune table birds --noise 50 --ray-address 10.0.0.7:6379[/bold]
    """
    from propml.auditing.folder import check_not_read
    from propml.datasets.registry import REGISTRY
    from propml.tuning.result import BEST, PAGE, TRIALS
    from propml.tuning.tasks import TableData, make_task

    experiment = None
    if Path(data).is_file():
        if noise is not None:
            raise ValueError(f"--noise makes false labels for a DATASET, and {data} is a file; leave it out")
        check_not_read([out / name for name in (BEST, TRIALS, PAGE)], [data])
        # What may be given several times, and was not, is () here and None to the reader.
        reading = opt.reading_options({name: None if value == () else value for name, value in context.params.items()})
        reading["ignore"] = [*reading["ignore"], *([truth] if truth else [])]
        X, target, true = _file(Path(data), reading, categorical or (), truth if objective == "oracle" else None)
    elif data.lower() in REGISTRY:
        _refuse_file_options(context, data)
        X, target, true, experiment = _dataset(data.lower(), noise, seed)
    else:
        raise ValueError(f"{data} is neither a file nor a known dataset; see `propml datasets list`")
    table_data = TableData(X, target, true, objective=objective, cv=cv, seed=seed)
    task = make_task(method, table_data, _changes(param), epochs=epochs, device=opt.checked_device(device))
    _run(context, task, experiment)


@app.command()
def vision(
    context: typer.Context,
    data: Annotated[str, typer.Argument(metavar="DATASET|FILE", help="voc2007, coco2014, digits-mosaic; a CSV.")],
    out: Out = Path("tuned"),
    trials: Trials = 30,
    timeout: Timeout = None,
    epochs: Annotated[
        int, typer.Option(min=1, rich_help_panel=SEARCH, help="The whole budget of a trial.")
    ] = DEFAULT.epochs,
    objective: Objective = "candidates",
    param: Param = None,
    storage: Storage = None,
    study: Study = "propml",
    workers: Workers = 1,
    ray_address: RayAddress = None,
    noise: Annotated[
        float | None, typer.Option(rich_help_panel="Images", help="Flip each label that is not true with this chance.")
    ] = DEFAULT.noise,
    size: Annotated[int, typer.Option(rich_help_panel="Images", min=8, help="Side in pixels.")] = DEFAULT.side,
    limit: Annotated[int | None, typer.Option(rich_help_panel="Images", min=1, help="Only the first so many.")] = None,
    allow_outside: opt.AllowOutside = False,
    loss: Annotated[
        str, typer.Option(rich_help_panel=opt.MODEL, help="propml, bce, asl, propall, power or unbiased.")
    ] = DEFAULT.loss,
    backbone: Annotated[str, typer.Option(rich_help_panel=opt.MODEL, help="A model of timm.")] = DEFAULT.backbone,
    weights: Annotated[str, typer.Option(rich_help_panel=opt.MODEL, help="none, pretrained or a file.")] = "none",
    batch_size: Annotated[
        int, typer.Option(rich_help_panel=opt.MODEL, min=1, help="Images per step.")
    ] = DEFAULT.batch_size,
    augment: Annotated[
        str, typer.Option(rich_help_panel=opt.MODEL, help="paper, randaugment, crop, light or none.")
    ] = DEFAULT.augment,
    seed: opt.Seed = DEFAULT.seed,
    device: opt.Device = "auto",
) -> None:
    """Find learning rate, weight decay and λ of the vision trainer, in the paper's ranges unless you change them.

    Every trial is a run of [bold]propml vision train[/bold] in OUT/trials.
    It is judged by the candidates of images held out, and stops within an epoch where others did better.

    OUT then holds [bold]best.toml[/bold] with the recipe, trials.csv and [bold]search.html[/bold].

    Examples:

    [bold]propml tune vision voc2007 --noise 0.4 --weights pretrained --trials 30 --out tuned[/bold]

    [bold]propml tune vision photos.csv --backbone resnet18 --param learning_rate=1e-4..1e-2 --epochs 27[/bold]

    [bold]propml tune vision digits-mosaic --backbone small_cnn --size 16 --epochs 9 --param
    learning_rate=1e-4..1e-2 --augment none[/bold]
    """
    from propml.tuning.tasks import VisionTask
    from propml.vision.sources import open_source

    recipe = replace(
        DEFAULT,
        size=size,
        noise=noise,
        backbone=backbone,
        weights=None if weights == "none" else weights,
        loss=loss,  # type: ignore[arg-type]
        lam=1.0,
        epochs=epochs,
        batch_size=batch_size,
        augment=augment,  # type: ignore[arg-type]
        select=objective,  # type: ignore[arg-type]
        seed=seed,
    )
    part = slice(limit)
    access: dict[str, Any] = {"size": size, "allow_outside": allow_outside}
    source = open_source(data, "train", **access).take(part)
    validation = open_source(data, "test", **access).take(part) if objective == "oracle" else None
    task = VisionTask(source, recipe, _changes(param), validation=validation, device=opt.checked_device(device))
    _run(context, task)


def _changes(params: list[str] | None) -> dict[str, Any]:
    from propml.tuning.spaces import parse_dimension

    return dict(parse_dimension(each) for each in params or ())


def _refuse_file_options(context: typer.Context, dataset: str) -> None:
    options = {each.opts[0]: each.name for each in context.command.params if each.name in OF_FILES}
    sources = {flag: context.get_parameter_source(name) for flag, name in options.items() if name is not None}
    # By name: typer brings a copy of click whose values are not those of click itself.
    given = [flag for flag, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise ValueError(f"{dataset} is a DATASET, and a FILE is read with {', '.join(given)}; leave that out")


def _dataset(name: str, noise: float | None, seed: int) -> tuple[Any, Any, Any, dict[str, Any]]:
    from propml.benchmark.problem import has_real_candidates, load_problem
    from propml.noise import Noise

    if noise is not None and has_real_candidates(name):
        raise ValueError(f"{name} brings its own candidates; leave out --noise")
    if noise is None and not has_real_candidates(name):
        raise ValueError(f"{name} has clean labels; say with how many false ones to search: --noise 100 (percent)")
    problem = load_problem(name, None if noise is None else Noise.read(noise, "svm"), seed, verbose=True)
    experiment: dict[str, Any] = {"title": f"Tuned on {name}", "datasets": [name]}
    return problem.X, problem.candidates, problem.truth, experiment | ({} if noise is None else {"noise": [noise]})


def _file(path: Path, reading: dict[str, Any], categorical: Sequence[str], truth: str | None) -> tuple[Any, Any, Any]:
    from propml.tables.features import learn_features
    from propml.tables.files import read_table
    from propml.tables.truth import true_labels

    read = read_table(path, **reading)
    learned = learn_features(read, categorical=categorical, verbose=True)
    opt.echo_notes(read.notes)
    if truth is None:
        return learned.X, read.candidates, None
    how = {"sep": reading["sep"], "merge_labels": reading["merge_labels"]}
    true = true_labels(read.source, read.candidates.labels, truth, **how, ignore_unseen=True)
    return learned.X, read.candidates, true.to_matrix()[read.rows]


def _run(context: typer.Context, task: Task, experiment: dict[str, Any] | None = None) -> None:
    """Search as the options of both commands say, write what was found, and print it."""
    from propml.tuning.searching import run_search

    given = context.params
    out, storage = Path(given["out"]), given["storage"]
    options = {name: given[name] for name in ("trials", "timeout", "workers", "ray_address", "seed")}
    with told_when_stopped("what was tried is kept in the study, and the same command goes on"):
        result = run_search(
            task, storage=storage or out / "study.db", name=given["study"], folder=out, verbose=True, **options
        )
    best = result.write(out, experiment, _command(storage))
    _tell(result, best, experiment is not None)


def _command(storage: str | None) -> str:
    from propml.tuning.studies import without_secrets

    words = ["propml", *sys.argv[1:]]
    return shlex.join(words if storage is None else [without_secrets(word, storage) for word in words])


def _tell(result: SearchResult, best: Path, runs: bool) -> None:
    """The best trial, and where everything is."""
    arguments = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for name, value in result.params.items():
        arguments.add_row(name, opt.printable(value))
    console = Console(soft_wrap=True)
    console.print(arguments)
    counts = [f"{sum(each.state == s for each in result.trials)} {s}" for s in ("complete", "pruned", "failed")]
    typer.echo(f"value {result.value:.4f} (trial {result.best.number}); trials: {', '.join(counts)}")
    for each in result.failures()[:3]:
        typer.echo(f"failed: trial {each.number}: {each.why}", err=True)
    typer.echo(f"best: {best}; page: {best.with_name('search.html')}")
    if runs:
        typer.echo(f"run it: propml benchmark run {best}")
