"""Excel workbooks: the first sheet by columns; a copy is the workbook with other labels in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from propml.atomic_files import replacing
from propml.extras import require
from propml.tables.table import Edits, Extra, Keep, MemoryTable, check_names, checked_column
from propml.unpacking import check_zip

__all__ = ["XlsxTable", "write_xlsx"]


class XlsxTable(MemoryTable):
    """The first sheet of a workbook; its first row names the columns, and rows without a cell are none."""

    def __init__(self, path: Path) -> None:
        check_zip(path)
        book = require("openpyxl", "formats").load_workbook(path, read_only=True, data_only=True)
        try:
            rows = list(book.worksheets[0].iter_rows(values_only=True))
        finally:
            book.close()
        header = ["" if name is None else str(name).strip() for name in rows[0]] if rows else []
        while header and not header[-1]:
            header.pop()
        numbers = [at for at, row in enumerate(rows) if at and any(cell is not None for cell in row)]
        if header and not numbers:
            raise ValueError(f"{path} has a header and no rows")
        filled = [(*rows[at], *[None] * len(header))[: len(header)] for at in numbers]
        check_names(header, path)
        super().__init__({name: [row[j] for row in filled] for j, name in enumerate(header)}, path)
        self.lines = [at + 1 for at in numbers]

    def copy(self, path: Path, edits: Edits = None, keep: Keep = None, extra: Extra = ()) -> None:
        book = require("openpyxl", "formats").load_workbook(self.path)  # with its formulas
        sheet = book.worksheets[0]
        for name, edit in (edits or {}).items():
            column, before = self.names.index(checked_column(self, name)) + 1, self.cells(name)
            for row, cell in enumerate(edit(0, list(before))):
                if cell != before[row]:
                    _put(sheet.cell(self.lines[row], column), cell)
        for row in reversed(range(self.n_rows)):
            if keep is not None and not keep[row]:
                sheet.delete_rows(self.lines[row])
        for values in extra:
            below = sheet.max_row + 1
            for name, value in values.items():
                _put(sheet.cell(below, self.names.index(name) + 1), value)
        with replacing(path) as beside:
            book.save(beside)


def write_xlsx(path: Path, header: Sequence[str], rows: Any) -> None:
    """A new workbook with one sheet."""
    book = require("openpyxl", "formats").Workbook()
    for number, row in enumerate((header, *rows), 1):
        for j, value in enumerate(row, 1):
            _put(book.active.cell(number, j), value)
    with replacing(path) as beside:
        book.save(beside)


def _put(cell: Any, value: Any) -> None:
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"  # a text that begins with = is no formula
