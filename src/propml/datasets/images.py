"""Image datasets as they are published: PASCAL VOC2007 (lists, an XML file per image) and COCO 2014 (JSON)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from propml.datasets.dataset import ImageDataset
from propml.datasets.mulan import read_xml
from propml.file_errors import FileError, reading

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_IDENTIFIER = re.compile(r"\w[\w.-]*")
_REMEDY = (
    "copy it again; it holds images with id and file_name, categories with id and name, annotations with image_id and "
    "category_id"
)


def read_voc(
    folder: str | Path, split: str = "trainval", *, name: str = "voc2007", missing: Literal["error", "keep"] = "error"
) -> ImageDataset:
    """Read one split of a devkit; a class is true for an image when any object of it is, difficult ones included.

    ``folder`` holds ``JPEGImages``, ``Annotations`` and ``ImageSets/Main``. An image that is listed and is not there is
    an error, or with ``missing="keep"`` a row like any other.
    """
    folder = Path(folder)
    splits = ("trainval", "train", "val", "test")
    if split not in splits:
        raise ValueError(f"split is {split!r}; VOC2007 has {', '.join(splits)}")
    listing = folder / "ImageSets" / "Main" / f"{split}.txt"
    lines = listing.read_text(encoding="ascii", errors="replace").splitlines()
    identifiers = [line.split()[0] for line in lines if line.strip()]
    if not identifiers:
        raise FileError(f"{listing} names no image; the file may be truncated")
    if strange := [name for name in identifiers if not _IDENTIFIER.fullmatch(name)]:
        raise FileError(f"{listing} names the image {strange[0]!r}, which is not a plain file name; copy it again")
    paths = _image_paths(folder / "JPEGImages", [f"{identifier}.jpg" for identifier in identifiers], listing, missing)
    truth = np.zeros((len(identifiers), len(VOC_CLASSES)), dtype=np.uint8)
    for i, identifier in enumerate(identifiers):
        annotation = folder / "Annotations" / f"{identifier}.xml"
        root = read_xml(annotation)
        if root.tag != "annotation":
            raise FileError(f"{annotation} has <{root.tag}> at its root, expected <annotation>")
        labels = [(found.findtext("name") or "").strip() for found in root.findall("object")]
        if strange := [label for label in labels if label not in VOC_CLASSES]:
            raise FileError(f"{annotation} has an object {strange[0]!r}, which is not a class of VOC2007")
        truth[i, [VOC_CLASSES.index(label) for label in labels]] = 1
    return ImageDataset(name, paths, truth, VOC_CLASSES, split)


def _image_paths(folder: Path, names: Sequence[str], source: Path, missing: str) -> tuple[Path, ...]:
    # All names of the folder in one look, which is much faster than asking for each.
    present = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if missing == "error" and (absent := [name for name in names if name not in present]):
        told = f"{len(absent)} of the {len(names)} images of {source} are not in {folder}"
        raise FileNotFoundError(f"{told}, the first is {absent[0]}")
    return tuple(folder / name for name in names)


def read_coco(
    folder: str | Path, split: str = "train", *, name: str = "coco2014", missing: Literal["error", "keep"] = "error"
) -> ImageDataset:
    """Read one split: the images that have at least one annotation, in the order of their ids.

    ``folder`` holds ``annotations/instances_{train,val}2014.json``, ``train2014`` and ``val2014``; ``missing`` is as in
    :func:`read_voc`. Labels are the categories in the order of their ids; every annotation counts, crowds too.
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
        column = {identifier: j for j, (identifier, _) in enumerate(categories)}
        annotated = np.unique(pairs[:, 0])
        truth = np.zeros((len(annotated), len(categories)), dtype=np.uint8)
        truth[np.searchsorted(annotated, pairs[:, 0]), [column[c] for c in pairs[:, 1].tolist()]] = 1
        names = [files[i] for i in annotated.tolist()]
        if outside := [file for file in names if Path(file).name != file or "\\" in file]:
            raise ValueError(f"{source} names the file {outside[0]!r}, which is not a plain file name")
    paths = _image_paths(folder / f"{split}2014", names, source, missing)
    return ImageDataset(name, paths, truth, tuple(label for _, label in categories), split)
