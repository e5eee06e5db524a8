"""What a corruption really did: false labels per true label, sizes of the candidate sets, rows left as they were."""

from typing import Any, NamedTuple

import numpy as np

from propml.corruption.inputs import clean_labels
from propml.targets import Candidates, as_candidates


class Realised(NamedTuple):
    """The outcome of a corruption.

    Attributes
    ----------
    ratio : float
        False candidates / true labels, over the whole set.
    mean_size : float
        Candidates per row.
    untouched : float
        Share of the rows whose candidates are exactly the true labels.
    missed : float
        Share of the true labels that are not candidates: 0 for all corruptions but simulated annotators.
    """

    ratio: float
    mean_size: float
    untouched: float
    missed: float


def realised_ratio(truth: Any, candidates: Any) -> Realised:
    """Compare candidates with the true labels that they were made from.

    Parameters
    ----------
    truth : array-like of 0/1, shape (n_samples, n_labels)
    candidates : Candidates or array-like of 0/1, shape (n_samples, n_labels)
        Unknown entries do not count as candidates.

    Examples
    --------
    >>> realised_ratio([[1, 0, 0], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]])
    Realised(ratio=0.5, mean_size=1.5, untouched=0.5, missed=0.0)
    """
    true = clean_labels(truth).states
    if not isinstance(candidates, Candidates):
        candidates = as_candidates(candidates, empty="ignore")
    proposed = (candidates.states > 0).astype(np.int8)
    if proposed.shape != true.shape:
        raise ValueError(
            f"the candidates have shape {proposed.shape}, the truth {true.shape}; give the same rows and labels"
        )
    n_true = int(true.sum(dtype=np.int64))
    if n_true == 0:
        raise ValueError("the truth has no true label in any row, so there is no false/true ratio")
    shared = int(true.multiply(proposed).sum(dtype=np.int64))
    n_proposed = int(proposed.sum(dtype=np.int64))
    touched = np.diff(((proposed - true) != 0).tocsr().indptr) > 0
    return Realised(
        ratio=(n_proposed - shared) / n_true,
        mean_size=n_proposed / true.shape[0],
        untouched=float(1 - touched.mean()),
        missed=(n_true - shared) / n_true,
    )
