"""Stage 1 of PARTICLE: labels are propagated over a graph of neighbours, and the credible ones are kept.

Every row is rebuilt from its k nearest neighbours, N(i), by non-negative least squares; the weights, divided by their
sum, are the transition matrix H. Confidences F live on the candidates only:

    w_i = argmin ‖x_i − Σ_{a∈N(i)} w_a x_a‖²,  w ≥ 0
    F⁰_ij = S_ij / |S_i|
    F ← α H F + (1 − α) F⁰,   F_ij ← S_ij F_ij / Σ_{l∈S_i} F_il        until nothing changes

A row is never judged by a graph that it is part of: the rows are dealt into folds, and those of one fold get their
credible labels from the propagation among the others,

    F_aj ← F_aj Σ_i S_ij / Σ_i F_ij
    R_t = Σ_{a∈N(t)} (1 − d(t, a) / Σ_b d(t, b)) F_a,   scaled to [0, 1] in each row
    credible_tj = S_tj [R_tj ≥ thr],   and where this is none, the candidates of largest R
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.utils import gen_batches

from propml.methods.linear_algebra import BLOCK, InnerProducts
from propml.methods.neighbours import NOISY_BITS


def nearest_outside_folds(products: InnerProducts, folds: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """For every fold and row the k nearest other rows outside the fold, and how far they are, ``(folds, samples, k)``.

    One search serves all folds; :func:`propml.methods.neighbours.nearest_rows` would compute the distances for each.
    """
    n, n_folds = products.n_rows, int(folds.max()) + 1
    neighbours = np.empty((n_folds, n, k), dtype=np.intp)
    distances = np.empty((n_folds, n, k))
    mask = (1 << max(NOISY_BITS, n.bit_length())) - 1
    for rows in gen_batches(n, max(1, BLOCK // n)):
        keys = _distance_keys(products, rows, mask)
        nearest = _smallest(keys, min(4 * k, n))
        # Nearly always the k nearest outside a fold are among the 4 k nearest; where not, all rows are sorted.
        if any(((folds[nearest & mask] != fold).sum(axis=1) < k).any() for fold in range(n_folds)):
            nearest = _smallest(keys, n)
        for fold in range(n_folds):
            outside = np.argsort(folds[nearest & mask] == fold, axis=1, kind="stable")[:, :k]
            chosen = np.take_along_axis(nearest, outside, axis=1)
            neighbours[fold, rows] = chosen & mask
            distances[fold, rows] = np.sqrt((chosen & ~mask).view(np.float64))
    return neighbours, distances


def _distance_keys(products: InnerProducts, rows: slice, mask: int) -> np.ndarray:
    """Integers that are ordered as the squared distances are, and hold the index of the row in their last bits."""
    # The bits of a positive float are ordered as the float is; rounding errors reach the last ones only.
    squared = products.squares[rows, None] + products.squares - 2 * products.block(rows)
    squared[squared < 1e-12 * products.squares[rows, None]] = 0.0
    keys = squared.view(np.int64)
    keys += (mask + 1) // 2
    keys &= ~mask
    own = np.arange(rows.start, rows.stop)
    keys[own - rows.start, own] = np.iinfo(np.int64).max & ~mask
    keys |= np.arange(products.n_rows)
    return keys


def _smallest(keys: np.ndarray, count: int) -> np.ndarray:
    """The smallest keys of each row, in order."""
    return np.sort(np.partition(keys, count - 1, axis=1)[:, :count], axis=1)


def reconstruction_weights(products: InnerProducts, rows: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Non-negative weights that rebuild each row from its neighbours, ``(n_rows, k)``, of sum 1; all equal if all 0."""
    k = neighbours.shape[1]
    weights = np.empty(neighbours.shape)
    for part in gen_batches(len(rows), max(1, BLOCK // (k + 1) ** 2)):
        inner = products.among(np.column_stack([rows[part], neighbours[part]]))
        gram, linear = inner[:, 1:, 1:], inner[:, 1:, 0]
        # Neighbours may repeat each other; a trace of ridge shares the weight among them.
        trace = np.trace(gram, axis1=1, axis2=2)
        ridge = 1e-9 * np.where(trace > 0, trace, 1.0)
        # ‖x − A'w‖² from inner products alone: with AA' = LL' it is ‖L'w − L⁻¹Ax‖² and a constant.
        lower = np.linalg.cholesky(gram + ridge[:, None, None] * np.eye(k))
        aims = np.linalg.solve(lower, linear[..., None])[..., 0]
        weights[part] = [nnls(each.T, aim)[0] for each, aim in zip(lower, aims, strict=True)]
    total = weights.sum(axis=1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1.0 / k)


def transition_matrix(products: InnerProducts, rows: np.ndarray, neighbours: np.ndarray) -> sp.csr_array:
    """H, ``(n_samples, n_samples)``: the weight of each neighbour in each of the rows; other rows are empty."""
    weights, origin = reconstruction_weights(products, rows, neighbours), np.repeat(rows, neighbours.shape[1])
    return sp.csr_array((weights.ravel(), (origin, neighbours.ravel())), shape=(products.n_rows, products.n_rows))


def propagate(
    transition: sp.csr_array, candidates: np.ndarray, alpha: float, *, tol: float = 1e-5, max_iter: int = 1000
) -> np.ndarray:
    """Confidences of the candidates after propagation, ``(n_samples, n_labels)``; each row sums to 1.

    Rows of ``transition`` without entries take no part. Here row 1 is between two that agree on the first label.

    >>> H = sp.csr_array(np.array([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]]))
    >>> propagate(H, np.array([[1, 0], [1, 1], [1, 0]]), alpha=0.5).round(2)
    array([[1.  , 0.  ],
           [0.75, 0.25],
           [1.  , 0.  ]])
    """
    start = confidence = _shared_out(candidates)
    for _ in range(max_iter):
        raised = (alpha * (transition @ confidence) + (1 - alpha) * start) * candidates
        raised /= np.maximum(raised.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        change = np.abs(raised - confidence).max(initial=0.0)
        confidence = raised
        if change < tol:
            break
    return confidence


def credible_labels(
    products: InnerProducts,
    candidates: np.ndarray,
    folds: np.ndarray,
    k: int,
    alpha: float,
    threshold: float,
    released: bool = False,
) -> np.ndarray:
    """The credible labels of every row, from the propagation among the rows of the other folds.

    With ``released``, as in that code, nothing is propagated, confidences are scaled to [0, 1] in each row, and where
    no candidate reaches the threshold, the labels that do are taken although they are no candidates.
    """
    n = products.n_rows
    k = min(k, n - int(np.bincount(folds).max()) - 1)
    candidates = candidates.astype(bool)
    if k < 1:
        return candidates
    neighbours, distances = nearest_outside_folds(products, folds, k)
    credible = np.zeros(candidates.shape, dtype=bool)
    for fold in range(len(neighbours)):
        inside = np.flatnonzero(folds == fold)
        known = candidates & (folds != fold)[:, None]
        if released:
            confidences = scaled_rows(with_class_mass(_shared_out(known), known))
        else:
            rows = np.flatnonzero(folds != fold)
            transition = transition_matrix(products, rows, neighbours[fold, rows])
            confidences = with_class_mass(propagate(transition, known, alpha), known)
        ranks = _from_neighbours(confidences, neighbours[fold, inside], distances[fold, inside])
        credible[inside] = _chosen(ranks, candidates[inside], threshold, outsiders=released)
    return credible


def _shared_out(candidates: np.ndarray) -> np.ndarray:
    """S_ij / |S_i|: every candidate of a row is as likely as the others."""
    return candidates / np.maximum(candidates.sum(axis=1, keepdims=True), 1)


def with_class_mass(confidences: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Confidences whose sum over the rows is, for each label, the number of rows that have it as a candidate."""
    mass = confidences.sum(axis=0)
    return confidences * (candidates.sum(axis=0) / np.where(mass > 0, mass, np.inf))


def _from_neighbours(confidences: np.ndarray, neighbours: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Confidences of new rows: those of their neighbours, the nearer the more, scaled to [0, 1] in each row."""
    total = distances.sum(axis=1, keepdims=True)
    nearness = 1.0 - np.divide(distances, total, out=np.zeros_like(distances), where=total > 0)
    # A single neighbour has all of the distance, and would have no say.
    nearness = nearness if distances.shape[1] > 1 else np.ones_like(nearness)
    gathered = sum(nearness[:, [place]] * confidences[neighbours[:, place]] for place in range(neighbours.shape[1]))
    return scaled_rows(np.asarray(gathered))


def scaled_rows(values: np.ndarray) -> np.ndarray:
    """Each row scaled to [0, 1]; 0 where all its values are equal."""
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    return (values - low) / np.where(high > low, high - low, 1.0)


def _chosen(ranks: np.ndarray, candidates: np.ndarray, threshold: float, outsiders: bool) -> np.ndarray:
    """The candidates that reach the threshold; where there is none, those that come nearest, or else outsiders."""
    reached = ranks >= threshold
    highest = np.where(candidates, ranks, -1.0).max(axis=1, keepdims=True)
    chosen, instead = candidates & reached, reached if outsiders else candidates & (ranks == highest)
    return np.where(chosen.any(axis=1, keepdims=True), chosen, instead)
