"""JSON and JSONL files of objects: nested values are columns by path, lists are cells; copies keep what stays."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from propml.atomic_files import replacing
from propml.file_errors import reading
from propml.tables.cell_lists import shown
from propml.tables.table import Edits, Extra, Keep, check_names, checked_column
from propml.unpacking import is_gzipped, open_unpacked

__all__ = ["JsonTable", "read_records"]

Record = dict[str, Any]
MOST_DIGITS = 300  # of a whole number that is still a float


class JsonTable:
    """Objects by columns: ``{"meta": {"tags": ["a"]}}`` has a column ``meta.tags``.

    Parameters
    ----------
    path : path
        A list of objects, an object that holds one such list, or an object per line; also gzip-compressed.
    records : list of dict, optional
        What was read of it; for formats that hold their rows in a way of their own.
    """

    def __init__(self, path: Path, records: list[Record] | None = None) -> None:
        self.path = path
        self.records = read_records(path) if records is None else records
        self._keys: dict[str, tuple[str, ...]] = {}
        self._flat = [self._flattened(record) for record in self.records]
        self.names = tuple(self._keys)
        check_names(self.names, path)
        self.n_rows = len(self._flat)
        self.lines: Sequence[int] = ()

    def cells(self, name: str) -> list[Any]:
        checked_column(self, name)
        return [flat.get(name) for flat in self._flat]

    def where(self, row: int, name: str) -> str:
        return f"{self.path}: row {row}, column {name!r}"

    def copy(self, path: Path, edits: Edits = None, keep: Keep = None, extra: Extra = ()) -> None:
        changed: dict[int, Record] = {}
        for name, edit in (edits or {}).items():
            before = self.cells(name)
            for row, cell in enumerate(edit(0, before)):
                if cell is not before[row] and cell != before[row]:
                    self._put(changed.setdefault(row, deepcopy(self.records[row])), name, cell)
        added = []
        for values in extra:
            record: Record = {}
            for name, value in values.items():
                self._put(record, name, self._like_others(name, value))
            added.append(record)
        write_records(self.path, path, changed, keep, added)

    def _flattened(self, record: Record) -> Record:
        flat: Record = {}
        for keys, value in _leaves(record):
            name = ".".join(keys)
            if self._keys.setdefault(name, keys) != keys:
                raise ValueError(f"{self.path}: {name!r} is the name of a value and the path to another; rename one")
            flat[name] = value
        return flat

    def _put(self, record: Record, name: str, value: Any) -> None:
        *above, last = self._keys[name]
        for key in above:
            record = record.setdefault(key, {})
        record[last] = value

    def _like_others(self, name: str, value: Any) -> Any:
        """A text as the column has its values: an identifier may be a number in the file."""
        kind = next((type(cell) for cell in self.cells(name) if cell is not None), str)
        return kind(value) if kind in (int, float) and value is not None else value


def read_records(path: Path) -> list[Record]:
    """The objects of a JSON or JSONL file."""
    with reading(path, "JSON file"):
        text = _text(path)
        rows = list(_parsed_lines(text, path)) if _is_lines(text, path) else _list_in(_parsed(text), path)
    if not rows:
        raise ValueError(f"{path} has no rows")
    for row, record in enumerate(rows):
        if not isinstance(record, dict):
            raise ValueError(f'{path}: row {row} is {shown(record)}, expected an object, such as {{"text": …}}')
    return rows


def write_records(
    source: Path,
    path: Path,
    changed: Mapping[int, Record],
    keep: np.ndarray | None = None,
    added: Sequence[Record] = (),
) -> None:
    """The file again: some objects changed, those of a mask kept, others added; in JSONL all other lines stay."""
    text = _text(source)
    in_lines = _is_lines(text, source)
    write = _writer(text, in_lines)
    if in_lines:
        lines = [line for line in text.split("\n") if line.strip()]
        written = [write(changed[row]) if row in changed else line for row, line in enumerate(lines)]
        written = [line for row, line in enumerate(written) if keep is None or keep[row]] + [
            write(new) for new in added
        ]
        content = "\n".join(written) + "\n"
    else:
        whole = json.loads(text)
        rows = _list_in(whole, source)
        rows[:] = [changed.get(row, old) for row, old in enumerate(rows) if keep is None or keep[row]] + list(added)
        content = write(whole) + ("\n" if text.endswith("\n") else "")
    packed = gzip.compress(content.encode()) if is_gzipped(source) else content.encode()
    with replacing(path) as beside:
        beside.write_bytes(packed)


def _text(path: Path) -> str:
    with open_unpacked(path) as file:
        return file.read().decode("utf-8-sig")


def _is_lines(text: str, path: Path) -> bool:
    """Whether every line is an object of its own, rather than the whole text one value."""
    first, _, rest = text.strip().partition("\n")
    try:
        whole = json.loads(first)
    except ValueError:
        return False
    named_json = ".json" in [suffix.lower() for suffix in path.suffixes]
    return isinstance(whole, dict) and bool(rest or not named_json or not _lists_in(whole))


def _parsed(text: str) -> Any:
    return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _parsed_lines(text: str, path: Path) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), 1):  # splitlines also breaks inside of texts
        if line.strip():
            try:
                yield _parsed(line)
            except ValueError as error:
                raise ValueError(f"{path}: line {number} is not valid JSON ({error})") from error


def _lists_in(whole: Mapping[str, Any]) -> list[list[Any]]:
    return [value for value in whole.values() if isinstance(value, list) and value and isinstance(value[0], dict)]


def _list_in(whole: Any, path: Path) -> list[Any]:
    """The list of objects that a JSON value is, or the only one that it holds under a name."""
    if isinstance(whole, list):
        return whole
    if isinstance(whole, dict) and len(lists := _lists_in(whole)) == 1:
        return lists[0]
    raise ValueError(f"{path} holds no list of objects; write [{{…}}, {{…}}], or one object per line")


def _leaves(record: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _writer(text: str, in_lines: bool) -> Callable[[Any], str]:
    """Values written in the manner of a text: its indent, its blanks, its escapes."""
    indent = None if in_lines else re.search(r"\n( +|\t+)\S", text)
    tight = '": ' not in text
    ascii_only = text.isascii() and "\\u" in text
    separators = (",", ":") if tight else (",", ": ") if indent else (", ", ": ")

    def write(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, indent=indent and indent[1], separators=separators)

    return write
