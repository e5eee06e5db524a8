"""PML-lc and PML-fp as a whole, against optima worked out by hand and found by a general solver."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from propml.methods.pml_lc_fp import PMLfpClassifier, PMLlcClassifier

both = pytest.mark.parametrize("method", [PMLlcClassifier, PMLfpClassifier])
C1, WEIGHT = 1.5, 0.7  # of the ranking loss, and of what ties the confidences


@both
@pytest.mark.parametrize("n", [1, 5])
def test_one_candidate_against_one_other_label(method, n):
    """Without features, W is a bias (t, −t): n C₁ (1 − 2 t)² + t² is least at t = 2 n C₁ / (1 + 4 n C₁)."""
    X, S = np.zeros((n, 1)), np.tile([1, 0], (n, 1))
    model = method(C1=C1, max_iter=50, tol=0).fit(X, S)
    t = 2 * n * C1 / (1 + 4 * n * C1)
    np.testing.assert_allclose(model.decision_function(X), np.tile([t, -t], (n, 1)), atol=1e-3)
    np.testing.assert_allclose(model.confidences_.toarray(), S)


@both
def test_two_candidates_against_one_other_label(method):
    """By symmetry W = (a, a, b) and P = (p, p, 0); with m = 1 − a + b the objective is

    C₁ p m² + a² + b² / 2 + (1 − p)²,   stationary where a = C₁ p m, b = −2 a, p = 1 − C₁ m² / 2.
    """
    model = method(C1=C1, max_iter=200, tol=0).fit(np.zeros((1, 1)), [[1, 1, 0]])
    p = brentq(lambda p: 1 - C1 / 2 / (1 + 3 * C1 * p) ** 2 - p, 0.5, 1)
    a = C1 * p / (1 + 3 * C1 * p)
    np.testing.assert_allclose(model.confidences_.toarray(), [[p, p, 0]], atol=1e-3)
    np.testing.assert_allclose(model.decision_function(np.zeros((1, 1))), [[a, a, -2 * a]], atol=1e-3)


X = np.array([[-1.0, 0.3], [-0.8, -0.2], [0.1, 0.9], [0.3, 0.7], [0.9, -0.6], [1.0, -0.9]])
S = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 1]])
ON = np.nonzero(S)


def objective(flat, structure):
    """The objective at the top of the module, in plain loops."""
    W, P = flat[:9].reshape(3, 3), np.zeros(S.shape)
    P[ON] = flat[9:]
    scores, total = np.column_stack([X, np.ones(6)]) @ W, 0.5 * np.sum(W**2) + 0.5 * np.sum((P - S) ** 2)
    for i, row in enumerate(S):
        inside, outside = np.flatnonzero(row), np.flatnonzero(row == 0)
        for j in inside:
            loss = sum(max(0.0, 1 - scores[i, j] + scores[i, k]) ** 2 for k in outside)
            total += C1 * P[i, j] * loss / (len(inside) * len(outside))
    return total + WEIGHT * structure(P)


def label_correlation(P):
    total = 0.0
    for i, row in enumerate(S):
        for j in np.flatnonzero(row):
            for k in np.flatnonzero(row):
                total += (S[:, j] & S[:, k]).sum() / S[:, j].sum() * (P[i, j] - P[i, k]) ** 2
    return total


def prototypes_of(believed):
    """The structure of PML-fp with the prototypes that these confidences make."""
    centres = [believed[:, j] @ X / believed[:, j].sum() for j in range(3)]
    squared = np.array([[np.sum((x - centre) ** 2) for centre in centres] for x in X])
    nearest = np.where(S == 1, squared, np.inf).min(axis=1, keepdims=True)
    excess = (squared - nearest) / squared[ON].mean()
    return lambda P: np.sum(P[ON] * excess[ON])


@both
def test_a_general_solver_finds_the_same_optimum(method):
    lc = method is PMLlcClassifier
    model = method(C1, WEIGHT, max_iter=300, tol=0).fit(X, S)
    believed = model.confidences_.toarray()
    structure = label_correlation if lc else prototypes_of(believed)
    ours = objective(np.concatenate([model.coef_.ravel(), believed[ON]]), structure)
    enough = [{"type": "ineq", "fun": lambda flat, i=i: flat[9:][ON[0] == i].sum() - 1} for i in range(6)]
    rng = np.random.default_rng(0)
    found = []
    for _ in range(6):
        start = np.concatenate([rng.normal(size=9), rng.random(len(ON[0]))])
        best = minimize(
            objective,
            start,
            args=(structure,),
            bounds=[(None, None)] * 9 + [(0, 1)] * len(ON[0]),
            constraints=enough,
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 1000},
        )
        found.append((best.fun, best.x))
    value, place = min(found, key=lambda each: each[0])
    assert ours == pytest.approx(value, rel=1e-4)
    assert model.objective_[-1] == pytest.approx(ours, rel=1e-4)
    np.testing.assert_allclose(model.coef_.ravel(), place[:9], atol=0.01)
    np.testing.assert_allclose(believed[ON], place[9:], atol=0.01)
    assert believed[ON].min() < 0.9  # something was disbelieved
