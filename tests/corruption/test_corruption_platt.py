"""Platt's sigmoid against a general optimiser, and on data where it could run away."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from propml.corruption.svm import fit_sigmoid


def smoothed_targets(positive):
    """Platt's targets, (N₊+1)/(N₊+2) and 1/(N₋+2)."""
    return np.where(positive, (positive.sum() + 1) / (positive.sum() + 2), 1 / ((~positive).sum() + 2))


def probabilities(decisions, slope, offset):
    return expit(-(slope * decisions + offset))


def negative_log_likelihood(weights, decisions, positive):
    probability = 1 / (1 + np.exp(weights[0] * decisions + weights[1]))
    targets = smoothed_targets(positive)
    return -(targets * np.log(probability) + (1 - targets) * np.log(1 - probability)).sum()


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_the_fit_is_the_optimum_that_a_general_optimiser_finds(share):
    rng = np.random.default_rng(0)
    positive = rng.random(400) < share
    decisions = rng.normal(size=400) + 1.5 * positive - 1
    ours = fit_sigmoid(decisions, positive)
    best = minimize(
        negative_log_likelihood,
        [-1.0, 0.0],
        (decisions, positive),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    assert ours == pytest.approx(best.x, abs=1e-5)
    assert ours[0] < 0


def test_probabilities_agree_with_scikit_learns_calibration():
    X, y = make_classification(300, 8, weights=[0.8], flip_y=0.1, random_state=0)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    held_out = cross_val_predict(SVC(), X, y, cv=folds, method="decision_function")
    ours = probabilities(SVC().fit(X, y).decision_function(X), *fit_sigmoid(held_out, y == 1))
    theirs = CalibratedClassifierCV(SVC(), cv=folds, ensemble=False).fit(X, y).predict_proba(X)[:, 1]
    assert np.abs(ours - theirs).max() < 1e-3


def test_separable_decisions_stay_finite():
    decisions = np.r_[np.full(5, 100.0), np.full(50, -100.0)]
    slope, offset = fit_sigmoid(decisions, decisions > 0)
    probability = probabilities(decisions, slope, offset)
    # With the classes apart, the optimum is the smoothed targets themselves.
    assert probability[0] == pytest.approx(6 / 7, abs=1e-6)
    assert probability[-1] == pytest.approx(1 / 52, abs=1e-6)


def test_equal_decisions_give_the_mean_of_the_targets():
    positive = np.arange(20) < 5
    slope, offset = fit_sigmoid(np.ones(20), positive)
    assert probabilities(np.ones(20), slope, offset)[0] == pytest.approx(smoothed_targets(positive).mean(), abs=1e-6)


def test_decisions_that_hardly_differ_stay_finite():
    # Beside 1e9 the differences drown in rounding.
    rng = np.random.default_rng(0)
    decisions = 1e9 + rng.normal(size=50)
    slope, offset = fit_sigmoid(decisions, rng.random(50) < 0.5)
    assert np.isfinite([slope, offset]).all()
