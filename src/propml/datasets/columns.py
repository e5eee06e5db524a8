"""Named columns of a user's own file, and their conversion to numbers with errors that name row and column."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from propml.argument_names import argument
from propml.extras import require
from propml.spreadsheet import original
from propml.unpacking import check_unpacked, open_unpacked

__all__ = ["Columns", "check_parquet", "read_csv", "read_parquet"]

_WORDS = {"true": 1.0, "false": 0.0}
# A cell may be a whole document; csv counts in a C long, which on Windows holds no more.
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True, eq=False)
class Columns:
    """A table by columns.

    Attributes
    ----------
    path : Path
    cells : dict of str to list or ndarray
        One per column, of equal length: text from CSV; numbers, text or lists from Parquet.
    lines : sequence of int
        The line of each row in a text file; empty where there are no lines.
    """

    path: Path
    cells: dict[str, Any]
    lines: Sequence[int] = ()

    def column(self, name: str) -> Any:
        """A column by name."""
        if name not in self.cells:
            raise ValueError(f"{self.path} has no column {name!r}; it has {', '.join(map(repr, self.cells))}")
        return self.cells[name]

    def as_list(self, name: str) -> list[Any]:
        """A column as plain Python values."""
        cells = self.column(name)
        return cells.tolist() if isinstance(cells, np.ndarray) else cells

    def where(self, row: int, name: str) -> str:
        """How to name a cell to a person."""
        line = f" (line {self.lines[row]})" if self.lines else ""
        return f"{self.path}: row {row}{line}, column {name!r}"

    def numbers(self, name: str) -> np.ndarray:
        """A column as finite numbers, shape ``(n_rows,)``."""
        cells = self.column(name)
        try:
            values = np.array(cells, dtype=np.float64)
            if values.ndim == 1 and np.isfinite(values).all():
                return values
        except (ValueError, TypeError):
            pass  # found and named below
        return np.array([self._number(cell, row, name) for row, cell in enumerate(self.as_list(name))])

    def states(self, name: str, allowed: tuple[int, ...]) -> np.ndarray:
        """A column of 0 and 1 (and -1, where it is allowed), shape ``(n_rows,)``."""
        cells = self.as_list(name)
        values = np.array([_as_number(cell) for cell in cells])
        bad = np.flatnonzero(~np.isin(values, allowed))
        if bad.size:
            choices = " or ".join(map(str, allowed))
            raise ValueError(f"{self.where(int(bad[0]), name)} is {cells[bad[0]]!r}, expected {choices}")
        return values.astype(np.int8)

    def _number(self, cell: Any, row: int, name: str) -> float:
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            raise ValueError(f"{self.where(row, name)} is empty; fill it in, or leave the row out")
        try:
            value = float(cell)
        except (ValueError, TypeError):
            value = np.nan
        if not np.isfinite(value):
            raise ValueError(
                f"{self.where(row, name)} is {cell!r}, expected a finite number; encode the column as numbers, "
                f"or leave it out with {argument('ignore', [name])}"
            )
        return value


def _as_number(cell: Any) -> float:
    """A number, also one for true or false; NaN for anything else."""
    try:
        return float(cell)
    except (ValueError, TypeError):
        return _WORDS.get(str(cell).strip().lower(), np.nan)


def read_csv(path: Path, delimiter: str) -> Columns:
    """The columns of a text table with a header line; plain or gzip-compressed, UTF-8.

    Cells that were made harmless for spreadsheets are read as what they were.
    """
    try:
        with open_unpacked(path) as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}); save it as UTF-8") from error
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [original(name).strip() for name in next(reader, [])]
        _check_header(header, path)
        rows, lines = [], []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise ValueError(
                    f"{path}: line {reader.line_num} has {len(row)} cells, the header has {len(header)}; "
                    f"quote cells that contain {delimiter!r}"
                )
            rows.append([original(cell) for cell in row])
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{path}: line {reader.line_num} is not valid CSV ({error})") from error
    if not rows:
        raise ValueError(f"{path} has a header and no rows")
    return Columns(path, dict(zip(header, map(list, zip(*rows, strict=True)), strict=True)), lines)


def read_parquet(path: Path) -> Columns:
    """The columns of a Parquet file."""
    parquet = require("pyarrow.parquet", "data")
    with path.open("rb") as handle, parquet.ParquetFile(handle) as file:
        check_parquet(path, file.metadata)
        table = file.read()
    _check_header(table.column_names, path)
    if not table.num_rows:
        raise ValueError(f"{path} has no rows")
    return Columns(path, {name: _cells(table.column(name)) for name in table.column_names})


def check_parquet(path: Path, metadata: Any) -> None:
    """Refuse a Parquet file that would become too large, by what it declares: a run of one value is a few bytes."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    encoded = sum(group.total_byte_size for group in groups)
    check_unpacked(path, max(encoded, 8 * metadata.num_rows * metadata.num_columns))


def _cells(column: Any) -> Any:
    """Whole numeric columns as arrays, which is much faster than cell by cell; the rest as a list."""
    numeric = str(column.type).startswith(("int", "uint", "float", "double"))
    return column.to_numpy() if numeric and not column.null_count else column.to_pylist()


def _check_header(names: Sequence[str], path: Path) -> None:
    if not any(names):
        raise ValueError(f"{path} has no header; its first line must name the columns")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{path} has two columns named {twice[0]!r}; rename one of them")
