"""What an item says of itself on a page, in words: its text, or its first few features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["clipped_texts", "feature_lines"]

BUDGET = 20_000_000  # characters of all items together
SHORTEST, LONGEST = 300, 20_000  # characters of one item
N_FEATURES = 6
CELL = 60  # characters of one feature


def clipped_texts(texts: Any, rows: np.ndarray) -> list[str]:
    """The texts of the given rows, each cut so that all of them together make a page that opens quickly.

    >>> clipped_texts(["a" * 20_010, None], np.array([0, 1]))[1]
    ''
    """
    limit = int(np.clip(BUDGET // max(len(rows), 1), SHORTEST, LONGEST))
    return [_clipped("" if _is_missing(text := _at(texts, row)) else str(text), limit) for row in rows.tolist()]


def feature_lines(features: Any, rows: np.ndarray, names: Sequence[Any] | None = None) -> list[str]:
    """The first features of the given rows as ``name value · name value``; of sparse rows the first that are not zero.

    Parameters
    ----------
    features : array-like, sparse matrix, DataFrame or mapping of columns, shape (n_samples, n_features)
    rows : ndarray of int
    names : sequence, optional
        Of the features; by default those of the DataFrame, or ``x0``, ``x1``, …

    Examples
    --------
    >>> feature_lines(np.array([[1.5, 2.0], [0.123456, np.nan]]), np.array([1]))
    ['x0 0.1235 · x1 missing']
    """
    if isinstance(features, Mapping) or hasattr(features, "columns"):
        shown = list(getattr(features, "columns", features))[:N_FEATURES]
        columns = [np.asarray(features[name])[rows] for name in shown]
        return [_line(zip(shown, cells, strict=True)) for cells in zip(*columns, strict=True)]
    names = [f"x{j}" for j in range(features.shape[1])] if names is None else names
    if sp.issparse(features):
        table = sp.csr_array(features)
        spans = [slice(table.indptr[row], table.indptr[row + 1]) for row in rows]
        spans = [slice(span.start, min(span.stop, span.start + N_FEATURES)) for span in spans]
        return [
            _line((names[j], value) for j, value in zip(table.indices[span], table.data[span], strict=True))
            for span in spans
        ]
    return [_line(zip(names, cells, strict=False)) for cells in np.asarray(features)[rows, :N_FEATURES]]


def _line(cells: Any) -> str:
    return " · ".join(f"{name} {_value(value)}" for name, value in cells)


def _value(value: Any) -> str:
    if _is_missing(value):
        return "missing"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else _clipped(str(value), CELL)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and np.isnan(value))


def _clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def _at(column: Any, row: int) -> Any:
    return column.iloc[row] if hasattr(column, "iloc") else column[row]
