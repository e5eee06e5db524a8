"""Is a difference between methods more than chance? Ranks within blocks, Friedman's test, and tests of the pairs.

Demšar, *Statistical Comparisons of Classifiers over Multiple Data Sets* (JMLR 2006), is the guide. Distributions, ranks
and the sign test are SciPy's; what is computed here is what SciPy lacks, each with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

# Up to here the distribution of Wilcoxon's statistic is summed up, which takes milliseconds; beyond it is normal.
EXACT_UP_TO = 200


def rank_table(values: Any, *, higher_is_better: Any) -> np.ndarray:
    """Rank the methods of every block: 1 is the best, and equal values share the mean of their ranks.

    Parameters
    ----------
    values : array-like, shape (n_blocks, n_methods)
    higher_is_better : bool or array-like of shape (n_blocks,)
        Whether a higher value is the better one, for all blocks or for each.

    Examples
    --------
    >>> rank_table([[86.2, 86.3, 69.4], [5.5, 3.7, 3.7]], higher_is_better=[True, False])
    array([[2. , 1. , 3. ],
           [3. , 1.5, 1.5]])
    """
    return stats.rankdata(_costs(values, higher_is_better), axis=1)


def _costs(values: Any, higher_is_better: Any) -> np.ndarray:
    """The values with another sign in blocks in which higher is better."""
    table = _check_table(values, "values")
    better = np.asarray(higher_is_better, dtype=bool)
    if better.ndim > 1 or better.size not in (1, len(table)):
        raise ValueError(
            f"higher_is_better has shape {better.shape}; expected one flag, or one per block ({len(table)})"
        )
    return np.where(better.reshape(-1, 1), -table, table)


def _check_table(table: Any, what: str) -> np.ndarray:
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


# -- all methods ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FriedmanResult:
    """Outcome of Friedman's test."""

    n_blocks: int
    n_methods: int
    mean_ranks: np.ndarray
    statistic: float  #: χ², corrected for ties
    p_value: float
    iman_davenport: float  #: F, less conservative than χ²; infinite where all blocks agree, NaN for a single block
    iman_davenport_p: float
    plain_statistic: float  #: χ² without correction for ties, as Demšar prints it
    plain_p_value: float


def friedman(ranks: Any) -> FriedmanResult:
    """Is there any difference between the methods at all? Friedman's test on the ranks of :func:`rank_table`.

    With mean ranks R of k methods over N blocks, χ² = 12 N / (k (k + 1)) · Σ (R - (k + 1) / 2)², divided by 1 - Σ (t³ -
    t) / (N k (k² - 1)) over the sizes t of ties, and F = (N - 1) χ² / (N (k - 1) - χ²). SciPy's ``friedmanchisquare``
    refuses two methods, has no answer where all tie, and neither F nor the uncorrected χ².

    >>> result = friedman([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]])
    >>> result.mean_ranks, result.statistic, round(result.p_value, 4)
    (array([1.25, 2.  , 2.75]), 4.5, 0.1054)
    """
    table = _check_table(ranks, "ranks")
    n, k = table.shape
    mean_ranks = table.mean(axis=0)
    plain = 12 * n / (k * (k + 1)) * float(((mean_ranks - (k + 1) / 2) ** 2).sum())
    untied = float(np.mean([stats.tiecorrect(row) for row in table]))
    statistic = plain / untied if untied > 0 else 0.0
    rest = n * (k - 1) - statistic
    if n == 1:
        f, f_p = np.nan, np.nan
    elif rest <= 1e-9 * n * k:  # every block gives the same order
        f, f_p = np.inf, 0.0
    else:
        f = (n - 1) * statistic / rest
        f_p = float(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))
    p_value, plain_p = (float(stats.chi2.sf(value, k - 1)) for value in (statistic, plain))
    return FriedmanResult(n, k, mean_ranks, statistic, p_value, f, f_p, plain, plain_p)


# -- pairs, by mean ranks ---------------------------------------------------------------------------------------------


