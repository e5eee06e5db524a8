"""Clean labels → candidate labels: SVM confusions, labels of neighbours, flips, fixed counts, simulated annotators.

:data:`CORRUPTIONS` has them by name, for the command line and the benchmark.
"""

from collections.abc import Callable
from typing import Any

from propml.corruption.annotators import simulated_annotators, vote_table
from propml.corruption.inputs import uncorrupted
from propml.corruption.most_probable import Realised, add_most_probable, realised_levels, realised_ratio
from propml.corruption.neighbours import neighbour_labels
from propml.corruption.random_labels import class_flips, fixed_count, fixed_fraction, independent_flips
from propml.corruption.svm import SVMConfusions, svm_confusions, svm_probabilities
from propml.targets import Candidates

__all__ = [
    "CORRUPTIONS", "NEEDS_FEATURES", "Realised", "SVMConfusions", "add_most_probable", "class_flips", "corrupt",
    "fixed_count", "fixed_fraction", "independent_flips", "neighbour_labels", "realised_levels", "realised_ratio",
    "simulated_annotators", "svm_confusions", "svm_probabilities", "uncorrupted", "vote_table",
]  # fmt: skip

CORRUPTIONS: dict[str, Callable[..., Candidates]] = {
    "svm": svm_confusions,
    "neighbours": neighbour_labels,
    "flips": independent_flips,
    "class-flips": class_flips,
    "count": fixed_count,
    "fraction": fixed_fraction,
    "annotators": simulated_annotators,
    "none": uncorrupted,
}

# These look at the features as well as at the labels.
NEEDS_FEATURES = frozenset({"svm", "neighbours"})


def corrupt(name: str, X: Any, truth: Any, **settings: Any) -> Candidates:
    """Corrupt clean labels by the name of the corruption, a key of :data:`CORRUPTIONS`; ``settings`` are its arguments.

    Only :data:`NEEDS_FEATURES` look at ``X``; the others take ``None``.

    Examples
    --------
    >>> corrupt("count", None, [[1, 0, 0]], count=2).sizes()
    array([2])
    """
    if name not in CORRUPTIONS:
        raise ValueError(f"there is no corruption named {name!r}; choose one of {', '.join(CORRUPTIONS)}")
    if name in NEEDS_FEATURES:
        if X is None:
            raise ValueError(f"the corruption {name!r} looks at the features, and X is None; give X")
        return CORRUPTIONS[name](X, truth, **settings)
    return CORRUPTIONS[name](truth, **settings)
