"""Which differences between methods are more than chance: ranks, Friedman's test, and tests of the pairs.

:func:`compare_results` does everything from a list of results or of published numbers, :func:`compare` from a table.
The parts are there to be used alone.

>>> from propml.benchmark.published import load_published
>>> metrics = ("average_precision", "coverage", "hamming_loss", "ranking_loss", "one_error")
>>> found = compare_results(load_published("real-world"), metrics)
>>> found.better_than("ProPML")
('CPLST', 'PAR-MAP', 'PAR-VLS', 'ML-kNN')
"""

from propml.benchmark.statistics.attainable import blocks_needed, smallest_friedman_p, smallest_wilcoxon_p
from propml.benchmark.statistics.comparison import TESTS, Comparison, compare, compare_results
from propml.benchmark.statistics.from_results import Blocks, blocks
from propml.benchmark.statistics.groups import cliques
from propml.benchmark.statistics.omnibus import FriedmanResult, friedman
from propml.benchmark.statistics.paired import DatasetDifference, PairedComparison, compare_pairs, sign_test
from propml.benchmark.statistics.rank_differences import (
    bonferroni_dunn,
    bonferroni_dunn_distance,
    nemenyi,
    nemenyi_distance,
)
from propml.benchmark.statistics.ranks import rank_table
from propml.benchmark.statistics.signed_ranks import holm, signed_rank_p, wilcoxon_holm

__all__ = [
    "TESTS",
    "Blocks",
    "Comparison",
    "DatasetDifference",
    "FriedmanResult",
    "PairedComparison",
    "blocks",
    "blocks_needed",
    "bonferroni_dunn",
    "bonferroni_dunn_distance",
    "cliques",
    "compare",
    "compare_pairs",
    "compare_results",
    "friedman",
    "holm",
    "nemenyi",
    "nemenyi_distance",
    "rank_table",
    "sign_test",
    "signed_rank_p",
    "smallest_friedman_p",
    "smallest_wilcoxon_p",
    "wilcoxon_holm",
]