def nemenyi_distance(n_methods: int, n_blocks: float, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference of mean ranks, q √(k (k + 1) / (6 N)), q that of the studentised range over √2.

    >>> round(nemenyi_distance(6, 25), 3)
    1.508
    """
    _check_sizes(n_methods, n_blocks, alpha)
    return _studentised_range(n_methods, alpha) / 2**0.5 * _standard_error(n_methods, n_blocks)


def nemenyi(ranks: Any) -> np.ndarray:
    """p-values of all pairs of methods, already corrected for the number of pairs.

    Returns
    -------
    ndarray, shape (n_methods, n_methods)
        Symmetric, with ones on the diagonal.
    """
    table = _check_table(ranks, "ranks")
    n, k = table.shape
    mean_ranks = table.mean(axis=0)
    rows, columns = np.triu_indices(k, 1)
    distances = np.abs(mean_ranks[rows] - mean_ranks[columns]) / _standard_error(k, n)
    return _of_pairs(k, stats.studentized_range.sf(distances * np.sqrt(2), k, np.inf))


def bonferroni_dunn_distance(n_methods: int, n_blocks: float, alpha: float = 0.05) -> float:
    """Critical difference of mean ranks to a control: as Nemenyi's, with the normal quantile at α / (2 (k - 1)).

    >>> round(bonferroni_dunn_distance(6, 25), 3)
    1.363
    """
    _check_sizes(n_methods, n_blocks, alpha)
    return float(stats.norm.isf(alpha / (2 * (n_methods - 1)))) * _standard_error(n_methods, n_blocks)


def bonferroni_dunn(ranks: Any, control: int) -> np.ndarray:
    """p-values of every method against a control, a column of ``ranks``, times their number k - 1; 1 for itself."""
    table = _check_table(ranks, "ranks")
    n, k = table.shape
    if not 0 <= control < k:
        raise ValueError(f"control is {control}; expected the number of a method, 0 to {k - 1}")
    mean_ranks = table.mean(axis=0)
    z = np.abs(mean_ranks - mean_ranks[control]) / _standard_error(k, n)
    return np.minimum(1.0, 2 * (k - 1) * stats.norm.sf(z))


def _check_sizes(n_methods: int, n_blocks: float, alpha: float) -> None:
    """Raise where no test is possible."""
    if n_methods < 2 or n_blocks < 1:
        raise ValueError(f"{n_methods} methods over {n_blocks} blocks; expected two methods or more, over one or more")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; expected a level between 0 and 1, such as 0.05")


def _standard_error(n_methods: int, n_blocks: float) -> float:
    """Of the difference of two mean ranks, when all orders are equally likely."""
    return float(np.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))


@cache
def _studentised_range(n_methods: int, alpha: float) -> float:
    return float(stats.studentized_range.ppf(1 - alpha, n_methods, np.inf))


def _of_pairs(n_methods: int, upper: Any) -> np.ndarray:
    """A symmetric matrix of p-values, with ones on the diagonal, from those of its upper triangle."""
    p_values = np.ones((n_methods, n_methods))
    rows, columns = np.triu_indices(n_methods, 1)
    p_values[rows, columns] = p_values[columns, rows] = np.clip(upper, 0.0, 1.0)
    return p_values


# -- pairs, by their own differences ----------------------------------------------------------------------------------


def wilcoxon_holm(values: Any, *, higher_is_better: Any) -> np.ndarray:
    """p-values of Wilcoxon's signed-rank test of all pairs, adjusted by Holm's step-down procedure.

    Unlike Nemenyi's test, that of a pair does not depend on which other methods were compared.

    Parameters
    ----------
    values : array-like, shape (n_blocks, n_methods)
        The differences within a pair are ranked over all blocks, so they should be of one unit.
    higher_is_better : bool or array-like of shape (n_blocks,)
    """
    costs = _costs(values, higher_is_better)
    # 0.3 - 0.2 and 0.2 - 0.1 tie, though not in binary: differences are rounded far below what a table prints
    scale = float(np.abs(costs).max())
    decimals = 10 - int(np.ceil(np.log10(scale))) if scale > 0 else 0
    pairs = zip(*np.triu_indices(costs.shape[1], 1), strict=True)
    differences = [np.round(costs[:, i] - costs[:, j], decimals) for i, j in pairs]
    return _of_pairs(costs.shape[1], holm([signed_rank_p(each) for each in differences]))


def signed_rank_p(differences: Any) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test; zeros take part in the ranking and are then left out (Pratt).

    SciPy is exact without ties and zeros only: here all signs are counted, with ties and zeros, too.

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
    chances = np.zeros(doubled.sum() + 1)  # of each sum, when each rank is taken or left with a fair coin
    chances[0] = 1.0
    for rank in doubled:
        chances[rank:] += chances[: chances.size - rank].copy()
        chances /= 2
    smaller = min(round(2 * positive), int(doubled.sum()) - round(2 * positive))
    return float(min(1.0, 2 * chances[: smaller + 1].sum()))


def holm(p_values: Any) -> np.ndarray:
    """Holm's adjustment, which SciPy lacks: the smallest of m p-values times m, the next times m - 1, …, never falling.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return adjusted


def sign_test(won: int, lost: int) -> float:
    """How likely a split at least this uneven is where either side wins by chance; ties are left out beforehand.

    >>> sign_test(6, 0), sign_test(3, 3), sign_test(0, 0)
    (0.03125, 1.0, 1.0)
    """
    return float(stats.binomtest(won, won + lost).pvalue) if won + lost else 1.0


# -- groups -----------------------------------------------------------------------------------------------------------


def cliques(different: Any) -> list[tuple[int, ...]]:
    """The largest groups of two or more methods in which no two differ significantly: the bars of a diagram.

    Every pair without a significant difference stands together in some group, no group holds a pair with one, and none
    is part of another. Where significance depends on the distance of mean ranks alone (Nemenyi), each group is a run of
    neighbours in the order of mean ranks; for Wilcoxon's test it need not be.

    Parameters
    ----------
    different : bool array, shape (n_methods, n_methods)
        Symmetric: which pairs differ significantly.

    Examples
    --------
    >>> cliques(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool))
    [(0, 1), (1, 2)]
    """
    matrix = np.asarray(different, dtype=bool)
    if matrix.ndim != 2 or not np.array_equal(matrix, matrix.T):
        raise ValueError("different is not a symmetric matrix; expected (n_methods, n_methods)")
    same = [{j for j in range(len(matrix)) if j != i and not matrix[i, j]} for i in range(len(matrix))]
    groups = _extend(frozenset(), set(range(len(matrix))), set(), same)
    return sorted(tuple(sorted(group)) for group in groups if len(group) > 1)


def _extend(group: frozenset[int], more: set[int], excluded: set[int], same: list[set[int]]) -> list[frozenset[int]]:
    """Bron and Kerbosch's search for maximal cliques, with a pivot."""
    if not more and not excluded:
        return [group]
    pivot = max(more | excluded, key=lambda method: len(same[method] & more))
    groups = []
    for method in more - same[pivot]:
        groups += _extend(group | {method}, more & same[method], excluded & same[method], same)
        more, excluded = more - {method}, excluded | {method}
    return groups


# -- what a test could find at best -----------------------------------------------------------------------------------

# With too few blocks even a method that always wins is never significantly better.
WORDS = {
    "friedman": "Friedman's test",
    "nemenyi": "Nemenyi's test",
    "bonferroni-dunn": "the Bonferroni-Dunn test",
    "wilcoxon-holm": "Wilcoxon's test with Holm's correction",
}
DISTANCES = {"nemenyi": nemenyi_distance, "bonferroni-dunn": bonferroni_dunn_distance}


def smallest_friedman_p(n_methods: int, n_blocks: int) -> float:
    """Friedman's p-value when every block gives the same order."""
    return float(stats.chi2.sf(n_blocks * (n_methods - 1), n_methods - 1))


def smallest_wilcoxon_p(n_methods: int, n_blocks: int) -> float:
    """The adjusted p-value of Wilcoxon's test for a method that wins every block, after Holm over all pairs.

    >>> smallest_wilcoxon_p(6, 5)  # 2 of 32 choices of signs, times 15 pairs
    0.9375
    """
    return min(1.0, n_methods * (n_methods - 1) // 2 * 2.0 ** (1 - n_blocks))


def blocks_needed(test: str, n_methods: int, alpha: float = 0.05) -> int:
    """The least number of blocks with which a test, a key of :data:`WORDS`, can find a significant difference.

    >>> blocks_needed("nemenyi", 6), blocks_needed("wilcoxon-holm", 6)
    (3, 10)
    """
    _check_sizes(n_methods, 1, alpha)
    if test == "friedman":
        return int(np.ceil(stats.chi2.isf(alpha, n_methods - 1) / (n_methods - 1)))
    if test == "wilcoxon-holm":
        return int(np.ceil(1 + np.log2(n_methods * (n_methods - 1) / 2 / alpha)))
    # the largest difference of mean ranks is k - 1, and CD falls with the root of the number of blocks
    return int(np.ceil((DISTANCES[test](n_methods, 1, alpha) / (n_methods - 1)) ** 2))


def too_few_blocks(test: str, n_methods: int, n_blocks: int, alpha: float) -> list[str]:
    """A sentence for each test that cannot find a difference with so few blocks: Friedman's, and the one named."""
    sentences = []
    for name in ("friedman", test):
        needed = blocks_needed(name, n_methods, alpha)
        if n_blocks >= needed:
            continue
        if name == "friedman":
            best = f"the smallest p-value it can give is {smallest_friedman_p(n_methods, n_blocks):.3g}"
        elif name == "wilcoxon-holm":
            best = f"the smallest adjusted p-value it can give is {smallest_wilcoxon_p(n_methods, n_blocks):.3g}"
        else:
            distance = DISTANCES[name](n_methods, n_blocks, alpha)
            best = (
                f"the critical difference {distance:.2f} is above {n_methods - 1}, the largest difference of mean ranks"
            )
        sentences.append(
            f"{n_blocks} {'block is' if n_blocks == 1 else 'blocks are'} too few for {WORDS[name]} ever to be "
            f"significant at {alpha:g} with {n_methods} methods: {best}. At least {needed} are needed."
        )
    return sentences
