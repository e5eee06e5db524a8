"""The PASCAL VOC2007 devkit: image lists, one XML file of objects per image, JPEG images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import numpy as np

from propml.datasets.dataset import ImageDataset
from propml.datasets.mulan import read_xml
from propml.file_errors import FileError

__all__ = ["VOC_CLASSES", "read_voc"]

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_IDENTIFIER = re.compile(r"\w[\w.-]*")


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
        for label in _object_names(annotation):
            if label not in column:
                raise FileError(f"{annotation} has an object {label!r}, which is not a class of VOC2007")
            truth[i, column[label]] = 1
    paths = tuple(folder / "JPEGImages" / f"{identifier}.jpg" for identifier in identifiers)
    return ImageDataset(name, paths, truth, VOC_CLASSES, split)


def _names(folder: Path) -> set[str]:
    """The files of a folder in one look, which is much faster than asking for each."""
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()


def _object_names(annotation: Path) -> list[str]:
    root = read_xml(annotation)
    if root.tag != "annotation":
        raise FileError(f"{annotation} has <{root.tag}> at its root, expected <annotation>")
    return [(found.findtext("name") or "").strip() for found in root.findall("object")]
