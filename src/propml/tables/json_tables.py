"""JSON and JSONL files of objects: nested values are columns by path, lists are cells; copies keep what stays.

A zip file holds one such file for each person, who is the ``username`` of its objects.
"""

import gzip
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from propml.atomic_files import replacing
from propml.file_errors import reading
from propml.tables.cell_lists import shown
from propml.tables.table import Edits, Extra, Keep, MemoryTable
from propml.unpacking import check_zip, is_gzipped, open_unpacked

Record = dict[str, Any]
# Whose file in a zip file it is; files of these names are nobody's (Doccano).
USER, NOBODY = "username", ("all", "unknown")


class JsonTable(MemoryTable):
    """Objects by columns: ``{"meta": {"tags": ["a"]}}`` has a column ``meta.tags``."""

    def __init__(self, path: Path, records: list[Record]) -> None:
        self.records = records
        self._keys: dict[str, tuple[str, ...]] = {}
        flat = [self._flattened(record, path) for record in records]
        super().__init__({name: [own.get(name) for own in flat] for name in self._keys}, path)

    def copy(self, path: Path, edits: Edits = None, keep: Keep = None, extra: Extra = ()) -> None:
        changed: dict[int, Record] = {}
        for name, edit in (edits or {}).items():
            before = list(self.cells(name))
            for row, cell in enumerate(edit(0, before)):
                if cell is not before[row] and cell != before[row]:
                    self._put(changed.setdefault(row, deepcopy(self.records[row])), name, cell)
        added: list[Record] = [{} for _ in extra]
        for record, values in zip(added, extra, strict=True):
            for name, value in values.items():  # an identifier may be a number in the file
                kind = next((type(cell) for cell in self.cells(name) if cell is not None), str)
                self._put(record, name, kind(value) if kind in (int, float) and value is not None else value)
        write_records(self.path, path, changed, keep, added)

    def _flattened(self, record: Record, path: Path, above: tuple[str, ...] = ()) -> Record:
        flat: Record = {}
        for key, value in record.items():
            keys = (*above, key)
            if isinstance(value, dict):
                flat |= self._flattened(value, path, keys)
                continue
            name = ".".join(keys)
            if self._keys.setdefault(name, keys) != keys:
                raise ValueError(f"{path}: {name!r} is the name of a value and the path to another; rename one")
            flat[name] = value
        return flat

    def _put(self, record: Record, name: str, value: Any) -> None:
        *above, last = self._keys[name]
        for key in above:
            record = record.setdefault(key, {})
        record[last] = value


class _Part(NamedTuple):
    """A JSON text: its objects, and the value that they stand in, which is None where each has a line of its own."""

    name: Path
    text: str
    rows: list[Any]
    whole: Any


def read_records(path: Path) -> list[Record]:
    """The objects of a file: a list of them, an object that holds one such list, or one per line; or of a zip file."""
    rows: list[Record] = []
    with reading(path, "JSON file"):
        for part in _parts(path):
            is_nobodys = part.name is path or part.name.stem in NOBODY
            rows += part.rows if is_nobodys else [{USER: part.name.stem, **record} for record in part.rows]
    if not rows:
        raise ValueError(f"{path} has no rows")
    for row, record in enumerate(rows):
        if not isinstance(record, dict):
            raise ValueError(f'{path}: row {row} is {shown(record)}, expected an object, such as {{"text": …}}')
    return rows


def write_records(
    source: Path, path: Path, changed: Mapping[int, Record], keep: Keep = None, added: Sequence[Record] = ()
) -> None:
    """The file again: some objects changed, those of a mask kept, others added; in JSONL all other lines stay."""
    parts = _parts(source)
    contents: dict[str, bytes] = {}
    start = 0
    for part in parts:
        own = {}
        for row, old in enumerate(part.rows):
            if (new := changed.get(start + row)) is not None:
                own[row] = new if USER in old else {key: value for key, value in new.items() if key != USER}
        mask = None if keep is None else keep[start : start + len(part.rows)]
        start += len(part.rows)
        contents[str(part.name)] = _rewritten(part, own, mask, added if part is parts[-1] else ()).encode()
    with replacing(path) as beside:
        if parts[0].name is source:
            (content,) = contents.values()
            beside.write_bytes(gzip.compress(content) if is_gzipped(source) else content)
            return
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in contents.items():
                zipped.writestr(name, content)


def _parts(path: Path) -> list[_Part]:
    """The file, or each JSON file in a zip file."""
    if zipfile.is_zipfile(path):
        check_zip(path)
        with zipfile.ZipFile(path) as zipped:
            names = [name for name in zipped.namelist() if Path(name).suffix.lower() in (".json", ".jsonl")]
            texts = {Path(name): zipped.read(name).decode("utf-8-sig") for name in names}
    else:
        with open_unpacked(path) as file:
            texts = {path: file.read().decode("utf-8-sig")}
    parts = []
    for name, text in texts.items():
        if _is_lines(text, name):
            parts.append(_Part(name, text, list(_parsed_lines(text, path)), None))
        elif text.strip() or name is path:  # otherwise a person who has labelled nothing
            whole = json.loads(text)
            parts.append(_Part(name, text, _list_in(whole, path), whole))
    return parts


def _rewritten(part: _Part, changed: Mapping[int, Record], keep: Keep, added: Sequence[Record]) -> str:
    write = _writer(part.text, part.whole is None)
    kept = [row for row in range(len(part.rows)) if keep is None or keep[row]]
    if part.whole is None:
        lines = [line for line in part.text.split("\n") if line.strip()]
        written = [write(changed[row]) if row in changed else lines[row] for row in kept]
        return "\n".join([*written, *map(write, added)]) + "\n"
    part.rows[:] = [*(changed.get(row, part.rows[row]) for row in kept), *added]
    return write(part.whole) + ("\n" if part.text.endswith("\n") else "")


def _is_lines(text: str, path: Path) -> bool:
    """Whether every line is an object of its own, rather than the whole text one value."""
    first, _, rest = text.strip().partition("\n")
    try:
        whole = json.loads(first)
    except ValueError:
        return False
    named_json = ".json" in [suffix.lower() for suffix in path.suffixes]
    return isinstance(whole, dict) and bool(rest or not named_json or not _lists_in(whole))


def _parsed_lines(text: str, path: Path) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), 1):  # splitlines also breaks inside of texts
        if line.strip():
            try:
                yield json.loads(line)
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


def _writer(text: str, in_lines: bool) -> Callable[[Any], str]:
    """Values written in the manner of a text: its indent, its blanks, its escapes."""
    indent = None if in_lines else re.search(r"\n( +|\t+)\S", text)
    separators = (",", ":") if '": ' not in text else (",", ": ") if indent else (", ", ": ")
    ascii_only = text.isascii() and "\\u" in text
    return partial(json.dumps, ensure_ascii=ascii_only, indent=indent and indent[1], separators=separators)
