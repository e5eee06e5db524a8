"""CPLST against its formulas written out, and against ridge regression, which it is at full code length."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.methods.cplst import CPLSTClassifier
from propml.methods.linear_algebra import RidgeSystem, with_bias
from propml.methods.ridge import RidgeRegressionClassifier


@pytest.fixture(scope="module", params=[(80, 6), (25, 60)], ids=["tall", "wide"])
def case(request):
    n, d = request.param
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n + 20, d))
    hidden = X @ rng.normal(size=(d, 3))
    S = (hidden @ rng.normal(size=(3, 7)) + rng.normal(size=(n + 20, 7)) > 0.5).astype(int)
    return X[:n], S[:n], X[n:]


def written_out(X, S, test, n_codes, lam=0.1):
    """The method as it is stated, with the n × n matrix H."""
    phi, means = np.hstack([X, np.ones((len(X), 1))]), S.mean(axis=0)
    Y = S - means
    inverse = np.linalg.inv(phi.T @ phi + lam * np.eye(phi.shape[1]))
    V = np.linalg.svd(Y.T @ phi @ inverse @ phi.T @ Y)[2][:n_codes].T
    W = inverse @ phi.T @ Y @ V
    return np.hstack([test, np.ones((len(test), 1))]) @ W @ V.T + means


def objective(X, S, V, lam=0.1):
    phi, Y = with_bias(X), S - S.mean(axis=0)
    W = RidgeSystem(phi, lam).weights(Y @ V)
    return sum(np.sum(A**2) for A in (phi @ W - Y @ V, Y - Y @ V @ V.T)) + lam * np.sum(W**2)


@pytest.mark.parametrize("n_codes", [1, 3, 7])
def test_scores_of_the_formulas(case, n_codes):
    X, S, test = case
    model = CPLSTClassifier(code_length=n_codes).fit(X, S)
    np.testing.assert_allclose(model.decision_function(test), written_out(X, S, test, n_codes), atol=1e-8)
    np.testing.assert_allclose(model.codes_.T @ model.codes_, np.eye(n_codes), atol=1e-12)


def test_full_length_is_ridge_on_centred_labels(case):
    X, S, test = case
    centred = with_bias(test) @ RidgeSystem(with_bias(X), 0.1).weights(S - S.mean(axis=0)) + S.mean(axis=0)
    np.testing.assert_allclose(CPLSTClassifier().fit(X, S).decision_function(test), centred, atol=1e-10)


def test_full_length_is_ridge_on_many_rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(2000, 5))
    S = (X @ rng.normal(size=(5, 4)) > 0.3).astype(int)
    ours, ridge = CPLSTClassifier().fit(X, S), RidgeRegressionClassifier(alpha=0.1).fit(X, S)
    # Only the penalty on the bias differs: λ / n = 0.00005.
    np.testing.assert_allclose(ours.decision_function(X), ridge.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(ours.predict(X), ridge.predict(X))


def test_codes_minimise_the_objective(case):
    X, S, _ = case
    ours = objective(X, S, CPLSTClassifier(code_length=2).fit(X, S).codes_)
    rng = np.random.default_rng(0)
    others = [objective(X, S, np.linalg.qr(rng.normal(size=(7, 2)))[0]) for _ in range(200)]
    principal = np.linalg.svd(S - S.mean(axis=0))[2][:2].T
    assert ours <= min(*others, objective(X, S, principal)) + 1e-9


def test_one_code_for_two_labels_by_brute_force(case):
    X, S, _ = case
    S = S[:, :2]
    angles = np.linspace(0, np.pi, 721)
    best = min(objective(X, S, np.array([[np.cos(a)], [np.sin(a)]])) for a in angles)
    ours = objective(X, S, CPLSTClassifier(code_length=1).fit(X, S).codes_)
    assert best - 1e-3 * abs(best) <= ours <= best


def test_longer_codes_never_raise_the_objective(case):
    X, S, _ = case
    values = [objective(X, S, CPLSTClassifier(code_length=m).fit(X, S).codes_) for m in range(1, 8)]
    assert (np.diff(values) <= 1e-9).all()


def test_the_coding_of_the_reference_predicts_the_same(case):
    X, S, test = case
    signed = written_out(X, 2 * S - 1, test, 3)
    np.testing.assert_array_equal(CPLSTClassifier(code_length=3).fit(X, S).predict(test), signed > 0)


def test_scores_have_as_many_dimensions_as_codes(case):
    X, S, test = case
    model = CPLSTClassifier(code_length=2).fit(X, S)
    assert np.linalg.matrix_rank(model.decision_function(test) - model.means_, tol=1e-8) == 2


def test_sparse_and_dense_agree(case):
    X, S, test = case
    dense = CPLSTClassifier(code_length=3).fit(X, S).decision_function(test)
    sparse = CPLSTClassifier(code_length=3).fit(sp.csr_array(X), S).decision_function(sp.csr_array(test))
    np.testing.assert_allclose(sparse, dense, atol=1e-8)


@pytest.mark.parametrize(("length", "n_codes"), [(None, 7), (0.5, 4), (1.0, 7), (0.01, 1), (5, 5)])
def test_code_length_as_number_and_fraction(case, length, n_codes):
    model = CPLSTClassifier(code_length=length).fit(*case[:2])
    assert model.coef_.shape == (case[0].shape[1] + 1, n_codes)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"code_length": 8}, "code_length is 8 for 7 labels"),
        ({"code_length": 0}, "code_length is 0"),
        ({"code_length": 1.5}, "code_length is 1.5"),
        ({"lam": 0.0}, "lam is 0.0"),
    ],
)
def test_bad_arguments_are_told(case, arguments, told):
    with pytest.raises(ValueError, match=told):
        CPLSTClassifier(**arguments).fit(*case[:2])
