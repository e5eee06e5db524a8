"""The header of an ARFF file: names and types of the attributes, with their quotes and escapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Attribute", "read_header", "split_cells", "unquote", "without_comment"]

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)\s*(.*)$", re.IGNORECASE)
_CELL = re.compile(rf"\s*({_QUOTED}|[^,'\"][^,]*?|)\s*(,|$)")
_BEFORE_COMMENT = re.compile(rf"(?:{_QUOTED}|[^%])*?(?=%|$)")
_NUMERIC = ("numeric", "real", "integer")


@dataclass(frozen=True)
class Attribute:
    """A column: numeric when ``values`` is ``None``, otherwise nominal with these values, in declared order."""

    name: str
    values: tuple[str, ...] | None = None


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
        if keyword == "@data":
            if not attributes:
                raise ValueError(f"{where}: @data comes before any @attribute")
            return relation, tuple(attributes.values()), number
        if keyword == "@relation":
            relation = unquote(text[len(keyword) :].strip())
        elif keyword == "@attribute":
            attribute = _read_attribute(text, where)
            if attribute.name in attributes:
                raise ValueError(f"{where}: attribute {attribute.name!r} is declared twice; rename one of them")
            attributes[attribute.name] = attribute
        else:
            raise ValueError(
                f"{where}: {text[:60]!r} stands where @relation, @attribute or @data is expected; is this an ARFF file?"
            )
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
    if "%" not in line:
        return line
    match = _BEFORE_COMMENT.match(line)
    return match[0] if match else line


def _read_attribute(text: str, where: str) -> Attribute:
    match = _ATTRIBUTE.match(text)
    if match is None:
        raise ValueError(f"{where}: {text[:60]!r} is not of the form '@attribute name type'")
    name, declared = unquote(match[1]), without_comment(match[2]).strip()
    if declared.startswith("{"):
        cells = split_cells(declared[1:-1]) if declared.endswith("}") else None
        if not cells or not all(cells):
            raise ValueError(f"{where}: the values of attribute {name!r} are not of the form {{a,b,…}}")
        values = tuple(unquote(cell) for cell in cells)
        if len(set(values)) != len(values):
            raise ValueError(f"{where}: attribute {name!r} declares a value twice")
        return Attribute(name, values)
    kind = declared.split(None, 1)[0].lower() if declared else ""
    if kind not in _NUMERIC:
        raise ValueError(
            f"{where}: attribute {name!r} has {f'type {kind!r}' if kind else 'no type'}, expected numeric, real, "
            f"integer or {{a,b,…}}; remove the attribute or encode it as numbers"
        )
    return Attribute(name)
