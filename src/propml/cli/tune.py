"""``propml tune``: search the hyper-parameters of a method on a table, or of the vision trainer on images."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from propml.cli import file_options as opt
from propml.cli.stopping import told_when_stopped
from propml.cli.vision import of_images, recipe_options, recipe_value
from propml.vision.recipe import PAPER

if TYPE_CHECKING:
    from propml.tuning.tasks import Task

app = opt.group_of_commands(
    help="Search hyper-parameters on candidate labels: TPE proposes, Hyperband stops poor trials early.\n\n"
    "Try it in a minute, without data: [bold]propml tune table digits-mosaic --noise 50 --trials 30 --epochs 9[/bold]"
)
by_search, by_space, by_machines = map(opt.panel, ("Search", "Space", "Machines"))
TRIALS = "Trials that the study is to have, earlier ones included."
DEFAULT = replace(PAPER, weights=None)
# Settings of a recipe that are options; the others are the paper's, or searched.
SETTINGS = ("epochs", "noise", "size", "loss", "backbone", "weights", "batch_size", "augment", "seed")


@dataclass(frozen=True)
class Search:
    """The options of a search, whatever is searched."""

    out: Path = opt.plain("Folder for study, best.toml, trials.csv and search.html.", default=Path("tuned"))
    timeout: float | None = by_search("Begin no epoch after so long.", metavar="SECONDS")
    objective: str = by_search(
        "Judge held-out rows by candidates, or, for comparisons only, by oracle: true labels.", default="candidates"
    )
    param: list[str] | None = by_space(
        "Change the space: lam=0.01..1, 'lam=log:0.01..1', 'hidden=[256]|[512]', or fix: loss=propml.", metavar="NAME=…"
    )
    storage: str | None = by_machines(
        "Keep the study in a file, or in postgresql://user@host/database.", metavar="URL", show_default="OUT/study.db"
    )
    study: str = by_machines("Name of the study in its storage.", default="propml")
    workers: int = by_machines("Processes on this machine.", default=1, min=1)
    device: str = opt.device_option()

    def space(self) -> dict[str, Any]:
        """What --param says."""
        from propml.tuning.spaces import parse_dimension

        return dict(parse_dimension(each) for each in self.param or ())


@app.command()
@opt.grouped
def table(
    data: Annotated[str, typer.Argument(metavar="DATASET|FILE", help="One of `propml datasets list`, or your file.")],
    search: Search,
    reading: opt.Reading,
    method: str = by_search("propml, ridge, ml-knn, pml-ni, …", default="propml"),
    trials: int = by_search(TRIALS, default=50, min=1),
    epochs: int | None = by_search("The whole budget of a trial.", min=1, show_default="by rows"),
    cv: int = by_search("Folds that every trial is judged on.", default=3, min=2),
    noise: float | None = opt.labels("DATASET with clean labels: percent of false ones.", min=0),
    truth: str | None = opt.labels("Column of true labels, for oracle.", metavar="COLUMN"),
    categorical: list[str] | None = opt.categorical_option(),
    seed: int = opt.seed_option(),
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
    """
    from propml.datasets.registry import REGISTRY
    from propml.tuning.tasks import TableData, make_task

    experiment = None
    if Path(data).is_file():
        if noise is not None:
            raise ValueError(f"--noise makes false labels for a DATASET, and {data} is a file; leave it out")
        X, candidates, true = _file(Path(data), search, reading, categorical, truth)
    elif data.lower() in REGISTRY:
        defaults = {**vars(opt.Reading()), "truth": None, "categorical": None}
        told = {**vars(reading), "truth": truth, "categorical": categorical}
        if given := [name for name, value in told.items() if value != defaults[name]]:
            flags = ", ".join(opt.OTHER_NAMES.get(name, f"--{name.replace('_', '-')}") for name in given)
            raise ValueError(f"{data} is a DATASET, and a FILE is read with {flags}; leave that out")
        X, candidates, true, experiment = _dataset(data.lower(), noise, seed)
    else:
        raise ValueError(f"{data} is neither a file nor a known dataset; see `propml datasets list`")
    table_data = TableData(X, candidates, true, objective=search.objective, cv=cv, seed=seed)
    task = make_task(method, table_data, search.space(), epochs=epochs, device=opt.checked_device(search.device))
    _run(task, search, trials, seed, experiment)


