"""The rows of an ARFF file, dense or sparse.

Each kind has two paths. The fast one converts all rows at once and gives up (``None``) on anything unusual; the
careful one goes cell by cell, knows quotes, and finds the words for what is wrong. Both give the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from propml.datasets.arff_header import Attribute, split_cells, unquote
from propml.schema import checked_csr

__all__ = ["Row", "read_rows"]


class Row(NamedTuple):
    """A line of the data section, without comment and surrounding blanks."""

    line: int
    text: str


def read_rows(rows: Sequence[Row], attributes: Sequence[Attribute], path: Path) -> np.ndarray | sp.csr_array:
    """Numbers of shape ``(n_rows, n_attributes)``; nominal values as positions in their declaration."""
    if rows[0].text.startswith("{"):
        sparse = fast_sparse(rows, attributes)
        return careful_sparse(rows, attributes, path) if sparse is None else sparse
    dense = fast_dense(rows, attributes)
    return careful_dense(rows, attributes, path) if dense is None else dense


def fast_dense(rows: Sequence[Row], attributes: Sequence[Attribute]) -> np.ndarray | None:
    """All rows at once, where every value is a plain number."""
    codes = [None if a.values is None else _numbers(a.values) for a in attributes]
    if any(code is not None and not code for code in codes):
        return None
    try:
        data = np.loadtxt([row.text for row in rows], delimiter=",", comments=None, ndmin=2)
    except ValueError:
        return None
    if data.shape[1] != len(attributes) or not np.isfinite(data).all():
        return None
    for j, declared in enumerate(codes):
        if declared is None:
            continue
        order = np.argsort(declared)
        ascending = np.asarray(declared)[order]
        position = np.minimum(np.searchsorted(ascending, data[:, j]), len(declared) - 1)
        if (ascending[position] != data[:, j]).any():
            return None
        data[:, j] = order[position]
    return data


def careful_dense(rows: Sequence[Row], attributes: Sequence[Attribute], path: Path) -> np.ndarray:
    """Cell by cell, with an error that names the line and the attribute."""
    data = np.empty((len(rows), len(attributes)))
    for i, (line, text) in enumerate(rows):
        where = f"{path}: line {line} (row {i})"
        if text.startswith("{"):
            raise ValueError(f"{where} is a sparse row among dense ones; write all rows in the same way")
        cells = split_cells(text)
        if cells is None:
            raise ValueError(f"{where} has a quote that is not closed; the file may be truncated")
        if len(cells) != len(attributes):
            raise ValueError(
                f"{where} has {len(cells)} values, the header declares {len(attributes)} attributes; "
                f"the file may be truncated"
            )
        data[i] = [_number(cell, attribute, where) for cell, attribute in zip(cells, attributes, strict=True)]
    return data


def fast_sparse(rows: Sequence[Row], attributes: Sequence[Attribute]) -> sp.csr_array | None:
    """All rows at once, where nominal values are 0, 1, 2, … in this order and nothing is quoted."""
    n_values = np.full(len(attributes), np.inf)
    for j, attribute in enumerate(attributes):
        if attribute.values is not None:
            if attribute.values != tuple(str(code) for code in range(len(attribute.values))):
                return None
            n_values[j] = len(attribute.values)
    pairs: list[str] = []
    ends = [0]
    for _, text in rows:
        if not (text.startswith("{") and text.endswith("}")):
            return None
        if text[1:-1].strip():
            pairs += text[1:-1].split(",")
        ends.append(len(pairs))
    try:
        numbers = np.loadtxt(pairs, comments=None, ndmin=2) if pairs else np.empty((0, 2))
    except ValueError:
        return None
    if numbers.shape != (len(pairs), 2):  # loadtxt passes over empty pairs
        return None
    columns, values = numbers[:, 0].astype(np.int64), numbers[:, 1]
    inside = (columns == numbers[:, 0]) & (columns >= 0) & (columns < len(attributes))
    if not (inside & np.isfinite(values)).all():
        return None
    limit = n_values[columns]
    if (np.isfinite(limit) & ((values < 0) | (values >= limit) | (values != np.floor(values)))).any():
        return None
    data = checked_csr(values, columns, np.asarray(ends), (len(rows), len(attributes)))
    data.sort_indices()
    if not data.has_canonical_format:  # an attribute that is given twice
        return None
    data.eliminate_zeros()
    return data


def careful_sparse(rows: Sequence[Row], attributes: Sequence[Attribute], path: Path) -> sp.csr_array:
    """Pair by pair, with an error that names the line and the attribute."""
    columns: list[int] = []
    values: list[float] = []
    ends = [0]
    for i, (line, text) in enumerate(rows):
        where = f"{path}: line {line} (row {i})"
        if not text.startswith("{"):
            raise ValueError(f"{where} is a dense row among sparse ones; write all rows in the same way")
        cells = split_cells(text[1:-1]) if text.endswith("}") else None
        if cells is None:
            raise ValueError(f"{where} does not end with a closing brace or quote; the file may be truncated")
        row: dict[int, float] = {}
        for cell in cells if cells != [""] else ():
            position, value = (*cell.split(None, 1), "", "")[:2]
            if not position.isdecimal() or int(position) >= len(attributes):
                raise ValueError(
                    f"{where}: {cell!r} is not of the form 'position value' with a position "
                    f"between 0 and {len(attributes) - 1}"
                )
            attribute = attributes[int(position)]
            if int(position) in row:
                raise ValueError(f"{where} gives attribute {attribute.name!r} twice; remove one of the values")
            row[int(position)] = _number(value, attribute, where)
        columns += sorted(row)
        values += [row[j] for j in sorted(row)]
        ends.append(len(columns))
    shape = (len(rows), len(attributes))
    data = checked_csr(np.array(values), np.array(columns, dtype=np.int64), np.array(ends), shape)
    data.eliminate_zeros()
    return data


def _numbers(values: Sequence[str]) -> list[float]:
    """The declared values as distinct numbers, or nothing where they are not that."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return []
    return numbers if len(set(numbers)) == len(numbers) and np.isfinite(numbers).all() else []


def _number(cell: str, attribute: Attribute, where: str) -> float:
    """One cell: its number, or the position of its value in the declaration."""
    if cell == "?":
        raise ValueError(
            f"{where}: attribute {attribute.name!r} is missing (?); fill it in or remove the row before reading"
        )
    text = unquote(cell)
    if attribute.values is not None:
        if text in attribute.values:
            return attribute.values.index(text)
        declared = _numbers(attribute.values)
        if declared and (number := _finite(text)) in declared and number is not None:  # 1.0 where 1 is declared
            return declared.index(number)
        raise ValueError(
            f"{where}: attribute {attribute.name!r} has value {text!r}, "
            f"declared are {', '.join(attribute.values[:10])}{', …' if len(attribute.values) > 10 else ''}"
        )
    number = _finite(text)
    if number is None:
        raise ValueError(f"{where}: attribute {attribute.name!r} has value {text!r}, expected a finite number")
    return number


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
