"""Ranks of methods within blocks: all that Friedman's test and its companions look at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata


def rank_table(values: np.ndarray, *, higher_is_better: bool | Sequence[bool] | np.ndarray) -> np.ndarray:
    """Rank the methods of every block: 1 is the best, and equal values share the mean of their ranks.

    Parameters
    ----------
    values : array-like, shape (n_blocks, n_methods)
    higher_is_better : bool or array-like of shape (n_blocks,)
        Whether a higher value is the better one, for all blocks or for each.

    Returns
    -------
    ndarray, shape (n_blocks, n_methods)

    Examples
    --------
    >>> rank_table([[86.2, 86.3, 69.4], [5.5, 3.7, 3.7]], higher_is_better=[True, False])
    array([[2. , 1. , 3. ],
           [3. , 1.5, 1.5]])
    """
    return rankdata(higher_is_worse(values, higher_is_better), axis=1)


def higher_is_worse(values: np.ndarray, higher_is_better: bool | Sequence[bool] | np.ndarray) -> np.ndarray:
    """The values as costs: those of blocks in which higher is better change their sign.

    Returns
    -------
    ndarray, shape (n_blocks, n_methods)
    """
    table = check_table(values, "values")
    better = np.asarray(higher_is_better, dtype=bool)
    if better.ndim > 1 or better.size not in (1, len(table)):
        raise ValueError(
            f"higher_is_better has shape {better.shape}; expected one flag, or one per block ({len(table)})"
        )
    return np.where(better.reshape(-1, 1), -table, table)


def check_table(table: np.ndarray, what: str) -> np.ndarray:
    """A finite matrix with at least one block (row) and two methods (columns), as float64."""
    array = np.asarray(table, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 2:
        raise ValueError(f"{what} have shape {array.shape}; expected (n_blocks, n_methods) with two methods or more")
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"{what} hold {array[row, column]} in block {row}, method {column}; "
            "leave out blocks in which a method has no value"
        )
    return array
