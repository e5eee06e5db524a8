"""ARFF files by columns; a copy keeps every line and changes the labels in it."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import replacing
from propml.datasets.arff import decoded, read_arff, read_header, split_cells, without_comment
from propml.tables.table import Cells, Edits, Extra, Keep, Table, checked_column
from propml.unpacking import is_gzipped, open_unpacked

__all__ = ["ArffTable"]


class ArffTable(Table):
    """An ARFF file: numeric attributes as numbers, nominal ones as their declared values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        content = read_arff(path)
        self._attributes = content.attributes
        self._data: Any = sp.csc_array(content.data) if sp.issparse(content.data) else content.data
        self.names = tuple(attribute.name for attribute in content.attributes)
        self.n_rows = self._data.shape[0]

    def cells(self, name: str) -> Cells:
        numbers, values = self._column(self.names.index(checked_column(self, name)))
        if values is None:
            return numbers
        if set(values) <= {"0", "1"}:
            return np.array([float(value) for value in values])[numbers.astype(np.int64)]
        return [values[int(code)] for code in numbers]

    def _column(self, column: int) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """Numbers, or positions in the declared values."""
        stored = self._data[:, [column]]
        return (stored.toarray() if sp.issparse(stored) else stored).ravel(), self._attributes[column].values

    def _as_written(self, column: int) -> list[str]:
        numbers, values = self._column(column)
        return [f"{number:.15g}" if values is None else values[int(number)] for number in numbers]

    def copy(self, path: Path, edits: Edits = None, keep: Keep = None, extra: Extra = ()) -> None:
        if keep is not None or extra:
            raise ValueError("an ARFF file holds one row per item; an annotator table is a CSV, TSV or Parquet file")
        columns = {self.names.index(checked_column(self, name)): edit for name, edit in (edits or {}).items()}
        changed = {column: edit(0, self._as_written(column)) for column, edit in columns.items()}
        zeros = {column: (self._attributes[column].values or ("0",))[0] for column in changed}
        with open_unpacked(self.path) as file:
            text, encoding = decoded(file.read())  # a byte-order mark stays where it is
        lines = text.split("\n")
        _, _, start = read_header([line.rstrip("\r") for line in lines], self.path)
        row = 0
        for number in range(start, len(lines)):
            bare = without_comment(lines[number]).strip()
            if bare:
                new = {column: cells[row] for column, cells in changed.items()}
                lines[number] = lines[number].replace(bare, _edited(bare, new, zeros), 1)
                row += 1
        content = "\n".join(lines).encode(encoding)
        with replacing(path) as beside:
            beside.write_bytes(gzip.compress(content) if is_gzipped(self.path) else content)


def _edited(line: str, new: Mapping[int, str], zeros: Mapping[int, str]) -> str:
    """A line of the data section with other values at some positions; ``zeros`` are those that sparse rows omit."""
    if not line.startswith("{"):
        cells = split_cells(line) or []
        return ",".join(new.get(column, cell) for column, cell in enumerate(cells))
    pairs = [pair.split(None, 1) for pair in split_cells(line[1:-1]) or [] if pair]
    values = {int(position): value for position, value in pairs if int(position) not in new}
    values |= {column: value for column, value in new.items() if value != zeros[column]}
    return "{" + ",".join(f"{column} {values[column]}" for column in sorted(values)) + "}"
