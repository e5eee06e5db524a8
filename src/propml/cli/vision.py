"""``propml vision``: train a network on images with candidate labels, and use it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propml.cli.file_options import checked_device, echo_notes
from propml.cli.stopping import told_when_stopped
from propml.cli.vision_predict import export, features, picture, predict
from propml.vision.recipe import DEFAULT, Recipe, recipe_from

if TYPE_CHECKING:
    from propml.vision.sources import ImageSource
    from propml.vision.training import TrainingResult

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Images with candidate labels: train a network, label images with it, take its features elsewhere.\n\n"
    "Try it in a minute, without data: [bold]propml vision train --dataset digits-mosaic --backbone small_cnn "
    "--size 16 --epochs 8 --lr 0.003 --augment none[/bold]",
)

IMAGES, NETWORK, LOSS, TRAINING, CHOICE, MACHINE = "Images", "Network", "Loss", "Training", "Choice", "Machine"


def _option(panel: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


@app.command()
def train(
    context: typer.Context,
    dataset: Annotated[
        str,
        _option(IMAGES, "voc2007, coco2014, digits-mosaic; a devkit; a CSV with path and candidates.", metavar="NAME"),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the run; a new one for each.")] = Path("run"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in OUT that was stopped, from its last checkpoint.")
    ] = False,
    tuned: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The best.toml of propml tune vision: its settings, where you give no option yourself."
        ),
    ] = None,
    noise: Annotated[
        float | None,
        _option(
            IMAGES,
            "Make candidates: flip each label that is not true with this probability (paper: 0.1, 0.2, 0.4).",
            show_default="the images' own candidates, or else their true labels",
        ),
    ] = DEFAULT.noise,
    split: Annotated[str, _option(IMAGES, "Part to learn from.")] = "train",
    validation: Annotated[
        str | None,
        _option(IMAGES, "Part with true labels to report on; none: no report.", show_default="test, where there is"),
    ] = None,
    size: Annotated[int, _option(IMAGES, "Side in pixels.", min=1)] = DEFAULT.size,
    data: Annotated[Path | None, _option(IMAGES, "Where known datasets are looked for first.")] = None,
    cache: Annotated[Path | None, _option(IMAGES, "For decoded images.", show_default="the user's cache")] = None,
    strict: Annotated[bool, _option(IMAGES, "Stop at an image that cannot be read.", "--strict")] = False,
    allow_outside: Annotated[
        bool, _option(IMAGES, "Read images outside the folder of the table, too.", "--allow-outside")
    ] = False,
    limit: Annotated[int | None, _option(IMAGES, "Only the first N images of each part: a quick try.", min=1)] = None,
    backbone: Annotated[
        str, _option(NETWORK, "Any image model of timm by name, such as resnet18; small_cnn for thumbnails.")
    ] = DEFAULT.backbone,
    weights: Annotated[
        str, _option(NETWORK, "To start from: none (random), pretrained (downloaded), or a file.")
    ] = "none",
    head: Annotated[str, _option(NETWORK, "linear or query2label.")] = DEFAULT.head,
    head_width: Annotated[
        int, _option(NETWORK, "Of query2label; its inner layers are 4 times as wide.", min=4)
    ] = DEFAULT.head_width,
    loss: Annotated[str, _option(LOSS, "propml, bce, asl, propall, power or unbiased.")] = DEFAULT.loss,
    lam: Annotated[
        str, _option(LOSS, "λ, the weight of excluded labels; auto: the best of four on held-out candidates.")
    ] = str(DEFAULT.lam),
    order: Annotated[float, _option(LOSS, "Of power: 0 is bce, 1 is propml.")] = DEFAULT.order,
    flip_rate: Annotated[
        float | None, _option(LOSS, "Of unbiased: the noise, if you know it.", show_default="estimated")
    ] = DEFAULT.flip_rate,
    gamma_negative: Annotated[float, _option(LOSS, "Of asl; Query2Label has 2.")] = DEFAULT.gamma_negative,
    clip: Annotated[float, _option(LOSS, "Of asl; Query2Label has 0.")] = DEFAULT.clip,
    curriculum: Annotated[
        str, _option(LOSS, "cdcr or cdcr-difficulty: learn from candidates that the network believes. Use --loss bce.")
    ] = DEFAULT.curriculum,
    warmup_epochs: Annotated[
        int, _option(LOSS, "Of cdcr: epochs on all candidates, first.", min=1)
    ] = DEFAULT.warmup_epochs,
    lam_epochs: Annotated[
        int | None, _option(LOSS, "How long auto tries each λ.", min=1, show_default="a third of the epochs")
    ] = DEFAULT.lam_epochs,
    epochs: Annotated[int, _option(TRAINING, "Passes over the images.", min=1)] = DEFAULT.epochs,
    batch_size: Annotated[int, _option(TRAINING, "Images per step, over all GPUs.", min=1)] = DEFAULT.batch_size,
    lr: Annotated[float, _option(TRAINING, "Highest learning rate of the one-cycle schedule.")] = DEFAULT.lr,
    weight_decay: Annotated[float, _option(TRAINING, "Not on biases and norms.")] = DEFAULT.weight_decay,
    schedule_epochs: Annotated[
        int | None,
        _option(
            TRAINING, "Length of the one-cycle; cdcr and asl have 80 and stop before.", min=1, show_default="epochs"
        ),
    ] = DEFAULT.schedule_epochs,
    optimiser: Annotated[str, _option(TRAINING, "adam (the paper's) or adamw.")] = DEFAULT.optimiser,
    augment: Annotated[
        str,
        _option(
            TRAINING,
            "paper (flip, cutout, RandAugment), randaugment (no cutout), crop (from scratch), light (flip), none.",
        ),
    ] = DEFAULT.augment,
    crop_size: Annotated[
        int | None, _option(TRAINING, "Of crop: side of the crops in pixels.", min=1, show_default="size")
    ] = DEFAULT.crop_size,
    ema: Annotated[float, _option(TRAINING, "Decay of the averaged weights; 0: none.")] = DEFAULT.ema_decay,
    ema_warmup: Annotated[
        bool, _option(TRAINING, "Forget the first weights sooner; the paper does not, and averages them in.")
    ] = DEFAULT.ema_warmup,
    select: Annotated[
        str,
        _option(CHOICE, "Epoch and weights by: candidates (held out), last (none), oracle (test labels: the paper)."),
    ] = DEFAULT.select,
    hold_out: Annotated[float, _option(CHOICE, "Share of training images held out to choose by.")] = DEFAULT.hold_out,
    seed: Annotated[
        int, _option(CHOICE, "The same seed gives the same noise, order and network.", min=0)
    ] = DEFAULT.seed,
    device: Annotated[str, _option(MACHINE, "cpu, cuda, cuda:1; auto: a GPU if there is one.")] = "auto",
    precision: Annotated[str, _option(MACHINE, "auto, bfloat16, float16 or float32.")] = DEFAULT.precision,
    compile: Annotated[
        str | None, _option(MACHINE, "Mode of torch.compile: reduce-overhead (for a GPU), default, …")
    ] = DEFAULT.compile,
    eval_every: Annotated[int, _option(MACHINE, "Epochs between two evaluations.", min=1)] = DEFAULT.eval_every,
    tensorboard: Annotated[bool, _option(MACHINE, "Write curves for TensorBoard too.", "--tensorboard")] = False,
) -> None:
    """Train a network on images whose labels are candidates: sets of which only some are true.

    The defaults are the paper's recipe: TResNet-L, 224 pixels, one-cycle Adam, averaged weights.
    What the paper chose on test labels (λ, epoch) is chosen here on candidates of images held out.

    OUT then holds [bold]best.safetensors[/bold] (for [bold]propml vision predict OUT[/bold]), curves.csv (every metric,
    of raw and averaged weights), lam.json, candidates.npz (the noise that was drawn) and the checkpoint: after a crash
    the same command with [bold]--resume[/bold] goes on from there, on a CPU to the same weights.

    Examples:

    [bold]propml vision train --dataset voc2007 --loss propml --noise 0.4 --weights pretrained --out voc[/bold]

    [bold]propml vision train --dataset photos.csv --backbone resnet18 --lr 0.002 --epochs 30[/bold]
    (columns: path; candidates, as in beach;sunset; where known, split and truth)

    [bold]propml vision train --dataset voc2007 --noise 0.4 --loss bce --curriculum cdcr --epochs 57 --schedule-epochs
    80[/bold]

    [bold]propml vision train --dataset voc2007 --noise 0.4 --loss asl --gamma-negative 2 --clip 0 --head
    query2label[/bold]

    [bold]torchrun --nproc-per-node 4 --no-python propml vision train --dataset coco2014 --noise 0.2 --batch-size
    256[/bold]
    """
    from propml.vision.training import train as run_training

    settings: dict[str, Any] = {
        "size": size,
        "noise": noise,
        "hold_out": hold_out,
        "backbone": backbone,
        "weights": None if weights == "none" else weights,
        "head": head,
        "head_width": head_width,
        "head_feedforward": 4 * head_width,
        "loss": loss,
        "lam": _lam(lam),
        "lam_epochs": lam_epochs,
        "order": order,
        "flip_rate": flip_rate,
        "gamma_negative": gamma_negative,
        "clip": clip,
        "curriculum": curriculum,
        "warmup_epochs": warmup_epochs,
        "epochs": epochs,
        "batch_size": batch_size,
        "optimiser": optimiser,
        "lr": lr,
        "weight_decay": weight_decay,
        "schedule_epochs": schedule_epochs,
        "augment": augment,
        "crop_size": crop_size,
        "ema_decay": ema,
        "ema_warmup": ema_warmup,
        "select": select,
        "seed": seed,
        "precision": precision,
        "compile": compile,
        "eval_every": eval_every,
    }
    recipe = recipe_from(settings | _tuned(tuned, context), tuned)
    train_on, report_on = _sources(
        dataset, split, validation, recipe, limit, data_dir=data, allow_outside=allow_outside
    )
    with told_when_stopped("the same command with --resume goes on from the last checkpoint"):
        result = run_training(
            train_on,
            report_on,
            recipe,
            out,
            resume=resume,
            device=checked_device(device),
            cache="auto" if cache is None else cache,
            on_error="error" if strict else "skip",
            tensorboard=tensorboard,
            tell=_note,
        )
    if os.environ.get("RANK", "0") == "0":
        _tell(result, recipe)


for command in (predict, picture, features, export):
    app.command()(command)


def _tuned(path: Path | None, context: typer.Context) -> dict[str, Any]:
    """What a search found, but for what was given on the command line."""
    if path is None:
        return {}
    from propml.tuning.result import read_best

    method, found = read_best(path)
    if method != "vision":
        raise ValueError(f"{path} holds arguments of {method} for tables; give it to propml fit --tuned")
    options = {"ema_decay": "ema"}
    sources = {name: context.get_parameter_source(options.get(name, name)) for name in found}
    # By name: typer brings a copy of click whose values are not those of click itself.
    given = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    return {name: value for name, value in found.items() if name not in given}


def _lam(text: str) -> Any:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--lam is {text!r}; give a number, or auto") from None


def _sources(
    dataset: str,
    split: str,
    validation: str | None,
    recipe: Recipe,
    limit: int | None,
    **where: Any,
) -> tuple[ImageSource, ImageSource | None]:
    """The part to learn from, and the part to report on: the one asked for, or "test" where that has true labels."""
    from propml.vision.sources import open_source

    part = slice(limit)
    learned = open_source(dataset, split, size=recipe.size, **where).take(part)
    if validation == "none":
        return learned, None
    try:
        judged = open_source(dataset, validation or "test", size=recipe.size, **where).take(part)
    except (ValueError, OSError) as error:
        if validation is not None or recipe.select == "oracle":
            raise
        _note(f"nothing to report on: {error}")
        return learned, None
    if validation is not None:
        return learned, judged
    if judged.truth is None:
        return learned, None
    if recipe.select != "oracle" and not judged.truth.any():
        _note(f"nothing to report on: no image of {judged.name} ({judged.split}) has a true label")
        return learned, None
    return learned, judged


def _note(sentence: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        echo_notes([sentence])


def _tell(result: TrainingResult, recipe: Recipe) -> None:
    how = {
        "candidates": "the best on held-out candidates",
        "oracle": "the best on the true labels of the validation images, as the paper selects",
        "last": "the last one",
    }[recipe.select]
    averaged = "averaged weights" if result.weights == "ema" else "weights"
    typer.echo(f"λ {result.lam:.4g}; {averaged} of epoch {result.epoch} of {recipe.epochs}, {how}")
    if result.metrics:
        typer.echo("on the validation images: " + ", ".join(f"{k} {100 * v:.2f}" for k, v in result.metrics.items()))
    typer.echo(f"network: {result.folder / 'best.safetensors'}; curves: {result.folder / 'curves.csv'}")
