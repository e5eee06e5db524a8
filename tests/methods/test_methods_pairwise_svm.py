"""Machines on rows of their own, against scikit-learn's on the features of those rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

from propml.methods import inner_products
from propml.methods.inner_products import InnerProducts
from propml.methods.pairwise_svm import Problems, train_machines
from propml.progress import progress_bar


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


def trained(X, problems, C=1.0, tol=1e-8):
    with progress_bar("", 1, show=False) as bar:
        return train_machines(InnerProducts(X), problems, C, tol, bar)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_weights_bias_and_accuracy_are_those_of_a_linear_machine(C):
    X, problems = some_problems()
    machines = trained(X, problems, C)
    for m in range(12):
        place = slice(problems.start[m], problems.start[m + 1])
        rows, signs = problems.rows[place], problems.signs[place]
        reference = SVC(C=C, kernel="linear", tol=1e-8).fit(X[rows], signs)
        mine = machines.weights[[m]].toarray()[0]
        np.testing.assert_allclose(mine @ X, reference.coef_[0], atol=1e-5)
        assert machines.bias[m] == pytest.approx(reference.intercept_[0], abs=1e-5)
        assert machines.accuracy[m] == pytest.approx(reference.score(X[rows], signs))
        assert set(np.flatnonzero(mine)) <= set(rows.tolist())


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_products_need_not_be_kept(form, monkeypatch):
    X, problems = some_problems()
    expected = trained(X, problems)
    monkeypatch.setattr(inner_products, "GRAM_ROWS", 0)
    machines = trained(form(X), problems)
    np.testing.assert_allclose((machines.weights @ X), expected.weights @ X, atol=1e-6)
    np.testing.assert_array_equal(machines.accuracy, expected.accuracy)


def test_no_machines():
    none = Problems(np.zeros(1, dtype=int), np.zeros(0, dtype=int), np.zeros(0))
    machines = trained(np.ones((3, 2)), none)
    assert machines.weights.shape == (0, 3)
    assert len(machines.accuracy) == 0


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
