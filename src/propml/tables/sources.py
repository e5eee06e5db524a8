"""Files by their format: as columns (CSV, JSON, Parquet, …), as a matrix (npz, …), or as the export of a tool."""

import json
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from propml.atomic_files import replacing
from propml.extras import require
from propml.file_errors import reading
from propml.messages import argument
from propml.tables.arrays import ArffTable, ArrayFile, read_array_file
from propml.tables.arrow import ArrowTable
from propml.tables.json_tables import JsonTable, read_records
from propml.tables.table import Edits, Extra, Keep, MemoryTable, Table, as_table, check_names, checked_column
from propml.tables.text import TextTable, write_csv
from propml.tables.tools import TOOLS, ToolTable, export_in, tool_of
from propml.unpacking import check_zip, open_unpacked

FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".xlsx": "xlsx", ".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather",
    ".ipc": "feather", ".npz": "npz", ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight",
    ".arff": "arff", ".mat": "mat",
}  # fmt: skip
_BEGINNINGS = {b"PAR1": "parquet", b"ARROW1": "feather", b"MATLAB": "mat", b"@": "arff", b"%": "arff"}

#: Endings of formats in which a list of labels is a list, and of all that :func:`write_rows` writes.
LISTS = (".json", ".jsonl", ".parquet", ".feather")
WRITABLE = (".csv", ".tsv", ".xlsx", *LISTS)
BLOCK_ROWS = 65_536  # of a new Parquet or Feather file

Source: TypeAlias = Table | ArrayFile


def format_of(path: Path) -> str:
    """The format that the name of a file tells, or else its first bytes; of a folder, that of the files in it."""
    if path.is_dir():
        return "parquet"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if suffixes and suffixes[-1] in FORMATS:
        return FORMATS[suffixes[-1]]
    if (kind := _by_content(path)) is None:
        ways = f"use one of {', '.join(FORMATS)}, or give {argument('file_format')}"
        raise ValueError(f"{path}: the format is not clear from the name; {ways}")
    return kind


def open_table(
    path: str | Path | Any,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    file_format: str | None = None,
    plain: bool = False,
) -> Source:
    """A file as columns or as a matrix, by its format.

    Parameters
    ----------
    path : path, or a table in memory
        CSV, TSV, JSON, JSONL (all also ``.gz``), Excel, Parquet, Feather, a folder of Parquet or Arrow files, ARFF,
        npz, svmlight, ``.mat`` or the export of a labelling tool (Doccano's also as a zip file). Or a DataFrame, a
        dictionary of columns, or a ``datasets.Dataset``.
    delimiter, encoding : str, optional
        For text tables; by default ``,`` (``.tsv``: a tab) and UTF-8.
    file_format : str, optional
        ``"csv"``, ``"parquet"``, …, or a tool: ``"label-studio"``, ``"doccano"``, ``"prodigy"``, ``"argilla"``;
        ``"json"`` and ``"jsonl"`` take the export of a tool for plain objects. By default the file tells.
    plain : bool
        Take objects for plain ones where no format is given, because somebody says in which column labels are.
    """
    if not isinstance(path, str | Path):
        table = as_table(path)
        return table if plain else export_in(table) or table
    path = Path(path)
    if file_format is not None and file_format not in {*FORMATS.values(), *TOOLS}:
        known = ", ".join(dict.fromkeys([*FORMATS.values(), *TOOLS]))
        raise ValueError(f"{argument('file_format')} is {file_format!r}; choose one of {known}")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist or is not a file")
    kind = file_format or format_of(path)
    if path.is_dir() and kind not in ("parquet", "feather"):
        raise IsADirectoryError(f"{path} is a folder, and a {kind} file was expected; name a file")
    if kind not in ("csv", "tsv") and (delimiter is not None or encoding is not None):
        named = f"{argument('delimiter')} and {argument('encoding')}"
        raise ValueError(f"{path}: {named} belong to CSV and TSV files; leave them out")
    with reading(path, f"{kind} file"):
        if kind in ("csv", "tsv"):
            return TextTable(path, delimiter or ("\t" if kind == "tsv" else ","), encoding)
        if kind in ("parquet", "feather"):
            arrow = ArrowTable(path)
            return arrow if plain else export_in(arrow) or arrow
        if kind in ("json", "jsonl", *TOOLS):
            records = read_records(path)
            tool = tool_of(records) if file_format is None and not plain else file_format
            return ToolTable(path, records, tool) if tool in TOOLS else JsonTable(path, records)
        if kind == "xlsx":
            return XlsxTable(path)
        return ArffTable(path) if kind == "arff" else read_array_file(path, kind)


