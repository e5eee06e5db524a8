"""PML-LRS against a plain transcription of its updates, and against the minimum that they seek."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.methods.pml_lrs import PMLLRSClassifier


def problem(n, d, labels=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    S = (X @ rng.normal(size=(d, labels)) + 0.3 * rng.normal(size=(n, labels)) > 0).astype(int)
    return X, S


def svt(A, t):
    left, values, right = np.linalg.svd(A, full_matrices=False)
    return (left * np.maximum(values - t, 0)) @ right


def transcription(X, S, eta, beta, gamma, iterations):
    """The updates as they are written down, one inverse for every μ."""
    X = np.hstack([X, np.ones((len(X), 1))])
    Q, L1 = np.zeros(S.shape), np.zeros(S.shape)
    W, Z, L2 = np.zeros((3, X.shape[1], S.shape[1]))
    mu = 1e-2
    for _ in range(iterations):
        P = svt((eta * X @ W + mu * (S - Q) + L1) / (eta + mu), 1 / (eta + mu))
        A = S - P + L1 / mu
        Q = np.sign(A) * np.maximum(np.abs(A) - beta / mu, 0)
        W = np.linalg.inv(eta * X.T @ X + mu * np.eye(X.shape[1])) @ (eta * X.T @ P + mu * Z - L2)
        Z = svt(W + L2 / mu, gamma / mu)
        L1, L2, mu = L1 + mu * (S - P - Q), L2 + mu * (W - Z), min(1.1 * mu, 1e6)
    return Z


def objective(X, S, P, W, eta, beta, gamma):
    X = np.hstack([X, np.ones((len(X), 1))])
    low_rank = np.linalg.svd(P, compute_uv=False).sum() + gamma * np.linalg.svd(W, compute_uv=False).sum()
    return eta / 2 * np.sum((P - X @ W) ** 2) + low_rank + beta * np.abs(S - P).sum()


@pytest.mark.parametrize(("n", "d"), [(40, 6), (15, 40)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("iterations", [5, 60])
def test_iterations_are_those_of_the_equations(n, d, form, iterations):
    X, S = problem(n, d)
    model = PMLLRSClassifier(eta=0.5, beta=0.3, gamma=0.2, max_iter=iterations, tol=0).fit(form(X), S)
    expected = transcription(X, S, 0.5, 0.3, 0.2, iterations)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-8)


@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_constraints_are_met_and_the_residual_falls(beta):
    model = PMLLRSClassifier(beta=beta, tol=1e-6).fit(*problem(60, 8))
    residual = model.residual_
    assert residual[-1] < 1e-6
    quarters = np.minimum.accumulate(residual)[:: len(residual) // 4]
    assert np.all(quarters[1:] < 0.7 * quarters[:-1])
    assert model.n_iter_ == len(residual) == len(model.objective_) < 200


@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_objective_is_that_of_a_slow_and_exact_solution(beta):
    X, S = problem(60, 8)
    quick = PMLLRSClassifier(beta=beta).fit(X, S)
    exact = PMLLRSClassifier(beta=beta, rho=1.004, max_iter=5000, tol=1e-8).fit(X, S)
    assert quick.objective_[-1] == pytest.approx(exact.objective_[-1], rel=1e-3)


def test_nothing_near_the_solution_is_better():
    """With β = 5 no noise pays, so that P = S and the weights alone can be moved."""
    X, S = problem(50, 5)
    settings = {"eta": 0.5, "beta": 5.0, "gamma": 2.0}
    model = PMLLRSClassifier(**settings, rho=1.02, max_iter=2000, tol=1e-9).fit(X, S)
    least = objective(X, S, S, model.coef_, **settings)
    assert model.objective_[-1] == pytest.approx(least, rel=1e-6)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 1e-1):
        for _ in range(50):
            assert objective(X, S, S, model.coef_ + size * rng.normal(size=model.coef_.shape), **settings) > least


def test_a_label_of_few_rows_is_noise_below_its_beta():
    """A label with m candidates costs √m as signal and β m as noise."""
    S = np.zeros((100, 3), int)
    S[:50, 0], S[50:, 1], S[[1, 20, 60, 80, 81, 82, 83, 90, 95], 2] = 1, 1, 1
    X = np.random.default_rng(0).normal(size=(100, 2))
    assert PMLLRSClassifier(beta=0.25).fit(X, S).n_noise_ == 9
    assert PMLLRSClassifier(beta=0.6).fit(X, S).n_noise_ == 0
    assert PMLLRSClassifier(beta=0.05).fit(X, S).n_noise_ == 109


def test_quoted_settings_by_name():
    X, S = problem(40, 6)
    quoted = PMLLRSClassifier(paper=True).fit(X, S)
    given = PMLLRSClassifier(eta=1.0, beta=0.1, gamma=0.01, verbose=True).fit(X, S)
    np.testing.assert_array_equal(quoted.coef_, given.coef_)


def test_the_classifier_has_low_rank():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    S = (X[:, :1] + 0.2 * rng.normal(size=(200, 6)) > 0).astype(int)
    model = PMLLRSClassifier(gamma=10.0).fit(X, S)
    assert np.linalg.matrix_rank(model.coef_, tol=1e-8) <= 2


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"beta": 0.0}, "beta is 0.0"), ({"rho": 0.9}, "rho is 0.9"), ({"max_iter": 0}, "max_iter is 0")],
)
def test_bad_settings_are_told(settings, told):
    with pytest.raises(ValueError, match=told):
        PMLLRSClassifier(**settings).fit(*problem(10, 3))
