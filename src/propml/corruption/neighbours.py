"""Labels of the nearest rows: a row gains the labels of those that look like it.

    d(i, j) = distance of row i to the nearest other row that has label j,  features min-max scaled to [-1, 1];
    row i gains the labels of smallest d(i, j) that it does not have itself.

Like SVM confusions this puts false labels where they are plausible, and unlike them it needs no model: what a person
does who copies the labels of a similar item.
"""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import euclidean_distances

from propml.corruption.inputs import RandomState, add_labels, clean_labels, dense_features, generator, highest_spare
from propml.corruption.most_probable import Rounding, false_counts
from propml.folds import row_blocks
from propml.range_scaler import RangeScaler
from propml.targets import Candidates

# Squared distances are kept to so many decimals: how a machine sums them must not decide which of two rows is nearer.
DECIMALS = 8


def neighbour_labels(
    X: Any,
    truth: Any,
    ratio: float,
    *,
    rounding: Rounding = "stochastic",
    random_state: RandomState = 0,
    labels: Iterable[Hashable] | None = None,
) -> Candidates:
    """Add to each row the labels of its nearest rows that it does not have itself.

    The labels of the nearest row come first, then those of the next one, and so on until the row has its number of
    false labels. A label that no other row has is never added.

    Parameters
    ----------
    X : array-like or sparse, shape (n_samples, n_features)
        Features; scaled to [-1, 1] here. Sparse features are made dense.
    ratio : float
        False labels per true label; a row without a true label gains none.
    rounding : {"stochastic", "paper", "exact"}
        See :func:`~propml.corruption.add_most_probable`. By default each row is rounded up or down at random, so that
        the ratio holds on average also where rows have one label.
    truth, random_state, labels
        As in :func:`~propml.corruption.independent_flips`; the seed decides the rounding, and which labels come first
        among those of equally near rows.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.9], [1.0]])
    >>> truth = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]
    >>> neighbour_labels(X, truth, ratio=1.0).to_matrix()
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 1, 1],
           [0, 1, 1]], dtype=int8)
    """
    clean = clean_labels(truth, labels)
    distances = label_distances(RangeScaler().fit_transform(dense_features(X, clean)), clean)
    rng = generator(random_state)
    nearness = -_ranks(distances, rng)
    counts = false_counts(clean, nearness, ratio, rounding, rng)

    def choose(true: np.ndarray, rows: slice) -> np.ndarray:
        return highest_spare(true, nearness[rows], counts[rows]) & np.isfinite(distances[rows])

    return add_labels(clean, choose)


def label_distances(features: np.ndarray, clean: Candidates) -> np.ndarray:
    """Squared distance of each row to the nearest *other* row with each label; infinite where there is none."""
    n_rows, n_labels = clean.shape
    bearers = sp.csc_array(clean.states)
    found = np.full((n_rows, n_labels), np.inf)
    for rows in row_blocks(n_rows, n_rows):
        distances = euclidean_distances(features[rows], features, squared=True).round(DECIMALS)
        distances[np.arange(len(distances)), np.arange(n_rows)[rows]] = np.inf
        for j in range(n_labels):
            who = bearers.indices[bearers.indptr[j] : bearers.indptr[j + 1]]
            found[rows, j] = distances[:, who].min(axis=1, initial=np.inf)
    return found


def _ranks(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The place of each value in its row, smallest first; equal ones are ordered by chance."""
    order = np.lexsort((rng.random(values.shape), values), axis=1)
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, np.arange(values.shape[1], dtype=float)[None], axis=1)
    return ranks
