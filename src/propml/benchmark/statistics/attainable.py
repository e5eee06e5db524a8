"""What a test could find at best: with too few blocks even a method that always wins is never significantly better."""

from __future__ import annotations

import numpy as np
from scipy import stats

from propml.benchmark.statistics.rank_differences import bonferroni_dunn_distance, check_sizes, nemenyi_distance


def smallest_friedman_p(n_methods: int, n_blocks: int) -> float:
    """Friedman's p-value when every block gives the same order.

    >>> round(smallest_friedman_p(2, 3), 3)
    0.083
    """
    return float(stats.chi2.sf(n_blocks * (n_methods - 1), n_methods - 1))


def smallest_wilcoxon_p(n_methods: int, n_blocks: int) -> float:
    """The adjusted p-value of Wilcoxon's test for a method that wins every block, after Holm over all pairs.

    >>> smallest_wilcoxon_p(6, 5)  # 2 of 32 choices of signs, times 15 pairs: 0.9375
    0.9375
    """
    n_pairs = n_methods * (n_methods - 1) // 2
    return min(1.0, n_pairs * 2.0 ** (1 - n_blocks))


def blocks_needed(test: str, n_methods: int, alpha: float = 0.05) -> int:
    """The least number of blocks with which a test can find a significant difference.

    Parameters
    ----------
    test : {"friedman", "nemenyi", "bonferroni-dunn", "wilcoxon-holm"}
    n_methods : int
    alpha : float

    Examples
    --------
    >>> blocks_needed("nemenyi", 6), blocks_needed("wilcoxon-holm", 6)
    (3, 10)
    """
    check_sizes(n_methods, 1, alpha)
    if test == "friedman":
        return int(np.ceil(stats.chi2.isf(alpha, n_methods - 1) / (n_methods - 1)))
    if test == "wilcoxon-holm":
        return int(np.ceil(1 + np.log2(n_methods * (n_methods - 1) / 2 / alpha)))
    distance = nemenyi_distance if test == "nemenyi" else bonferroni_dunn_distance
    # the largest difference of mean ranks is k - 1, and CD falls with the root of the number of blocks
    return int(np.ceil((distance(n_methods, 1, alpha) / (n_methods - 1)) ** 2))


def too_few_blocks(test: str, n_methods: int, n_blocks: int, alpha: float) -> list[str]:
    """A sentence for each test that cannot find a difference with so few blocks: Friedman's, and the one named."""
    sentences = []
    for name, words in (("friedman", "Friedman's test"), (test, _WORDS[test])):
        needed = blocks_needed(name, n_methods, alpha)
        if n_blocks < needed:
            sentences.append(
                f"{n_blocks} {'block is' if n_blocks == 1 else 'blocks are'} too few for {words} ever to be "
                f"significant at {alpha:g} with {n_methods} methods: {_best_case(name, n_methods, n_blocks, alpha)}. "
                f"At least {needed} are needed."
            )
    return sentences


_WORDS = {
    "nemenyi": "Nemenyi's test",
    "bonferroni-dunn": "the Bonferroni-Dunn test",
    "wilcoxon-holm": "Wilcoxon's test with Holm's correction",
}


def _best_case(test: str, n_methods: int, n_blocks: int, alpha: float) -> str:
    if test == "friedman":
        return f"the smallest p-value it can give is {smallest_friedman_p(n_methods, n_blocks):.3g}"
    if test == "wilcoxon-holm":
        return f"the smallest adjusted p-value it can give is {smallest_wilcoxon_p(n_methods, n_blocks):.3g}"
    distance = nemenyi_distance if test == "nemenyi" else bonferroni_dunn_distance
    return (
        f"the critical difference {distance(n_methods, n_blocks, alpha):.2f} is above {n_methods - 1}, "
        "the largest difference of mean ranks"
    )
