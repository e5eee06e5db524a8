"""Ranks, Friedman's and Nemenyi's tests: against SciPy, published tables, simulation, and Demšar's worked example."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from propml.benchmark.statistics import cliques, compare, friedman, nemenyi_distance, rank_table

# Ranks of C4.5, C4.5+m, C4.5+cf and C4.5+m+cf on 14 datasets: Demšar (2006), Table 6.
DEMSAR = np.array(
    [
        [4, 3, 2, 1],
        [1, 2, 3, 4],
        [4, 1, 2, 3],
        [4, 1, 3, 2],
        [4, 2, 3, 1],
        [1, 2.5, 4, 2.5],
        [3, 2, 4, 1],
        [2.5, 2.5, 4, 1],
        [4, 3, 2, 1],
        [2.5, 2.5, 2.5, 2.5],
        [4, 2.5, 1, 2.5],
        [3, 2, 4, 1],
        [4, 1, 2, 3],
        [3, 1, 4, 2],
    ]
)


def random_table(seed: int, n: int, k: int, *, ties: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, k)).astype(float) if ties else rng.normal(size=(n, k))


def table(n: int, *levels: float) -> np.ndarray:
    """Methods at fixed distances in blocks of different height, with a little noise."""
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, 1)) * 5 + np.array(levels) + rng.normal(scale=0.3, size=(n, len(levels)))


def test_ranks_by_hand():
    values = [[0.9, 0.8, 0.8, 0.1], [0.9, 0.8, 0.8, 0.1]]
    ranks = rank_table(values, higher_is_better=[True, False])
    assert ranks.tolist() == [[1, 2.5, 2.5, 4], [4, 2.5, 2.5, 1]]
    assert rank_table(values, higher_is_better=True).tolist() == [[1, 2.5, 2.5, 4]] * 2


@pytest.mark.parametrize("higher", [True, False])
def test_ranks_are_scipys(higher):
    values = random_table(0, 30, 7, ties=True)
    expected = stats.rankdata(-values if higher else values, axis=1)
    np.testing.assert_array_equal(rank_table(values, higher_is_better=higher), expected)


def test_demsars_example():
    np.testing.assert_allclose(DEMSAR.mean(axis=0), [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    # He prints 9.28, without the correction for ties, which divides by one minus the mean share that they take away.
    untied = np.mean([1 - sum(t**3 - t for t in np.unique(row, return_counts=True)[1]) / 60 for row in DEMSAR])
    assert friedman(DEMSAR)[0] * untied == pytest.approx(9.28, abs=0.005)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("n", "k"), [(4, 3), (25, 6), (60, 11)])
def test_friedman_is_scipys(n, k, ties):
    values = random_table(n, n, k, ties=ties)
    expected = stats.friedmanchisquare(*values.T)
    found = friedman(rank_table(values, higher_is_better=False))
    assert found == pytest.approx((expected.statistic, expected.pvalue))


def test_friedmans_extremes():
    assert friedman(np.tile([1.0, 2.0, 3.0], (5, 1)))[0] == pytest.approx(10)  # N (k - 1)
    assert friedman(np.full((5, 3), 2.0)) == (0, 1)
    # Two methods are the sign test, 9 wins of 10: z = (9 - 1) / √10, χ² = z².
    assert friedman(np.array([[1.0, 2.0]] * 9 + [[2.0, 1.0]]))[0] == pytest.approx(6.4)


# Demšar (2006), Table 5, for 2 to 10 methods.
QUANTILES = {
    0.05: [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164],
    0.10: [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920],
}


@pytest.mark.parametrize("alpha", [0.05, 0.10])
def test_quantiles_of_demsars_table(alpha):
    for k, q in enumerate(QUANTILES[alpha], start=2):
        # k (k + 1) / 6 blocks make the factor of q one
        assert nemenyi_distance(k, k * (k + 1) / 6, alpha) == pytest.approx(q, abs=1.1e-3)


def test_critical_differences_in_print():
    assert nemenyi_distance(4, 14) == pytest.approx(1.25, abs=0.005)  # Demšar's example
    assert nemenyi_distance(4, 14, 0.10) == pytest.approx(1.12, abs=0.005)
    assert nemenyi_distance(6, 25) == pytest.approx(1.508, abs=5e-4)
    assert nemenyi_distance(6, 20) == pytest.approx(1.686, abs=5e-4)


def test_the_critical_difference_is_a_quantile_of_ranges_of_normal_variables():
    ranges = np.ptp(np.random.default_rng(0).normal(size=(200_000, 5)), axis=1)
    simulated = np.quantile(ranges, 0.95) / np.sqrt(2) * np.sqrt(5 * 6 / (6 * 12))
    assert nemenyi_distance(5, 12) == pytest.approx(simulated, rel=0.005)


def test_what_cannot_be_tested_is_told():
    with pytest.raises(ValueError, match="alpha is 5; expected a level between 0 and 1"):
        nemenyi_distance(6, 25, 5)


# Blocks with ties, and which pairs scikit-posthocs 0.17.1 finds different:
# posthoc_nemenyi_friedman(TABLE) is 0.0339 for the second and the third, 0.0028 for the second and the last, and above
# 0.09 for all others.
TABLE = np.array(
    [
        [31, 20, 55, 42],
        [74, 74, 61, 99],
        [22, 13, 80, 44],
        [65, 39, 91, 91],
        [17, 26, 35, 88],
        [50, 41, 77, 69],
        [33, 9, 28, 72],
        [86, 64, 95, 97],
    ]
)


def test_pairs_that_scikit_posthocs_finds():
    for alpha, pairs in ((0.05, {(1, 2), (1, 3)}), (0.01, {(1, 3)}), (0.1, {(0, 3), (1, 2), (1, 3)})):
        found = compare(TABLE, list("abcd"), higher_is_better=False, alpha=alpha)
        assert {(int(i), int(j)) for i, j in np.argwhere(found.different) if i < j} == pairs


# -- comparisons ------------------------------------------------------------------------------------------------------


def test_a_clear_winner():
    found = compare(table(30, 0, 5, 0.01), ["low", "high", "low too"], higher_is_better=True)
    assert set(found.better_than("high")) == {"low", "low too"}
    assert found.better_than("low") == ()
    assert {frozenset(group) for group in found.cliques} == {frozenset({0, 2})}
    assert found.order()[0] == 1
    assert found.warnings == ()
    assert (found.n_blocks, found.alpha) == (30, 0.05)


def test_lower_is_better():
    found = compare(table(30, 0, 5, 9), ["a", "b", "c"], higher_is_better=False)
    assert found.mean_ranks.tolist() == [1, 2, 3]
    assert found.better_than("a") == ("b", "c")
    assert found.cliques == ()


def test_without_a_difference_overall_no_pair_counts():
    values = np.array([[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 4, dtype=float)
    found = compare(values, ["a", "b", "c"], higher_is_better=True, alpha=0.999)
    assert found.p_value == 1
    assert not found.different.any()
    assert found.cliques == ((0, 1, 2),)
    assert "Friedman's test finds no difference between the 3 methods (p = 1)" in found.warnings[-1]


def test_warnings_of_the_caller_come_first():
    found = compare(table(2, 0, 1, 2), ["a", "b", "c"], higher_is_better=True, warnings=["Blocks are correlated."])
    assert found.warnings[0] == "Blocks are correlated."
    assert len(found.warnings) > 1


def test_in_words():
    text = str(compare(table(30, 0, 5, 5.01), ["low", "high", "high too"], higher_is_better=True, warnings=["Small."]))
    lines = text.splitlines()
    assert lines[0].split()[-3:-1] == ["mean", "rank"]
    assert lines[2].startswith("low ")
    assert "30 blocks; Nemenyi at 0.05, critical difference 0.605" in lines[3]
    assert lines[4] in ("not significantly different: high, high too", "not significantly different: high too, high")
    assert lines[5] == "Careful: Small."


def test_a_level_that_is_none():
    with pytest.raises(ValueError, match=r"alpha is 1\.5"):
        compare(table(9, 0, 1, 2), ["a", "b", "c"], higher_is_better=True, alpha=1.5)


def test_better_than_an_unknown_method():
    with pytest.raises(ValueError, match="method 'x' is not among the methods compared: a, b"):
        compare(table(9, 0, 1), ["a", "b"], higher_is_better=True).better_than("x")


def all_maximal_groups(different: np.ndarray) -> set[frozenset[int]]:
    """By a search of all subsets."""
    k = len(different)
    groups = [
        frozenset(group)
        for size in range(2, k + 1)
        for group in combinations(range(k), size)
        if not any(different[i, j] for i, j in combinations(group, 2))
    ]
    return {group for group in groups if not any(group < other for other in groups)}


def test_groups_are_the_largest_ones_of_mean_ranks_that_are_near():
    rng = np.random.default_rng(0)
    for _ in range(100):
        ranks = rng.permutation(rng.uniform(1, 9, size=rng.integers(2, 9)).round(1))
        different = np.abs(ranks[:, None] - ranks) >= rng.uniform(0.1, 6)
        found = cliques(ranks, different)
        assert {frozenset(group) for group in found} == all_maximal_groups(different)
        assert all(list(ranks[list(group)]) == sorted(ranks[list(group)]) for group in found)


def clear_order(n: int, k: int) -> np.ndarray:
    """Method 0 always first, k - 1 always last."""
    return -np.arange(k) * np.linspace(1, 2, n)[:, None]


def test_compare_warns_exactly_where_nothing_can_be_found():
    for n in range(1, 14):
        found = compare(clear_order(n, 6), [f"m{i}" for i in range(6)], higher_is_better=True)
        warned = any("too few for" in sentence for sentence in found.warnings)
        assert warned == (not found.different.any())


def test_the_sentences():
    one = compare(clear_order(1, 2), ["a", "b"], higher_is_better=True)
    assert one.warnings[0] == (
        "1 block is too few for a difference between 2 methods to be significant at 0.05, even where one always wins. "
        "At least 4 are needed."
    )
