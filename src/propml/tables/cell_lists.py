"""Lists written into a cell: as Python and NumPy print them, as JSON, or in brackets without quotes."""

import json
import re
from ast import literal_eval
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_CLOSING = {"[": "]", "(": ")", "{": "}"}
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_WORD = r"""[^\s'",()[\]{}](?:[^'",()[\]{}]*[^\s'",()[\]{}])?"""
_NUMPY = re.compile(r"np\.\w+\(|\)")
# NumPy puts blanks between its entries, so that only quotes and digits show where one ends; words need commas.
_FORMS = [
    (re.compile(entry, re.DOTALL), re.compile(rf"(?:(?:{entry})(?:{between}(?:{entry}))*(?:\s*,)?)?", re.DOTALL))
    for entry, between in (
        (rf"(?:np\.\w+\()?(?:{_QUOTED}|{_NUMBER})\)?", r"(?:\s*,\s*|\s+)"),
        (rf"{_QUOTED}|{_WORD}", r"\s*,\s*"),
    )
]
_NOTHING = ("none", "null", "nan")
_LONGEST = 80


def list_in(cell: Any) -> list[str | int | float] | None:
    r"""The entries of the list that a text spells; None where it spells none.

    >>> list_in("['a', 'it\\'s']"), list_in('["a", "b"]'), list_in("['a' 'b c']"), list_in("[new york, sea]")
    (['a', "it's"], ['a', 'b'], ['a', 'b c'], ['new york', 'sea'])
    >>> list_in("[1, 2]"), list_in("[]"), list_in("a, b"), list_in("['a', 'b'"), list_in("[PER]")
    ([1, 2], [], None, None, ['PER'])
    """
    written = _entries(cell)
    try:
        return None if written is None else [_value(entry) for entry in written]
    except (ValueError, SyntaxError):  # an escape that is none
        return None


def holds_lists(cells: Iterable[Any]) -> bool:
    """Whether most cells that are not empty spell lists: with quotes, with numbers, or with several entries.

    >>> holds_lists(["['a']", "", "b"]), holds_lists(["['a']", "", "['b', 'c']", "['b'"]), holds_lists(["[PER]"])
    (False, True, False)
    """
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    lists = [written for cell in texts if (written := _entries(cell)) is not None]
    return len(lists) > len(texts) / 2 and any(
        len(written) > 1 or not re.fullmatch(_WORD, entry) or re.fullmatch(_NUMBER, entry)
        for written in lists
        for entry in written
    )


def is_quoted_list(cell: Any) -> bool:
    """Whether a text spells a list that has a name in quotes, which hardly means anything else."""
    return any(entry[0] in "'\"" for entry in _entries(cell) or ())


def list_like(cell: str, values: Sequence[Any]) -> str:
    """Entries written as those of a cell are: its own to the character, others with its quotes and brackets.

    >>> list_like("['a','b']", ["b", "c"]), list_like("[1, 2]", [2, 3]), list_like("[a, b]", [])
    ("['b','c']", '[2, 3]', '[]')
    """
    text = cell.strip()
    written = {_value(entry): entry for entry in _entries(text) or ()}
    example = next(iter(written.values()), '""')
    entries = [written.get(value) or _written(value, example) for value in values]
    return text[0] + ("," if "," in text and ", " not in text else ", ").join(entries) + text[-1]


def numbers_in(cell: Any) -> list[float] | None:
    """The numbers of a list, or of a text that spells one; None where it is anything else.

    >>> numbers_in("[0.5, 1e-3]"), numbers_in("[0.5 2. nan]"), numbers_in("[np.float64(2.5)]"), numbers_in("[0.5, a]")
    ([0.5, 0.001], [0.5, 2.0, nan], [2.5], None)
    """
    values = cell
    if isinstance(cell, str):
        text = cell.strip()
        if text[:1] != "[" or text[-1:] != "]":  # (1,234) is an amount in brackets
            return None
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = _NUMPY.sub("", text[1:-1]).replace(",", " ").split()
    if not isinstance(values, list | np.ndarray):
        return None
    try:
        return [float(value) for value in values]
    except (ValueError, TypeError, OverflowError):
        return None


def shown(cell: Any) -> str:
    """A cell in a message: in quotes, and not longer than a line."""
    text = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def identifier(cell: Any) -> str:
    """An identifier or a name as text, the same whichever file format it stood in; nothing where it is missing.

    >>> identifier(7.0), identifier(" sea "), identifier(None), identifier(float("nan"))
    ('7', 'sea', '', '')
    """
    if cell is None or (isinstance(cell, float | np.floating) and cell != cell):
        return ""
    is_whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if is_whole else str(cell).strip()


def _entries(cell: Any) -> list[str] | None:
    """The entries as they are written."""
    text = cell.strip() if isinstance(cell, str) else ""
    if len(text) < 2 or _CLOSING.get(text[0]) != text[-1]:
        return None
    inside = text[1:-1].strip()
    for entry, whole in _FORMS:
        if whole.fullmatch(inside):
            entries = entry.findall(inside)
            return None if any(each.lower() in _NOTHING for each in entries) else entries
    return None


def _value(entry: str) -> str | int | float:
    bare = _NUMPY.sub("", entry) if entry.startswith("np.") else entry
    if bare[0] == '"':
        try:
            return json.loads(bare)  # where Python's escapes and those of JSON differ, these quotes are JSON's
        except ValueError:
            return literal_eval(bare)
    is_code = re.match(r"0\d", bare)  # 007 is a name, and no number in Python
    return literal_eval(bare) if bare[0] == "'" or (re.fullmatch(_NUMBER, bare) and not is_code) else bare


def _written(value: Any, example: str) -> str:
    """A value in the manner of another entry."""
    if isinstance(value, str) and example[0] in "'\"":
        return json.dumps(value, ensure_ascii=False) if example[0] == '"' else repr(value)
    return str(value)
