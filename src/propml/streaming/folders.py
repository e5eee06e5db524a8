"""Folders of Parquet files, by path or URL: their parts, their rows batch by batch, and files that are written whole.

Nothing that is made of a row depends on the rows beside it or on their order: cells, labels and digests.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import replacing
from propml.extras import require
from propml.file_errors import reading
from propml.tables.arrow import cells_of
from propml.tables.labels import FlagLabels, TextLabels, merged, over_labels, same_spelling
from propml.tables.table import Cells, Edits, Extra, Keep, Table, checked_column, quoted_names
from propml.tables.votes import identifier
from propml.targets import Candidates

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


# Rows that are in memory at once.
BATCH_ROWS = 2**15
Labels = TextLabels | FlagLabels


class BatchTable(Table):
    """A record batch as a table.

    A column of whole numbers with gaps, or of vectors with gaps, is read as one without: otherwise what becomes of a
    row would depend on the batch in which it stands.
    """

    def __init__(self, batch: Any, path: Path, file: str = "", start: int = 0) -> None:
        self.path, self.file, self.start = path, file, start
        self.names = tuple(batch.schema.names)
        self.n_rows = len(batch)
        self.lines: Sequence[int] = ()
        self.batch = batch

    def cells(self, name: str) -> Cells:
        column = self.batch.column(checked_column(self, name))
        if require("pyarrow", "data").types.is_integer(column.type) and column.null_count:
            return column.to_pylist()
        cells = cells_of(column)
        is_matrix = isinstance(cells, np.ndarray) and cells.ndim == 2
        return cells.astype(np.float32, copy=False) if is_matrix else cells

    def where(self, row: int, name: str) -> str:
        return f"{self.path}: row {self.start + row}, column {name!r}"

    def copy(self, path: Path, edits: Edits = None, keep: Keep = None, extra: Extra = ()) -> None:
        raise ValueError(f"{self.path} is read in batches, and is not copied as a whole")

    def items(self, id_column: str | None) -> list[str]:
        """What to call each row: its identifier, or else its file and its number in it."""
        if id_column is None:
            return [f"{self.file}:{self.start + row}" for row in range(self.n_rows)]
        items = [identifier(cell) for cell in self.cells(id_column)]
        if "" in items:
            raise ValueError(f"{self.where(items.index(''), id_column)} is empty; an identifier is needed in every row")
        return items

    def contents(self, columns: Sequence[str]) -> Iterator[bytes]:
        """The cells of each row as bytes."""
        pyarrow = require("pyarrow", "data")
        kinds = pyarrow.types
        numbers, others = [], []
        for name in columns:
            column = self.batch.column(name)
            if kinds.is_integer(column.type) or kinds.is_floating(column.type):
                exact = column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
                numbers.append(np.where(np.isnan(exact), np.nan, exact + 0.0))  # one NaN, and no -0
            else:
                others.append(column.to_pylist())
        matrix = np.column_stack(numbers) if numbers else np.empty((self.n_rows, 0))
        for row in range(self.n_rows):
            yield matrix[row].tobytes() + repr([cells[row] for cells in others]).encode()


def tables_of(folder: Folder, part: Part, columns: Iterable[str]) -> Iterator[BatchTable]:
    """A part of a folder, batch by batch."""
    path = Path(folder.where(part.file))
    for start, batch in batches(folder, part, list(dict.fromkeys(columns)), BATCH_ROWS):
        yield BatchTable(batch, path, part.file, start)


def digests(contents: Iterable[bytes], n: int, seed: int, purpose: str) -> np.ndarray:
    """A number below 2⁶⁴ for each content, the same on every machine, ``(n,)``.

    >>> digests([b"a", b"b", b"a"], 3, 0, "fold") % 5
    array([1, 2, 1], dtype=uint64)
    """
    key, person = str(seed).encode(), purpose.encode()
    hashed = (hashlib.blake2b(each, digest_size=8, key=key, person=person).digest() for each in contents)
    return np.frombuffer(b"".join(hashed), dtype="<u8", count=n)


def row_contents(X: np.ndarray | sp.csr_array) -> Iterator[bytes]:
    """The features of each row as bytes."""
    if not sp.issparse(X):
        yield from (row.tobytes() for row in np.ascontiguousarray(X, dtype=np.float32))
        return
    rows = sp.csr_array(X)
    rows.sum_duplicates()
    indices, data = rows.indices.astype(np.int32), rows.data.astype(np.float32)
    for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        yield indices[a:b].tobytes() + data[a:b].tobytes()


def read_labels(where: Labels, table: BatchTable) -> Candidates | None:
    """The labels of a batch; None where no row of it has any."""
    if isinstance(where, TextLabels):
        cells = table.cells(where.column)
        rows = enumerate(cells.tolist() if isinstance(cells, np.ndarray) else cells)
        if not any(where.names(cell, table, row) for row, cell in rows):
            return None
    return where.read(table)


def over(
    given: Candidates, labels: Sequence[str], where: Labels, table: BatchTable, sentence: str, **how: Any
) -> Candidates:
    """The same as columns of these labels; the sentence is on a candidate that is none of them."""

    def told(row: int, name: str) -> str:
        place = where.column if isinstance(where, TextLabels) else name
        return f"{table.where(row, place)} has the label {name!r}, {sentence}"

    return over_labels(given, labels, told, **how)


def candidates_over(labels: Sequence[str], where: Labels, table: BatchTable, merge: bool) -> Candidates | None:
    """The candidates of a batch over all labels, those of merged spellings together; None where it has none."""
    given = read_labels(where, table)
    if given is None:
        return None
    how = {"matched_by": same_spelling} if merge else {}
    return over(
        merged(given) if merge else given, labels, where, table, "which was not there before; start again", **how
    )
