"""``propml vision predict``, ``picture``, ``features`` and ``export``: what one does with a trained network."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propml.cli import file_options as opt
from propml.cli.stopping import told_when_stopped
from propml.devices import choose_device
from propml.vision.recipe import VisionRecipe

if TYPE_CHECKING:
    from propml.vision.checkpoint import TrainedNetwork
    from propml.vision.sources import ImageSource

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `propml vision train` wrote.")]
DatasetName = Annotated[
    str, typer.Argument(metavar="DATASET", help="voc2007, coco2014, digits-mosaic, a folder, or a CSV.")
]
top_labels = partial(opt.plain, "The N most probable labels instead.", min=1, metavar="N")
probable = partial(opt.plain, "Labels of at least this probability.", default=0.5, min=0, max=1)
AS_WANTED = "as the weights want it"
part_of_dataset = partial(opt.plain, "Part of the dataset: train, test, or as the dataset calls it.")


@dataclass(frozen=True)
class Images:
    """How images of a dataset are found, and what their candidates are."""

    noise: float | None = opt.plain("Flip each label that is not true with this probability.", min=0, max=1)
    seed: int = opt.plain("Seed of --noise, and of the images that a picture shows.", default=0, min=0)
    data: Path | None = opt.plain("Folder to search first for known datasets.")
    allow_outside: bool = opt.allow_outside_option()

    def source(self, dataset: str, split: str, trained: TrainedNetwork) -> ImageSource:
        """The images as the network saw them in training, with the candidates that training would draw for them."""
        from propml.vision.sources import open_source
        from propml.vision.training_data import draw_candidates

        where: dict[str, Any] = {"data_dir": self.data, "allow_outside": self.allow_outside}
        source = open_source(dataset, split, size=trained.recipe.side, **where)
        if self.noise is not None:
            return replace(source, candidates=draw_candidates(source, self.noise, self.seed))
        return source


@dataclass(frozen=True)
class Running:
    """How images are read, and where the network runs."""

    strict: bool = opt.plain("Stop at an image that cannot be read.", default=False)
    batch_size: int | None = opt.plain("Images per batch.", min=1, show_default="64 on a GPU, 8 on a CPU")
    workers: int | None = opt.plain("Threads that decode images.", min=1, show_default="one per core")
    device: str = opt.plain("cpu, cuda, cuda:1; auto: a GPU if there is one.", default="auto")

    def arguments(self) -> dict[str, Any]:
        """Of the functions that run a network over images."""
        on_error, device = "error" if self.strict else "skip", str(choose_device(self.device))
        return {"on_error": on_error, "batch_size": self.batch_size, "workers": self.workers, "device": device}


@opt.grouped
def features(
    dataset: DatasetName,
    backbone: str | None = opt.plain("A model of timm.", metavar="NAME", show_default=VisionRecipe.backbone),
    weights: str = opt.plain(
        "Its weights: a file, pretrained (downloaded), or none (random).", default="pretrained", metavar="FILE"
    ),
    model: Path | None = opt.plain("Network of a `propml vision train` run, instead of --backbone.", metavar="FOLDER"),
    size: int | None = opt.plain("Side of the images in pixels.", min=1, show_default=AS_WANTED),
    mean: str | None = opt.plain("Mean to subtract from pixels in [0, 1].", metavar="R,G,B", show_default=AS_WANTED),
    std: str | None = opt.plain("Standard deviation to divide them by.", metavar="R,G,B", show_default=AS_WANTED),
    mirror: bool = opt.plain("Average each image and its mirror image.", "--mirror/--no-mirror", default=True),
    out: Path = opt.plain("Where to write, .npz or .parquet.", default=Path("features.npz")),
    cache: Path | None = opt.plain("Folder for computed features.", show_default="the user's cache"),
    split: str = part_of_dataset(default="train"),
    *,
    images: Images,
    running: Running,
) -> None:
    """Turn images into a table of features with a pretrained backbone. Try this first.

    The file holds features, candidate and true labels, and every command takes it:
    [bold]propml fit features.npz[/bold], [bold]propml audit features.npz[/bold].
    Features are saved block by block: after an interruption, the same command continues.

    Examples:

    [bold]propml vision features photos.csv --out photos.npz[/bold]

    [bold]propml vision features photos.csv --backbone resnet50 --weights resnet50.safetensors[/bold]

    [bold]propml vision features voc2007 --noise 0.4 --out train.npz[/bold]

    [bold]propml vision features voc2007 --model run --split test --out test.parquet[/bold]
    """
    from propml.vision.checkpoint import load_network
    from propml.vision.deep_features import backbone_alone, check_destination, compute_features, write_features

    check_destination(out)
    if model is None:
        try:
            scale = [None if text is None else [float(part) for part in text.split(",")] for text in (mean, std)]
        except ValueError as error:
            raise ValueError(f"--mean and --std are three numbers, such as 0.485,0.456,0.406: {error}") from None
        kept_weights = None if weights == "none" else weights
        trained = backbone_alone(backbone or VisionRecipe.backbone, kept_weights, size, mean=scale[0], std=scale[1])
    elif backbone or size or mean or std or weights != "pretrained":
        raise ValueError("--model has its own network; leave out --backbone, --weights, --size, --mean and --std")
    else:
        trained = load_network(model)
    source = images.source(dataset, split, trained)
    with told_when_stopped("what was computed is kept, and the same command goes on"):
        kept = "auto" if cache is None else cache
        computed = compute_features(trained, source, mirror=mirror, cache=kept, verbose=True, **running.arguments())
    write_features(out, computed, source)
    _tell_skipped(computed.skipped)
    n, d = computed.X.shape
    typer.echo(f"{n} images, {d} features, {len(source.label_names)} labels; written: {out}")


@opt.grouped
def predict(
    model: Model,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES…", help="Image files, or folders of them.")],
    top: int | None = top_labels(),
    threshold: float = probable(),
    out: Path | None = opt.plain("Write a .csv instead, with the probability of every label.", metavar="FILE"),
    picture: Path | None = opt.plain("Draw the first images with their labels, .png or .pdf.", metavar="FILE"),
    *,
    running: Running,
) -> None:
    """Label images: the labels of each with their probabilities, best first.

    Examples:

    [bold]propml vision predict run photo.jpg holidays/ --top 3[/bold]

    [bold]propml vision predict run holidays/ --out labels.csv --picture labels.png[/bold]
    """
    from propml.auditing.folder import check_not_read
    from propml.tables.text import write_csv
    from propml.vision.checkpoint import load_network
    from propml.vision.image_cache import decode_images
    from propml.vision.predict import check_picture, image_grid, predict_images
    from propml.vision.sources import ImageSource

    if out is not None and out.suffix.lower() != ".csv":
        raise ValueError(f"predictions are written as CSV, and {out} ends in {out.suffix!r}; choose a name in .csv")
    if picture is not None:
        check_picture(picture)
    check_not_read([path for path in (out, picture) if path is not None], images)
    trained = load_network(model)
    if out is not None and (clash := next((label for label in trained.label_names if ";" in label), None)):
        raise ValueError(f"label {clash!r} contains ';', which stands between two predicted labels; rename it")
    predictions = predict_images(trained, images, verbose=True, **running.arguments())
    labels = predictions.labels(top=top, threshold=threshold)
    if out is None:
        for path, own in zip(predictions.paths, labels, strict=True):
            text = ", ".join(f"{label} {p:.2f}" for label, p in own) or "no label"
            typer.echo(opt.plain_text(f"{path}: {text}"))
    else:
        header = ["image", "predicted", *(f"p({label})" for label in trained.label_names)]
        # Bytes of a name that are no text become replacement characters.
        names = (os.fsencode(path).decode(errors="replace") for path in predictions.paths)
        rows = (
            [name, ";".join(label for label, _ in own), *(f"{p:.6g}" for p in scores)]
            for name, own, scores in zip(names, labels, predictions.probabilities.tolist(), strict=True)
        )
        write_csv(out, header, rows)
    if picture is not None:
        first = ImageSource("images", predictions.paths[:24], None, None, trained.label_names, "new")
        pixels = decode_images(first, trained.recipe.side, on_error="error", verbose=False).images
        shown = predictions.probabilities[: len(first)]
        image_grid(pixels, shown, trained.label_names, top=top, threshold=threshold, path=picture)
    _tell_skipped(predictions.skipped)
    if out is not None:
        typer.echo(f"{len(predictions.paths)} images; predictions: {out}")


@opt.grouped
def picture(
    model: Model,
    dataset: DatasetName,
    out: Path = opt.plain("Where to draw, .png or .pdf.", default=Path("picture.png")),
    images: int = opt.plain("Number of images, drawn at random.", "--images", "-n", default=12, min=1),
    top: int | None = top_labels(),
    threshold: float = probable(),
    split: str = part_of_dataset(default="test"),
    *,
    chosen: Images,
    running: Running,
) -> None:
    """Draw a grid of images with their predicted, candidate and true labels.

    Examples:

    [bold]propml vision picture run voc2007 --noise 0.4 --out grid.png[/bold]

    [bold]propml vision picture run photos.csv --split train -n 24 --top 3[/bold]
    """
    import numpy as np

    from propml.vision.checkpoint import load_network
    from propml.vision.image_cache import build_cache
    from propml.vision.predict import check_picture, image_grid, probabilities

    check_picture(out)
    trained, run = load_network(model), running.arguments()
    source = chosen.source(dataset, split, trained)
    if source.label_names != trained.label_names:
        raise ValueError(f"{dataset} has other labels than the network in {model}; give images with the same labels")
    drawn = np.random.default_rng(chosen.seed).permutation(len(source))[:images]
    source = source.take(np.sort(drawn))
    read = build_cache(source, trained.recipe.side, None, on_error=run["on_error"], verbose=False)
    shown = source.take(read.kept)
    image_grid(
        read.images,
        probabilities(trained, read.images, batch_size=running.batch_size, device=run["device"]),
        trained.label_names,
        candidates=None if shown.candidates is None else shown.candidates.to_matrix(),
        truth=shown.truth,
        top=top,
        threshold=threshold,
        path=out,
    )
    _tell_skipped(read.skipped)
    typer.echo(f"{len(read)} images; picture: {out}")


@opt.grouped
def export(model: Model, out: Path = opt.plain("Where to write, .onnx.", default=Path("model.onnx"))) -> None:
    """Write a trained network as ONNX and check that it gives the same probabilities.

    It takes pixels, uint8 (n, size, size, 3), and gives logits and probabilities, float32 (n, labels); the label names
    stand in its metadata.

    Example:

    [bold]propml vision export run --out model.onnx[/bold]
    """
    from propml.vision.checkpoint import export_onnx, load_network

    written = export_onnx(load_network(model), out)
    typer.echo(f"{written.path}: probabilities differ from the network's by at most {written.largest_difference:.1e}")


def _tell_skipped(skipped: tuple[tuple[str, str], ...]) -> None:
    """Every image that was left out, by name, on standard error."""
    for path, why in skipped:
        typer.echo(opt.plain_text(f"left out: {path} ({why})"), err=True)
    if skipped:
        typer.echo(f"{len(skipped)} images could not be read and were left out", err=True)
