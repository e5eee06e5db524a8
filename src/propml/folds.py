"""Rows in parts: folds to learn from and to judge on, and blocks that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

# Entries of a block: 8 MB of float64, so that memory stays bounded and the block near the caches.
BLOCK_ENTRIES = 2**20


@dataclass(frozen=True)
class Fold:
    """Which rows a model is trained on, and which it never sees; ``name`` keys its random numbers."""

    train: np.ndarray
    held: np.ndarray
    name: int = 0


def make_folds(n: int, cv: int | Sequence[tuple[np.ndarray, np.ndarray]] | None, seed: int) -> list[Fold]:
    """Shuffled folds, or the given (train, held-out) pairs; one without held-out rows where ``cv`` is ``None``.

    >>> [fold.held.tolist() for fold in make_folds(4, [([0, 1], [2, 3])], seed=0)]
    [[2, 3]]
    """
    if cv is None:
        return [Fold(np.arange(n), np.arange(0), name=seed)]
    if not isinstance(cv, int):
        return [Fold(np.asarray(a), np.asarray(b), name=seed * 1000 + f) for f, (a, b) in enumerate(cv)]
    order = np.random.default_rng([seed, 5]).permutation(n)
    parts = [np.sort(part) for part in np.array_split(order, min(cv, n))]
    return [
        Fold(np.sort(np.concatenate(parts[:f] + parts[f + 1 :])), part, name=seed * 1000 + f)
        for f, part in enumerate(parts)
    ]


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices that cover the rows of a matrix, each of about :data:`BLOCK_ENTRIES` entries and of one row at least.

    >>> list(row_blocks(3, 400_000))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    step = max(1, BLOCK_ENTRIES // max(1, n_columns))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))
