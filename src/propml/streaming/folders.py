"""Folders of Parquet files, by path or URL: their parts, their rows batch by batch, and files that are written whole.

Nothing that is made of a row depends on the rows beside it or on their order: cells, labels and digests.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import replacing
from propml.extras import require
from propml.file_errors import reading
from propml.tables.arrow import cells_of
from propml.tables.labels import FlagLabels, TextLabels, merged, over_labels, same_spelling
from propml.tables.table import Cells, MemoryTable, checked_column, quoted_names
from propml.tables.votes import identifier
from propml.targets import Candidates

# Row groups go together into a part up to so many rows: what is lost with a worker, and a file of what is written.
PART_ROWS = 2**18
# Rows that are in memory at once.
BATCH_ROWS = 2**15
PARQUET = (".parquet", ".pq")
Labels = TextLabels | FlagLabels


class Folder:
    """A folder by its path, or by a URL that pyarrow or fsspec opens; it need not be there before it is written to."""

    def __init__(self, place: str) -> None:
        fs = require("pyarrow.fs", "data")
        self.is_url = "://" in place
        self.place = root = place if self.is_url else str(Path(place).absolute())
        self._files = fs.LocalFileSystem()
        if self.is_url:
            try:
                self._files, root = fs.FileSystem.from_uri(place)
            except (ValueError, TypeError, NotImplementedError):  # a scheme that pyarrow does not know
                fsspec = require("fsspec", "data")
                with reading(place, "URL", "give a folder that pyarrow or fsspec can open"):
                    opened, root = fsspec.core.url_to_fs(place)
                self._files = fs.PyFileSystem(fs.FSSpecHandler(opened))
        self._root = root.rstrip("/")

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
        return self._files.open_input_file(f"{self._root}/{name}")

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            return file.read()

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """A file to write; it gets its name when the block has ended, and none where that ends with an error."""
        if not self.is_url:
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
        with self.writing(name) as file:
            file.write(content)

    def read_table(self, name: str) -> Any:
        with self.open(name) as file:
            return require("pyarrow.parquet", "data").read_table(file)

    @contextmanager
    def writing_table(self, name: str, schema: Any) -> Iterator[Any]:
        """Called with tables of a schema, it writes them into one Parquet file."""
        with self.writing(name) as file, require("pyarrow.parquet", "data").ParquetWriter(file, schema) as writer:
            yield writer.write_table


class Part(NamedTuple):
    """Some row groups of a file: the first of them, the one after the last, and their rows within the file."""

    file: str
    first: int
    last: int
    start: int
    rows: int


def look_into(folder: Folder) -> tuple[Any, tuple[Part, ...], str]:
    """The schema of all files of a folder, their parts, and a fingerprint of names and footers; no row is read."""
    names = [name for name in folder.names() if name.lower().endswith(PARQUET)]
    if not names:
        raise ValueError(f"{folder.place} holds no Parquet file (.parquet, .pq); name a folder that does")
    with ThreadPoolExecutor(8) as pool:
        looked = list(pool.map(partial(_footer, folder), names))
    schema = looked[0][0]
    digest = hashlib.blake2b(digest_size=16)
    parts: list[Part] = []
    for name, (own, groups, footer) in zip(names, looked, strict=True):
        if not own.equals(schema):
            one, other = ({f"{field.name}: {field.type}" for field in each} for each in (own, schema))
            odd = quoted_names(sorted(one ^ other))
            told = f"only one of them has {odd}" if odd else "in another order, or with cells that may be null"
            raise ValueError(f"{folder.where(name)} has other columns than {names[0]}: {told}; write them alike")
        digest.update(name.encode() + b"\0" + footer)
        parts += _cut(name, groups)
    if not parts:
        raise ValueError(f"{folder.place} has no rows")
    return schema, tuple(parts), digest.hexdigest()


def _footer(folder: Folder, name: str) -> tuple[Any, list[int], bytes]:
    """The schema of a file, the rows of its groups, and a digest of what stands at its end."""
    with _opened(folder, name) as file:
        footer = require("pyarrow", "data").BufferOutputStream()
        file.metadata.write_metadata_file(footer)
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        return file.schema_arrow, groups, hashlib.blake2b(footer.getvalue(), digest_size=16).digest()


@contextmanager
def _opened(folder: Folder, name: str) -> Iterator[Any]:
    parquet = require("pyarrow.parquet", "data")
    with (
        reading(folder.where(name), "Parquet file", "it may be truncated: copy it again, or make it again"),
        folder.open(name) as handle,
        parquet.ParquetFile(handle) as file,
    ):
        yield file


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


class BatchTable(MemoryTable):
    """A record batch as a table."""

    def __init__(self, batch: Any, path: Path, file: str = "", start: int = 0) -> None:
        self.path, self.file, self.start = path, file, start
        self.names = tuple(batch.schema.names)
        self.n_rows = len(batch)
        self.batch = batch

    def cells(self, name: str) -> Cells:
        # Whole numbers and vectors are read alike with and without gaps: a row must not depend on its batch.
        column = self.batch.column(checked_column(self, name))
        if require("pyarrow", "data").types.is_integer(column.type) and column.null_count:
            return column.to_pylist()
        cells = cells_of(column)
        is_matrix = isinstance(cells, np.ndarray) and cells.ndim == 2
        return cells.astype(np.float32, copy=False) if is_matrix else cells

    def where(self, row: int, name: str) -> str:
        return f"{self.path}: row {self.start + row}, column {name!r}"

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
    path, start = Path(folder.where(part.file)), part.start
    how = {"row_groups": list(range(part.first, part.last)), "columns": list(dict.fromkeys(columns))}
    with _opened(folder, part.file) as file:
        for batch in file.iter_batches(BATCH_ROWS, **how):
            if len(batch):
                yield BatchTable(batch, path, part.file, start)
                start += len(batch)


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
    given: Candidates, labels: Sequence[str], where: Labels, table: BatchTable, sentence: str, merge: bool, **how: Any
) -> Candidates:
    """The same as columns of these labels; the sentence is on a candidate that is none of them."""

    def told(row: int, name: str) -> str:
        place = where.column if isinstance(where, TextLabels) else name
        return f"{table.where(row, place)} has the label {name!r}, {sentence}"

    return over_labels(given, labels, told, matched_by=same_spelling if merge else str, **how)


def candidates_over(labels: Sequence[str], where: Labels, table: BatchTable, merge: bool) -> Candidates | None:
    """The candidates of a batch over all labels, those of merged spellings together; None where it has none."""
    if (given := read_labels(where, table)) is None:
        return None
    given = merged(given) if merge else given
    return over(given, labels, where, table, "which was not there before; start again", merge)
