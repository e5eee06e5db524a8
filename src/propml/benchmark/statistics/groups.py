"""Groups of methods that a test cannot tell apart: the bars of a critical-difference diagram."""

from __future__ import annotations

import numpy as np


def cliques(different: np.ndarray) -> list[tuple[int, ...]]:
    """The largest groups of two or more methods in which no two differ significantly.

    Every pair without a significant difference stands together in some group, no group holds a pair with one, and none
    is part of another. Where significance depends on the distance of mean ranks alone (Nemenyi), each group is a run of
    neighbours in the order of mean ranks. For Wilcoxon's test it need not be: a bar drawn for such a group crosses
    methods that do not belong to it.

    Parameters
    ----------
    different : bool array, shape (n_methods, n_methods)
        Symmetric: which pairs differ significantly.

    Returns
    -------
    list of tuple of int
        Numbers of methods, rising, and the groups in rising order.

    Examples
    --------
    >>> different = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)
    >>> cliques(different)
    [(0, 1), (1, 2)]
    """
    matrix = np.asarray(different, dtype=bool)
    if matrix.ndim != 2 or not np.array_equal(matrix, matrix.T):
        raise ValueError("different is not a symmetric matrix; expected (n_methods, n_methods)")
    same = [{j for j in range(len(matrix)) if j != i and not matrix[i, j]} for i in range(len(matrix))]
    found = _extend(frozenset(), set(range(len(matrix))), set(), same)
    return sorted(tuple(sorted(group)) for group in found if len(group) > 1)


def _extend(
    group: frozenset[int], candidates: set[int], excluded: set[int], same: list[set[int]]
) -> list[frozenset[int]]:
    """Bron and Kerbosch's search for maximal cliques, with a pivot."""
    if not candidates and not excluded:
        return [group]
    pivot = max(candidates | excluded, key=lambda method: len(same[method] & candidates))
    found = []
    for method in candidates - same[pivot]:
        found += _extend(group | {method}, candidates & same[method], excluded & same[method], same)
        candidates = candidates - {method}
        excluded = excluded | {method}
    return found
