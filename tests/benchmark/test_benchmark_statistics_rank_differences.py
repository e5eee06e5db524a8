"""Critical differences and p-values of mean ranks, against published tables of quantiles and simulation."""

import numpy as np
import pytest
from scipy import stats

from propml.benchmark.statistics import (
    bonferroni_dunn,
    bonferroni_dunn_distance,
    nemenyi,
    nemenyi_distance,
    rank_table,
)

# Demšar (2006), Table 5, for 2 to 10 methods; he prints 2.724 for Bonferroni-Dunn with nine, where 2.734 is right.
NEMENYI = {
    0.05: [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164],
    0.10: [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920],
}
BONFERRONI_DUNN = {
    0.05: [1.960, 2.241, 2.394, 2.498, 2.576, 2.638, 2.690, 2.734, 2.773],
    0.10: [1.645, 1.960, 2.128, 2.241, 2.326, 2.394, 2.450, 2.498, 2.539],
}


@pytest.mark.parametrize("alpha", [0.05, 0.10])
@pytest.mark.parametrize(
    ("distance", "table"), [(nemenyi_distance, NEMENYI), (bonferroni_dunn_distance, BONFERRONI_DUNN)]
)
def test_quantiles_of_demsars_table(distance, table, alpha):
    for k, q in enumerate(table[alpha], start=2):
        # k (k + 1) / 6 blocks make the factor of q one
        assert distance(k, k * (k + 1) / 6, alpha) == pytest.approx(q, abs=1.1e-3)


def test_critical_differences_in_print():
    assert nemenyi_distance(4, 14) == pytest.approx(1.25, abs=0.005)  # Demšar's example
    assert nemenyi_distance(4, 14, 0.10) == pytest.approx(1.12, abs=0.005)
    assert nemenyi_distance(6, 25) == pytest.approx(1.508, abs=5e-4)
    assert nemenyi_distance(6, 20) == pytest.approx(1.686, abs=5e-4)


def test_nemenyi_p_values_are_chances_of_ranges_of_normal_variables():
    rng = np.random.default_rng(0)
    k, n = 5, 12
    ranks = rank_table(rng.normal([0, 0, 0.3, 0.6, 1.2], size=(n, k)), higher_is_better=True)
    ranges = np.ptp(rng.normal(size=(200_000, k)), axis=1)
    p_values = nemenyi(ranks)
    for i in range(k):
        for j in range(k):
            z = abs(ranks[:, i].mean() - ranks[:, j].mean()) / np.sqrt(k * (k + 1) / (6 * n))
            simulated = (ranges >= z * np.sqrt(2)).mean()
            assert p_values[i, j] == pytest.approx(simulated, abs=0.005)
    np.testing.assert_array_equal(p_values, p_values.T)
    np.testing.assert_array_equal(np.diag(p_values), 1)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.10])
def test_p_values_and_critical_differences_agree(alpha):
    rng = np.random.default_rng(1)
    for _ in range(20):
        k, n = int(rng.integers(2, 8)), int(rng.integers(3, 30))
        ranks = rank_table(rng.normal(size=(n, k)) + np.arange(k) / 3, higher_is_better=True)
        means = ranks.mean(axis=0)
        apart = np.abs(means[:, None] - means)
        np.testing.assert_array_equal(nemenyi(ranks) <= alpha, apart >= nemenyi_distance(k, n, alpha))
        for control in range(k):
            expected = apart[control] >= bonferroni_dunn_distance(k, n, alpha)
            np.testing.assert_array_equal(bonferroni_dunn(ranks, control) <= alpha, expected)


def test_bonferroni_dunn_by_hand():
    # mean ranks 1.25, 2, 2.75 over 4 blocks: standard error √(3·4/24) = 0.7071, z = 1.0607 and 2.1213
    p_values = bonferroni_dunn([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]], 0)
    np.testing.assert_allclose(p_values, [1, 2 * 0.28884, 2 * 0.033895], atol=1e-5)


def test_two_methods_need_no_correction():
    ranks = np.array([[1.0, 2.0]] * 9 + [[2.0, 1.0]])
    expected = 2 * stats.norm.sf(0.8 * np.sqrt(10))
    assert nemenyi(ranks)[0, 1] == pytest.approx(expected)
    assert bonferroni_dunn(ranks, 0)[1] == pytest.approx(expected)


def test_clear_errors():
    with pytest.raises(ValueError, match="control is 3; expected the number of a method, 0 to 2"):
        bonferroni_dunn([[1, 2, 3]], 3)
    with pytest.raises(ValueError, match="alpha is 5; expected a level between 0 and 1"):
        nemenyi_distance(6, 25, 5)
    with pytest.raises(ValueError, match="1 methods over 25 blocks; expected two methods or more"):
        bonferroni_dunn_distance(1, 25)
