"""Rows of a record batch: cells, labels and digests, none of which depends on the rows beside it or on their order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.extras import require
from propml.streaming.folders import Folder, Part, batches
from propml.tables.arrow import cells_of
from propml.tables.labels import FlagLabels, TextLabels, same_spelling
from propml.tables.table import Cells, Edits, Extra, Keep, Table, checked_column
from propml.tables.truth import over_labels
from propml.tables.votes import identifier
from propml.targets import Candidates

__all__ = ["BatchTable", "LabelSet", "digests", "over", "read_labels", "row_contents", "tables_of"]

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


@dataclass(frozen=True)
class LabelSet:
    """The spellings that occur in all rows, and the labels, which are fewer where spellings were merged."""

    spellings: tuple[str, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, counts: dict[str, int], merge: bool) -> LabelSet:
        """From how often each spelling occurs; of spellings that are merged, the most frequent one is the label.

        >>> LabelSet.of({"cat": 1, "Cat": 3, "dog": 2}, merge=True).labels
        ('Cat', 'dog')
        """
        best: dict[str, str] = {}
        for name in sorted(counts, key=lambda name: (-counts[name], name)):
            best.setdefault(same_spelling(name) if merge else name, name)
        kept = set(best.values())
        return cls(tuple(counts), tuple(name for name in counts if name in kept))

    @cached_property
    def column(self) -> np.ndarray:
        """For each spelling the place of its label."""
        if self.spellings == self.labels:
            return np.arange(len(self.labels))
        place = {same_spelling(name): j for j, name in enumerate(self.labels)}
        return np.array([place[same_spelling(name)] for name in self.spellings])

    @cached_property
    def spelled(self) -> dict[str, list[str]]:
        """All spellings of each label."""
        names: dict[str, list[str]] = {label: [] for label in self.labels}
        for name, place in zip(self.spellings, self.column, strict=True):
            names[self.labels[place]].append(name)
        return names

    def candidates(self, where: Labels, table: BatchTable) -> Candidates | None:
        """The candidates of a batch over all labels; None where it has none."""
        given = read_labels(where, table)
        if given is None:
            return None
        spelled = over(given, self.spellings, where, table, "which was not there before; start again")
        if self.spellings == self.labels:
            return spelled
        together = sp.csr_array((np.ones(len(self.column), np.int32), (np.arange(len(self.column)), self.column)))
        candidate, unknown = (sign.astype(np.int32) @ together > 0 for sign in (spelled.states > 0, spelled.states < 0))
        states = sp.csr_array(2 * candidate.astype(np.int8) - unknown.astype(np.int8)).sign().astype(np.int8)
        return replace(spelled, states=states, labels=self.labels)
