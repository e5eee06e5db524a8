"""Wilcoxon's test against SciPy and against all choices of signs; Holm against his procedure step by step."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from propml.benchmark.comparison import compare
from propml.benchmark.statistics import (
    blocks_needed,
    bonferroni_dunn_distance,
    cliques,
    holm,
    nemenyi_distance,
    signed_rank_p,
    smallest_friedman_p,
    smallest_wilcoxon_p,
    wilcoxon_holm,
)


def all_signs(differences: np.ndarray) -> float:
    """Pratt's rule by brute force: how many of the 2ⁿ choices of signs are at least as one-sided."""
    ranks = [
        (sum(abs(e) < abs(d) for e in differences) + sum(abs(e) <= abs(d) for e in differences) + 1) / 2
        for d in differences
    ]
    kept = [(rank, d > 0) for rank, d in zip(ranks, differences, strict=True) if d != 0]
    middle = sum(rank for rank, _ in kept) / 2
    observed = abs(sum(rank for rank, positive in kept if positive) - middle)
    sums = [
        sum(rank for (rank, _), sign in zip(kept, signs, strict=True) if sign)
        for signs in product((0, 1), repeat=len(kept))
    ]
    return sum(abs(s - middle) >= observed - 1e-9 for s in sums) / len(sums)


@pytest.mark.parametrize("n", [1, 4, 9, 25, 50])
def test_p_values_are_scipys_without_ties(n):
    rng = np.random.default_rng(n)
    for shift in (0, 0.3, 1):
        d = rng.normal(shift, size=n)
        assert signed_rank_p(d) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue, rel=1e-9)


def test_p_values_with_ties_and_zeros_count_all_signs():
    rng = np.random.default_rng(0)
    for _ in range(60):
        d = rng.integers(-4, 6, size=rng.integers(1, 11))
        assert signed_rank_p(d) == pytest.approx(all_signs(d) if d.any() else 1.0)


def test_zeros_count_among_the_ranks():
    # after two zeros the ranks are 3 to 6, and the losses' sum is 7: {}, 3, 4, 5, 6, 3 + 4 are no larger
    assert signed_rank_p([0, 0, -1, -2, 3, 4]) == 2 * 6 / 16
    # without zeros the ranks are 1 to 4, and the losses' sum is 3: {}, 1, 2, 3, 1 + 2
    assert signed_rank_p([-1, -2, 3, 4]) == 2 * 5 / 16
    assert signed_rank_p([0, 0, 0]) == 1


def test_large_samples_are_normal():
    rng = np.random.default_rng(1)
    d = rng.integers(-30, 36, size=400).astype(float)
    expected = stats.wilcoxon(d, zero_method="pratt", correction=False)
    assert signed_rank_p(d) == pytest.approx(expected.pvalue, rel=1e-9)


def test_exact_and_normal_meet():
    rng = np.random.default_rng(2)
    d = rng.normal(0.15, size=200)
    assert signed_rank_p(d) == pytest.approx(stats.wilcoxon(d).pvalue, rel=0.02)


def test_holm_as_statsmodels_has_it():
    # statsmodels 0.15.0: multipletests([0.01, 0.04, 0.03, 0.005, 0.2], method="holm")[1]
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005, 0.2]), [0.04, 0.09, 0.09, 0.025, 0.2])


def test_holm_rejects_what_the_step_down_procedure_rejects():
    rng = np.random.default_rng(3)
    for _ in range(200):
        p = rng.beta(0.3, 2, size=rng.integers(1, 16))
        adjusted = holm(p)
        for alpha in (0.01, 0.05, 0.3):
            rejected = np.zeros(p.size, dtype=bool)
            for step, test in enumerate(np.argsort(p)):
                if p[test] > alpha / (p.size - step):
                    break
                rejected[test] = True
            np.testing.assert_array_equal(adjusted <= alpha, rejected)
        assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()
        assert (adjusted >= p).all()
        assert (adjusted <= 1).all()


def test_holm_is_not_a_plain_product():
    # 0.02 · 3 = 0.06 comes first, so 0.021 · 2 = 0.042 is raised to it: neither is significant at 0.05
    np.testing.assert_allclose(holm([0.021, 0.5, 0.02]), [0.06, 0.5, 0.06])


def test_pairs_of_a_table():
    rng = np.random.default_rng(4)
    values = rng.normal([0, 0.5, 1, 1.5], size=(14, 4))
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    expected = holm([stats.wilcoxon(values[:, i], values[:, j], method="exact").pvalue for i, j in pairs])
    p_values = wilcoxon_holm(values, higher_is_better=True)
    for (i, j), p in zip(pairs, expected, strict=True):
        assert p_values[i, j] == p_values[j, i] == pytest.approx(p)
    np.testing.assert_array_equal(np.diag(p_values), 1)


