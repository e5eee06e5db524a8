"""Batched linear support vector machines, against scikit-learn's."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.svm import SVC, LinearSVC

from propml.methods import inner_products, squared_hinge
from propml.methods.inner_products import InnerProducts
from propml.methods.squared_hinge import Problems, train_machines
from propml.progress import progress_bar

# How each of the three solvers is chosen: (rows from which on machines are solved singly, rows per feature).
WAYS = {"together": (10_000, 0), "growing": (0, 10_000), "newton": (0, 0)}


def some_problems(n=160, d=6, n_machines=12, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X, planes = rng.normal(size=(n, d)), rng.normal(size=(n_machines, d))
    start, rows, signs = [0], [], []
    for plane in planes:
        chosen = rng.choice(n, rng.integers(8, n // 2), replace=False)
        side = np.sign(X[chosen] @ plane + noise * rng.normal(size=len(chosen)))
        side[:2] = 1, -1
        rows.append(chosen)
        signs.append(side)
        start.append(start[-1] + len(chosen))
    return X, Problems(np.array(start), np.concatenate(rows), np.concatenate(signs))


def trained(X, problems, C=1.0):
    with progress_bar("", 1, show=False) as bar:
        return train_machines(InnerProducts(X), problems, C, bar)


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    many, per_feature = WAYS[request.param]
    monkeypatch.setattr(squared_hinge, "MANY", many)
    monkeypatch.setattr(squared_hinge, "ROWS_PER_FEATURE", per_feature)
    monkeypatch.setattr(squared_hinge, "START", 3)
    return request.param


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_weights_and_accuracy_are_those_of_liblinear(way, C):
    X, problems = some_problems()
    machines = trained(X, problems, C)
    for m in range(len(problems.sizes())):
        place = slice(problems.start[m], problems.start[m + 1])
        rows, signs = problems.rows[place], problems.signs[place]
        reference = LinearSVC(C=C, tol=1e-10, max_iter=1_000_000).fit(X[rows], signs)
        mine = machines.weights[[m]].toarray()[0]
        np.testing.assert_allclose(mine @ X, reference.coef_[0], atol=1e-5)
        assert mine.sum() == pytest.approx(reference.intercept_[0], abs=1e-5)
        assert machines.accuracy[m] == pytest.approx(reference.score(X[rows], signs))


def test_weights_stand_only_on_the_machines_own_rows(way):
    X, problems = some_problems()
    machines = trained(X, problems)
    for m in range(len(problems.sizes())):
        own = problems.rows[problems.start[m] : problems.start[m + 1]]
        assert set(np.flatnonzero(machines.weights[[m]].toarray()[0])) <= set(own.tolist())


def test_votes_agree_with_libsvm_on_handwritten_digits():
    X, digit = load_digits(return_X_y=True)
    X, new, digit = X[:600] / 8 - 1, X[600:] / 8 - 1, digit[:600]
    start, rows, pairs = [0], [], list(itertools.combinations(range(10), 2))
    for pair in pairs:
        rows.append(np.flatnonzero(np.isin(digit, pair)))
        start.append(start[-1] + len(rows[-1]))
    signs = [np.where(digit[own] == pair[0], 1.0, -1.0) for own, pair in zip(rows, pairs, strict=True)]
    machines = trained(X, Problems(np.array(start), np.concatenate(rows), np.concatenate(signs)))
    mine = np.sign((machines.weights @ X) @ new.T + machines.weights.sum(axis=1)[:, None])
    theirs = [SVC(kernel="linear", C=1).fit(X[own], side).predict(new) for own, side in zip(rows, signs, strict=True)]
    assert (mine == np.array(theirs)).mean() > 0.97


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_products_need_not_be_kept(way, form, monkeypatch):
    X, problems = some_problems()
    expected = trained(X, problems)
    monkeypatch.setattr(inner_products, "GRAM_ROWS", 0)
    machines = trained(form(X), problems)
    np.testing.assert_allclose(machines.weights.toarray(), expected.weights.toarray(), atol=1e-8)
    np.testing.assert_array_equal(machines.accuracy, expected.accuracy)


def test_small_chunks_give_the_same(monkeypatch):
    X, problems = some_problems()
    expected = trained(X, problems).weights.toarray()
    monkeypatch.setattr(squared_hinge, "BLOCK", 1)
    np.testing.assert_allclose(trained(X, problems).weights.toarray(), expected, atol=1e-12)


def test_no_machines():
    none = Problems(np.zeros(1, dtype=int), np.zeros(0, dtype=int), np.zeros(0))
    machines = trained(np.ones((3, 2)), none)
    assert machines.weights.shape == (0, 3)
    assert len(machines.accuracy) == 0


def test_features_of_any_scale(way):
    X, problems = some_problems()
    machines = trained(1e4 * X, problems)
    assert np.isfinite(machines.weights.data).all()
    assert machines.accuracy.min() > 0.5


def test_inner_products_of_groups_are_taken_in_blocks(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 3))
    rows = np.random.default_rng(1).integers(0, 20, size=(7, 4))
    monkeypatch.setattr(inner_products, "GRAM_ROWS", 0)
    monkeypatch.setattr(inner_products, "BLOCK", 30)
    expected = np.array([[[X[a] @ X[b] for b in group] for a in group] for group in rows])
    for form in (X, sp.csr_array(X)):
        products = InnerProducts(form)
        assert products.matrix is None
        np.testing.assert_allclose(products.among(rows), expected)
        np.testing.assert_allclose(products.block(slice(2, 5)), X[2:5] @ X.T)
        np.testing.assert_allclose(products.combined(np.array([1, 3]), np.array([2.0, -1.0])), X @ (2 * X[1] - X[3]))
        np.testing.assert_allclose(products.features(np.array([4, 0])), np.hstack([X[[4, 0]], np.ones((2, 1))]))
