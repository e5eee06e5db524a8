"""New tables in the format that the name of the file tells: CSV, TSV, JSON, JSONL, Parquet, Feather, Excel."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from propml.atomic_files import replacing
from propml.extras import require
from propml.tables.sources import format_of
from propml.tables.text import write_csv
from propml.tables.xlsx import write_xlsx

__all__ = ["LISTS", "WRITABLE", "check_ending", "like", "write_rows"]

#: Endings of formats in which a list of labels is a list, and of all that :func:`write_rows` writes.
LISTS = (".json", ".jsonl", ".parquet", ".feather")
WRITABLE = (".csv", ".tsv", ".xlsx", *LISTS)
BLOCK_ROWS = 65_536


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
    kind = path.suffix.lower()[1:]
    if kind in ("json", "jsonl"):
        _write_json(path, header, rows, kind == "jsonl")
    elif kind in ("parquet", "feather"):
        _write_arrow(path, header, rows, kind)
    else:
        joined = ([sep.join(cell) if isinstance(cell, list) else cell for cell in row] for row in rows)
        if kind == "xlsx":
            write_xlsx(path, header, joined)
        else:
            write_csv(path, header, joined, "\t" if kind == "tsv" else ",")


def _write_json(path: Path, header: Sequence[str], rows: Iterator[Sequence[Any]], in_lines: bool) -> None:
    between, start, end = ("\n", "", "\n") if in_lines else (",\n", "[\n", "\n]\n")
    with replacing(path) as beside, beside.open("w", encoding="utf-8") as file:
        file.write(start)
        for number, row in enumerate(rows):
            entry = json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False, allow_nan=False)
            file.write((between if number else "") + entry)
        file.write(end)


def _write_arrow(path: Path, header: Sequence[str], rows: Iterator[Sequence[Any]], kind: str) -> None:
    pyarrow = require("pyarrow", "data")
    blocks = [pyarrow.table([[] for _ in header], list(header))]
    while block := list(islice(rows, BLOCK_ROWS)):
        blocks.append(pyarrow.table([pyarrow.array(column) for column in zip(*block, strict=True)], list(header)))
    table = pyarrow.concat_tables(blocks, promote_options="permissive")
    with replacing(path) as beside:
        if kind == "parquet":
            require("pyarrow.parquet", "data").write_table(table, beside)
        else:
            require("pyarrow.feather", "data").write_feather(table, beside)
