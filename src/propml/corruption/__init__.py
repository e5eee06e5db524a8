"""Clean labels → candidate labels: SVM confusions, labels of neighbours, flips, fixed counts, simulated annotators."""

from propml.corruption.annotators import simulated_annotators, vote_table
from propml.corruption.inputs import uncorrupted
from propml.corruption.most_probable import Realised, add_most_probable, realised_levels, realised_ratio
from propml.corruption.neighbours import neighbour_labels
from propml.corruption.random_labels import class_flips, fixed_count, fixed_fraction, independent_flips
from propml.corruption.registry import CORRUPTIONS, corrupt
from propml.corruption.svm import SVMConfusions, svm_confusions, svm_probabilities

__all__ = [
    "CORRUPTIONS",
    "Realised",
    "SVMConfusions",
    "add_most_probable",
    "class_flips",
    "corrupt",
    "fixed_count",
    "fixed_fraction",
    "independent_flips",
    "neighbour_labels",
    "realised_levels",
    "realised_ratio",
    "simulated_annotators",
    "svm_confusions",
    "svm_probabilities",
    "uncorrupted",
    "vote_table",
]
