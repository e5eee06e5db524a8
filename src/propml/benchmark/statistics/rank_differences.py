"""Which mean ranks differ? Nemenyi's test of all pairs, and Bonferroni and Dunn's of one control against the others.

Two mean ranks over N blocks differ significantly where they are at least the critical difference apart (Demšar, 2006),

.. math:: CD = q \\sqrt{k (k + 1) / (6 N)}

with q the quantile of the studentised range of k normal variables, divided by √2 (Nemenyi), or the normal quantile at
α / (2 (k - 1)) (Bonferroni-Dunn). p-values come from the same distributions, exactly, not from tables.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import stats

from propml.benchmark.statistics.ranks import check_table


def nemenyi_distance(n_methods: int, n_blocks: int, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference of mean ranks.

    >>> round(nemenyi_distance(6, 25), 3)
    1.508
    """
    check_sizes(n_methods, n_blocks, alpha)
    return _studentised_range(n_methods, alpha) / 2**0.5 * _standard_error(n_methods, n_blocks)


def nemenyi(ranks: np.ndarray) -> np.ndarray:
    """p-values of all pairs of methods, already corrected for the number of pairs.

    Parameters
    ----------
    ranks : array-like, shape (n_blocks, n_methods)

    Returns
    -------
    ndarray, shape (n_methods, n_methods)
        Symmetric, with ones on the diagonal.
    """
    table = check_table(ranks, "ranks")
    n, k = table.shape
    mean_ranks = table.mean(axis=0)
    distances = np.abs(mean_ranks[:, None] - mean_ranks[None, :]) / _standard_error(k, n)
    rows, columns = np.triu_indices(k, 1)
    upper = stats.studentized_range.sf(distances[rows, columns] * np.sqrt(2), k, np.inf)
    p_values = np.ones((k, k))
    p_values[rows, columns] = p_values[columns, rows] = np.clip(upper, 0.0, 1.0)
    return p_values


def bonferroni_dunn_distance(n_methods: int, n_blocks: int, alpha: float = 0.05) -> float:
    """Critical difference of mean ranks to a control.

    >>> round(bonferroni_dunn_distance(6, 25), 3)
    1.363
    """
    check_sizes(n_methods, n_blocks, alpha)
    return float(stats.norm.isf(alpha / (2 * (n_methods - 1)))) * _standard_error(n_methods, n_blocks)


def bonferroni_dunn(ranks: np.ndarray, control: int) -> np.ndarray:
    """p-values of every method against a control, corrected for their number k - 1 by Bonferroni's inequality.

    Parameters
    ----------
    ranks : array-like, shape (n_blocks, n_methods)
    control : int
        The column of the control.

    Returns
    -------
    ndarray, shape (n_methods,)
        1 for the control itself.
    """
    table = check_table(ranks, "ranks")
    n, k = table.shape
    if not 0 <= control < k:
        raise ValueError(f"control is {control}; expected the number of a method, 0 to {k - 1}")
    mean_ranks = table.mean(axis=0)
    z = np.abs(mean_ranks - mean_ranks[control]) / _standard_error(k, n)
    return np.minimum(1.0, 2 * (k - 1) * stats.norm.sf(z))


def check_sizes(n_methods: int, n_blocks: int, alpha: float) -> None:
    """Raise where no test is possible."""
    if n_methods < 2 or n_blocks < 1:
        raise ValueError(f"{n_methods} methods over {n_blocks} blocks; expected two methods or more, over one or more")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; expected a level between 0 and 1, such as 0.05")


def _standard_error(n_methods: int, n_blocks: int) -> float:
    """Of the difference of two mean ranks, when all orders are equally likely."""
    return float(np.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))


@cache
def _studentised_range(n_methods: int, alpha: float) -> float:
    return float(stats.studentized_range.ppf(1 - alpha, n_methods, np.inf))
