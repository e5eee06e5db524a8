"""The whole comparison of methods in one call: ranks, omnibus test, pairs, groups, and what to be careful about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from propml.benchmark.published import Published
from propml.benchmark.results import Result
from propml.benchmark.statistics.attainable import too_few_blocks
from propml.benchmark.statistics.from_results import blocks
from propml.benchmark.statistics.groups import cliques
from propml.benchmark.statistics.omnibus import FriedmanResult, friedman
from propml.benchmark.statistics.rank_differences import (
    bonferroni_dunn,
    bonferroni_dunn_distance,
    check_sizes,
    nemenyi,
    nemenyi_distance,
)
from propml.benchmark.statistics.ranks import rank_table
from propml.benchmark.statistics.signed_ranks import wilcoxon_holm

TESTS = ("nemenyi", "wilcoxon-holm", "bonferroni-dunn")


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found.

    Attributes
    ----------
    names : tuple of str
        The methods, in the order of the table's columns.
    mean_ranks : ndarray, shape (n_methods,)
    critical_difference : float or None
        Of mean ranks; ``None`` for Wilcoxon's test, which has none.
    p_values : ndarray, shape (n_methods, n_methods)
        Of the pairs, corrected for their number. NaN for pairs that were not tested (Bonferroni-Dunn tests those with
        the control only).
    different : bool ndarray, shape (n_methods, n_methods)
        Which pairs differ significantly. None does where Friedman's test finds no difference.
    cliques : tuple of tuple of int
        The largest groups of two or more methods without a significant difference between any two, as numbers into
        ``names``: each from the best mean rank to the worst, and the groups likewise. For Bonferroni-Dunn: the control
        with the methods ranked before it that do not differ from it, and with those after it.
    friedman : FriedmanResult
    test : {"nemenyi", "wilcoxon-holm", "bonferroni-dunn"}
    alpha : float
    control : str or None
    warnings : tuple of str
        Sentences to show beside the outcome.
    """

    names: tuple[str, ...]
    mean_ranks: np.ndarray
    critical_difference: float | None
    p_values: np.ndarray
    different: np.ndarray
    cliques: tuple[tuple[int, ...], ...]
    friedman: FriedmanResult
    test: str
    alpha: float
    control: str | None
    warnings: tuple[str, ...]

    def order(self) -> list[int]:
        """The numbers of the methods from the best mean rank to the worst."""
        return _order(self.mean_ranks)

    def better_than(self, name: str) -> tuple[str, ...]:
        """The methods that a method beats: it differs from them significantly and has the better mean rank."""
        one = _index(self.names, name, "method")
        beaten = self.different[one] & (self.mean_ranks > self.mean_ranks[one])
        return tuple(self.names[other] for other in self.order() if beaten[other])

    def __str__(self) -> str:
        lines = [f"{self.names[i]:20} mean rank {self.mean_ranks[i]:.2f}" for i in self.order()]
        lines.append(
            f"Friedman: chi2 = {self.friedman.statistic:.1f}, p = {self.friedman.p_value:.2g}, "
            f"{self.friedman.n_blocks} blocks; {self.test} at {self.alpha:g}"
            + (f", critical difference {self.critical_difference:.3f}" if self.critical_difference is not None else "")
        )
        groups = (", ".join(self.names[i] for i in group) for group in self.cliques)
        lines += [f"not significantly different: {group}" for group in groups]
        lines += [f"Careful: {sentence}" for sentence in self.warnings]
        return "\n".join(lines)


def compare(
    values: np.ndarray,
    names: Sequence[str],
    *,
    higher_is_better: bool | Sequence[bool] | np.ndarray,
    test: str = "nemenyi",
    alpha: float = 0.05,
    control: str | None = None,
    warnings: Sequence[str] = (),
) -> Comparison:
    """Compare methods over blocks, as Demšar (2006) does: Friedman's test first, then the pairs.

    Where Friedman's test (χ² corrected for ties) does not reject, no pair counts as different and all methods form one
    group, whatever the p-values of the pairs.

    Parameters
    ----------
    values : array-like, shape (n_blocks, n_methods)
        For example one row per dataset.
    names : sequence of str, length n_methods
    higher_is_better : bool or array-like of shape (n_blocks,)
    test : {"nemenyi", "wilcoxon-holm", "bonferroni-dunn"}
    alpha : float
    control : str, optional
        The method that Bonferroni-Dunn compares with the others.
    warnings : sequence of str
        Sentences of whoever made the table, kept in front of those found here.

    Examples
    --------
    >>> table = [[9, 7, 5], [8, 6, 6], [9, 5, 4], [7, 6, 3], [9, 8, 5], [6, 5, 3]]
    >>> found = compare(table, ["A", "B", "C"], higher_is_better=True)
    >>> found.cliques, round(found.critical_difference, 3)
    (((0, 1), (1, 2)), 1.353)
    """
    if test not in TESTS:
        raise ValueError(f"test is {test!r}; choose from {', '.join(TESTS)}")
    if (control is not None) != (test == "bonferroni-dunn"):
        raise ValueError(f"control is {control!r} for {test}; only bonferroni-dunn needs one, and always does")
    ranks = rank_table(values, higher_is_better=higher_is_better)
    n, k = ranks.shape
    check_sizes(k, n, alpha)
    methods = _check_names(names, k)
    p_values, distance = _pairs(values, ranks, higher_is_better, test, alpha, methods, control)
    omnibus = friedman(ranks)
    sentences = [*warnings, *too_few_blocks(test, k, n, alpha)]
    if omnibus.p_value <= alpha:
        different = p_values <= alpha  # false for NaN
    else:
        different = np.zeros((k, k), dtype=bool)
        sentences.append(
            f"Friedman's test finds no difference between the {k} methods (p = {omnibus.p_value:.2g}), "
            "so none between two of them counts as significant."
        )
    return Comparison(
        names=methods,
        mean_ranks=omnibus.mean_ranks,
        critical_difference=distance,
        p_values=p_values,
        different=different,
        cliques=_groups(omnibus.mean_ranks, different, None if control is None else methods.index(control)),
        friedman=omnibus,
        test=test,
        alpha=alpha,
        control=control,
        warnings=tuple(sentences),
    )


