"""Features of a backbone: images as a table, for every method that learns from tables.

The paper's rows of PML-NI, fPML, PML-LRS and PARTICLE on VOC2007 and COCO2014 are shallow methods on such features (of
which network and layer is not published; the pooled features before the head are our choice).

Features are kept by blocks of images that could all be read. A block is found again by what it was made of: the
weights, the bytes of its images and the settings. So a run that was killed goes on behind its last block, a file that
was renamed costs nothing, and other weights can never be mistaken for these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from propml.atomic_files import replacing
from propml.devices import cache_dir, choose_device
from propml.extras import require
from propml.messages import renamed_argument
from propml.progress import progress_bar
from propml.vision.backbone import input_of, make_network, resolved
from propml.vision.batches import Augment, Batches, prefetched
from propml.vision.checkpoint import TrainedNetwork
from propml.vision.decoding import find_images
from propml.vision.image_cache import CachedImages, OnError, decode_images, no_images
from propml.vision.recipe import VisionRecipe
from propml.vision.sources import ImageSource

if TYPE_CHECKING:
    from propml.tables.features import Learned
    from propml.tables.files import UserTable

# Raised when features come out otherwise than before, so that older blocks are not taken for these.
FORMAT = 1
BLOCK = 256  # images that are decoded, computed and kept at a time
# Images that a network sees at once. On a CPU what many leave between two layers fits no cache (benchmarks/vision.py).
ON_GPU, ON_CPU = 64, 8


@dataclass(frozen=True, eq=False)
class ImageFeatures:
    """What a backbone sees in images."""

    X: np.ndarray  # float32, (n_kept, n_features)
    kept: np.ndarray  # the row of the source that each is of; ascending
    skipped: tuple[tuple[str, str], ...] = ()  # the images that could not be read, and why


@renamed_argument("show", "verbose")
def features(
    paths: str | Path | Iterable[str | Path],
    *,
    backbone: str = VisionRecipe.backbone,
    weights: str | Path | None = "auto",
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    mirror: bool = True,
    batch_size: int | None = None,
    device: str = "auto",
    cache: str | Path | None = "auto",
    workers: int | None = None,
    verbose: bool = False,
) -> np.ndarray:
    """Features of image files, one row for each, to give to any classifier or to :func:`propml.audit`.

    Parameters
    ----------
    paths : path or iterable of paths
        Image files, in the order of the rows; or folders, of which all images are taken, sorted.
    backbone : str
        Any image model of timm by its name.
    weights : str, path or None
        ``"auto"`` and ``"pretrained"``: timm downloads them, once; a file: safetensors, or what ``torch.save`` made of
        a ``state_dict()``, read without its pickles; ``None``: random ones, the same every time.
    size : int, optional
        Side in pixels; by default what the weights were trained with, by timm's configuration of that name.
    mean, std : sequences of 3 floats, optional
        By which pixels in [0, 1] are normalised; by default as the weights want it, too.
    mirror : bool
        Average the features of each image and of its mirror image.
    batch_size, device, workers
        How many images the network sees at once (by default 64 on a GPU, 8 on a CPU), where it runs, and how many
        threads decode.
    cache : path, "auto" or None
        Where features are kept; ``"auto"``: in the user's cache, ``None``: nowhere.
    verbose : bool
        Whether to show a progress bar.

    Returns
    -------
    ndarray of float32, shape (n_images, n_features)
        An image that cannot be read is an error, so that rows and paths stay together.
    """
    files = find_images([paths] if isinstance(paths, str | Path) else paths, once=False)
    network = backbone_alone(backbone, None if weights is None else str(weights), size, mean=mean, std=std)
    source = ImageSource("images", files, None, None, (), "all")
    options: dict[str, Any] = {"mirror": mirror, "batch_size": batch_size, "device": device, "workers": workers}
    return compute_features(network, source, on_error="error", cache=cache, verbose=verbose, **options).X


def learn_pictures(
    table: UserTable,
    column: str,
    learned: Learned | None = None,
    *,
    backbone: str | None = None,
    weights: str | None = None,
    device: str = "auto",
) -> Learned:
    """The pictures of a user's table as features, beside those that were learned from its other columns.

    The table was read with ``image=column``, whose paths are seen from the table's folder.
    """
    from propml.tables.features import Features, Learned
    from propml.tables.treatments import Vector

    names, network = table.images or [], backbone or VisionRecipe.backbone
    for item, name in zip(table.item_ids, names, strict=True):
        if not name:
            raise ValueError(f"{table.path}: item {item} has no picture that may be read; name one, or --allow-outside")
    paths = [table.path.parent / name for name in names]
    X = features(paths, backbone=network, weights=weights or "auto", device=device, verbose=True)
    vector = Vector.learn(column, X)
    seen: Any = vector.apply(X, [])
    if learned is None:
        return Learned(Features([vector]), seen)
    both = sp.csr_array(sp.hstack([learned.X, seen])) if sp.issparse(learned.X) else np.hstack([learned.X, seen])
    return Learned(Features([*learned.features.treatments, vector]), both, learned.notes)


def backbone_alone(
    backbone: str,
    weights: str | None,
    size: int | None = None,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> TrainedNetwork:
    """A backbone that was not trained on candidates here, with size and normalisation as its weights want them.

    Random weights are the same in every call, so that features of two parts of a dataset can be compared.
    """
    recipe = resolved(VisionRecipe(backbone=backbone, weights=weights, size=size, lam=1.0))
    _, own_mean, own_std = input_of(backbone)
    mean, std = tuple(mean or own_mean), tuple(std or own_std)
    if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
        raise ValueError(f"mean is {mean} and std {std}; give three numbers each, and std above 0")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(recipe.seed)  # torch.manual_seed would reach the GPUs' generators too
        network = make_network(recipe, 1)
    return TrainedNetwork(network.eval(), ("",), recipe, mean, std, {})


def compute_features(
    trained: TrainedNetwork,
    source: ImageSource,
    *,
    logits: bool = False,
    mirror: bool = True,
    on_error: OnError = "skip",
    batch_size: int | None = None,
    device: str | torch.device = "auto",
    cache: str | Path | None = "auto",
    workers: int | None = None,
    verbose: bool = False,
) -> ImageFeatures:
    """What the head of a network sees of the images of a source; for the parameters see :func:`features`.

    With ``logits`` it is what the head makes of that, which is kept nowhere.
    """
    if not len(source):
        raise ValueError(f"{source.name} has no images")
    folder = cache_dir() / "features" if cache == "auto" else None if cache is None else Path(cache)
    key = None if folder is None or logits else _key(trained, mirror)
    place, parts = choose_device(device), []

    def prepared(start: int) -> tuple[Path | None, ImageFeatures | CachedImages]:
        """What was kept of a block, or its pixels."""
        block = source.take(slice(start, start + BLOCK))
        file = None if folder is None or key is None else folder / f"{_block_key(key, block)}.npz"
        if file is not None and (X := _kept_block(file, len(block))) is not None:
            return file, ImageFeatures(X, np.arange(len(block)))
        return file, decode_images(block, trained.recipe.side, on_error=on_error, workers=workers, verbose=False)

    title = "predicting" if logits else f"features of {source.name} {source.split}"
    starts = range(0, len(source), BLOCK)
    with progress_bar(title, len(source), show=verbose) as bar:
        for start, (file, made) in zip(starts, prefetched(prepared, starts, 1), strict=True):
            if isinstance(made, CachedImages):
                X = run_network(trained, made.images, mirror, batch_size, place, logits=logits)
                made = ImageFeatures(X.cpu().numpy(), made.kept, made.skipped)
                if file is not None and not made.skipped:
                    with replacing(file) as beside, beside.open("wb") as out:
                        np.savez(out, X=made.X)
            parts.append(replace(made, kept=made.kept + start))
            bar.advance(min(BLOCK, len(source) - start))
    skipped = tuple(each for part in parts for each in part.skipped)
    kept = np.concatenate([part.kept for part in parts])
    if not len(kept):
        raise no_images(source, skipped)
    return ImageFeatures(np.concatenate([part.X for part in parts if len(part.X)]), kept, skipped)


@torch.no_grad()
def run_network(
    trained: TrainedNetwork,
    images: np.ndarray,
    mirror: bool,
    batch_size: int | None,
    device: str | torch.device,
    *,
    logits: bool = False,
) -> Tensor:
    """Features of decoded images, or logits, in float32 on the device; with ``mirror`` means over mirror images too."""
    if not len(images):
        return torch.empty(0, 0)  # there is no telling how many features
    network = trained.network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    run = network if logits else network.features
    if batch_size is None:
        batch_size = ON_CPU if torch.device(device).type == "cpu" else ON_GPU
    augment, found = Augment(trained.mean, trained.std), []
    for pixels, _, _ in Batches(images, np.zeros((len(images), 0)), batch_size, shuffle=False, device=device).epoch(0):
        view = augment.plain(pixels)
        seen = run(view).float()
        found.append((seen + run(view.flip(3)).float()) / 2 if mirror else seen)
    return torch.cat(found)


def write_features(path: str | Path, features: ImageFeatures, source: ImageSource) -> None:
    """Write features with the labels of their images, as a table that every command reads.

    An ``.npz`` holds ``X`` (float32), ``candidates`` (int8; the true labels where nothing else is known), ``truth``
    where it is known, ``label_names``, ``feature_names``, and ``images``, the name of each. A ``.parquet`` has the
    columns ``image``, ``features`` (a vector), ``candidates`` and ``truth`` (lists of names).
    """
    path = Path(path)
    check_destination(path)
    own = source.take(features.kept)
    names = [source.name_of(row) for row in features.kept]
    candidates = own.truth if own.candidates is None else own.candidates.to_matrix(np.int8)
    labels = {name: each for name, each in (("candidates", candidates), ("truth", own.truth)) if each is not None}
    with replacing(path) as beside:
        if path.suffix == ".parquet":
            arrow, parquet = require("pyarrow", "data"), require("pyarrow.parquet", "data")
            flat = arrow.array(features.X.ravel(), arrow.float32())
            columns = {"image": names, "features": arrow.FixedSizeListArray.from_arrays(flat, features.X.shape[1])}
            for name, each in labels.items():
                columns[name] = [[source.label_names[j] for j in np.flatnonzero(row > 0)] for row in each]
            parquet.write_table(arrow.table(columns), beside)
            return
        kinds = {"candidates": np.int8, "truth": np.uint8}
        with beside.open("wb") as file:
            np.savez(
                file,
                X=features.X.astype(np.float32, copy=False),
                label_names=np.array(source.label_names, dtype=str),
                feature_names=np.array([f"feature_{j}" for j in range(features.X.shape[1])]),
                images=np.array(names),
                **{name: each.astype(kinds[name]) for name, each in labels.items()},  # type: ignore[arg-type]
            )


def check_destination(path: Path) -> None:
    """Refuse a name that :func:`write_features` could not write to, before anything is computed."""
    if path.suffix not in (".npz", ".parquet"):
        raise ValueError(f"features are written as .npz or .parquet, and {path} ends in {path.suffix!r}; choose one")


def _key(trained: TrainedNetwork, mirror: bool) -> bytes:
    """Of everything but the images that features depend on."""
    settings = (FORMAT, trained.recipe.backbone, trained.recipe.side, trained.mean, trained.std, mirror)
    digest = hashlib.sha256(repr(settings).encode())
    for name, value in trained.network.backbone.state_dict().items():
        digest.update(f"{name} {tuple(value.shape)} ".encode())
        digest.update(np.ascontiguousarray(value.cpu().numpy()).reshape(-1).view(np.uint8).data)
    return digest.digest()


def _block_key(key: bytes, block: ImageSource) -> str:
    digest = hashlib.sha256(key)
    for item in block.items:
        if isinstance(item, np.ndarray):
            digest.update(np.ascontiguousarray(item).data)
        else:
            with suppress(OSError), open(item, "rb") as file:  # a block with an image that cannot be read is not kept
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]


def _kept_block(file: Path, n_images: int) -> np.ndarray | None:
    """What an earlier run kept of as many images; a file that is damaged is as good as not there."""
    try:
        with np.load(file, allow_pickle=False) as kept:
            return kept["X"] if len(kept["X"]) == n_images else None
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
