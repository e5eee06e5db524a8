"""The cells of a column as numbers, dates or text, with what is missing in them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from propml.messages import argument
from propml.tables.cell_lists import numbers_in, shown
from propml.tables.table import Cells

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
_CODE = re.compile(r"0\d+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SECONDS_PER_DAY = 86_400.0
SAMPLE = 1000


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
    changed = [_matches(_WITH_COMMAS[decimal], cell) for cell in cells]
    if decimal == "," and any(changed):
        other = cells[changed.index(True)]
        for row, cell in enumerate(cells):
            if _matches(_GROUPED, cell):
                told = f"is {cell!r}, and others have a comma before the fraction, as {other!r}"
                raise CellError(row, f"{told}; write it alike")
    group = "." if decimal == "," else ","
    pairs = zip(cells, changed, strict=True)
    return [cell.replace(group, "").replace(",", ".") if is_new else cell for cell, is_new in pairs]


def odd_among_numbers(cells: Cells) -> tuple[float, list[int], bool] | None:
    """In a column of which at least half is numbers: their share, the rows of others, and whether these have commas.

    >>> odd_among_numbers(["1", "2", "NA", "3", "many"]), odd_among_numbers(["2,5", "3"])
    ((0.75, [4], False), (1.0, [0], True))
    """
    sample = cells[:: max(1, len(cells) // SAMPLE)]
    if sum(map(_looks_like_number, sample)) < (HALF - 0.1) * sum(not _is_missing(cell) for cell in sample):
        return None
    present = [row for row, cell in enumerate(cells) if not _is_missing(cell)]
    odd = [row for row in present if not _is_number(cells[row])]
    commas = [row for row in odd if _looks_like_number(cells[row])]
    share = 1 - (len(odd) - len(commas)) / max(1, len(present))
    return (share, commas or odd, bool(commas)) if odd and share >= HALF else None


def as_vectors(cells: Cells, length: int | None = None) -> np.ndarray | None:
    """Lists of numbers ``(n_rows, length)``, NaN where missing.

    Without a length it is the one that most lists have, or 0 where none is; then None is said of other columns than
    lists. A cell that is no list of this length is an error.
    """
    if isinstance(cells, np.ndarray) and (cells.ndim == 1 or length in (None, cells.shape[1])):
        return cells if cells.ndim == 2 else None
    if length is None and not any(_begins_like_list(cell) for cell in cells[:: max(1, len(cells) // SAMPLE)]):
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
    """Numbers with NaN where a cell is missing or not finite; None where a cell is something else."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind not in "biuf":
        return None
    try:
        try:
            numbers = np.array(cells, dtype=np.float64)
        except (ValueError, TypeError):
            numbers = np.array([math.nan if _is_missing(cell) else float(cell) for cell in cells])
    except (ValueError, TypeError, OverflowError):
        return None
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers if numbers.ndim == 1 else None


def holds_codes(cells: Cells) -> bool:
    """Whether digits stand for names rather than amounts: with leading zeros, as in 00501.

    >>> holds_codes(["00501", "90210"]), holds_codes(["0.5", "0"])
    (True, False)
    """
    sample = [] if isinstance(cells, np.ndarray) else cells[:: max(1, len(cells) // SAMPLE)]
    return any(_matches(_CODE, cell) for cell in sample)


def as_flags(cells: Cells) -> np.ndarray | None:
    """0 and 1 from true and false or yes and no, NaN where missing; None where a cell is something else."""
    known = _FLAGS.keys() | MISSING
    if isinstance(cells, np.ndarray) or not all(str(cell).strip().lower() in known for cell in cells):
        return None
    return np.array([_FLAGS.get(str(cell).strip().lower(), math.nan) for cell in cells])


def as_days(cells: Cells) -> np.ndarray | None:
    """ISO dates and times as days since 1970, NaN where missing; None where a cell is something else."""
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind != "M":
            return None
        seconds = cells.astype("datetime64[ms]").astype(np.float64) / 1000
        return np.where(np.isnat(cells), np.nan, seconds / _SECONDS_PER_DAY)
    try:
        return np.array([_day(cell) for cell in cells])
    except ValueError:
        return None


#: How a column becomes numbers, by what it holds; the first that can read all cells is the right one.
UNITS: dict[str, Callable[[Cells], np.ndarray | None]] = {"number": as_numbers, "boolean": as_flags, "date": as_days}


def as_texts(cells: Cells) -> list[str | None]:
    """Text without surrounding blanks, None where missing."""
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    texts = ("" if cell is None else str(cell).strip() for cell in values)
    return [None if text.lower() in MISSING else text for text in texts]


def _is_missing(cell: Any) -> bool:
    return cell is None or (not isinstance(cell, int | float) and str(cell).strip().lower() in MISSING)


def _begins_like_list(cell: Any) -> bool:
    return cell.lstrip()[:1] == "[" if isinstance(cell, str) else isinstance(cell, list | np.ndarray)


def _looks_like_number(cell: Any) -> bool:
    """Whether a cell is a number, or would be one with its comma as a point or left out."""
    if isinstance(cell, str) and "," in cell:
        return any(_matches(each, cell) for each in _WITH_COMMAS.values())
    return _is_number(cell) and not _is_missing(cell)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _matches(pattern: re.Pattern[str], cell: Any) -> bool:
    return isinstance(cell, str) and pattern.fullmatch(cell.strip()) is not None


def _day(cell: Any) -> float:
    if _is_missing(cell):
        return math.nan
    if isinstance(cell, str) and _DATE.match(cell.strip()):
        cell = datetime.fromisoformat(cell.strip())
    if isinstance(cell, datetime):
        moment = cell if cell.tzinfo is not None else cell.replace(tzinfo=UTC)
        return moment.timestamp() / _SECONDS_PER_DAY
    if isinstance(cell, date):
        return float(cell.toordinal() - date(1970, 1, 1).toordinal())
    raise ValueError("no date")
