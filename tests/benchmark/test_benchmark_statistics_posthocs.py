"""Against scikit-posthocs: values it gave once, and the package itself where it is installed."""

from types import ModuleType

import numpy as np
import pytest

from propml.benchmark.statistics import bonferroni_dunn, nemenyi, rank_table, wilcoxon_holm

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
