"""From scores to decisions, by held-out candidates alone: sigmoid, noise rates and threshold.

Where candidates are complete, a label is a candidate of row x with probability c(x) = t(x) + (1 − t(x)) ρ: it is true,
or it is not and was proposed all the same, at the label's noise rate ρ. No c(x) lies below ρ, so a low quantile of c
over held-out rows bounds ρ from above; it is the rate itself for labels that are surely false in some rows. A label
that is frequent everywhere has a high floor without any noise, and no data can tell the two apart. So half of the floor
is taken away. ``paper/ground_choice.py`` judges share and quantile, leaving datasets out.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from torch import Tensor
from torch.nn.functional import softplus

QUANTILE = 0.1
SHARE = 0.5
# With so many labels a row, the default threshold lies half-way between those for F1 and for the Hamming loss.
HALF_WAY = 3.0
# Below the floor a label keeps this part of its probability: its order among others, not more.
BELOW = 1e-3


def noise_floor(logits: np.ndarray, quantile: float = QUANTILE) -> np.ndarray:
    """The low quantile of each label's P(candidate), ``(n_labels,)``, from its logits; NaN in rows not held out."""
    seen = np.isfinite(logits[:, 0])
    return np.quantile(1 / (1 + np.exp(-logits[seen].astype(np.float64))), quantile, axis=0)


def true_logits(logits: Tensor, rate: Tensor) -> Tensor:
    """From logits of P(candidate) to logits of P(true) = (c − ρ) / (1 − ρ); strictly increasing.

    >>> true_logits(torch.tensor([0.0]), torch.tensor([0.2])).sigmoid()  # (0.5 - 0.2) / 0.8
    tensor([0.3750])
    """
    candidate = torch.sigmoid(logits)
    true = torch.maximum((candidate - rate) / (1 - rate), BELOW * candidate)
    # 1 − P(true) = (1 − c) / (1 − ρ), without cancellation.
    return torch.log(true) + softplus(logits) + torch.log1p(-rate)


def middle_threshold(scores: np.ndarray, states: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Half-way between a row's best candidate and its best excluded label, on average.

    The best candidate of a row is nearly always true, its best excluded label surely false: the cut that separates them
    sits between true and false *candidates* too, while the cut that predicts candidates best marks the false ones as
    well. ``paper/threshold_choice.py`` has its Hamming loss beside that of the best threshold that knows the truth.
    """
    inside = np.where(states > 0, scores, -np.inf).max(axis=1)
    outside = np.where(states == 0, scores, -np.inf).max(axis=1)
    both = np.isfinite(inside) & np.isfinite(outside)
    if both.any():
        counted = None if weight is None else weight[both]
        return float(np.average((inside[both] + outside[both]) / 2, weights=counted))
    # No row has both: everything is a candidate where candidates are, so cut below them; or nothing is, so cut above.
    found = np.isfinite(inside)
    return float(scores[found].min() - 1) if found.any() else float(scores.max() + 1)


def f1_threshold(
    scores: np.ndarray, plausible: np.ndarray, weight: np.ndarray | None = None, most: int = 2_000_000
) -> float:
    """The cut with the largest expected F1 over all labels, where entry (i, j) is true with probability ``plausible``.

    At ``most`` so many entries are looked at; of more rows, every second, third, …

    >>> f1_threshold(np.array([[3.0, 1.0, -1.0]]), np.array([[0.9, 0.6, 0.0]]))  # both plausible ones: F1 = 3 / 3.5
    0.0
    """
    step = scores.size // most + 1
    order = np.argsort(-scores[::step], axis=None, kind="stable")
    ordered = scores[::step].ravel()[order]
    row = np.ones(len(scores)) if weight is None else weight
    counted = np.repeat(row[::step], scores.shape[1])[order]
    hits = np.cumsum(counted * plausible[::step].ravel()[order])
    f1 = 2 * hits / np.maximum(np.cumsum(counted) + hits[-1], 1e-12)
    # A cut lies between two scores that differ.
    f1[:-1][ordered[:-1] == ordered[1:]] = -1.0
    best = int(f1.argmax())
    below = ordered[best + 1] if best + 1 < len(ordered) else ordered[best] - 1.0
    return float((ordered[best] + below) / 2)


def balanced_threshold(
    scores: np.ndarray, f1: float, middle: float, weight: np.ndarray | None = None, half_way: float = HALF_WAY
) -> float:
    """Between the two thresholds above, the nearer to that for F1 the more labels it predicts for a row.

    Where rows have many labels, the best candidate and the best excluded label of a row are extremes, and most true
    labels lie below the middle of them. ``paper/threshold_choice.py`` judges ``HALF_WAY``, leaving datasets out.

    >>> balanced_threshold(np.array([[3.0, 2.0, 1.0, -1.0]]), f1=0.0, middle=3.0)  # three labels above 0
    1.5
    """
    labels = float(np.average((scores > f1).sum(axis=1), weights=weight))
    share = labels / (labels + half_way)
    return share * f1 + (1 - share) * middle


def candidate_sigmoid(
    scores: np.ndarray, states: np.ndarray, weight: np.ndarray | None = None, most: int = 200_000
) -> tuple[float, float]:
    """Slope and offset of the sigmoid that best predicts candidates from scores: how much a unit of score means."""
    known = states >= 0
    z, y = scores[known].astype(np.float64), (states[known] > 0).astype(np.float64)
    row = np.ones(len(states)) if weight is None else weight
    w = np.broadcast_to(row[:, None], states.shape)[known]
    z, y, w = (values[:: len(z) // most + 1] for values in (z, y, w))  # two parameters need no more
    w = w / w.mean()
    if y.min() == y.max():
        return 1.0, 0.0

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        slope, offset = parameters
        u = slope * z + offset
        error = w * (expit(u) - y)
        value = -(w * (y * log_expit(u) + (1 - y) * log_expit(-u))).mean()
        return float(value), np.array([(error * z).mean(), error.mean()])

    slope, offset = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B").x
    return float(np.clip(slope, 0.05, 20.0)), float(offset)
