"""Folders of Parquet files, by path or URL: the parts by which they are read, and files that are written whole."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from propml.atomic_files import replacing
from propml.extras import require
from propml.file_errors import reading
from propml.tables.table import quoted_names

__all__ = ["Folder", "Part", "Parts", "has_scheme", "look_into"]

# Row groups go together into a part up to so many rows: what is lost with a worker, and a file of what is written.
PART_ROWS = 2**18
PARQUET = (".parquet", ".pq")


def has_scheme(place: str) -> bool:
    """Whether a place is a URL.

    >>> has_scheme("s3://bucket/logs"), has_scheme("logs/2024")
    (True, False)
    """
    return "://" in place


class Folder:
    """A folder by its path, or by a URL that pyarrow or fsspec opens; it need not be there before it is written to."""

    def __init__(self, place: str) -> None:
        self.place = place if has_scheme(place) else str(Path(place).absolute())
        self._files, self._root = _file_system(self.place)

    def where(self, name: str) -> str:
        """A file of this folder, as a person finds it."""
        return f"{self.place.rstrip('/')}/{name}"

    def names(self, under: str = "") -> list[str]:
        """The files in it and in its folders, sorted; without those that begin with a dot or an underscore."""
        fs = require("pyarrow.fs", "data")
        root = f"{self._root}/{under}".rstrip("/")
        found = self._files.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
        paths = [info.path[len(root) :].lstrip("/") for info in found if info.type == fs.FileType.File]
        return sorted(path for path in paths if not any(part[0] in "._" for part in path.split("/")))

    def open(self, name: str) -> Any:
        """A file to read."""
        return self._files.open_input_file(f"{self._root}/{name}")

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with self.open(name) as file:
            return file.read()

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """A file as one of this machine, for readers that take no other."""
        if not has_scheme(self.place):
            yield Path(self._root, name)
            return
        with TemporaryDirectory() as beside:
            path = Path(beside, Path(name).name)
            path.write_bytes(self.read(name))
            yield path

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """A file to write; it gets its name when the block has ended, and none where that ends with an error."""
        if not has_scheme(self.place):
            with replacing(Path(self._root, name)) as beside, beside.open("wb") as file:
                yield file
            return
        path = f"{self._root}/{name}"
        folder, _, last = path.rpartition("/")
        hidden = f"{folder}/.{last}.{secrets.token_hex(4)}.writing"
        self._files.create_dir(folder, recursive=True)
        try:
            with self._files.open_output_stream(hidden) as file:
                yield file
            self._files.move(hidden, path)
        except BaseException:
            if self._files.get_file_info(hidden).type != require("pyarrow.fs", "data").FileType.NotFound:
                self._files.delete_file(hidden)
            raise

    def write(self, name: str, content: bytes) -> None:
        """Write a file as a whole."""
        with self.writing(name) as file:
            file.write(content)


def _file_system(place: str) -> tuple[Any, str]:
    fs = require("pyarrow.fs", "data")
    if not has_scheme(place):
        return fs.LocalFileSystem(), place.rstrip("/")
    try:
        files, root = fs.FileSystem.from_uri(place)
    except (ValueError, TypeError, NotImplementedError):  # a scheme that pyarrow does not know
        fsspec = require("fsspec", "data")
        with reading(place, "URL", "give a folder that pyarrow or fsspec can open"):
            opened, root = fsspec.core.url_to_fs(place)
        files = fs.PyFileSystem(fs.FSSpecHandler(opened))
    return files, root.rstrip("/")


class Part(NamedTuple):
    """Some row groups of a file: the first of them, the one after the last, and their rows within the file."""

    file: str
    first: int
    last: int
    start: int
    rows: int


class Parts(NamedTuple):
    """A folder of Parquet files: the schema of all, their parts, and a fingerprint of their names and footers."""

    schema: Any
    parts: tuple[Part, ...]
    fingerprint: str


def look_into(folder: Folder) -> Parts:
    """The parts of a folder by the footers of its files; no row is read."""
    names = [name for name in folder.names() if name.lower().endswith(PARQUET)]
    if not names:
        raise ValueError(f"{folder.place} holds no Parquet file (.parquet, .pq); name a folder that does")
    with ThreadPoolExecutor(8) as pool:
        looked = list(pool.map(lambda name: _footer(folder, name), names))
    schema = looked[0][0]
    digest = hashlib.blake2b(digest_size=16)
    parts: list[Part] = []
    for name, (own, groups, footer) in zip(names, looked, strict=True):
        if not own.equals(schema):
            raise ValueError(f"{folder.where(name)} has other columns than {names[0]}: {_difference(own, schema)}")
        digest.update(name.encode() + b"\0" + footer)
        parts += _cut(name, groups)
    if not parts:
        raise ValueError(f"{folder.place} has no rows")
    return Parts(schema, tuple(parts), digest.hexdigest())


def _footer(folder: Folder, name: str) -> tuple[Any, list[int], bytes]:
    """The schema of a file, the rows of its groups, and a digest of what stands at its end."""
    parquet, pyarrow = require("pyarrow.parquet", "data"), require("pyarrow", "data")
    with _whole(folder, name), folder.open(name) as handle, parquet.ParquetFile(handle) as file:
        footer = pyarrow.BufferOutputStream()
        file.metadata.write_metadata_file(footer)
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        return file.schema_arrow, groups, hashlib.blake2b(footer.getvalue(), digest_size=16).digest()


def _whole(folder: Folder, name: str) -> Any:
    return reading(folder.where(name), "Parquet file", "it may be truncated: copy it again, or make it again")


def _difference(one: Any, other: Any) -> str:
    lacks = [name for name in other.names if name not in one.names]
    more = [name for name in one.names if name not in other.names]
    if lacks or more:
        told = [f"it lacks {quoted_names(lacks)}"] if lacks else []
        return "; ".join([*told, *([f"it alone has {quoted_names(more)}"] if more else [])])
    name = next((name for name in one.names if one.field(name) != other.field(name)), None)
    if name is None:
        return "they stand in another order; write them alike"
    return f"{name!r} is {one.field(name).type} in it and {other.field(name).type} elsewhere; write them alike"


def _cut(name: str, groups: list[int]) -> list[Part]:
    parts: list[Part] = []
    first = start = rows = 0
    for number, size in enumerate([*groups, PART_ROWS]):
        if rows and rows + size > PART_ROWS:
            parts.append(Part(name, first, number, start, rows))
            start, rows = start + rows, 0
        if not rows:
            first = number
        rows += size
    return parts


def batches(folder: Folder, part: Part, columns: list[str], rows: int) -> Iterator[tuple[int, Any]]:
    """The record batches of a part, with the number of their first row in the file."""
    parquet = require("pyarrow.parquet", "data")
    start = part.start
    with _whole(folder, part.file), folder.open(part.file) as handle, parquet.ParquetFile(handle) as file:
        for batch in file.iter_batches(rows, row_groups=list(range(part.first, part.last)), columns=columns):
            if len(batch):
                yield start, batch
                start += len(batch)
