"""The labels of new images, of files or of all images in folders; and a picture of images with their labels."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from propml.atomic_files import replacing
from propml.extras import require
from propml.vision.checkpoint import TrainedNetwork
from propml.vision.decoding import find_images
from propml.vision.deep_features import compute_features, run_network
from propml.vision.image_cache import OnError
from propml.vision.sources import ImageSource

RIGHT, WRONG, QUIET = "#1a7f37", "#cf222e", "#57606a"
WIDTH = 40  # characters beneath an image


@dataclass(frozen=True, eq=False)
class Predictions:
    """The labels of images.

    >>> found = Predictions((Path("a.jpg"),), np.array([[0.2, 0.9, 0.6]]), ("cat", "dog", "person"), ())
    >>> found.labels()
    [[('dog', 0.9), ('person', 0.6)]]
    >>> found.labels(top=1)
    [[('dog', 0.9)]]
    """

    paths: tuple[Path, ...]
    probabilities: np.ndarray  # float32, (n_images, n_labels)
    label_names: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]  # the images that could not be read, and why

    def labels(self, *, top: int | None = None, threshold: float = 0.5) -> list[list[tuple[str, float]]]:
        """The labels of each image with probabilities, best first: ``top`` of them, or those from a threshold on."""
        if top is not None and top < 1:
            raise ValueError(f"top is {top}; ask for at least one label")
        names = self.label_names
        return [[(names[j], float(own[j])) for j in _chosen(own, top, threshold)] for own in self.probabilities]


def _chosen(own: np.ndarray, top: int | None, threshold: float) -> list[int]:
    """The labels of an image, best first."""
    order = np.argsort(-own, kind="stable")
    return (order[:top] if top is not None else order[own[order] >= threshold]).tolist()


def probabilities(
    trained: TrainedNetwork,
    images: np.ndarray,
    *,
    batch_size: int | None = None,
    device: str | torch.device = "cpu",
    mirror: bool = True,
) -> np.ndarray:
    """Probabilities ``(n_images, n_labels)`` of decoded images; with ``mirror`` by the mean logits of both views."""
    return run_network(trained, images, mirror, batch_size, device, logits=True).sigmoid().cpu().numpy()


def predict_images(
    trained: TrainedNetwork,
    paths: Iterable[str | Path],
    *,
    on_error: OnError = "skip",
    batch_size: int | None = None,
    device: str | torch.device = "cpu",
    workers: int | None = None,
    verbose: bool = False,
) -> Predictions:
    """Label image files and the images of folders.

    Parameters
    ----------
    trained : TrainedNetwork
        Of :func:`propml.vision.load_network`.
    paths : files or folders
    on_error : {"skip", "error"}
        What to do about an image that cannot be read.
    batch_size, device, workers
        How many images the network sees at once (by default 64 on a GPU, 8 on a CPU), where it runs, and how many
        threads decode.
    """
    source = ImageSource("images", find_images(paths), None, None, trained.label_names, "new")
    options: dict[str, Any] = {"batch_size": batch_size, "device": device, "workers": workers, "verbose": verbose}
    found = compute_features(trained, source, logits=True, on_error=on_error, **options)
    scores = torch.from_numpy(found.X).sigmoid().numpy()
    return Predictions(tuple(source.take(found.kept).items), scores, trained.label_names, found.skipped)


def check_picture(path: str | Path) -> None:
    """Refuse what :func:`image_grid` could not write, before there is anything to draw."""
    kinds = require("matplotlib.backend_bases", "report").FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix[1:].lower() not in kinds:
        raise ValueError(f"{path} does not end in a kind of picture; choose a name in .png, .pdf or .svg")


def image_grid(
    images: np.ndarray,
    probabilities: np.ndarray,
    label_names: Sequence[str],
    *,
    candidates: np.ndarray | None = None,
    truth: np.ndarray | None = None,
    columns: int = 4,
    threshold: float = 0.5,
    top: int | None = None,
    path: str | Path | None = None,
) -> tuple[Any, Any]:
    """Draw images with their labels beneath.

    Predicted labels are marked ✓ where they are true and ✗ where they are not (where the truth is not known: where they
    are candidates), and true labels that were missed are marked too.

    Parameters
    ----------
    images : ndarray of uint8, shape (n_images, height, width, 3)
    probabilities : ndarray, shape (n_images, n_labels)
    label_names : sequence of str
    candidates, truth : ndarray of 0/1, shape (n_images, n_labels), optional
    columns : int
    threshold : float
        From which probability on a label is predicted.
    top : int, optional
        Show so many labels instead, however probable.
    path : path, optional
        Where to write the picture, whole or not at all; the suffix tells the format.

    Returns
    -------
    (figure, axes)
        Of matplotlib; axes as an array with one entry per image.
    """
    n, k = len(images), len(label_names)
    for what, given in (("probabilities", probabilities), ("candidates", candidates), ("truth", truth)):
        if given is not None and np.shape(given) != (n, k):
            raise ValueError(f"{what} have shape {np.shape(given)}, expected {n} images by {k} label names")
    if not n:
        raise ValueError("there are no images to draw")
    if path is not None:
        check_picture(path)
    Figure = require("matplotlib.figure", "report").Figure
    columns = min(columns, n)
    rows = -(-n // columns)
    unknown = [None] * n
    known = zip(unknown if candidates is None else candidates, unknown if truth is None else truth, strict=True)
    texts = [
        _lines(own, _chosen(own, top, threshold), label_names, *rest)
        for own, rest in zip(probabilities, known, strict=True)
    ]
    below = max(sum(text.count("\n") + 1 for text, _ in lines) for lines in texts)
    height = 2.4 + 0.155 * below  # inches of an image and of so many lines
    figure = Figure(figsize=(2.6 * columns, height * rows + 0.1))
    figure.subplots_adjust(0.02, 0.01, 0.98, 0.99, wspace=0.06, hspace=0.02)
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for ax in axes:
        ax.set_axis_off()
        ax.set_anchor("N")
    for ax, image, lines in zip(axes, images, texts, strict=False):
        ax.imshow(image)
        at, style = -4.0, {"fontsize": 8, "va": "top", "parse_math": False}
        for text, colour in lines:
            ax.annotate(text, (0, 0), (0, at), "axes fraction", "offset points", color=colour, **style)
            at -= 10.6 * (text.count("\n") + 1)
    if path is not None:
        with replacing(path) as beside, warnings.catch_warnings():
            # Letters that matplotlib's font lacks are drawn as boxes.
            warnings.filterwarnings("ignore", "Glyph .* missing from|Matplotlib currently does not support")
            figure.savefig(beside, dpi=150, format=Path(path).suffix[1:].lower())
    return figure, axes[:n]


def _lines(
    own: np.ndarray, chosen: list[int], names: Sequence[str], candidates: np.ndarray | None, truth: np.ndarray | None
) -> list[tuple[str, str]]:
    """What stands beneath an image, line by line, each with its colour."""

    def wrapped(title: str, labels: list[int]) -> str:
        text = ", ".join(names[j] for j in labels) or "none"
        return textwrap.fill(f"{title}: {text}", WIDTH, max_lines=4, placeholder=" …")

    judge = truth if truth is not None else candidates
    lines = [] if chosen else [("nothing predicted", QUIET)]
    for j in chosen:
        mark, colour = ("•", "black") if judge is None else ("✓", RIGHT) if judge[j] > 0 else ("✗", WRONG)
        name = textwrap.shorten(names[j], WIDTH - 7, placeholder="…")
        lines.append((f"{mark} {name} {own[j]:.2f}", colour))
    if truth is not None:
        true = np.flatnonzero(truth).tolist()
        if missed := [j for j in true if j not in chosen]:
            lines.append((wrapped("missed", missed), WRONG))
        lines.append((wrapped("true", true), "black"))
    if candidates is not None:
        lines.append((wrapped("candidates", np.flatnonzero(candidates > 0).tolist()), QUIET))
    return lines
