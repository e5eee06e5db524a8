"""The cells of a column as numbers, dates or text, with what is missing in them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np

from propml.messages import argument
from propml.tables.cell_lists import numbers_in, shown
from propml.tables.table import Cells

__all__ = [
    "UNITS", "CellError", "as_numbers", "as_texts", "as_vectors", "holds_codes", "odd_among_numbers", "plain_cells",
]  # fmt: skip

MISSING = frozenset({"", "na", "n/a", "n.a.", "#n/a", "nan", "nat", "null", "none", "?", "-", "<na>"})
# Numbers with commas that Python does not read, by what stands before the fraction: 1.234,5 and 1,234.5.
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_WITH_COMMAS = {
    ",": re.compile(rf"[+-]?(?:\d{{1,3}}(?:\.\d{{3}})+|\d*),\d+{_EXPONENT}"),
    ".": re.compile(rf"[+-]?\d{{1,3}}(?:,\d{{3}})+(?:\.\d*)?{_EXPONENT}"),
}
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+")
HALF = 0.5
_FLAGS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_CODE = re.compile(r"\s*0\d+\s*$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SECONDS_PER_DAY = 86_400.0
_SAMPLE = 1000


class CellError(ValueError):
    """A cell that does not fit its column: the message goes on after its place, which the caller knows."""

    def __init__(self, row: int, sentence: str) -> None:
        super().__init__(sentence)
        self.row = row


def plain_cells(cells: Cells, decimal: str | None = None, missing: Collection[str] = ()) -> Cells:
    """The cells with None for what somebody calls missing, and numbers with commas as Python reads them.

    >>> plain_cells(["3,14", "1.234,5", "sold"], ",", ["Sold"]), plain_cells(["1,234.5", "1,2"], ".")
    (['3.14', '1234.5', None], ['1234.5', '1,2'])
    """
    if decimal is not None and decimal not in _WITH_COMMAS:
        raise ValueError(f"{argument('decimal')} is {decimal!r}; choose ',' or '.'")
    if isinstance(cells, np.ndarray):
        return cells
    if missing:
        words = {word.strip().lower() for word in missing}
        cells = [None if isinstance(cell, str) and cell.strip().lower() in words else cell for cell in cells]
    if decimal is None:
        return cells
    converted = [_with_point(cell, decimal) if isinstance(cell, str) and "," in cell else cell for cell in cells]
    if decimal == "," and (
        changed := next((old for old, new in zip(cells, converted, strict=True) if old != new), None)
    ):
        for row, cell in enumerate(converted):
            if cell == cells[row] and isinstance(cell, str) and _GROUPED.fullmatch(cell.strip()):
                raise CellError(
                    row, f"is {cell!r}, and others have a comma before the fraction, as {changed!r}; write it alike"
                )
    return converted


class Odd(NamedTuple):
    """Cells that are no numbers in a column that mostly is: the share of numbers, and the rows of the others."""

    share: float
    rows: list[int]
    with_commas: bool


def odd_among_numbers(cells: Cells) -> Odd | None:
    """What is no number in a column of which at least half is; numbers with commas are both.

    >>> odd_among_numbers(["1", "2", "NA", "3", "many"]), odd_among_numbers(["2,5", "3", "many"]).with_commas
    (Odd(share=0.75, rows=[4], with_commas=False), True)
    """
    sample = cells[:: max(1, len(cells) // _SAMPLE)]
    if sum(map(_looks_like_number, sample)) < (HALF - 0.1) * sum(not _is_missing(cell) for cell in sample):
        return None
    present = [row for row, cell in enumerate(cells) if not _is_missing(cell)]
    odd = [row for row in present if not _is_number(cells[row])]
    commas = [row for row in odd if _looks_like_number(cells[row])]
    share = 1 - (len(odd) - len(commas)) / max(1, len(present))
    return Odd(share, commas or odd, bool(commas)) if odd and share >= HALF else None


def as_vectors(cells: Cells, length: int | None = None) -> np.ndarray | None:
    """Lists of numbers ``(n_rows, length)``, NaN where missing.

    Without a length it is the one that most lists have, or 0 where none is; then None is said of other columns than
    lists. A cell that is no list of this length is an error.

    >>> as_vectors(["[1, 2]", "", "[0.5 2.]"])
    array([[1. , 2. ],
           [nan, nan],
           [0.5, 2. ]], dtype=float32)
    """
    if isinstance(cells, np.ndarray) and (cells.ndim == 1 or length in (None, cells.shape[1])):
        return cells if cells.ndim == 2 else None
    if length is None and not any(_begins_like_list(cell) for cell in cells[:: max(1, len(cells) // _SAMPLE)]):
        return None
    present = [row for row, cell in enumerate(cells) if isinstance(cell, list | np.ndarray) or not _is_missing(cell)]
    lists = {row: np.asarray(own, np.float32) for row in present if (own := numbers_in(cells[row])) is not None}
    if length is None:
        if len(lists) <= len(present) / 2:
            cut = [row for row in present if _begins_like_list(cells[row]) and "..." in str(cells[row])]
            if len(cut) > len(present) / 2:
                raise CellError(cut[0], f"is {shown(cells[cut[0]])}, a list that NumPy cut (...); write it whole")
            return None
        length, count = Counter(map(len, lists.values())).most_common(1)[0]
        if count <= len(present) / 2:
            return np.empty((len(cells), 0), np.float32)
    matrix = np.full((len(cells), length), np.nan, dtype=np.float32)
    for row in present:
        if row not in lists or len(lists[row]) != length:
            raise CellError(row, f"is {shown(cells[row])}, expected a list of {length} numbers")
        matrix[row] = lists[row]
    return matrix


def as_numbers(cells: Cells) -> np.ndarray | None:
    """Numbers with NaN where a cell is missing or not finite; None where a cell is something else.

    >>> as_numbers(["1", "NA", "-2.5e1"])
    array([  1.,  nan, -25.])
    """
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind not in "biuf" or cells.ndim != 1:
            return None
        numbers = cells.astype(np.float64)
    else:
        try:
            numbers = np.array(cells, dtype=np.float64)
        except (ValueError, TypeError):
            try:
                numbers = np.array([math.nan if _is_missing(cell) else float(cell) for cell in cells])
            except (ValueError, TypeError):
                return None
        if numbers.ndim != 1:
            return None
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def holds_codes(cells: Cells) -> bool:
    """Whether digits stand for names rather than amounts: with leading zeros, as in 00501.

    >>> holds_codes(["00501", "90210"]), holds_codes(["0.5", "0"])
    (True, False)
    """
    if isinstance(cells, np.ndarray):
        return False
    return any(isinstance(cell, str) and _CODE.match(cell) for cell in cells[:: max(1, len(cells) // _SAMPLE)])


def as_flags(cells: Cells) -> np.ndarray | None:
    """0 and 1 from true and false or yes and no, NaN where missing; None where a cell is something else."""
    if isinstance(cells, np.ndarray):
        return None
    known: dict[Any, float] = {}
    for cell in set(map(str, cells)):
        word = cell.strip().lower()
        if word not in _FLAGS and word not in MISSING:
            return None
        known[cell] = _FLAGS.get(word, math.nan)
    return np.array([known[str(cell)] for cell in cells])


def as_days(cells: Cells) -> np.ndarray | None:
    """ISO dates and times as days since 1970, NaN where missing; None where a cell is something else.

    >>> as_days(["1970-01-02", "1970-01-01T12:00", ""])
    array([1. , 0.5, nan])
    """
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind != "M":
            return None
        seconds = cells.astype("datetime64[ms]").astype(np.float64) / 1000
        return np.where(np.isnat(cells), np.nan, seconds / _SECONDS_PER_DAY)
    days = np.empty(len(cells))
    for row, cell in enumerate(cells):
        day = _day(cell)
        if day is None:
            return None
        days[row] = day
    return days


#: How a column becomes numbers, by what it holds; the first that can read all cells is the right one.
UNITS: dict[str, Callable[[Cells], np.ndarray | None]] = {"number": as_numbers, "boolean": as_flags, "date": as_days}


def as_texts(cells: Cells) -> list[str | None]:
    """Text without surrounding blanks, None where missing."""
    texts: list[str | None] = []
    for cell in cells.tolist() if isinstance(cells, np.ndarray) else cells:
        text = "" if cell is None else str(cell).strip()
        texts.append(None if text.lower() in MISSING else text)
    return texts


def _is_missing(cell: Any) -> bool:
    return cell is None or (not isinstance(cell, int | float) and str(cell).strip().lower() in MISSING)


def _begins_like_list(cell: Any) -> bool:
    return cell.lstrip()[:1] == "[" if isinstance(cell, str) else isinstance(cell, list | np.ndarray)


def _looks_like_number(cell: Any) -> bool:
    """Whether a cell is a number, or would be one with its comma as a point or left out."""
    if isinstance(cell, str) and "," in cell:
        return any(each.fullmatch(cell.strip()) for each in _WITH_COMMAS.values())
    return _is_number(cell) and not _is_missing(cell)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True


def _with_point(cell: str, decimal: str) -> str:
    if not _WITH_COMMAS[decimal].fullmatch(cell.strip()):
        return cell
    return cell.replace(".", "").replace(",", ".") if decimal == "," else cell.replace(",", "")


def _day(cell: Any) -> float | None:
    if isinstance(cell, str):
        text = cell.strip()
        if text.lower() in MISSING:
            return math.nan
        if _DATE.match(text) is None:
            return None
        try:
            cell = datetime.fromisoformat(text)
        except ValueError:
            return None
    if isinstance(cell, datetime):
        moment = cell if cell.tzinfo is not None else cell.replace(tzinfo=UTC)
        return moment.timestamp() / _SECONDS_PER_DAY
    if isinstance(cell, date):
        return float(cell.toordinal() - date(1970, 1, 1).toordinal())
    return math.nan if _is_missing(cell) else None
