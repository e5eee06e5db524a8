"""Rows in parts: every row is in exactly one of them."""

import numpy as np

from propml.folds import make_folds, row_blocks


def test_folds_cover_every_row_once():
    folds = make_folds(11, 4, 0)
    assert sorted(np.concatenate([fold.held for fold in folds])) == list(range(11))
    assert all(len(np.intersect1d(fold.train, fold.held)) == 0 for fold in folds)
    assert len(make_folds(3, 5, 0)) == 3
    given = make_folds(4, [(np.array([0, 1]), np.array([2, 3]))], 0)
    assert given[0].held.tolist() == [2, 3]


def test_blocks_cover_every_row_once(monkeypatch):
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 10)
    covered = [i for rows in row_blocks(8, 3) for i in range(rows.start, rows.stop)]
    assert covered == list(range(8))
    # A block holds at least one row, however many columns there are.
    assert len(list(row_blocks(4, 1000))) == 4
