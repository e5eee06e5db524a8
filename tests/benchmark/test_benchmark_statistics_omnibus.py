"""Ranks and Friedman's test, against SciPy, an analysis of variance in plain loops, and Demšar's worked example."""

import numpy as np
import pytest
from scipy import stats

from propml.benchmark.statistics import friedman, rank_table

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