def test_blocks_in_which_lower_is_better_count_the_other_way():
    first, second = np.arange(1.0, 9.0), np.zeros(8)
    higher = np.array([True, False] * 4)
    values = np.column_stack([np.where(higher, first, -first), second])  # the first wins every block
    assert wilcoxon_holm(values, higher_is_better=higher)[0, 1] == 2 / 2**8
    assert wilcoxon_holm(values, higher_is_better=True)[0, 1] > 0.5


def test_decimal_differences_tie_though_binary_ones_do_not():
    tenths = np.array([[11, 2, 9, 26, 33, 8], [8, 5, 6, 0, 0, 0], [4, 1, 3, 2, 2, 2]]).T
    assert {abs(a - b) for a, b in (tenths[:3, :2] / 10).tolist()} == {0.3, 0.30000000000000004}
    whole = wilcoxon_holm(tenths, higher_is_better=True)
    np.testing.assert_array_equal(wilcoxon_holm(tenths / 10, higher_is_better=True), whole)
    np.testing.assert_array_equal(wilcoxon_holm(tenths * 1e-12, higher_is_better=True), whole)


def test_equal_methods_do_not_differ():
    assert (wilcoxon_holm(np.ones((9, 3)), higher_is_better=True) == 1).all()
    assert (wilcoxon_holm(np.zeros((9, 3)), higher_is_better=True) == 1).all()


# -- groups that are not significantly different, against a search of all subsets -------------------------------------


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


# -- the best case of every test, found by running it on methods that always keep the same order ----------------------


def clear_order(n: int, k: int) -> np.ndarray:
    """Method 0 always first, k - 1 always last, and no two differences of a pair alike."""
    return -np.arange(k) * np.linspace(1, 2, n)[:, None]


@pytest.mark.parametrize(("n", "k"), [(3, 2), (5, 6), (10, 6), (12, 4)])
def test_smallest_p_values_are_those_of_a_clear_order(n, k):
    values = clear_order(n, k)
    assert smallest_wilcoxon_p(k, n) == pytest.approx(wilcoxon_holm(values, higher_is_better=True).min())
    if k > 2:
        assert smallest_friedman_p(k, n) == pytest.approx(stats.friedmanchisquare(*values.T).pvalue)


@pytest.mark.parametrize("alpha", [0.01, 0.05])
@pytest.mark.parametrize("k", [2, 3, 6, 10])
def test_one_block_less_than_needed_is_too_few(k, alpha):
    for test, distance in (("nemenyi", nemenyi_distance), ("bonferroni-dunn", bonferroni_dunn_distance)):
        needed = blocks_needed(test, k, alpha)
        assert distance(k, needed, alpha) <= k - 1 < distance(k, max(needed - 1, 0.1), alpha)
    needed = blocks_needed("wilcoxon-holm", k, alpha)
    assert smallest_wilcoxon_p(k, needed) <= alpha < smallest_wilcoxon_p(k, needed - 1)
    needed = blocks_needed("friedman", k, alpha)
    assert smallest_friedman_p(k, needed) <= alpha < smallest_friedman_p(k, needed - 1)


@pytest.mark.parametrize("test", ["nemenyi", "wilcoxon-holm", "bonferroni-dunn"])
def test_compare_warns_exactly_where_nothing_can_be_found(test):
    control = "m0" if test == "bonferroni-dunn" else None
    for n in range(1, 14):
        found = compare(
            clear_order(n, 6), [f"m{i}" for i in range(6)], higher_is_better=True, test=test, control=control
        )
        warned = any("too few for" in sentence for sentence in found.warnings)
        assert warned == (not found.different.any())


def test_the_sentences():
    five = compare(clear_order(5, 6), list("abcdef"), higher_is_better=True, test="wilcoxon-holm")
    assert five.warnings == (
        "5 blocks are too few for Wilcoxon's test with Holm's correction ever to be significant at 0.05 with 6 "
        "methods: the smallest adjusted p-value it can give is 0.938. At least 10 are needed.",
    )
    one = compare(clear_order(1, 2), ["a", "b"], higher_is_better=True)
    assert one.warnings[:2] == (
        "1 block is too few for Friedman's test ever to be significant at 0.05 with 2 methods: "
        "the smallest p-value it can give is 0.317. At least 4 are needed.",
        "1 block is too few for Nemenyi's test ever to be significant at 0.05 with 2 methods: "
        "the critical difference 1.96 is above 1, the largest difference of mean ranks. At least 4 are needed.",
    )
