"""Clean labels → candidate labels: by SVM confusions, independent flips, fixed counts, simulated annotators."""

from propml.corruption.annotators import simulated_annotators, vote_table
from propml.corruption.counts import fixed_count, fixed_fraction
from propml.corruption.flips import independent_flips
from propml.corruption.most_probable import add_most_probable, realised_levels
from propml.corruption.registry import CORRUPTIONS, corrupt
from propml.corruption.statistics import Realised, realised_ratio
from propml.corruption.svm import SVMConfusions, svm_confusions, svm_probabilities

__all__ = [
    "CORRUPTIONS",
    "Realised",
    "SVMConfusions",
    "add_most_probable",
    "corrupt",
    "fixed_count",
    "fixed_fraction",
    "independent_flips",
    "realised_levels",
    "realised_ratio",
    "simulated_annotators",
    "svm_confusions",
    "svm_probabilities",
    "vote_table",
]
