"""fPML against a plain transcription of its updates, and what its factors mean."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.methods.fpml import FPMLClassifier

LAM1, LAM2, LAM3 = 0.7, 1.5, 4.0


def problem(n, d, labels=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    S = (X @ rng.normal(size=(d, labels)) + 0.3 * rng.normal(size=(n, labels)) > 0).astype(int)
    return X, S


def transcription(X, S, k, iterations, seed):
    """The updates as they are written down, with W and the n × n inverse formed; W and the objectives."""
    n, d = X.shape
    bias = np.hstack([X, np.ones((n, 1))])
    G, W = np.random.default_rng(seed).uniform(size=(n, k)), np.zeros((d + 1, S.shape[1]))
    objectives = []
    for _ in range(iterations):
        A = S + LAM2 * bias @ W
        inverse = np.linalg.pinv(G.T @ G)
        Q, F = A.T @ G @ inverse / (1 + LAM2), X.T @ G @ inverse
        G = (A @ Q + LAM1 * X @ F) @ np.linalg.pinv((1 + LAM2) * Q.T @ Q + LAM1 * F.T @ F)
        W = np.linalg.inv(bias.T @ bias + LAM3 / LAM2 * np.eye(d + 1)) @ bias.T @ G @ Q.T
        objectives.append(
            np.sum((S - G @ Q.T) ** 2)
            + LAM1 * np.sum((X - G @ F.T) ** 2)
            + LAM2 * np.sum((bias @ W - G @ Q.T) ** 2)
            + LAM3 * np.sum(W**2)
        )
    return W, objectives


@pytest.mark.parametrize(("n", "d"), [(40, 6), (15, 40)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_iterations_are_those_of_the_equations(n, d, form):
    X, S = problem(n, d)
    W, objectives = transcription(X, S, 5, 7, seed=3)
    model = FPMLClassifier(rank=5, lam1=LAM1, lam2=LAM2, lam3=LAM3, max_iter=7, tol=0, random_state=3).fit(form(X), S)
    np.testing.assert_allclose(model.coef_, W, atol=1e-8)
    np.testing.assert_allclose(model.objective_, objectives, rtol=1e-9)


@pytest.mark.parametrize("rank", [1, 3, 8, 60])
@pytest.mark.parametrize(("n", "d"), [(50, 8), (20, 60)])
def test_objective_never_rises(rank, n, d):
    X, S = problem(n, d, seed=rank)
    objective = FPMLClassifier(rank=rank, max_iter=60, tol=0).fit(X, S).objective_
    assert np.all(np.diff(objective) <= 1e-9 * objective[:-1])
    assert objective[-1] < objective[0]


def test_weights_are_the_ridge_regression_of_the_confidences():
    X, S = problem(40, 6)
    model = FPMLClassifier(rank=3, lam2=2.0, lam3=6.0).fit(X, S)
    confidences = model.sample_factor_ @ model.label_factor_.T
    bias = np.hstack([X, np.ones((40, 1))])
    rows = np.vstack([bias, np.sqrt(3.0) * np.eye(7)])
    expected = np.linalg.lstsq(rows, np.vstack([confidences, np.zeros((7, 4))]), rcond=None)[0]
    np.testing.assert_allclose(model.coef_, expected, atol=1e-9)


def test_false_candidates_fit_into_few_dimensions_less_well():
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=200)
    X = np.eye(3)[group] * 3 + 0.3 * rng.normal(size=(200, 3))
    truth = np.repeat(np.eye(3, dtype=int), 3, axis=1)[group]
    noise = (rng.random(truth.shape) < 0.1) & (truth == 0)
    model = FPMLClassifier(rank=3).fit(X, truth | noise)
    confidences = model.sample_factor_ @ model.label_factor_.T
    assert confidences[noise].mean() < 0.5 * confidences[truth == 1].mean()


def test_it_stops_when_the_objective_stands_still():
    X, S = problem(40, 6)
    loose, tight = FPMLClassifier(tol=1e-2).fit(X, S), FPMLClassifier(tol=1e-6).fit(X, S)
    assert loose.n_iter_ < tight.n_iter_
    falls = -np.diff(loose.objective_) / loose.objective_[:-1]
    assert falls[-1] < 1e-2
    assert np.all(falls[:-1] >= 1e-2)


def test_more_dimensions_than_rows_are_not_needed():
    X, S = problem(12, 5)
    assert FPMLClassifier(rank=50).fit(X, S).sample_factor_.shape == (12, 12)
    assert FPMLClassifier().fit(*problem(150, 5)).label_factor_.shape == (4, 100)


def test_seeds_and_progress(capsys):
    X, S = problem(40, 6)
    one, two = (FPMLClassifier(rank=2, random_state=seed, verbose=True).fit(X, S).coef_ for seed in (0, 1))
    assert not np.allclose(one, two, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"lam2": 0.0}, "lam2 is 0.0"), ({"rank": 0}, "rank is 0"), ({"max_iter": 0}, "max_iter is 0")],
)
def test_bad_settings_are_told(settings, told):
    with pytest.raises(ValueError, match=told):
        FPMLClassifier(**settings).fit(*problem(10, 3))
