"""A picture of images in a grid, each with its predicted, candidate and true labels."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from propml.atomic_files import replacing
from propml.extras import require

__all__ = ["check_picture", "image_grid"]

RIGHT, WRONG, QUIET = "#1a7f37", "#cf222e", "#57606a"
WIDTH = 40  # characters beneath an image
# What matplotlib says of letters that its font lacks; they are drawn as boxes.
MISSING_LETTERS = ("Glyph .* missing from", "Matplotlib currently does not support")


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
    n = len(images)
    expected = (n, len(label_names))
    for what, given in (("probabilities", probabilities), ("candidates", candidates), ("truth", truth)):
        if given is not None and np.shape(given) != expected:
            raise ValueError(f"{what} have shape {np.shape(given)}, expected {n} images by {expected[1]} label names")
    if not n:
        raise ValueError("there are no images to draw")
    if path is not None:
        check_picture(path)
    Figure = require("matplotlib.figure", "report").Figure
    columns = min(columns, n)
    rows = -(-n // columns)
    texts = [_lines(i, probabilities, label_names, candidates, truth, threshold, top) for i in range(n)]
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
        at = -4.0
        for text, colour in lines:
            ax.annotate(text, (0, 0), (0, at), "axes fraction", "offset points", color=colour, fontsize=8, va="top")
            at -= 10.6 * (text.count("\n") + 1)
    if path is not None:
        _write(figure, Path(path))
    return figure, axes[:n]


def _write(figure: Any, path: Path) -> None:
    with replacing(path) as beside, warnings.catch_warnings():
        for message in MISSING_LETTERS:
            warnings.filterwarnings("ignore", message)
        figure.savefig(beside, dpi=150, format=path.suffix[1:].lower())


def _lines(
    i: int,
    probabilities: np.ndarray,
    names: Sequence[str],
    candidates: np.ndarray | None,
    truth: np.ndarray | None,
    threshold: float,
    top: int | None,
) -> list[tuple[str, str]]:
    """What stands beneath an image, line by line, each with its colour."""
    order = np.argsort(-probabilities[i], kind="stable")
    chosen = order[:top] if top is not None else order[probabilities[i, order] >= threshold]
    judge = truth if truth is not None else candidates
    lines = []
    for j in chosen.tolist():
        right = None if judge is None else bool(judge[i, j] > 0)
        mark = {None: "•", True: "✓", False: "✗"}[right]
        colour = {None: "black", True: RIGHT, False: WRONG}[right]
        lines.append((f"{mark} {_short(names[j])} {probabilities[i, j]:.2f}", colour))
    if not len(chosen):
        lines.append(("nothing predicted", QUIET))
    if truth is not None:
        true = np.flatnonzero(truth[i]).tolist()
        missed = [names[j] for j in true if j not in chosen]
        lines += [(_wrapped("missed", missed), WRONG)] if missed else []
        lines.append((_wrapped("true", [names[j] for j in true]), "black"))
    if candidates is not None:
        lines.append((_wrapped("candidates", [names[j] for j in np.flatnonzero(candidates[i] > 0).tolist()]), QUIET))
    return lines


def _short(name: str) -> str:
    return _literal(textwrap.shorten(name, WIDTH - 7, placeholder="…"))


def _wrapped(title: str, names: Sequence[str]) -> str:
    told = ", ".join(names) if names else "none"
    return _literal(textwrap.fill(f"{title}: {told}", WIDTH, max_lines=4, placeholder=" …"))


def _literal(text: str) -> str:
    """Text in which a dollar sign starts no formula."""
    return text.replace("$", r"\$")
