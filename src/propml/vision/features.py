"""Pooled features of a backbone in an npz file: images as a table, for the methods that learn from tables.

The paper's rows of PML-NI, fPML, PML-LRS and PARTICLE on VOC2007 and COCO2014 are such: shallow methods on deep
features (of which network and layer is not published; the pooled features before the head are our choice).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from propml.atomic_files import replacing
from propml.vision.backbone import make_network, normalisation
from propml.vision.checkpoint import TrainedNetwork
from propml.vision.image_cache import CachedImages
from propml.vision.predict import outputs
from propml.vision.recipe import Recipe
from propml.vision.sources import ImageSource

__all__ = ["backbone_alone", "pooled_features", "write_features"]


def backbone_alone(backbone: str, weights: str | None, size: int) -> TrainedNetwork:
    """A backbone that was not trained on candidates here: with downloaded weights, those of a file, or random ones.

    Random weights are the same in every call, so that features of two parts of a dataset can be compared.
    """
    recipe = Recipe(backbone=backbone, weights=weights, size=size)
    mean, std = normalisation(backbone)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(recipe.seed)  # torch.manual_seed would reach the GPUs' generators too
        network = make_network(recipe, 1)
    return TrainedNetwork(network.eval(), ("",), recipe, mean, std, {})


def pooled_features(
    trained: TrainedNetwork,
    images: np.ndarray,
    *,
    batch_size: int = 128,
    device: str | torch.device = "cpu",
    show: bool = False,
) -> np.ndarray:
    """What the head of a network sees of decoded images.

    Parameters
    ----------
    trained : TrainedNetwork
    images : ndarray of uint8, shape (n_images, size, size, 3)

    Returns
    -------
    ndarray of float32, shape (n_images, n_features)
    """
    parts = outputs(trained, images, batch_size, device, show, pooled=True)
    return np.concatenate([part.cpu().numpy() for part in parts])


def write_features(path: str | Path, features: np.ndarray, source: ImageSource, cached: CachedImages) -> None:
    """Write features with the labels of their images, as ``propml fit`` and ``propml.tables.read_dataset`` read them.

    Parameters
    ----------
    path : path
        An ``.npz``: ``X`` (float32), ``candidates`` (int8; the true labels where nothing else is known), ``truth``
        where it is known, ``label_names``, ``feature_names``, and ``images``, the name of each.
    features : ndarray, shape (n_images, n_features)
    source : ImageSource
    cached : CachedImages
        The images of the source that were read.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"features are written as .npz, and {path} ends in {path.suffix!r}; choose a name in .npz")
    if len(features) != len(cached):
        raise ValueError(f"there are features of {len(features)} images, and {len(cached)} images")
    own = source.take(cached.kept)
    arrays = {
        "X": features.astype(np.float32, copy=False),
        "label_names": np.array(source.label_names, dtype=str),
        "feature_names": np.array([f"feature_{j}" for j in range(features.shape[1])]),
        "images": np.array(
            [f"image {row}" for row in cached.kept] if isinstance(own.items, np.ndarray) else list(map(str, own.items))
        ),
    }
    if own.truth is not None:
        arrays["truth"] = own.truth.astype(np.uint8)
    if own.candidates is not None:
        arrays["candidates"] = own.candidates.to_matrix(np.int8)
    elif own.truth is not None:
        arrays["candidates"] = own.truth.astype(np.int8)
    with replacing(path) as beside, beside.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
