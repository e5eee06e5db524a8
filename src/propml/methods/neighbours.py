"""Nearest neighbours by Euclidean distance: exact, in a fixed order, and never more than a block of distances at once.

All distances of a block are first taken roughly, in float32 by one matrix product. The rows that can be among the k
nearest, given the largest error that those may have, are few; only their distances are computed as they are defined.
"""

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms

from propml.methods.base import Features
from propml.methods.linear_algebra import dense
from propml.progress import progress_bar

# Rough distances that are held at once (16 MB), and entries of the differences between rows (2 MB, to stay in cache).
BLOCK = 2**22
DIFFERENCES = 2**18
# The last bits of a squared distance, which rounding errors reach; the other 32 are more than nine digits.
NOISY_BITS = 20


def nearest_rows(
    queries: Features, rows: Features, k: int, *, leave_out_self: bool = False, verbose: bool = False
) -> np.ndarray:
    """The k nearest rows of each query, nearest first, ``(n_queries, k)``.

    Distances that agree to nine digits count as equal; among equals the row that comes first is nearer. With
    ``leave_out_self`` query i is row i, which is not its own neighbour.

    >>> points = np.array([[0.0], [3.0], [1.0], [-1.0]])
    >>> nearest_rows(points[:2], points, 2)
    array([[0, 2],
           [1, 2]])
    >>> nearest_rows(points[:2], points, 2, leave_out_self=True)
    array([[2, 3],
           [2, 0]])
    """
    n_queries, n_rows = queries.shape[0], rows.shape[0]
    if not 0 <= k <= n_rows - leave_out_self:
        raise ValueError(f"k is {k}; give a number from 0 to {n_rows - leave_out_self}, the rows to choose from")
    found = np.empty((n_queries, k), dtype=np.int64)
    if k == 0:
        return found
    # Far from the origin the product would leave no digits of the distances; sparse rows must stay where they are.
    centre = rows.mean(axis=0) if isinstance(rows, np.ndarray) else None
    scale = 1.0 / (max(abs(queries).max(), abs(rows).max()) or 1.0)

    def rough(some: Features) -> Features:
        return ((some if centre is None else some - centre) * scale).astype(np.float32)

    near = rough(rows)
    squares = row_norms(near, squared=True)
    with progress_bar("nearest neighbours", n_queries, show=verbose) as bar:
        for block in gen_batches(n_queries, max(1, BLOCK // n_rows)):
            some = sp.csr_array(queries[block]) if sp.issparse(rows) else dense(queries[block])
            own = rough(some)
            lengths = row_norms(own, squared=True)
            distances = dense((own * np.float32(-2.0)) @ near.T)
            distances += squares
            distances += lengths[:, None]
            if leave_out_self:
                distances[np.arange(len(distances)), range(n_queries)[block]] = np.inf
            row, column = np.divmod(_possible(distances, lengths, k, rows.shape[1]), n_rows)
            found[block] = _first_of_each(row, column, _exact(some, rows, row, column), k)
            bar.advance(len(distances))
    return found


def _possible(distances: np.ndarray, lengths: np.ndarray, k: int, n_features: int) -> np.ndarray:
    """Flat positions of all that can be among the k nearest."""
    n, n_rows = distances.shape
    # Relative to the squared lengths: the bound for a sum of as many products, in whichever order.
    error = (n_features + 8) * float(np.finfo(np.float32).eps)
    # The k-th smallest of the minima of groups is an upper bound of the k-th smallest, at a fraction of its price.
    size = max(1, min(16, n_rows // (2 * k)))
    groups = distances[:, : n_rows // size * size].reshape(n, size, -1)
    bound = np.partition(groups.min(axis=1), k - 1, axis=1)[:, k - 1]
    return np.flatnonzero(distances <= (bound + 8 * error * (lengths + np.abs(bound)))[:, None])


def _exact(queries: Features, rows: Features, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Squared distances between pairs, by their definition."""
    entries = rows.shape[1] if isinstance(rows, np.ndarray) else 2 * rows.nnz // rows.shape[0]
    pairs = gen_batches(len(row), max(1, DIFFERENCES // max(1, entries)))
    return np.concatenate([row_norms(queries[row[p]] - rows[column[p]], squared=True) for p in pairs])


def _first_of_each(row: np.ndarray, column: np.ndarray, distances: np.ndarray, k: int) -> np.ndarray:
    """The k columns of smallest distance in each row; ``row`` and ``column`` ascend."""
    # Floats that are not negative are ordered as their bits are.
    digits = distances.view(np.int64) + (1 << (NOISY_BITS - 1)) >> NOISY_BITS
    order = np.lexsort((digits, row))
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    return column[order[starts[:, None] + np.arange(k)]]
