"""The best case of every test, found by running it on methods that always keep the same order."""

import numpy as np
import pytest
from scipy import stats

from propml.benchmark.statistics import (
    blocks_needed,
    bonferroni_dunn_distance,
    compare,
    nemenyi_distance,
    smallest_friedman_p,
    smallest_wilcoxon_p,
    wilcoxon_holm,
)


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