def compare_results(
    measured: Iterable[Result | Published],
    metrics: str | Sequence[str],
    *,
    methods: Sequence[str] | None = None,
    test: str = "nemenyi",
    alpha: float = 0.05,
    control: str | None = None,
) -> Comparison:
    """Compare methods over all settings and metrics of results: :func:`blocks`, then :func:`compare`.

    Examples
    --------
    >>> from propml.benchmark.published import load_published
    >>> found = compare_results(load_published("real-world"), "average_precision")
    >>> dict(zip(found.names, found.mean_ranks.round(1).tolist()))
    {'CPLST': 3.0, 'ML-kNN': 5.2, 'PAR-MAP': 4.0, 'PAR-VLS': 5.0, 'PML-NI': 2.2, 'ProPML': 1.6}
    """
    table = blocks(measured, metrics, methods=methods)
    sentences = list(table.warnings)
    if test == "wilcoxon-holm" and not isinstance(metrics, str) and len(metrics) > 1:
        sentences.append(
            "Wilcoxon's test ranks the differences of all metrics together, as if a point of one were worth a point of "
            "another."
        )
    return compare(
        table.values,
        table.names,
        higher_is_better=table.higher_is_better,
        test=test,
        alpha=alpha,
        control=control,
        warnings=sentences,
    )


def _pairs(
    values: np.ndarray,
    ranks: np.ndarray,
    higher_is_better: bool | Sequence[bool] | np.ndarray,
    test: str,
    alpha: float,
    methods: tuple[str, ...],
    control: str | None,
) -> tuple[np.ndarray, float | None]:
    """The p-values of all pairs, and the critical difference."""
    n, k = ranks.shape
    if test == "nemenyi":
        return nemenyi(ranks), nemenyi_distance(k, n, alpha)
    if control is None:
        return wilcoxon_holm(values, higher_is_better=higher_is_better), None
    p_values = np.full((k, k), np.nan)
    np.fill_diagonal(p_values, 1.0)
    column = _index(methods, control, "control")
    p_values[column] = p_values[:, column] = bonferroni_dunn(ranks, column)
    return p_values, bonferroni_dunn_distance(k, n, alpha)


def _groups(mean_ranks: np.ndarray, different: np.ndarray, control: int | None) -> tuple[tuple[int, ...], ...]:
    order = _order(mean_ranks)
    ordered = different[np.ix_(order, order)]
    if control is not None and different.any():
        place = order.index(control)
        alike = [i for i in range(len(order)) if not ordered[place, i]]
        sides = (tuple(i for i in alike if i <= place), tuple(i for i in alike if i >= place))
        found = [side for side in sides if len(side) > 1]
    else:
        found = cliques(ordered)
    return tuple(tuple(order[i] for i in group) for group in found)


def _order(mean_ranks: np.ndarray) -> list[int]:
    return [int(i) for i in np.argsort(mean_ranks, kind="stable")]


def _check_names(names: Sequence[str], n_methods: int) -> tuple[str, ...]:
    methods = tuple(names)
    if len(methods) != n_methods:
        raise ValueError(f"{len(methods)} names for {n_methods} methods; give one name per column of values")
    twice = sorted({name for name in methods if methods.count(name) > 1})
    if twice:
        raise ValueError(f"the name {twice[0]!r} stands for more than one method; give each its own")
    return methods


def _index(methods: tuple[str, ...], name: str, what: str) -> int:
    if name not in methods:
        raise ValueError(f"{what} {name!r} is not among the methods compared: {', '.join(methods)}")
    return methods.index(name)
