"""Many linear support vector machines at once, each on its own few rows of the same data.

    min ½ ‖w‖² + C Σ_i max(0, 1 − y_i w'φ_i)²,    φ = [x, 1]

In the dual this is a non-negative quadratic program on the inner products of the rows (K = φφ'):

    min ½ α' ((yy') ∘ K + I / 2C) α − 1'α,   α ≥ 0,      w = Σ_i α_i y_i φ_i

Machines on few rows are solved together, by :mod:`propml.methods.nonnegative`. Those on many rows are solved one by
one: in the dual, on the part of their rows that matters, or, where there are few features, in the weights. All three
ways are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from propml.methods.inner_products import BLOCK, InnerProducts
from propml.methods.nonnegative import nonnegative_quadratic
from propml.progress import Bar

# Machines on more rows than this are solved one by one.
MANY = 256
# Above this many rows per feature, a step in the weights is cheaper than one in the dual.
ROWS_PER_FEATURE = 8
# Rows of each sign with which a machine of many features starts.
START = 64
# A margin may fall short of 1 by this much.
SHORT = 1e-7
NEWTON_STEPS = 100
LENGTHS = 0.5 ** np.arange(12)


class Problems(NamedTuple):
    """The rows of each machine, one machine after the other.

    Attributes
    ----------
    start : ndarray of int, shape (n_machines + 1,)
        Machine m has the entries from ``start[m]`` up to ``start[m + 1]``.
    rows : ndarray of int, shape (n_entries,)
    signs : ndarray of -1.0 and 1.0, shape (n_entries,)
    """

    start: np.ndarray
    rows: np.ndarray
    signs: np.ndarray

    def sizes(self) -> np.ndarray:
        """Rows per machine."""
        return np.diff(self.start)


class Machines(NamedTuple):
    """Machines as sums over training rows.

    Attributes
    ----------
    weights : csr_array, shape (n_machines, n_samples)
        α_i y_i; the bias of a machine is the sum of its weights.
    accuracy : ndarray, shape (n_machines,)
        The part of its own rows that a machine gets right.
    """

    weights: sp.csr_array
    accuracy: np.ndarray


def train_machines(products: InnerProducts, problems: Problems, C: float, bar: Bar) -> Machines:
    """Train one machine per problem; each has rows of both signs."""
    sizes = problems.sizes()
    n = products.n_rows
    many = sizes > MANY
    weights = np.zeros(len(problems.rows))
    right = np.zeros(len(problems.rows), dtype=bool)
    few = np.flatnonzero(~many)
    few = few[np.argsort(sizes[few], kind="stable")]
    while len(few):
        # Machines of one chunk are filled up to the size of its largest, which comes last.
        fits = np.arange(1, len(few) + 1) * sizes[few].astype(float) ** 2 <= BLOCK
        count = max(1, int(fits.sum()))
        _solve_few(products, problems, few[:count], C, weights, right)
        bar.advance(count)
        few = few[count:]
    for machine in np.flatnonzero(many):
        place = slice(problems.start[machine], problems.start[machine + 1])
        tall = sizes[machine] > ROWS_PER_FEATURE * products.n_features
        solve = newton if tall else grow
        weights[place], margins = solve(products, problems.rows[place], problems.signs[place], C)
        right[place] = margins > 0
        bar.advance()
    matrix = sp.csr_array((weights, problems.rows, problems.start), shape=(len(sizes), n), copy=True)
    matrix.eliminate_zeros()
    return Machines(matrix, np.add.reduceat(right, problems.start[:-1], dtype=float) / sizes if len(sizes) else sizes)


def _entries(problems: Problems, chunk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the entries of some machines, ``(n_machines, largest)``, and which of them are not filling."""
    sizes = problems.sizes()[chunk]
    places = np.arange(sizes.max())
    real = places < sizes[:, None]
    return np.where(real, problems.start[chunk][:, None] + places, problems.start[chunk][:, None]), real