@app.command()
@partial(opt.grouped, settings=recipe_options(DEFAULT, *SETTINGS))
def vision(
    data: Annotated[str, typer.Argument(metavar="DATASET|FILE", help="voc2007, coco2014, digits-mosaic; a CSV.")],
    search: Search,
    trials: int = by_search(TRIALS, default=30, min=1),
    limit: int | None = of_images("Only the first so many.", min=1),
    allow_outside: bool = opt.allow_outside_option(),
    **settings: Any,
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

    given = {name: recipe_value(name, value) for name, value in settings.items()}
    recipe = replace(DEFAULT, **{**given, "lam": 1.0, "select": search.objective})
    access: dict[str, Any] = {"size": recipe.size, "allow_outside": allow_outside}
    parts = ("train", "test") if search.objective == "oracle" else ("train",)
    source, *validation = [open_source(data, part, **access).take(slice(limit)) for part in parts]
    judged = validation[0] if validation else None
    device = opt.checked_device(search.device)
    task = VisionTask(source, recipe, search.space(), validation=judged, device=device)
    _run(task, search, trials, recipe.seed)


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


def _file(
    path: Path, search: Search, reading: opt.Reading, categorical: list[str] | None, truth: str | None
) -> tuple[Any, Any, Any]:
    from propml.auditing.folder import check_not_read
    from propml.tables.dataset import true_labels
    from propml.tables.features import learn_features
    from propml.tables.files import read_table
    from propml.tuning.result import BEST, PAGE, TRIALS

    check_not_read([search.out / name for name in (BEST, TRIALS, PAGE)], [path])
    options = reading.options()
    options["ignore"] = [*options["ignore"], *([truth] if truth else [])]
    read = read_table(path, **options)
    learned = learn_features(read, categorical=categorical or (), verbose=True)
    opt.echo_notes(read.notes)
    if truth is None or search.objective != "oracle":
        return learned.X, read.candidates, None
    how = {"sep": options["sep"], "merge_labels": options["merge_labels"]}
    true = true_labels(read.source, read.candidates.labels, truth, **how, ignore_unseen=True)
    return learned.X, read.candidates, true.to_matrix()[read.rows]


def _run(task: Task, search: Search, trials: int, seed: int, experiment: dict[str, Any] | None = None) -> None:
    """Search, write what was found, and print the best trial and where everything is."""
    from propml.tuning.searching import run_search
    from propml.tuning.studies import without_secrets

    how: dict[str, Any] = {name: getattr(search, name) for name in ("timeout", "workers")}
    how |= {"storage": search.storage or search.out / "study.db", "name": search.study, "folder": search.out}
    with told_when_stopped("what was tried is kept in the study, and the same command goes on"):
        result = run_search(task, trials=trials, seed=seed, verbose=True, **how)
    command = shlex.join(without_secrets(word, search.storage or "") for word in ["propml", *sys.argv[1:]])
    best = result.write(search.out, experiment, command)
    arguments = opt.plain_table("argument", "value")
    for name, value in result.params.items():
        arguments.add_row(name, opt.printable(value))
    Console(soft_wrap=True).print(arguments)
    counts = [f"{sum(each.state == s for each in result.trials)} {s}" for s in ("complete", "pruned", "failed")]
    typer.echo(f"value {result.value:.4f} (trial {result.best.number}); trials: {', '.join(counts)}")
    for each in result.failures()[:3]:
        typer.echo(f"failed: trial {each.number}: {each.why}", err=True)
    typer.echo(f"best: {best}; page: {best.with_name('search.html')}")
    if experiment is not None:
        typer.echo(f"run it: propml benchmark run {best}")
