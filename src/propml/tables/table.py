"""A table: columns by name, which are read one at a time, and a copy of the file with some cells changed."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

SHOWN = 12  # column names in a message at most

#: One column: text from CSV; numbers (two dimensions for vectors), dates, text or lists from Parquet and DataFrames.
Cells: TypeAlias = "Sequence[Any] | np.ndarray"
#: From the position of the first row of a block and the cells of a column in it to the cells to write instead.
Edit: TypeAlias = Callable[[int, Sequence[Any]], Sequence[Any]]
#: What a copy of a table takes: columns to change, a mask of rows to keep, rows to add.
Edits: TypeAlias = "Mapping[str, Edit] | None"
Keep: TypeAlias = "np.ndarray | None"
Extra: TypeAlias = "Sequence[Mapping[str, Any]]"


class Table(ABC):
    """A table whose columns are read one at a time, so that no more than one of them is in memory as Python cells."""

    path: Path
    names: tuple[str, ...]
    n_rows: int
    #: The line of each row in a file that has lines.
    lines: Sequence[int] = ()

    @abstractmethod
    def cells(self, name: str) -> Cells:
        """All cells of a column."""

    def copy(self, path: Path, edits: Edits = None, keep: Keep = None, extra: Extra = ()) -> None:
        """Write the same table in the same format: some columns changed, the rows of a mask only, rows added."""
        raise ValueError(f"{self.path} has no file format to write it in; write it with the library that made it")

    def where(self, row: int, name: str) -> str:
        """How to name a cell to a person."""
        line = f" (line {self.lines[row]})" if len(self.lines) else ""
        return f"{self.path}: row {row}{line}, column {name!r}"


class MemoryTable(Table):
    """Columns that are in memory already: of a DataFrame or a dictionary."""

    def __init__(self, columns: Mapping[str, Cells], path: Path = Path("the table")) -> None:
        self.path = path
        self.names = tuple(columns)
        check_names(self.names, path)
        self._columns = dict(columns)
        self.n_rows = len(next(iter(self._columns.values())))

    def cells(self, name: str) -> Cells:
        return self._columns[checked_column(self, name)]


def as_table(source: Any) -> Table:
    """A table from itself, a DataFrame, a ``datasets.Dataset`` of Hugging Face, or a mapping of names to columns."""
    if isinstance(source, Table):
        return source
    if hasattr(source, "column_names") and hasattr(source, "features"):
        from propml.tables.arrow import class_names, named

        classes = class_names({"info": {"features": source.features.to_dict()}})
        cells = {name: [named(cell, classes.get(name)) for cell in source[name]] for name in source.column_names}
        return MemoryTable(cells)
    columns = {}
    for name in getattr(source, "columns", source):
        column = source[name]
        values = column.to_numpy() if hasattr(column, "to_numpy") else column
        is_text = isinstance(values, np.ndarray) and values.dtype.kind in "OU"
        columns[str(name)] = values.tolist() if is_text else values
    return MemoryTable(columns)


def checked_column(table: Table, name: str) -> str:
    """The name, or a sentence that says which names there are."""
    if name not in table.names:
        raise ValueError(f"{table.path} has no column {name!r}; it has {quoted_names(table.names)}")
    return name


def quoted_names(names: Sequence[str]) -> str:
    """Names for a message; of many, the first."""
    return ", ".join(map(repr, names[:SHOWN])) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def check_names(names: Sequence[str], path: Path) -> None:
    """Refuse a table without names, or with the same name twice."""
    if not any(names):
        raise ValueError(f"{path} has no header; its first line must name the columns")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{path} has two columns named {twice[0]!r}; rename one of them")


def choose_columns(table: Table, given: str | Sequence[str]) -> list[str]:
    """The columns that somebody asked for: names, names separated by commas, or patterns such as ``y_*``.

    >>> choose_columns(as_table({"a": [1], "y_1": [1], "y_2": [1]}), "a,y_*")
    ['a', 'y_1', 'y_2']
    """
    chosen: list[str] = []
    for text in [given] if isinstance(given, str) else given:
        # A name may itself contain commas or asterisks.
        for part in [text] if text in table.names else [part.strip() for part in text.split(",") if part.strip()]:
            matching = [name for name in table.names if fnmatchcase(name, part) and part not in table.names]
            chosen += matching or [checked_column(table, part)]
    return list(dict.fromkeys(chosen))