def _solve_few(
    products: InnerProducts, problems: Problems, chunk: np.ndarray, C: float, weights: np.ndarray, right: np.ndarray
) -> None:
    entries, real = _entries(problems, chunk)
    signs = np.where(real, problems.signs[entries], 0.0)
    kernel = _dual(products.among(problems.rows[entries]), signs, C)
    alphas = nonnegative_quadratic(kernel, np.where(real, 1.0, -1.0))
    margins = np.matmul(kernel, alphas[..., None])[..., 0] - 0.5 / C * alphas
    weights[entries[real]] = (alphas * signs)[real]
    right[entries[real]] = margins[real] > 0


def _dual(kernel: np.ndarray, signs: np.ndarray, C: float) -> np.ndarray:
    """(yy') ∘ (K + 1) + I / 2C, from K, which is overwritten."""
    kernel += 1.0
    kernel *= signs[:, :, None]
    kernel *= signs[:, None, :]
    diagonal = np.arange(kernel.shape[1])
    kernel[:, diagonal, diagonal] += 0.5 / C
    return kernel


def grow(products: InnerProducts, rows: np.ndarray, signs: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
    """One machine, solved on few of its rows, to which the worst of the others are added until none is short.

    The dual objective rises from each set of rows to the next: none comes back, and an end is certain.

    Returns
    -------
    weights, margins : ndarray, shape (n_rows,)
        α_i y_i, and y_i w'φ_i.
    """
    working = np.concatenate([_spread(np.flatnonzero(signs == side), START) for side in (1, -1)])
    while True:
        kernel = _dual(products.among(rows[None, working]), signs[None, working], C)
        alphas = np.zeros(len(rows))
        alphas[working] = nonnegative_quadratic(kernel, np.ones((1, len(working))))[0]
        support = np.flatnonzero(alphas)
        weights = alphas[support] * signs[support]
        margins = signs * (products.combined(rows[support], weights)[rows] + weights.sum())
        short = np.setdiff1d(np.flatnonzero(margins < 1 - SHORT), working, assume_unique=True)
        if not len(short):
            return alphas * signs, margins
        worst = short[np.argsort(margins[short], kind="stable")[: max(2 * START, len(support))]]
        working = np.union1d(support, worst)


def newton(products: InnerProducts, rows: np.ndarray, signs: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
    """One machine by Newton's method: a step is a ridge regression on the rows inside the margin.

    Takes and returns the same as :func:`grow`.
    """
    features = products.features(rows)
    w, scores = np.zeros(features.shape[1]), np.zeros(len(rows))
    loss = _objective(w, scores, signs, C)
    for _ in range(NEWTON_STEPS):
        inside = signs * scores < 1
        part = features[inside]
        gram = part.T @ part
        gram[np.diag_indices_from(gram)] += 0.5 / C
        step = scipy.linalg.solve(gram, part.T @ signs[inside], assume_a="pos") - w
        change = features @ step
        # A full step is right once the rows inside are; before, a shorter one may gain more.
        tried = [_objective(w + length * step, scores + length * change, signs, C) for length in LENGTHS]
        best = int(np.argmin(tried))
        if not loss - tried[best] > 1e-14 * loss:
            break
        w, scores, loss = w + LENGTHS[best] * step, scores + LENGTHS[best] * change, tried[best]
    # At the optimum w = Σ α_i y_i φ_i with α_i = 2C max(0, 1 − y_i w'φ_i).
    return 2 * C * signs * np.maximum(0.0, 1 - signs * scores), signs * scores


def _objective(w: np.ndarray, scores: np.ndarray, signs: np.ndarray, C: float) -> float:
    short = np.maximum(0.0, 1.0 - signs * scores)
    return 0.5 * float(w @ w) + C * float(short @ short)


def _spread(places: np.ndarray, count: int) -> np.ndarray:
    """Up to ``count`` of the places, evenly spaced."""
    return places[np.unique(np.linspace(0, len(places) - 1, min(count, len(places))).astype(int))]
