"""The labels of new images: of files, or of all images in folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from propml.extras import require
from propml.progress import progress_bar
from propml.vision.augment import Augment
from propml.vision.batches import Batches
from propml.vision.checkpoint import TrainedNetwork
from propml.vision.decoding import FORMATS
from propml.vision.image_cache import OnError, decode_images
from propml.vision.sources import ImageSource

__all__ = ["Predictions", "find_images", "predict_images", "probabilities"]

CHUNK = 1024  # images decoded at a time, so that a folder of any size fits in memory


@dataclass(frozen=True, eq=False)
class Predictions:
    """The labels of images.

    Attributes
    ----------
    paths : tuple of Path
    probabilities : ndarray of float32, shape (n_images, n_labels)
    label_names : tuple of str
    skipped : tuple of (str, str)
        The images that could not be read, and why.

    Examples
    --------
    >>> found = Predictions((Path("a.jpg"),), np.array([[0.2, 0.9, 0.6]]), ("cat", "dog", "person"), ())
    >>> found.labels()
    [[('dog', 0.9), ('person', 0.6)]]
    >>> found.labels(top=1)
    [[('dog', 0.9)]]
    """

    paths: tuple[Path, ...]
    probabilities: np.ndarray
    label_names: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]

    def labels(self, *, top: int | None = None, threshold: float = 0.5) -> list[list[tuple[str, float]]]:
        """The labels of each image with probabilities, best first: ``top`` of them, or those from a threshold on."""
        if top is not None and top < 1:
            raise ValueError(f"top is {top}; ask for at least one label")
        found = []
        for own in self.probabilities:
            order = np.argsort(-own, kind="stable")
            chosen = order[:top] if top is not None else order[own[order] >= threshold]
            found.append([(self.label_names[j], float(own[j])) for j in chosen])
        return found


def find_images(paths: Iterable[str | Path], *, once: bool = True) -> tuple[Path, ...]:
    """The given files, and the image files below the given folders, sorted within each; no file twice if ``once``."""
    Image = require("PIL.Image", "vision")
    Image.init()
    known = {suffix for suffix, kind in Image.EXTENSION.items() if kind in FORMATS}
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in known and file.is_file())
            if not inside:
                raise ValueError(f"there is no image in {path} or below it")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise FileNotFoundError(f"there is no file or folder {path}")
    if not found:
        raise ValueError("no image was given; name image files or folders")
    return tuple(dict.fromkeys(found) if once else found)


def probabilities(
    trained: TrainedNetwork,
    images: np.ndarray,
    *,
    batch_size: int = 128,
    device: str | torch.device = "cpu",
    show: bool = False,
) -> np.ndarray:
    """The probability of every label for decoded images.

    Parameters
    ----------
    images : ndarray of uint8, shape (n_images, size, size, 3)

    Returns
    -------
    ndarray of float32, shape (n_images, n_labels)
    """
    return np.concatenate([torch.sigmoid(z).cpu().numpy() for z in outputs(trained, images, batch_size, device, show)])


def predict_images(
    trained: TrainedNetwork,
    paths: Iterable[str | Path],
    *,
    on_error: OnError = "skip",
    batch_size: int = 128,
    device: str | torch.device = "cpu",
    workers: int | None = None,
    show: bool = False,
) -> Predictions:
    """Label image files and the images of folders.

    Parameters
    ----------
    trained : TrainedNetwork
        Of :func:`propml.vision.checkpoint.load_network`.
    paths : files or folders
    on_error : {"skip", "error"}
        What to do about an image that cannot be read.
    batch_size, device, workers
        How many images the network sees at once, where it runs, and how many threads decode.
    """
    files = find_images(paths)
    read: list[Path] = []
    scores = [np.empty((0, len(trained.label_names)), dtype=np.float32)]
    skipped: list[tuple[str, str]] = []
    with progress_bar("predicting", len(files), show=show) as bar:
        for start in range(0, len(files), CHUNK):
            chunk = files[start : start + CHUNK]
            source = ImageSource("images", chunk, None, None, trained.label_names, "new")
            decoded = decode_images(source, trained.recipe.side, on_error=on_error, workers=workers, show=False)
            skipped += decoded.skipped
            read += [chunk[row] for row in decoded.kept]
            if len(decoded):
                scores.append(probabilities(trained, decoded.images, batch_size=batch_size, device=device))
            bar.advance(len(chunk))
    if not read:
        name, why = skipped[0]
        raise ValueError(f"none of the {len(files)} images can be read; {name}: {why}")
    return Predictions(tuple(read), np.concatenate(scores), trained.label_names, tuple(skipped))


def outputs(
    trained: TrainedNetwork,
    images: np.ndarray,
    batch_size: int,
    device: str | torch.device,
    show: bool,
    *,
    pooled: bool = False,
    mirror: bool = False,
) -> Iterator[torch.Tensor]:
    """Logits of each batch in float32, or with ``pooled`` the features before the head.

    With ``mirror`` they are means over the images and their mirror images.
    """
    network = trained.network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    # Not a "with" around the loop: a generator would leave the mode on while it waits for its caller.
    run = torch.no_grad()(network.features if pooled else network)
    augment = Augment(trained.mean, trained.std)
    batches = Batches(images, np.zeros((len(images), 0)), batch_size, shuffle=False, device=device)
    with progress_bar("running the network", len(images), show=show) as bar:
        for pixels, _, _ in batches.epoch(0):
            view = augment.plain(pixels)
            found = run(view).float()
            yield (found + run(view.flip(3)).float()) / 2 if mirror else found
            bar.advance(len(pixels))
