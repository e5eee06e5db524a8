"""``propml vision``: train a network on images with candidate labels, and use it."""

from __future__ import annotations

import inspect
import os
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from propml.cli import file_options as opt
from propml.cli.stopping import told_when_stopped
from propml.cli.vision_predict import export, features, picture, predict
from propml.vision.recipe import IMAGES, MACHINE, RECIPES, VisionRecipe, recipe_from, with_new_names

if TYPE_CHECKING:
    from propml.vision.sources import ImageSource
    from propml.vision.training import TrainingResult

app = opt.group_of_commands(
    help="Images with candidate labels: train a network, label images with it, take its features elsewhere.\n\n"
    "Try it in a minute, without data: [bold]propml vision train --dataset digits-mosaic --backbone small_cnn "
    "--size 16 --epochs 8 --learning-rate 0.003 --augment none[/bold]"
)
of_images, on_machine = map(opt.panel, (IMAGES, MACHINE))
SPEAKS = os.environ.get("RANK", "0") == "0"  # of all processes that ``torchrun`` starts, the first one


def recipe_options(recipe: VisionRecipe, *names: str) -> list[inspect.Parameter]:
    """The options that settings of a recipe make, by default all: flags, types and help come from the dataclass."""
    hints, options = get_type_hints(VisionRecipe), []
    for each in fields(VisionRecipe):
        if names and each.name not in names:
            continue
        about, kinds = each.metadata, set(get_args(hints[each.name]) or (hints[each.name],))
        kind: Any = next((simple for simple in (bool, int, float) if kinds <= {simple, NoneType}), str)
        default = getattr(recipe, each.name)
        if default is None and kind is str and not about["unset"]:
            default = "none"
        shown = about["unset"] if default is None else True
        option = typer.Option(*about["flags"], help=about["help"], rich_help_panel=about["panel"], show_default=shown)
        hint: Any = Annotated[kind | None if default is None else kind, option]
        options.append(inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    return options


@app.command()
@partial(opt.grouped, settings=recipe_options(VisionRecipe()))
def train(
    context: typer.Context,
    dataset: str = of_images(
        "voc2007, coco2014, digits-mosaic; a devkit; a CSV with path and candidates.", default=..., metavar="NAME"
    ),
    out: Path = opt.plain("Folder of the run; a new one for each.", default=Path("run")),
    recipe: str | None = opt.plain(
        "default (from pretrained weights, with care), paper (TResNet-L, 50 epochs at once), scratch (for "
        "random weights); every option below changes it.",
        metavar="NAME",
        show_default="default; scratch with --weights none",
    ),
    resume: bool = opt.plain("Resume the stopped run in OUT from its last checkpoint.", default=False),
    tuned: Path | None = opt.plain("Settings of a best.toml of `propml tune vision`; options win.", metavar="FILE"),
    split: str = of_images("Part to train on.", default="train"),
    validation: str | None = of_images("Part with true labels to report on, or none.", show_default="test, if any"),
    data: Path | None = of_images("Folder to search first for known datasets."),
    cache: Path | None = of_images("Folder for decoded images.", show_default="the user's cache"),
    strict: bool = of_images("Stop at an image that cannot be read.", default=False),
    allow_outside: bool = of_images("Also read images outside the folder of the table.", default=False),
    limit: int | None = of_images("Only the first N images of each part: a quick try.", min=1),
    device: str = on_machine("cpu, cuda, cuda:1; auto: a GPU if there is one.", default="auto"),
    tensorboard: bool = on_machine("Also write curves for TensorBoard.", default=False),
    **settings: Any,
) -> None:
    """Train a network on images whose labels are candidates: sets of which only some are true.

    By default, training fits a head on the frozen features of a pretrained backbone, then fine-tunes the whole network.
    The fine-tuned network is kept only if held-out candidates clearly favour it. They also choose λ, epoch and weights:
    no true label is used.

    OUT then holds [bold]best.safetensors[/bold] (for [bold]propml vision predict OUT[/bold]), curves.csv (every metric,
    of raw and averaged weights), lam.json, candidates.npz (the noise that was drawn) and the checkpoint. After a
    crash, the same command with [bold]--resume[/bold] continues from there; on a CPU it reaches the same weights.

    Examples:

    [bold]propml vision train --dataset voc2007 --loss propml --noise 0.4 --out voc[/bold]

    [bold]propml vision train --dataset photos.csv --tune head[/bold]
    (columns: path; candidates, as in beach;sunset; where known, split and truth)

    [bold]propml vision train --dataset voc2007 --noise 0.4 --recipe paper --weights pretrained[/bold]

    [bold]propml vision train --dataset voc2007 --noise 0.4 --loss asl --gamma-negative 2 --clip 0 --head
    query2label[/bold]

    [bold]torchrun --nproc-per-node 4 --no-python propml vision train --dataset coco2014 --noise 0.2 --batch-size
    256[/bold]
    """
    from propml.vision.training import train as run_training

    # By name: typer brings a copy of click whose values are not those of click itself.
    sources = {name: getattr(context.get_parameter_source(name), "name", "") for name in settings}
    given = {name: recipe_value(name, value) for name, value in settings.items() if sources[name] == "COMMANDLINE"}
    chosen = _recipe(recipe, {**_tuned(tuned), **given})
    where = {"size": chosen.size, "data_dir": data, "allow_outside": allow_outside}
    train_on, report_on = _sources(dataset, split, validation, chosen, slice(limit), where)
    with told_when_stopped("the same command with --resume goes on from the last checkpoint"):
        result = run_training(
            train_on,
            report_on,
            chosen,
            out,
            resume=resume,
            device=opt.checked_device(device),
            cache="auto" if cache is None else cache,
            on_error="error" if strict else "skip",
            tensorboard=tensorboard,
            tell=_note,
        )
    if SPEAKS:
        _tell(result, chosen)


for command in (predict, picture, features, export):
    app.command()(command)


def recipe_value(name: str, value: Any) -> Any:
    """What an option means to a recipe."""
    if name in ("weights", "compile") and value == "none":
        return None
    if name == "lam" and value != "auto":
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"--lam is {value!r}; give a number, or auto") from None
    return value


