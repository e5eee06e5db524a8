"""PML-NI against a plain transcription of its steps, its optimality conditions, and ridge regression."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.methods.linear_algebra import best_cuts, singular_value_threshold, soft
from propml.methods.pml_ni import PMLNIClassifier
from propml.methods.ridge import RidgeRegressionClassifier


@pytest.fixture(scope="module", params=[(90, 8), (25, 40)], ids=["tall", "wide"])
def case(request):
    n, d = request.param
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n + 20, d)) * (rng.random((n + 20, d)) < 0.6)
    S = (X @ rng.normal(size=(d, 6)) + rng.normal(size=(n + 20, 6)) > 0.5).astype(int)
    return X[:n], S[:n], X[n:]


def transcribed(X, S, lam, beta, gamma, max_iter=500):
    """The published steps, one matrix inverse and one singular value decomposition each."""
    phi = np.hstack([X, np.ones((len(X), 1))])
    U, V, L = np.zeros((3, phi.shape[1], S.shape[1]))
    mu = 1e-4
    for _ in range(max_iter):
        before = U
        inverse = np.linalg.inv(phi.T @ phi + (lam + mu) * np.eye(phi.shape[1]))
        W = inverse @ (phi.T @ S + mu * (U + V) + L)
        left, values, right = np.linalg.svd(W - V - L / mu, full_matrices=False)
        U = left @ np.diag(np.maximum(values - beta / mu, 0)) @ right
        rest = W - U - L / mu
        V = np.sign(rest) * np.maximum(np.abs(rest) - gamma / mu, 0)
        settled = mu * np.linalg.norm(U - before) / np.linalg.norm(W) < 1e-5
        equal = np.linalg.norm(W - U - V) / np.linalg.norm(W) < 1e-7
        if settled:
            mu = min(1.1 * mu, 1e10)
        L = L + mu * (U + V - W)
        if settled and equal:
            break
    return U, V


settings = pytest.mark.parametrize(
    ("lam", "beta", "gamma"),
    [(10.0, 0.5, 0.5), (1.0, 0.2, 2.0), (1.0, 2.0, 0.5), (0.1, 1.0, 0.05)],
    ids=["defaults", "sparse part off", "sparse part on", "mostly sparse"],
)


@settings
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_steps_of_the_transcription(case, form, lam, beta, gamma):
    X, S, test = case
    U, V = transcribed(X, S, lam, beta, gamma)
    model = PMLNIClassifier(lam=lam, beta=beta, gamma=gamma).fit(form(X), S)
    np.testing.assert_allclose(model.coef_, U, atol=1e-8)
    np.testing.assert_allclose(model.noise_coef_, V, atol=1e-8)
    scores = np.hstack([test, np.ones((len(test), 1))]) @ U
    np.testing.assert_allclose(model.decision_function(form(test)), scores, atol=1e-8)


@settings
def test_the_sparse_part_is_zero_unless_it_is_cheaper(case, lam, beta, gamma):
    X, S, _ = case
    noise = transcribed(X, S, lam, beta, gamma)[1]
    assert noise.any() == (gamma < beta)


@settings
def test_the_solution_is_optimal(case, lam, beta, gamma):
    """−gradient = a subgradient of β‖U‖_* and of γ‖V‖₁: that is when both proximal steps stand still."""
    X, S, _ = case
    model = PMLNIClassifier(lam=lam, beta=beta, gamma=gamma, max_iter=2000).fit(X, S)
    phi, U, V = np.hstack([X, np.ones((len(X), 1))]), model.coef_, model.noise_coef_
    gradient = phi.T @ (phi @ (U + V) - S) + lam * (U + V)
    size = np.linalg.norm(U + V)
    assert np.linalg.norm(U - singular_value_threshold(U - gradient, beta)[0]) < 1e-3 * size
    assert np.linalg.norm(V - soft(V - gradient, gamma)) < 1e-3 * size


def test_defaults_are_nearly_ridge():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(500, 20))
    S = (X @ rng.normal(size=(20, 8)) + rng.normal(size=(500, 8)) > 0.5).astype(int)
    ours, ridge = PMLNIClassifier().fit(X, S), RidgeRegressionClassifier(alpha=10.0).fit(X, S)
    difference = np.abs(ours.decision_function(X) - ridge.decision_function(X))
    assert difference.max() < 0.03
    assert (ours.predict(X) != ridge.predict(X)).mean() < 0.01


def test_without_penalties_it_is_ridge(case):
    X, S, test = case
    ours, ridge = (
        PMLNIClassifier(lam=2.0, beta=1e-9, gamma=1e-9).fit(X, S),
        RidgeRegressionClassifier(alpha=2.0).fit(X, S),
    )
    np.testing.assert_allclose(ours.decision_function(test), ridge.decision_function(test), atol=1e-5)


def test_a_strong_nuclear_norm_lowers_the_rank_and_then_leaves_nothing(case):
    X, S, _ = case
    ranks = [np.linalg.matrix_rank(PMLNIClassifier(beta=b, gamma=b).fit(X, S).coef_, tol=1e-6) for b in (0.1, 20.0)]
    assert ranks[1] < ranks[0]
    nothing = PMLNIClassifier(beta=1e4, gamma=1e4).fit(X, S)
    assert not nothing.coef_.any()
    assert np.isfinite(nothing.decision_function(X)).all()


def test_stops_before_the_limit_or_at_it(case):
    X, S, _ = case
    assert 50 < PMLNIClassifier().fit(X, S).n_iter_ < 500
    assert PMLNIClassifier(max_iter=3, verbose=True).fit(X, S).n_iter_ == 3


def test_regressed_cuts(case):
    X, S, test = case
    half, regressed = PMLNIClassifier().fit(X, S), PMLNIClassifier(cut="regression").fit(X, S)
    np.testing.assert_array_equal(half.decision_function(test), regressed.decision_function(test))
    np.testing.assert_array_equal(half.predict(test), half.decision_function(test) > 0.5)
    scores = regressed.decision_function(X)
    phi = np.hstack([scores, np.ones((len(X), 1))])
    weights = np.linalg.pinv(phi) @ best_cuts(scores, S > 0)
    new = regressed.decision_function(test)
    cuts = np.hstack([new, np.ones((len(test), 1))]) @ weights
    np.testing.assert_array_equal(regressed.predict(test), new > cuts[:, None])


def test_the_released_cut_reads_true_labels_and_scores_without_the_classifiers_bias(case):
    X, S, test = case
    truth = S * (np.random.default_rng(1).random(S.shape) < 0.5)
    model = PMLNIClassifier(cut="released").fit(X, S)
    before = model.decision_function(test)
    assert model.fit_to_truth(X, truth) is model
    np.testing.assert_array_equal(model.decision_function(test), before)
    scores = model.decision_function(X)
    weights = np.linalg.pinv(np.hstack([scores, np.ones((len(X), 1))])) @ best_cuts(scores, truth > 0, released=True)
    without_bias = test @ model.coef_[:-1]
    cuts = np.hstack([without_bias, np.ones((len(test), 1))]) @ weights
    np.testing.assert_array_equal(model.predict(test), before > cuts[:, None])


def test_a_fixed_cut_learns_nothing_from_true_labels(case):
    X, S, _ = case
    with pytest.raises(ValueError, match="cut is 'half', which learns nothing"):
        PMLNIClassifier().fit(X, S).fit_to_truth(X, S)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"lam": 0.0}, "lam is 0.0"),
        ({"beta": -1.0}, "beta is -1.0"),
        ({"gamma": 0.0}, "gamma is 0.0"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"cut": "truth"}, "cut is 'truth'"),
    ],
)
def test_bad_arguments_are_told(case, arguments, told):
    with pytest.raises(ValueError, match=told):
        PMLNIClassifier(**arguments).fit(*case[:2])
