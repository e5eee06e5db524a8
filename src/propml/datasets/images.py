"""Image datasets as they are published: PASCAL VOC2007 (lists, an XML file per image) and COCO 2014 (JSON)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

import numpy as np

from propml.datasets.dataset import ImageDataset
from propml.datasets.mulan import read_xml
from propml.file_errors import FileError, reading

__all__ = ["VOC_CLASSES", "read_coco", "read_voc"]

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

    Parameters
    ----------
    folder : path
        The folder that holds ``JPEGImages``, ``Annotations`` and ``ImageSets/Main``.
    split : str
        ``"trainval"``, ``"train"``, ``"val"`` or ``"test"``: a list in ``ImageSets/Main``.
    missing : {"error", "keep"}
        What becomes of an image that is listed and is not there: an error, or a row like any other.
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
    if strange := next((name for name in identifiers if not _IDENTIFIER.fullmatch(name)), None):
        raise FileError(f"{listing} names the image {strange!r}, which is not a plain file name; copy it again")
    images = _names(folder / "JPEGImages")
    truth = np.zeros((len(identifiers), len(VOC_CLASSES)), dtype=np.uint8)
    column = {known: j for j, known in enumerate(VOC_CLASSES)}
    for i, identifier in enumerate(identifiers):
        if missing == "error" and f"{identifier}.jpg" not in images:
            raise FileNotFoundError(f"{folder / 'JPEGImages' / identifier}.jpg is named in {listing} and is not there")
        annotation = folder / "Annotations" / f"{identifier}.xml"
        root = read_xml(annotation)
        if root.tag != "annotation":
            raise FileError(f"{annotation} has <{root.tag}> at its root, expected <annotation>")
        for label in [(found.findtext("name") or "").strip() for found in root.findall("object")]:
            if label not in column:
                raise FileError(f"{annotation} has an object {label!r}, which is not a class of VOC2007")
            truth[i, column[label]] = 1
    paths = tuple(folder / "JPEGImages" / f"{identifier}.jpg" for identifier in identifiers)
    return ImageDataset(name, paths, truth, VOC_CLASSES, split)


def _names(folder: Path) -> set[str]:
    """The files of a folder in one look, which is much faster than asking for each."""
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()


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
        column = {identifier: j for j, (identifier, _) in enumerate(categories)}
        annotated = np.unique(pairs[:, 0])
        for what, used, listed in (("annotates image", annotated, files), ("uses category", pairs[:, 1], column)):
            if strange := sorted(set(used.tolist()) - listed.keys()):
                raise ValueError(f"{source} {what} {strange[0]}, which it does not list")
        truth = np.zeros((len(annotated), len(categories)), dtype=np.uint8)
        truth[np.searchsorted(annotated, pairs[:, 0]), [column[c] for c in pairs[:, 1].tolist()]] = 1
        names = [files[i] for i in annotated.tolist()]
        if outside := [file for file in names if Path(file).name != file or "\\" in file]:
            raise ValueError(f"{source} names the file {outside[0]!r}, which is not a plain file name")
    images = folder / f"{split}2014"
    present = _names(images)
    if missing == "error" and (absent := [file for file in names if file not in present]):
        raise FileNotFoundError(f"{len(absent)} of {len(names)} images are not in {images}, the first is {absent[0]}")
    labels = tuple(label for _, label in categories)
    return ImageDataset(name, tuple(images / file for file in names), truth, labels, split)
