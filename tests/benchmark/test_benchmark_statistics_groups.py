"""Groups that are not significantly different, against a search of all subsets."""

from itertools import combinations

import numpy as np
import pytest

from propml.benchmark.statistics import cliques, compare


def all_maximal_groups(different: np.ndarray) -> list[tuple[int, ...]]:
    k = len(different)
    groups = [
        set(group)
        for size in range(2, k + 1)
        for group in combinations(range(k), size)
        if not any(different[i, j] for i, j in combinations(group, 2))
    ]
    return sorted(tuple(sorted(group)) for group in groups if not any(group < other for other in groups))


def test_groups_of_random_graphs():
    rng = np.random.default_rng(0)
    for _ in range(100):
        k = int(rng.integers(1, 9))
        upper = np.triu(rng.random((k, k)) < rng.random(), 1)
        different = upper | upper.T
        assert cliques(different) == all_maximal_groups(different)


def test_by_hand():
    all_differ = ~np.eye(3, dtype=bool)
    assert cliques(all_differ) == []
    assert cliques(np.zeros((3, 3), dtype=bool)) == [(0, 1, 2)]
    # only the first and the last differ: two bars, and never one over all three
    different = np.zeros((3, 3), dtype=bool)
    different[0, 2] = different[2, 0] = True
    assert cliques(different) == [(0, 1), (1, 2)]
    # only the middle one differs from both others: one bar from the first to the last, which leaves it out
    different = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    assert cliques(different) == [(0, 2)]


def test_many_methods_that_are_all_alike_are_found_at_once():
    assert cliques(np.zeros((60, 60), dtype=bool)) == [tuple(range(60))]


def test_a_matrix_that_contradicts_itself():
    with pytest.raises(ValueError, match="not a symmetric matrix"):
        cliques(np.array([[False, True], [False, False]]))


@pytest.mark.parametrize("test", ["nemenyi", "wilcoxon-holm"])
def test_groups_of_comparisons_say_what_is_true(test):
    rng = np.random.default_rng(1)
    for _ in range(15):
        k = int(rng.integers(3, 8))
        values = rng.normal(size=(20, k)) + rng.permutation(np.arange(k) / 2)
        found = compare(values, [f"m{i}" for i in range(k)], higher_is_better=True, test=test)
        order = np.argsort(found.mean_ranks)
        together = {frozenset(pair) for group in found.cliques for pair in combinations(group, 2)}
        alike = {frozenset(pair) for pair in combinations(range(k), 2) if not found.different[pair]}
        assert together == alike
        for group in found.cliques:
            places = [order.tolist().index(method) for method in group]
            assert places == sorted(places)
            if test == "nemenyi":  # neighbours in mean rank, and not further apart than the critical difference
                assert places == list(range(places[0], places[-1] + 1))
                assert np.ptp(found.mean_ranks[list(group)]) < found.critical_difference