def _recipe(name: str | None, settings: dict[str, Any]) -> VisionRecipe:
    from propml.vision.backbone import resolved

    if name is None:
        from_nothing = settings.get("weights", "auto") is None or settings.get("backbone") == "small_cnn"
        name = "scratch" if from_nothing else "default"
    if name not in RECIPES:
        raise ValueError(f"--recipe is {name!r}; choose one of {', '.join(RECIPES)}")
    return resolved(VisionRecipe(**{**RECIPES[name], **settings}))


def _tuned(path: Path | None) -> dict[str, Any]:
    """What a search found."""
    if path is None:
        return {}
    from propml.tuning.result import read_best

    method, settings = read_best(path)
    if method != "vision":
        raise ValueError(f"{path} holds arguments of {method} for tables; give it to propml fit --tuned")
    recipe_from(settings, path)  # names settings that are not known
    return {**RECIPES["paper"], **with_new_names(settings)}


def _sources(
    dataset: str, split: str, validation: str | None, recipe: VisionRecipe, part: slice, where: dict[str, Any]
) -> tuple[ImageSource, ImageSource | None]:
    """The part to learn from, and the part to report on: the one asked for, or "test" where that has true labels."""
    from propml.vision.sources import open_source

    needed = validation is not None or recipe.select == "oracle"
    learned = open_source(dataset, split, **where).take(part)
    if validation == "none":
        return learned, None
    try:
        judged = open_source(dataset, validation or "test", **where).take(part)
        if not needed and judged.truth is not None and not judged.truth.any():
            raise ValueError(f"no image of {judged.name} ({judged.split}) has a true label")
    except (ValueError, OSError) as error:
        if needed:
            raise
        _note(f"nothing to report on: {error}")
        return learned, None
    return learned, judged if validation is not None or judged.truth is not None else None


def _note(sentence: str) -> None:
    if SPEAKS:
        opt.echo_notes([sentence])


def _tell(result: TrainingResult, recipe: VisionRecipe) -> None:
    how = {
        "candidates": "the best on held-out candidates",
        "oracle": "the best on the true labels of the validation images, as the paper selects",
        "last": "the last one",
    }
    weights = {"raw": "weights", "ema": "averaged weights", "half": "weights half-way from the frozen network"}
    which = f"{weights[result.weights]} of epoch {result.epoch} of {recipe.epochs}, {how[recipe.select]}"
    if result.epoch == 0:
        which = "the head on frozen features"
        which += "; no tuned network was better beyond doubt" if recipe.tune == "all" else ""
    typer.echo(f"λ {result.lam:.4g}; {which}")
    if result.metrics:
        typer.echo("on the validation images: " + ", ".join(f"{k} {100 * v:.2f}" for k, v in result.metrics.items()))
    typer.echo(f"network: {result.folder / 'best.safetensors'}; curves: {result.folder / 'curves.csv'}")
