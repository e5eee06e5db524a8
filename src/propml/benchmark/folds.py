"""Folds of the outer cross-validation: shuffled, or stratified over all labels at once; the same for the same seed."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import KFold

from propml.targets import Candidates

Split = tuple[np.ndarray, np.ndarray]


def make_splits(candidates: Candidates, n_folds: int, *, seed: int, stratified: bool = False) -> list[Split]:
    """The (training, test) rows of every fold, each in ascending order.

    Parameters
    ----------
    candidates : Candidates
        Stratification looks at these and at no true label.
    n_folds : int
    seed : int
    stratified : bool
        By default rows are shuffled (``KFold`` of scikit-learn); with ``True``, see :func:`stratified_folds`.

    Examples
    --------
    >>> rows = Candidates.from_matrix([[1, 0], [0, 1]] * 3)
    >>> [rows[test].to_matrix().sum(axis=0).tolist() for _, test in make_splits(rows, 3, seed=0, stratified=True)]
    [[1, 1], [1, 1], [1, 1]]
    """
    n = len(candidates)
    if not 2 <= n_folds <= n:
        raise ValueError(f"folds is {n_folds} and there are {n} rows; give between 2 and {n} folds")
    if not stratified:
        return list(KFold(n_folds, shuffle=True, random_state=seed).split(np.arange(n)))
    fold_of = stratified_folds(candidates, n_folds, seed)
    return [(np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in range(n_folds)]


def stratified_folds(candidates: Candidates, n_folds: int, seed: int) -> np.ndarray:
    """The fold of each row, so that every fold holds about the same share of every candidate label.

    Iterative stratification (Sechidis, Tsoumakas, Vlahavas: *On the stratification of multi-label data*, ECML PKDD
    2011): the label with the fewest rows left is dealt out first, each of its rows to the fold that lacks most of that
    label, then to the one that lacks most rows, then by chance.

    Returns
    -------
    ndarray of int, shape (n_samples,)
    """
    rng = np.random.default_rng(seed)
    carried = candidates.to_sparse().astype(np.int64)
    rows_of = sp.csc_array(carried)
    n_rows = len(candidates)
    fold_of = np.full(n_rows, -1)
    lacking_rows = np.full(n_folds, n_rows / n_folds)
    left = np.diff(rows_of.indptr).astype(np.int64)
    lacking = np.outer(left / n_folds, np.ones(n_folds))  # (n_labels, n_folds)

    def put(row: int, fold: int) -> None:
        labels = carried.indices[carried.indptr[row] : carried.indptr[row + 1]]
        fold_of[row] = fold
        lacking[labels, fold] -= 1
        lacking_rows[fold] -= 1
        left[labels] -= 1

    while left.any():
        label = _pick(np.where(left > 0, -left, -np.inf), rng)
        rows = rows_of.indices[rows_of.indptr[label] : rows_of.indptr[label + 1]]
        for row in rng.permutation(rows[fold_of[rows] < 0]):
            most = lacking[label] >= lacking[label].max() - 1e-9
            put(row, _pick(np.where(most, lacking_rows, -np.inf), rng))
    for row in rng.permutation(np.flatnonzero(fold_of < 0)):  # rows without a candidate fill the smallest folds
        put(row, _pick(lacking_rows, rng))
    return fold_of


def _pick(values: np.ndarray, rng: np.random.Generator) -> int:
    """The place of the largest value, one of them by chance where several are alike."""
    return int(rng.choice(np.flatnonzero(values >= values.max() - 1e-9)))
