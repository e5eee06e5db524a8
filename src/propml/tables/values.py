"""The cells of a column as numbers, dates or text, with what is missing in them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from propml.tables.table import Cells

__all__ = ["as_days", "as_flags", "as_numbers", "as_texts", "holds_codes"]

MISSING = frozenset({"", "na", "n/a", "nan", "nat", "null", "none", "?", "<na>"})
_FLAGS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_CODE = re.compile(r"\s*0\d+\s*$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SECONDS_PER_DAY = 86_400.0
_SAMPLE = 1000


def as_numbers(cells: Cells) -> np.ndarray | None:
    """Numbers with NaN where a cell is missing or not finite; None where a cell is something else.

    >>> as_numbers(["1", "NA", "-2.5e1"])
    array([  1.,  nan, -25.])
    """
    numbers: np.ndarray | None
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind not in "biuf" or cells.ndim != 1:
            return None
        numbers = cells.astype(np.float64)
    else:
        try:
            numbers = np.array(cells, dtype=np.float64)
        except (ValueError, TypeError):
            numbers = _numbers_among_missing(cells)
        if numbers is None or numbers.ndim != 1:
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


def as_texts(cells: Cells) -> list[str | None]:
    """Text without surrounding blanks, None where missing."""
    texts: list[str | None] = []
    for cell in cells.tolist() if isinstance(cells, np.ndarray) else cells:
        text = "" if cell is None else str(cell).strip()
        texts.append(None if text.lower() in MISSING else text)
    return texts


def _numbers_among_missing(cells: Sequence[Any]) -> np.ndarray | None:
    try:
        return np.array([math.nan if _is_missing(cell) else float(cell) for cell in cells])
    except (ValueError, TypeError):
        return None


def _is_missing(cell: Any) -> bool:
    return cell is None or (not isinstance(cell, int | float) and str(cell).strip().lower() in MISSING)


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
