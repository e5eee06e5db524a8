"""What to train on: images with their labels, from a devkit, from COCO's folders, from one's own table, or made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from propml.datasets.catalogue import find, lookup, names
from propml.datasets.dataset import ImageDataset
from propml.datasets.images import read_coco, read_voc
from propml.datasets.locations import leads_out
from propml.datasets.mosaic import digits_mosaic_images
from propml.file_errors import FileError
from propml.messages import argument
from propml.tables.cell_lists import holds_lists
from propml.tables.labels import TextLabels
from propml.tables.table import checked_column, quoted_names
from propml.tables.text import TextTable, write_csv
from propml.targets import Candidates
from propml.vision.decoding import images_below

NO_LABEL = "-"  # a cell of one's own table that says: somebody looked, and there is no label


@dataclass(frozen=True, eq=False)
class ImageSource:
    """Images, still to be decoded, and what is known of their labels.

    >>> source = open_source("digits-mosaic", "train", n_samples=5)
    >>> len(source), source.items.shape, source.take([0, 2]).truth.shape
    (5, (5, 16, 16, 3), (2, 10))
    """

    name: str
    items: tuple[Path, ...] | np.ndarray  # files to decode, or pixels: uint8, (n_images, height, width, 3)
    truth: np.ndarray | None  # uint8, (n_images, n_labels)
    candidates: Candidates | None
    label_names: tuple[str, ...]
    split: str  # the name of the part, such as "trainval"

    def __post_init__(self) -> None:
        n, k, pixels = len(self.items), len(self.label_names), self.items
        for part, given in (("truth", self.truth), ("candidates", self.candidates)):
            if given is not None and given.shape != (n, k):
                raise ValueError(f"{self.name}: {part} has shape {given.shape}, expected {n} images by {k} label names")
        if isinstance(pixels, np.ndarray) and (pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] != 3):
            found = f"{self.name}: images have shape {pixels.shape} of {pixels.dtype}"
            raise ValueError(f"{found}, expected uint8 of shape (n_images, height, width, 3)")

    def __len__(self) -> int:
        return len(self.items)

    def name_of(self, row: int) -> str:
        """What to call an image in a message."""
        return f"image {row}" if isinstance(self.items, np.ndarray) else str(self.items[row])

    def take(self, rows: Any) -> ImageSource:
        """The given images with their labels: positions, a boolean mask or a slice."""
        picked = np.atleast_1d(np.arange(len(self))[rows])
        items = self.items[picked] if isinstance(self.items, np.ndarray) else tuple(self.items[i] for i in picked)
        known: dict[str, Any] = {"truth": self.truth, "candidates": self.candidates}
        return replace(self, items=items, **{name: part[picked] for name, part in known.items() if part is not None})


def open_source(
    name_or_path: str | Path,
    split: str = "train",
    *,
    size: int | None = None,
    data_dir: str | Path | None = None,
    n_samples: int = 2000,
    random_state: int = 0,
    allow_outside: bool = False,
    **columns: Any,
) -> ImageSource:
    """Images by the name of a dataset, or by the folder or table in which they lie.

    Parameters
    ----------
    name_or_path : str or path
        ``"voc2007"``, ``"coco2014"`` or ``"digits-mosaic"``; a VOC devkit; a folder with COCO's ``annotations``; a CSV
        file with one row per image, or a folder that holds exactly one.
    split : str
        The part: ``"train"`` (VOC: trainval) and ``"test"`` (COCO: val) work for all known sets, their own names too.
    size : int, optional
        Side in pixels of the mosaics, which are 16 by nature; other images are resized where they are decoded.
    data_dir : path, optional
        Where known datasets are looked for first.
    n_samples, random_state : int
        How many mosaics, and of which seed.
    allow_outside : bool
        Whether a table of one's own may name images outside its folder, see :func:`read_own_images`.
    **columns
        What the columns of one's own table are called, see :func:`read_own_images`.
    """
    path = Path(name_or_path).expanduser()
    if allow_outside:
        columns["allow_outside"] = True
    if path.is_file() or path.is_dir():
        return _in_place(path, split, columns)
    if columns:
        raise ValueError(f"{', '.join(columns)} are for one's own table, and there is no file {str(name_or_path)!r}")
    if path.suffix or len(path.parts) > 1:
        raise FileNotFoundError(f"there is neither a file nor a folder {str(name_or_path)!r}")
    entry = lookup(str(name_or_path))
    if entry.name == "digits-mosaic":
        return _mosaics(split, size, n_samples, random_state)
    if entry.suite != "vision":
        known = ", ".join((*names("vision"), *names("embedded")))
        raise ValueError(f"{entry.title} holds no images; known are {known}, or give a folder or a CSV file")
    return _in_place(find(entry, data_dir) / entry.folder, split, columns)


def read_own_images(
    table: str | Path,
    split: str = "train",
    *,
    path: str = "path",
    candidates: str = "candidates",
    truth: str = "truth",
    split_column: str = "split",
    sep: str = ";",
    labels: Sequence[str] | None = None,
    folder: str | Path | None = None,
    allow_outside: bool = False,
) -> ImageSource:
    """Read a CSV file with one row per image: its path and its labels.

    Parameters
    ----------
    table : path
        With a header line, UTF-8. Images are not opened here: one that is missing shows where it is decoded.
    split : str
        Which rows: those whose ``split_column`` says so. A file without that column is one part, ``"train"``. Rows
        whose cell is empty belong to none.
    path, candidates, truth, split_column : str
        What the columns are called. One of ``candidates`` and ``truth`` must be there. An empty cell of these two is
        unknown, which all cells of a part are or none; a lone ``-`` says that there is no label.
    sep : str
        Between two labels of a cell.
    labels : sequence of str, optional
        All label names, in order; by default those that occur in the file, in any part, sorted.
    folder : path, optional
        What the paths start from; by default the folder of the table.
    allow_outside : bool
        Whether a path may lead out of that folder: through ``..``, from the root, or through a link.
    """
    columns = TextTable(Path(table))
    files = [cell.strip() for cell in columns.cells(checked_column(columns, path))]
    names = {column: _names_in(columns, column, sep) for column in (candidates, truth) if column in columns.names}
    if not names:
        raise ValueError(f"{table} has no column {candidates!r} or {truth!r}; it has {quoted_names(columns.names)}")
    if labels is None:
        labels = sorted({name for column in names.values() for own in column for name in own or ()})
    rows = _rows_of(columns, split, split_column)
    start = columns.path.parent if folder is None else Path(folder)
    for row in rows:
        if not files[row]:
            raise ValueError(f"{columns.where(row, path)} is empty; every row names an image")
        if not allow_outside and leads_out(start, files[row]):
            raise FileError(
                f"{columns.where(row, path)} is {files[row]!r}, which lies outside the folder {start}; allow that with "
                f"{argument('allow_outside', True)}, or move the image"
            )
    read: dict[str, Candidates] = {}
    for column, own in names.items():
        empty = [row for row in rows if own[row] is None]
        if 0 < len(empty) < len(rows):
            raise ValueError(
                f"{columns.where(empty[0], column)} is empty, and other images of split {split!r} have labels there; "
                f"name its labels, write {NO_LABEL} if it has none, or leave it out of that split"
            )
        if not empty:
            read[column] = Candidates.from_lists([own[row] or () for row in rows], labels, empty="ignore")
    true = read[truth].to_matrix(np.uint8) if truth in read else None
    items = tuple(start / files[row] for row in rows)
    return ImageSource(columns.path.stem, items, true, read.get(candidates), tuple(labels), split)


def table_in_folder(folder: Path, out: Path) -> tuple[Path, dict[str, Any]]:
    """The table of a folder of images, and how :func:`propml.tables.files.read_table` is to read it.

    A folder holds one CSV or TSV file with the columns ``path`` and ``candidates``, or one folder of images for each
    label; of these the table is written to ``out/images.csv``.
    """
    tables = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in (".csv", ".tsv") and path.is_file()]
    if len(tables) == 1:
        names = TextTable(tables[0], "\t" if tables[0].suffix.lower() == ".tsv" else ",").names
        columns = {"image": "path", "candidates": "candidates"}
        return tables[0], {option: name for option, name in columns.items() if name in names}
    labels = {inside.name: images_below(inside) for inside in sorted(folder.iterdir()) if inside.is_dir()}
    if not any(labels.values()):
        found = f"{len(tables)} tables" if tables else "neither a CSV file nor folders of images"
        raise ValueError(f"{folder} holds {found}; give the table to audit, or one folder of images for each label")
    rows = ([file.resolve(), label] for label, files in labels.items() for file in files)
    write_csv(out / "images.csv", ["path", "candidates"], rows)
    # Whoever names a folder wants to see what is in it, though the table lies elsewhere.
    columns = {"id_column": "path", "image": "path", "candidates": "candidates"}
    return out / "images.csv", {**columns, "sep": "", "allow_outside": True}


def _in_place(path: Path, split: str, columns: dict[str, Any]) -> ImageSource:
    """The images of a file or folder that is there."""
    if path.is_file():
        return read_own_images(path, split, **columns)
    for devkit in (path, path / "VOC2007", path / "VOCdevkit" / "VOC2007"):
        if (devkit / "ImageSets" / "Main").is_dir():
            name = os.path.basename(os.path.abspath(devkit)).lower()  # "VOC2012" is voc2012, and "." has a name too
            return _known(read_voc(devkit, "trainval" if split == "train" else split, name=name, missing="keep"))
    if (path / "annotations").is_dir():
        return _known(read_coco(path, "val" if split == "test" else split, missing="keep"))
    tables = sorted(path.glob("*.csv"))
    if len(tables) == 1:
        return read_own_images(tables[0], split, **columns)
    found = f"{len(tables)} CSV files" if tables else "no CSV file"
    raise ValueError(
        f"{path} is no VOC devkit (ImageSets/Main) and no COCO folder (annotations), and holds {found}; "
        f"give the CSV file that lists the images, or the devkit itself, such as VOCdevkit/VOC2012"
    )


def _known(images: ImageDataset) -> ImageSource:
    """An image that is not there is one of those that cannot be decoded, where it is skipped by name or an error."""
    return ImageSource(images.name, images.paths, images.truth, None, images.label_names, images.split)


def _mosaics(split: str, size: int | None, n_samples: int, random_state: int) -> ImageSource:
    if split not in ("train", "test"):
        raise ValueError(f'split is {split!r}; the digits mosaic has "train" and "test"')
    grey, data = digits_mosaic_images(n_samples, random_state, split=split)  # type: ignore[arg-type]
    if size is not None:
        nearest = np.arange(size) * grey.shape[1] // size
        grey = grey[:, nearest][:, :, nearest]
    pixels = np.repeat(grey[..., None], 3, axis=3)
    return ImageSource("digits-mosaic", pixels, data.truth, data.candidates, data.label_names, split)


def _rows_of(columns: TextTable, split: str, split_column: str) -> Sequence[int]:
    """The rows of a part."""
    if split_column in columns.names:
        parts = [cell.strip() for cell in columns.cells(split_column)]
        if rows := [row for row, part in enumerate(parts) if part and part == split]:
            return rows
        there = ", ".join(sorted(filter(None, set(parts)))) or "none"
        raise ValueError(f"{columns.path} has no image of split {split!r}; it has {there}")
    if split != "train":
        raise ValueError(f"{columns.path} has no column {split_column!r} that says which images are {split!r}; add one")
    return range(columns.n_rows)


def _names_in(columns: TextTable, column: str, sep: str) -> list[list[str] | None]:
    """The labels of each cell; ``None`` where it is empty."""
    cells = columns.cells(column)
    labels = TextLabels(column, sep, holds_lists(cells))
    names: list[list[str] | None] = []
    for row, cell in enumerate(cells):
        own = labels.names(cell, columns, row)
        names.append([] if own == [NO_LABEL] else own if own or (labels.spelled and cell.strip()) else None)
    return names
