"""ARFF files, dense or sparse: a header of attributes, then one row per line.

The format is described at https://waikato.github.io/weka-wiki/formats_and_processing/arff_stable/. Nominal values
become their position in the declaration, which is how a sparse row means them: what it leaves out is position 0.
SciPy's reader knows neither sparse rows nor escaped quotes.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from propml.file_errors import reading
from propml.schema import checked_csr
from propml.unpacking import open_unpacked

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)\s*(.*)$", re.IGNORECASE)
_CELL = re.compile(rf"\s*({_QUOTED}|[^,'\"][^,]*?|)\s*(,|$)")
_BEFORE_COMMENT = re.compile(rf"(?:{_QUOTED}|[^%])*?(?=%|$)")


@dataclass(frozen=True)
class Attribute:
    """A column: numeric when ``values`` is ``None``, otherwise nominal with these values, in declared order."""

    name: str
    values: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Arff:
    """The content of an ARFF file."""

    relation: str
    attributes: tuple[Attribute, ...]
    data: np.ndarray | sp.csr_array  #: float64, shape (n_rows, n_attributes); nominal columns hold positions


def read_arff(path: str | Path) -> Arff:
    """Read an ARFF file, plain or gzip-compressed.

    A missing value (``?``), a value that is not of its attribute's type and a row of the wrong length raise a
    ``ValueError`` that names the line and the attribute.
    """
    path = Path(path)
    with reading(path, "ARFF file", "fetch or copy it again"):
        with open_unpacked(path) as file:
            text, _ = decoded(file.read())
        lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        relation, attributes, start = read_header(lines, path)
        numbered = enumerate(lines[start:], start + 1)
        rows = [(number, text) for number, line in numbered if (text := without_comment(line).strip())]
        if not rows:
            raise ValueError(f"{path} has no rows after @data; the file may be truncated")
        return Arff(relation, attributes, _read_rows(rows, attributes, path))


def decoded(content: bytes) -> tuple[str, str]:
    """The text of an ARFF file and its encoding: Weka writes that of the machine it ran on."""
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"


def read_header(lines: Sequence[str], path: Path) -> tuple[str, tuple[Attribute, ...], int]:
    """Relation, attributes, and the number of lines up to and including ``@data``."""
    relation = ""
    attributes: dict[str, Attribute] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        where = f"{path}: line {number}"
        keyword = text.split(None, 1)[0].lower()
        if keyword == "@data" and attributes:
            return relation, tuple(attributes.values()), number
        if keyword == "@relation":
            relation = unquote(text[len(keyword) :].strip())
        elif keyword == "@attribute":
            attribute = _read_attribute(text, where)
            if attribute.name in attributes:
                raise ValueError(f"{where}: attribute {attribute.name!r} is declared twice; rename one of them")
            attributes[attribute.name] = attribute
        else:
            raise ValueError(f"{where}: {text[:60]!r} stands where @relation or @attribute is expected")
    raise ValueError(f"{path} has no @data line; the file is truncated or is not ARFF")


def split_cells(text: str) -> list[str] | None:
    """The comma-separated cells of a row, still quoted; ``None`` where a quote is not closed.

    >>> split_cells("1, 'a, b' ,?")
    ['1', "'a, b'", '?']
    """
    if "'" not in text and '"' not in text:
        return [cell.strip() for cell in text.split(",")]
    cells, position = [], 0
    while match := _CELL.match(text, position):
        cells.append(match[1])
        if not match[2]:
            return cells
        position = match.end()
    return None


def unquote(text: str) -> str:
    r"""The text inside quotes, with its escapes resolved; other text as it is.

    >>> unquote(r"'Swainson\'s Thrush'")
    "Swainson's Thrush"
    """
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def without_comment(line: str) -> str:
    """The line up to a ``%`` that stands outside quotes.

    >>> without_comment("1,'50 %' % half")
    "1,'50 %' "
    """
    match = _BEFORE_COMMENT.match(line) if "%" in line else None
    return match[0] if match else line


def _read_attribute(text: str, where: str) -> Attribute:
    match = _ATTRIBUTE.match(text)
    if match is None:
        raise ValueError(f"{where}: {text[:60]!r} is not of the form '@attribute name type'")
    name, declared = unquote(match[1]), without_comment(match[2]).strip()
    if declared.startswith("{"):
        cells = split_cells(declared[1:-1]) if declared.endswith("}") else None
        values = tuple(map(unquote, cells or ()))
        if not cells or not all(cells) or len(set(values)) != len(values):
            raise ValueError(f"{where}: the values of attribute {name!r} are not of the form {{a,b,…}}, each once")
        return Attribute(name, values)
    if next(iter(declared.lower().split()), "") not in ("numeric", "real", "integer"):
        raise ValueError(
            f"{where}: attribute {name!r} has type {declared!r}, expected numeric, real, integer or {{a,b,…}}; "
            f"remove the attribute or encode it as numbers"
        )
    return Attribute(name)


def _read_rows(
    rows: Sequence[tuple[int, str]], attributes: Sequence[Attribute], path: Path
) -> np.ndarray | sp.csr_array:
    """The numbers of all rows, each given by its line and its text; sparse where the first row is."""
    sparse = rows[0][1].startswith("{")
    columns, values, ends = array("q"), array("d"), array("q", [0])
    for row, (line, text) in enumerate(rows):
        where = f"{path}: line {line} (row {row})"
        if text.startswith("{") != sparse:
            one, others = ("dense", "sparse") if sparse else ("sparse", "dense")
            raise ValueError(f"{where} is a {one} row among {others} ones; write all rows in the same way")
        cells = _sparse_cells(text, attributes, where) if sparse else _dense_cells(text, attributes, where)
        columns.extend(cells)
        values.extend(_number(cell, attributes[column], where) for column, cell in cells.items())
        ends.append(len(columns))
    shape = (len(rows), len(attributes))
    data = checked_csr(np.asarray(values), np.asarray(columns), np.asarray(ends), shape)
    data.eliminate_zeros()
    data.sort_indices()
    return data if sparse else data.toarray()


def _dense_cells(text: str, attributes: Sequence[Attribute], where: str) -> dict[int, str]:
    cells = split_cells(text)
    if cells is None or len(cells) != len(attributes):
        found = "a quote that is not closed" if cells is None else f"{len(cells)} values"
        raise ValueError(f"{where} has {found}, the header declares {len(attributes)} attributes; is it truncated?")
    return dict(enumerate(cells))


def _sparse_cells(text: str, attributes: Sequence[Attribute], where: str) -> dict[int, str]:
    cells = split_cells(text[1:-1]) if text.endswith("}") else None
    if cells is None:
        raise ValueError(f"{where} does not end with a closing brace or quote; the file may be truncated")
    row: dict[int, str] = {}
    for cell in cells if cells != [""] else ():
        position, value = (*cell.split(None, 1), "", "")[:2]
        if not position.isdecimal() or int(position) >= len(attributes) or int(position) in row:
            expected = f"with each position once, between 0 and {len(attributes) - 1}"
            raise ValueError(f"{where}: {cell!r} is not of the form 'position value' {expected}")
        row[int(position)] = value
    return row


def _number(cell: str, attribute: Attribute, where: str) -> float:
    """One cell: its number, or the position of its value in the declaration."""
    text, values = unquote(cell), attribute.values
    if values is not None and text in values:
        return values.index(text)
    number = _finite(text)
    if number is not None and values is None:
        return number
    same = [] if number is None else [j for j, value in enumerate(values or ()) if _finite(value) == number]
    if len(same) == 1:  # 1.0 where 1 is declared
        return same[0]
    expected = f"one of {', '.join(values[:10])}{', …' if len(values) > 10 else ''}" if values else "a finite number"
    raise ValueError(f"{where}: attribute {attribute.name!r} has value {text!r}, expected {expected}; fill it in")


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
