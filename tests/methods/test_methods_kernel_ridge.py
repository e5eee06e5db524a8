"""Kernel ridge regression against plain loops, scikit-learn and its own blocks."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from propml.methods import kernel_ridge
from propml.methods.kernel_ridge import KernelRidgeClassifier


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)) * (rng.random((50, 6)) < 0.5)
    return X[:35], (rng.random((35, 3)) < 0.4).astype(int), X[35:]


def test_scores_of_plain_loops(case):
    X, S, test = case

    def kernel(a, b):
        return math.exp(-0.2 * sum((p - q) ** 2 for p, q in zip(a, b, strict=True))) + 1.0

    weights = np.linalg.solve(np.array([[kernel(a, b) for b in X] for a in X]) + 0.3 * np.eye(len(X)), S)
    expected = [[sum(kernel(z, b) * weights[i, j] for i, b in enumerate(X)) for j in range(3)] for z in test]
    model = KernelRidgeClassifier(alpha=0.3, gamma=0.2).fit(X, S)
    np.testing.assert_allclose(model.decision_function(test), expected, atol=1e-10)


def test_scores_of_scikit_learn(case):
    X, S, test = case
    ours = KernelRidgeClassifier(alpha=2.0, gamma=0.1).fit(X, S)
    theirs = KernelRidge(alpha=2.0, kernel="precomputed").fit(rbf_kernel(X, gamma=0.1) + 1, S)
    np.testing.assert_allclose(ours.decision_function(test), theirs.predict(rbf_kernel(test, X, gamma=0.1) + 1))


def test_scale_is_the_width_of_an_svm(case):
    X, S, _ = case
    dense, sparse = KernelRidgeClassifier().fit(X, S), KernelRidgeClassifier().fit(sp.csr_array(X), S)
    assert dense.gamma_ == pytest.approx(SVC(gamma="scale").fit(X, S[:, 0])._gamma, rel=1e-12)
    assert sparse.gamma_ == pytest.approx(dense.gamma_, rel=1e-12)
    assert KernelRidgeClassifier().fit(np.ones((4, 2)), np.ones((4, 1))).gamma_ == 1.0


def test_blocks_change_nothing(case, monkeypatch):
    X, S, test = case
    model = KernelRidgeClassifier().fit(X, S)
    whole = model.decision_function(test)
    monkeypatch.setattr(kernel_ridge, "BLOCK", 4 * len(X))
    np.testing.assert_allclose(model.decision_function(test), whole, atol=1e-12)


def test_dense_and_sparse_rows_mix(case):
    X, S, test = case
    expected = KernelRidgeClassifier().fit(X, S).decision_function(test)
    np.testing.assert_allclose(
        KernelRidgeClassifier().fit(X, S).decision_function(sp.csr_array(test)), expected, atol=1e-10
    )
    np.testing.assert_allclose(
        KernelRidgeClassifier().fit(sp.csr_array(X), S).decision_function(test), expected, atol=1e-10
    )


def test_a_strong_penalty_leaves_nothing_and_a_weak_one_interpolates(case):
    X, S, _ = case
    assert np.abs(KernelRidgeClassifier(alpha=1e9).fit(X, S).decision_function(X)).max() < 1e-6
    different = np.unique(X, axis=0, return_index=True)[1]
    exact = KernelRidgeClassifier(alpha=1e-8, gamma=10.0).fit(X[different], S[different])
    np.testing.assert_allclose(exact.decision_function(X[different]), S[different], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"alpha": 0}, "alpha is 0"),
        ({"gamma": -1.0}, "gamma is -1.0"),
        ({"gamma": "auto"}, "gamma is 'auto'"),
    ],
)
def test_bad_arguments_are_told(case, arguments, told):
    with pytest.raises(ValueError, match=told):
        KernelRidgeClassifier(**arguments).fit(*case[:2])
