"""Folds: each row is tested once, the same seed gives the same folds, and stratification does what it promises."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from propml.benchmark.cell import make_splits, stratified_folds
from propml.targets import Candidates


def some_candidates(n=300, n_labels=12, seed=0, empty=0):
    """Labels from common to rare, which occur together."""
    rng = np.random.default_rng(seed)
    matrix = (rng.random((n, n_labels)) < np.linspace(0.4, 0.03, n_labels)).astype(int)
    matrix[:, 1] |= matrix[:, 0] & (rng.random(n) < 0.5)
    matrix[matrix.sum(axis=1) == 0, 0] = 1
    matrix[:empty] = 0
    return Candidates.from_matrix(matrix, empty="ignore")


def label_counts(candidates, splits):
    """(n_folds, n_labels)"""
    matrix = candidates.to_matrix()
    return np.array([matrix[test].sum(axis=0) for _, test in splits])


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("n_folds", [2, 3, 10])
def test_every_row_is_tested_once_and_never_trained_on_then(n_folds, stratified):
    splits = make_splits(some_candidates(empty=7), n_folds, seed=1, stratified=stratified)
    assert len(splits) == n_folds
    assert np.array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(300))
    for train, test in splits:
        assert np.array_equal(np.union1d(train, test), np.arange(300))
        assert len(train) + len(test) == 300
        assert (np.diff(train) > 0).all()
        assert (np.diff(test) > 0).all()


@pytest.mark.parametrize("stratified", [False, True])
def test_the_seed_decides(stratified):
    def tests(seed):
        return [test.tolist() for _, test in make_splits(some_candidates(), 5, seed=seed, stratified=stratified)]

    assert tests(3) == tests(3)
    assert tests(3) != tests(4)


def test_shuffled_folds_are_those_of_scikit_learn():
    theirs = KFold(5, shuffle=True, random_state=0).split(np.zeros(300))
    for (train, test), (their_train, their_test) in zip(make_splits(some_candidates(), 5, seed=0), theirs, strict=True):
        assert np.array_equal(train, their_train)
        assert np.array_equal(test, their_test)


def test_labels_that_exclude_each_other_are_dealt_out_exactly():
    candidates = Candidates.from_matrix(np.repeat(np.eye(4, dtype=int), [10, 20, 5, 15], axis=0))
    counts = label_counts(candidates, make_splits(candidates, 5, seed=0, stratified=True))
    assert np.array_equal(counts, np.tile([2, 4, 1, 3], (5, 1)))


def test_stratified_folds_hold_nearly_equal_shares_of_every_label():
    candidates = some_candidates()
    ideal = candidates.to_matrix().sum(axis=0) / 5
    stratified = np.abs(label_counts(candidates, make_splits(candidates, 5, seed=0, stratified=True)) - ideal).max()
    shuffled = np.abs(label_counts(candidates, make_splits(candidates, 5, seed=0)) - ideal).max()
    assert stratified <= 2
    assert shuffled > 2 * stratified


def test_a_rare_label_is_spread_over_all_folds():
    matrix = np.ones((50, 2), dtype=int)
    matrix[5:, 1] = 0
    candidates = Candidates.from_matrix(matrix)
    counts = label_counts(candidates, make_splits(candidates, 5, seed=0, stratified=True))
    assert np.array_equal(counts[:, 1], [1] * 5)
    assert np.array_equal(counts[:, 0], [10] * 5)


def test_rows_without_a_candidate_even_out_the_sizes():
    candidates = Candidates.from_matrix([[1]] * 3 + [[0]] * 17, empty="ignore")
    fold_of = stratified_folds(candidates, 5, seed=0)
    assert np.bincount(fold_of).tolist() == [4] * 5


@pytest.mark.parametrize("n_folds", [1, 11])
def test_folds_that_cannot_be_are_told(n_folds):
    with pytest.raises(ValueError, match=f"folds is {n_folds} and there are 10 rows; give between 2 and 10"):
        make_splits(some_candidates(10), n_folds, seed=0)
