"""Ranks and Friedman's test, against SciPy, an analysis of variance in plain loops, and Demšar's worked example."""

from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from propml.benchmark.statistics import (
    bonferroni_dunn,
    bonferroni_dunn_distance,
    friedman,
    nemenyi,
    nemenyi_distance,
    rank_table,
    wilcoxon_holm,
)

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


@pytest.mark.parametrize(
    ("values", "higher", "message"),
    [
        ([1.0, 2.0], True, r"values have shape \(2,\); expected \(n_blocks, n_methods\) with two methods"),
        ([[1.0], [2.0]], True, r"values have shape \(2, 1\)"),
        (np.zeros((0, 3)), True, r"values have shape \(0, 3\)"),
        ([[1.0, 2.0], [3.0, np.nan]], True, "values hold nan in block 1, method 1; leave out blocks"),
        (
            [[1.0, 2.0], [3.0, 4.0]],
            [True, False, True],
            r"higher_is_better has shape \(3,\); expected one flag, or .* \(2\)",
        ),
    ],
)
def test_tables_that_cannot_be_ranked(values, higher, message):
    with pytest.raises(ValueError, match=message):
        rank_table(values, higher_is_better=higher)


def test_demsars_example():
    result = friedman(DEMSAR)
    np.testing.assert_allclose(result.mean_ranks, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    assert result.plain_statistic == pytest.approx(9.28, abs=0.005)
    # what Demšar prints comes from the plain statistic; ties make the corrected one larger
    plain_f = 13 * result.plain_statistic / (14 * 3 - result.plain_statistic)
    assert plain_f == pytest.approx(3.69, abs=0.005)
    assert result.statistic > result.plain_statistic
    assert result.iman_davenport > plain_f
    assert (result.n_blocks, result.n_methods) == (14, 4)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("n", "k"), [(4, 3), (25, 6), (60, 11)])
def test_friedman_is_scipys(n, k, ties):
    values = random_table(n, n, k, ties=ties)
    result = friedman(rank_table(values, higher_is_better=False))
    expected = stats.friedmanchisquare(*values.T)
    assert result.statistic == pytest.approx(expected.statistic)
    assert result.p_value == pytest.approx(expected.pvalue)
    assert (result.statistic == pytest.approx(result.plain_statistic)) is not ties


@pytest.mark.parametrize("ties", [False, True])
def test_iman_davenport_is_the_analysis_of_variance_of_the_ranks(ties):
    ranks = rank_table(random_table(3, 12, 5, ties=ties), higher_is_better=True)
    n, k = ranks.shape
    total = between = blocks = 0.0
    grand = ranks.mean()
    for i in range(n):
        blocks += k * (ranks[i].mean() - grand) ** 2
        for j in range(k):
            total += (ranks[i, j] - grand) ** 2
    for j in range(k):
        between += n * (ranks[:, j].mean() - grand) ** 2
    f = (between / (k - 1)) / ((total - between - blocks) / ((k - 1) * (n - 1)))
    result = friedman(ranks)
    assert result.iman_davenport == pytest.approx(f)
    assert result.iman_davenport_p == pytest.approx(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))


def test_extremes():
    agreed = friedman(np.tile([1.0, 2.0, 3.0], (5, 1)))
    assert agreed.statistic == pytest.approx(10)  # N (k - 1)
    assert (agreed.iman_davenport, agreed.iman_davenport_p) == (np.inf, 0)
    tied = friedman(np.full((5, 3), 2.0))
    assert (tied.statistic, tied.p_value, tied.iman_davenport, tied.iman_davenport_p) == (0, 1, 0, 1)
    single = friedman([[1, 2, 3]])
    assert single.statistic == pytest.approx(2)
    assert np.isnan(single.iman_davenport)


def test_two_methods_are_the_sign_test():
    # 9 wins of 10: z = (9 - 1) / √10, χ² = z²
    ranks = np.array([[1.0, 2.0]] * 9 + [[2.0, 1.0]])
    assert friedman(ranks).statistic == pytest.approx(6.4)


# -- critical differences and p-values, against published tables of quantiles and simulation --------------------------


