"""Wilcoxon's test against SciPy and against all choices of signs; Holm against his procedure step by step."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from propml.benchmark.statistics import holm, signed_rank_p, wilcoxon_holm


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
