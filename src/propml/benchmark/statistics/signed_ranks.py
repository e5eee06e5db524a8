"""Which pairs of methods differ? Wilcoxon's signed-rank test of every pair, with Holm's step-down correction.

Unlike Nemenyi's test, that of a pair does not depend on which other methods were compared. Zero differences take part
in the ranking and are then left out (Pratt's rule, ``zero_method="pratt"`` in SciPy). p-values are exact, with ties and
zeros, too: all signs of the differences are equally likely when two methods are equally good.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from propml.benchmark.statistics.ranks import higher_is_worse

# Up to here the distribution is summed up exactly, which takes milliseconds; beyond, the normal one is as good.
EXACT_UP_TO = 200


def wilcoxon_holm(values: np.ndarray, *, higher_is_better: bool | Sequence[bool] | np.ndarray) -> np.ndarray:
    """Adjusted p-values of all pairs of methods.

    Parameters
    ----------
    values : array-like, shape (n_blocks, n_methods)
        The differences within a pair are ranked over all blocks, so they should be of one unit.
    higher_is_better : bool or array-like of shape (n_blocks,)

    Returns
    -------
    ndarray, shape (n_methods, n_methods)
        Symmetric, with ones on the diagonal.
    """
    costs = higher_is_worse(values, higher_is_better)
    k = costs.shape[1]
    rows, columns = np.triu_indices(k, 1)
    # 0.3 - 0.2 and 0.2 - 0.1 tie, though not in binary: differences are rounded far below what a table prints
    scale = float(np.abs(costs).max())
    decimals = 10 - int(np.ceil(np.log10(scale))) if scale > 0 else 0
    pairs = [signed_rank_p(np.round(costs[:, i] - costs[:, j], decimals)) for i, j in zip(rows, columns, strict=True)]
    p_values = np.ones((k, k))
    p_values[rows, columns] = p_values[columns, rows] = holm(pairs)
    return p_values


def signed_rank_p(differences: np.ndarray) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test.

    Parameters
    ----------
    differences : array-like, shape (n_blocks,)

    Examples
    --------
    >>> signed_rank_p([3, 1, 2, 4, 5])  # 2 of the 32 choices of signs
    0.0625
    """
    d = np.asarray(differences, dtype=np.float64)
    ranks = stats.rankdata(np.abs(d))[d != 0]
    if ranks.size == 0:
        return 1.0
    positive = ranks[d[d != 0] > 0].sum()
    if ranks.size > EXACT_UP_TO:
        z = (positive - ranks.sum() / 2) / np.sqrt((ranks**2).sum() / 4)
        return float(min(1.0, 2 * stats.norm.sf(abs(z))))
    doubled = np.rint(2 * ranks).astype(np.int64)  # mean ranks of ties are halves
    chances = _sum_distribution(doubled)
    smaller = min(round(2 * positive), int(doubled.sum()) - round(2 * positive))
    return float(min(1.0, 2 * chances[: smaller + 1].sum()))


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment: the smallest of m p-values times m, the next times m - 1, …, never falling.

    An adjusted p-value at or below α means that the step-down procedure rejects at level α.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(stepped))
    return adjusted


def _sum_distribution(ranks: np.ndarray) -> np.ndarray:
    """Chances of each sum of whole-numbered ranks when each is taken or left with a fair coin."""
    chances = np.zeros(int(ranks.sum()) + 1)
    chances[0] = 1.0
    for rank in ranks:
        taken = np.zeros_like(chances)
        taken[rank:] = chances[: chances.size - rank]
        chances = (chances + taken) / 2
    return chances