# Demšar (2006), Table 5, for 2 to 10 methods; he prints 2.724 for Bonferroni-Dunn with nine, where 2.734 is right.
QUANTILES_NEMENYI = {
    0.05: [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164],
    0.10: [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920],
}
QUANTILES_BONFERRONI_DUNN = {
    0.05: [1.960, 2.241, 2.394, 2.498, 2.576, 2.638, 2.690, 2.734, 2.773],
    0.10: [1.645, 1.960, 2.128, 2.241, 2.326, 2.394, 2.450, 2.498, 2.539],
}


@pytest.mark.parametrize("alpha", [0.05, 0.10])
@pytest.mark.parametrize(
    ("distance", "table"),
    [(nemenyi_distance, QUANTILES_NEMENYI), (bonferroni_dunn_distance, QUANTILES_BONFERRONI_DUNN)],
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


def test_what_cannot_be_tested_is_told():
    with pytest.raises(ValueError, match="control is 3; expected the number of a method, 0 to 2"):
        bonferroni_dunn([[1, 2, 3]], 3)
    with pytest.raises(ValueError, match="alpha is 5; expected a level between 0 and 1"):
        nemenyi_distance(6, 25, 5)
    with pytest.raises(ValueError, match="1 methods over 25 blocks; expected two methods or more"):
        bonferroni_dunn_distance(1, 25)


# -- against scikit-posthocs: values it gave once, and the package itself where it is installed -----------------------


# Blocks with ties; whole numbers, so that differences are exact.
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
    ],
    dtype=float,
)


def symmetric(*upper: float) -> np.ndarray:
    matrix = np.eye(4)
    matrix[np.triu_indices(4, 1)] = upper
    return np.maximum(matrix, matrix.T)


# scikit-posthocs 0.17.1, SciPy 1.17.1: the upper triangles, row by row, of
# posthoc_nemenyi_friedman(TABLE)
NEMENYI = symmetric(
    0.6509544281320947,
    0.4080496978656374,
    0.09264312286103349,
    0.03390444417136618,
    0.0027631723368045646,
    0.8659775649526871,
)
# posthoc_siegel_friedman(TABLE): the normal p-values of mean ranks, not corrected for the number of pairs
SIEGEL = symmetric(
    0.2452781168067728,
    0.12133525035848211,
    0.02013675155034634,
    0.006706275607805576,
    0.0004908786448402844,
    0.4385780260809998,
)
# posthoc_wilcoxon(TABLE.T.tolist(), zero_method="pratt", p_adjust="holm")
WILCOXON = symmetric(0.1640625, 0.1640625, 0.046875, 0.09375, 0.046875, 0.5)


def test_values_of_scikit_posthocs():
    ranks = rank_table(TABLE, higher_is_better=False)
    np.testing.assert_allclose(nemenyi(ranks), NEMENYI, rtol=1e-8)
    np.testing.assert_allclose(wilcoxon_holm(TABLE, higher_is_better=False), WILCOXON, rtol=1e-12)
    for control in range(4):
        expected = np.minimum(1, 3 * SIEGEL[control])
        np.testing.assert_allclose(bonferroni_dunn(ranks, control), expected, rtol=1e-10)


@pytest.fixture
def posthocs() -> ModuleType:
    return pytest.importorskip("scikit_posthocs", reason="scikit-posthocs is not installed: nothing to compare with")


@pytest.mark.parametrize(("n", "k"), [(8, 3), (12, 5), (30, 6)])
def test_scikit_posthocs_itself(posthocs, n, k):
    rng = np.random.default_rng(n)
    values = rng.normal(size=(n, k)) + np.arange(k) / 2
    ranks = rank_table(values, higher_is_better=False)
    np.testing.assert_allclose(nemenyi(ranks), posthocs.posthoc_nemenyi_friedman(values), rtol=1e-6, atol=1e-12)
    expected = posthocs.posthoc_wilcoxon(values.T.tolist(), zero_method="pratt", p_adjust="holm")
    np.testing.assert_allclose(wilcoxon_holm(values, higher_is_better=False), expected, rtol=1e-9)
    pairs = posthocs.posthoc_siegel_friedman(values).to_numpy()
    for control in range(k):
        expected = np.minimum(1, (k - 1) * pairs[control])
        np.testing.assert_allclose(bonferroni_dunn(ranks, control), expected, rtol=1e-9)
