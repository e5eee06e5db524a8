"""The COCO 2014 annotations: one JSON file per split beside a folder of images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from propml.datasets.dataset import ImageDataset
from propml.file_errors import reading

__all__ = ["read_coco"]

_REMEDY = (
    "copy it again; it holds images with id and file_name, categories with id and name, annotations with image_id and "
    "category_id"
)


def read_coco(
    folder: str | Path, split: str = "train", *, name: str = "coco2014", missing: Literal["error", "keep"] = "error"
) -> ImageDataset:
    """Read one split: the images that have at least one annotation, in the order of their ids.

    Parameters
    ----------
    folder : path
        The folder that holds ``annotations/instances_{train,val}2014.json``, ``train2014`` and ``val2014``.
    split : {"train", "val"}
    missing : {"error", "keep"}
        What becomes of an image that is annotated and is not there: an error, or a row like any other.

    Returns
    -------
    ImageDataset
        Labels are the categories in the order of their ids; every annotation counts, crowds too.
    """
    folder = Path(folder)
    if split not in ("train", "val"):
        raise ValueError(f'split is {split!r}; COCO 2014 has "train" and "val"')
    source = folder / "annotations" / f"instances_{split}2014.json"
    with reading(source, "COCO instances file", _REMEDY):
        content = json.loads(source.read_bytes())
        categories = sorted((int(c["id"]), str(c["name"])) for c in content["categories"])
        files = {int(image["id"]): str(image["file_name"]) for image in content["images"]}
        pairs = np.array([(int(a["image_id"]), int(a["category_id"])) for a in content["annotations"]], dtype=np.int64)
        if not len(pairs) or not categories:
            raise ValueError(f"{source} has no annotations or no categories")
        found = _assemble(folder / f"{split}2014", source, categories, files, pairs, name, split)
    if missing == "error":
        _check_present(found.paths)
    return found


def _assemble(
    images: Path,
    source: Path,
    categories: list[tuple[int, str]],
    files: dict[int, str],
    pairs: np.ndarray,
    name: str,
    split: str,
) -> ImageDataset:
    column = {identifier: j for j, (identifier, _) in enumerate(categories)}
    annotated = np.unique(pairs[:, 0])
    strange = [i for i in annotated.tolist() if i not in files]
    if strange:
        raise ValueError(f"{source} annotates image {strange[0]}, which it does not list")
    unknown = [c for c in np.unique(pairs[:, 1]).tolist() if c not in column]
    if unknown:
        raise ValueError(f"{source} uses category {unknown[0]}, which it does not list")
    truth = np.zeros((len(annotated), len(categories)), dtype=np.uint8)
    columns = np.array([column[c] for c in pairs[:, 1].tolist()])
    truth[np.searchsorted(annotated, pairs[:, 0]), columns] = 1
    names = [files[i] for i in annotated.tolist()]
    outside = [file for file in names if Path(file).name != file or "\\" in file]
    if outside:
        raise ValueError(f"{source} names the file {outside[0]!r}, which is not a plain file name")
    paths = tuple(images / file for file in names)
    return ImageDataset(name, paths, truth, tuple(label for _, label in categories), split)


def _check_present(paths: Sequence[Path]) -> None:
    folder = paths[0].parent
    present = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    absent = [path.name for path in paths if path.name not in present]
    if absent:
        raise FileNotFoundError(f"{len(absent)} of {len(paths)} images are not in {folder}, the first is {absent[0]}")
