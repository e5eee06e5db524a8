"""Is a difference between methods more than chance? Ranks within blocks, Friedman's test, then Nemenyi's of the pairs.

Demšar, *Statistical Comparisons of Classifiers over Multiple Data Sets* (JMLR 2006), is the guide. Distributions and
ranks are SciPy's; what is computed here is what SciPy lacks, each with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import stats


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found; methods are counted in the order of the table's columns."""

    names: tuple[str, ...]  #: of the methods
    n_blocks: int
    mean_ranks: np.ndarray  #: shape (n_methods,)
    statistic: float  #: Friedman's χ², corrected for ties
    p_value: float  #: of Friedman's test: is there any difference at all?
    critical_difference: float  #: Nemenyi's, of mean ranks
    different: np.ndarray  #: which pairs differ significantly; none where Friedman's test finds no difference
    #: The largest groups of two or more methods without a significant difference between any two, each from the best
    #: mean rank to the worst.
    cliques: tuple[tuple[int, ...], ...]
    alpha: float
    warnings: tuple[str, ...]  #: sentences to show beside the outcome

    def order(self) -> list[int]:
        """The numbers of the methods from the best mean rank to the worst."""
        return np.argsort(self.mean_ranks, kind="stable").tolist()

    def better_than(self, name: str) -> tuple[str, ...]:
        """The methods that a method beats: it differs from them significantly and has the better mean rank."""
        if name not in self.names:
            raise ValueError(f"method {name!r} is not among the methods compared: {', '.join(self.names)}")
        one = self.names.index(name)
        beaten = self.different[one] & (self.mean_ranks > self.mean_ranks[one])
        return tuple(self.names[other] for other in self.order() if beaten[other])

    def __str__(self) -> str:
        lines = [f"{self.names[i]:20} mean rank {self.mean_ranks[i]:.2f}" for i in self.order()]
        lines.append(
            f"Friedman: chi2 = {self.statistic:.1f}, p = {self.p_value:.2g}, {self.n_blocks} blocks; "
            f"Nemenyi at {self.alpha:g}, critical difference {self.critical_difference:.3f}"
        )
        groups = (", ".join(self.names[i] for i in group) for group in self.cliques)
        lines += [f"not significantly different: {group}" for group in groups]
        lines += [f"Careful: {sentence}" for sentence in self.warnings]
        return "\n".join(lines)


def compare(
    values: Any, names: Sequence[str], *, higher_is_better: Any, alpha: float = 0.05, warnings: Sequence[str] = ()
) -> Comparison:
    """Compare methods over blocks, as Demšar (2006) does: Friedman's test first, then Nemenyi's of the pairs.

    ``values`` are finite, ``(n_blocks, n_methods)``: one row per dataset, say; ``higher_is_better`` is one flag, or one
    per block. ``warnings`` are sentences of whoever made the table, kept in front of those found here.

    >>> table = [[9, 7, 5], [8, 6, 6], [9, 5, 4], [7, 6, 3], [9, 8, 5], [6, 5, 3]]
    >>> comparison = compare(table, ["A", "B", "C"], higher_is_better=True)
    >>> comparison.cliques, round(comparison.critical_difference, 3)
    (((0, 1), (1, 2)), 1.353)
    """
    ranks = rank_table(values, higher_is_better=higher_is_better)
    n, k = ranks.shape
    distance, sentences = nemenyi_distance(k, n, alpha), [*warnings, *too_few_blocks(k, n, alpha)]
    mean_ranks, (statistic, p_value) = ranks.mean(axis=0), friedman(ranks)
    different = np.abs(mean_ranks[:, None] - mean_ranks) >= distance
    if p_value > alpha:
        different[:] = False
        sentences.append(
            f"Friedman's test finds no difference between the {k} methods (p = {p_value:.2g}), "
            "so none between two of them counts as significant."
        )
    found = (statistic, p_value, distance, different, cliques(mean_ranks, different), alpha, tuple(sentences))
    return Comparison(tuple(names), n, mean_ranks, *found)


def rank_table(values: Any, *, higher_is_better: Any) -> np.ndarray:
    """Rank the methods of every block: 1 is the best, and equal values share the mean of their ranks."""
    table = np.asarray(values, dtype=np.float64)
    better = np.asarray(higher_is_better, dtype=bool).reshape(-1, 1)
    return stats.rankdata(np.where(better, -table, table), axis=1)


def friedman(ranks: Any) -> tuple[float, float]:
    """Is there any difference between the methods at all? χ², corrected for ties, and its p-value.

    With mean ranks R of k methods over N blocks, χ² = 12 N / (k (k + 1)) · Σ (R - (k + 1) / 2)², divided by 1 - Σ (t³ -
    t) / (N k (k² - 1)) over the sizes t of ties. SciPy's ``friedmanchisquare`` refuses two methods, and has no answer
    where all tie.
    """
    table = np.asarray(ranks, dtype=np.float64)
    n, k = table.shape
    plain = 12 * n / (k * (k + 1)) * float(((table.mean(axis=0) - (k + 1) / 2) ** 2).sum())
    untied = float(np.mean([stats.tiecorrect(row) for row in table]))
    statistic = plain / untied if untied > 0 else 0.0
    return statistic, float(stats.chi2.sf(statistic, k - 1))


@cache
def nemenyi_distance(n_methods: int, n_blocks: float, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference of mean ranks, q √(k (k + 1) / (6 N)), q that of the studentised range over √2."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; expected a level between 0 and 1, such as 0.05")
    quantile = float(stats.studentized_range.ppf(1 - alpha, n_methods, np.inf)) / 2**0.5
    return quantile * float(np.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))


def cliques(mean_ranks: Any, different: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """The largest groups of two or more methods in which no two differ significantly: the bars of a diagram."""
    # Whether two methods differ depends on the distance of their mean ranks alone: each group is a run of neighbours.
    order = np.argsort(mean_ranks, kind="stable").tolist()
    groups: list[tuple[int, ...]] = []
    reached = 0  # the place up to which the last group goes
    for first, method in enumerate(order):
        last = max(place for place in range(first, len(order)) if not different[method, order[place]])
        if last > first and last > reached:
            groups.append(tuple(order[first : last + 1]))
            reached = last
    return tuple(groups)


def too_few_blocks(n_methods: int, n_blocks: int, alpha: float) -> list[str]:
    """A sentence where so few blocks can show no difference, not even that to a method that always wins."""
    # Friedman's χ² is at most N (k - 1), mean ranks differ by k - 1 at most; the critical difference falls with √N.
    widest = n_methods - 1
    friedman, nemenyi = stats.chi2.isf(alpha, widest) / widest, (nemenyi_distance(n_methods, 1, alpha) / widest) ** 2
    least = int(np.ceil(max(friedman, nemenyi)))
    if n_blocks >= least:
        return []
    return [
        f"{n_blocks} {'block is' if n_blocks == 1 else 'blocks are'} too few for a difference between {n_methods} "
        f"methods to be significant at {alpha:g}, even where one always wins. At least {least} are needed."
    ]
