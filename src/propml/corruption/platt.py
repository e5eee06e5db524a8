"""Platt's sigmoid: decision values of a classifier → probabilities.

Platt (1999), "Probabilistic outputs for support vector machines"; smoothed targets and Newton's method with a line
search after Lin, Lin and Weng (2007), "A note on Platt's probabilistic outputs for support vector machines".
"""

import numpy as np
from scipy.special import expit


def smoothed_targets(positive: np.ndarray) -> np.ndarray:
    """Targets a little inside (0, 1), ``(N₊+1)/(N₊+2)`` and ``1/(N₋+2)``, so that the sigmoid stays finite."""
    n_positive = int(positive.sum())
    return np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (len(positive) - n_positive + 2))


def fit_sigmoid(decisions: np.ndarray, positive: np.ndarray, *, max_iter: int = 100) -> tuple[float, float]:
    """The slope and offset of ``P(positive | f) = 1 / (1 + exp(slope * f + offset))`` of highest likelihood.

    Parameters
    ----------
    decisions : ndarray of float, shape (n_samples,)
        Decision values on rows that the classifier did not see.
    positive : ndarray of bool, shape (n_samples,)
    max_iter : int
        Newton steps at most; about ten are needed.

    Returns
    -------
    slope, offset : float
        The slope is negative where high decision values mean "positive".
    """
    targets = smoothed_targets(positive)
    design = np.stack([decisions, np.ones_like(decisions)])
    n_positive = int(positive.sum())
    weights = np.array([0.0, np.log((len(positive) - n_positive + 1) / (n_positive + 1))])
    loss = _loss(weights @ design, targets)
    for _ in range(max_iter):
        probability = expit(-(weights @ design))
        gradient = design @ (targets - probability)
        if np.abs(gradient).max() < 1e-10 * len(positive):
            break
        hessian = (design * (probability * (1 - probability))) @ design.T
        # Least squares, since the system is singular where all decision values are equal.
        step = np.linalg.lstsq(hessian, gradient)[0]
        size = 1.0
        while (trial := _loss((weights - size * step) @ design, targets)) > loss - 1e-4 * size * (gradient @ step):
            size /= 2
            if size < 1e-10:
                return float(weights[0]), float(weights[1])
        weights, loss = weights - size * step, trial
    return float(weights[0]), float(weights[1])


def sigmoid(decisions: np.ndarray, slope: float, offset: float) -> np.ndarray:
    """``1 / (1 + exp(slope * decisions + offset))``."""
    return expit(-(slope * decisions + offset))


def _loss(exponents: np.ndarray, targets: np.ndarray) -> float:
    # The negative log likelihood −Σ t·log p + (1−t)·log(1−p), with p = 1/(1+exp(exponent)), without overflow.
    return float((np.logaddexp(0, exponents) - (1 - targets) * exponents).sum())