def _by_content(path: Path) -> str | None:
    if not path.is_file():
        return None
    with reading(path, "table"), open_unpacked(path) as file:
        start = file.read(2**16)
    for beginning, kind in _BEGINNINGS.items():
        if start.startswith(beginning):
            return kind
    if start.startswith(b"PK"):
        with reading(path, "zip file"), zipfile.ZipFile(path) as zipped:
            names = zipped.namelist()
        endings = {"[Content_Types].xml": "xlsx", ".npy": "npz", ".jsonl": "jsonl", ".json": "json"}
        return next((kind for ending, kind in endings.items() if any(n.endswith(ending) for n in names)), None)
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return "json"
    first = start.partition(b"\n")[0]
    return next((kind for sign, kind in ((b"\t", "tsv"), (b",", "csv")) if sign in first and b"\0" not in start), None)


# -- Excel -------------------------------------------------------------------------------------------------------------


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
        filled = {line: row for line, row in enumerate(rows[1:], 2) if any(cell is not None for cell in row)}
        if header and not filled:
            raise ValueError(f"{path} has a header and no rows")
        check_names(header, path)
        own = [(*row, *[None] * len(header)) for row in filled.values()]  # a row may be shorter than the header
        super().__init__({name: [row[j] for row in own] for j, name in enumerate(header)}, path)
        self.lines = list(filled)

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


def _put(cell: Any, value: Any) -> None:
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"  # a text that begins with = is no formula


# -- new tables --------------------------------------------------------------------------------------------------------


def like(source: Path, stem: Path) -> Path:
    """A name for a new table in the format of another; CSV where nothing else is written."""
    kind = format_of(source) if source.exists() else ""
    return stem.with_suffix(f".{kind}" if f".{kind}" in WRITABLE else ".csv")


def check_ending(path: Path) -> None:
    """Refuse a name that tells no format in which a table is written."""
    if path.suffix.lower() not in WRITABLE:
        raise ValueError(f"{path} ends in {path.suffix!r}; choose a name in {', '.join(WRITABLE)}")


def write_rows(path: Path, header: Sequence[str], rows: Iterator[Sequence[Any]], sep: str = ";") -> None:
    """Write a table; lists are joined with ``sep`` where the format has none."""
    check_ending(path)
    kind = path.suffix.lower()
    if kind not in LISTS:
        rows = ([sep.join(cell) if isinstance(cell, list) else cell for cell in row] for row in rows)
    if kind in (".csv", ".tsv"):
        write_csv(path, header, rows, "\t" if kind == ".tsv" else ",")
        return
    write = {".xlsx": _write_xlsx, ".json": _write_json, ".jsonl": _write_json}.get(kind, _write_arrow)
    with replacing(path) as beside:
        write(beside, kind, header, rows)


def _write_json(path: Path, kind: str, header: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    between, start, end = ("\n", "", "\n") if kind == ".jsonl" else (",\n", "[\n", "\n]\n")
    with path.open("w", encoding="utf-8") as file:
        file.write(start)
        for number, row in enumerate(rows):
            entry = json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False, allow_nan=False)
            file.write((between if number else "") + entry)
        file.write(end)


def _write_arrow(path: Path, kind: str, header: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    pyarrow = require("pyarrow", "data")
    blocks = [pyarrow.table([[] for _ in header], list(header))]
    while block := list(islice(rows, BLOCK_ROWS)):
        blocks.append(pyarrow.table([pyarrow.array(column) for column in zip(*block, strict=True)], list(header)))
    table = pyarrow.concat_tables(blocks, promote_options="permissive")
    if kind == ".parquet":
        require("pyarrow.parquet", "data").write_table(table, path)
    else:
        require("pyarrow.feather", "data").write_feather(table, path)


def _write_xlsx(path: Path, kind: str, header: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    book = require("openpyxl", "formats").Workbook()
    for number, row in enumerate((header, *rows), 1):
        for j, value in enumerate(row, 1):
            _put(book.active.cell(number, j), value)
    book.save(path)
