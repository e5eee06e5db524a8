"""The losses and their gradients in float64, each written out from its definition; nothing of the package is used.

Every function takes a :class:`Problem` and returns the value of each row, the slope of each entry, and what an error of
either is measured by: the sum of the sizes of the terms, and what an entry counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Result = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass
class Problem:
    """Logits and states (1, 0, -1), both ``(n, C)``; λ and the order per row, weights per label."""

    z: np.ndarray
    states: np.ndarray
    lam: np.ndarray
    weight: np.ndarray
    soft: np.ndarray | None = None  # rank_loss: how much each candidate counts
    order: np.ndarray | None = None
    options: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.z = np.where(self.states < 0, 0.0, self.z)
        self.candidate = self.states == 1
        self.excluded = self.states == 0
        self.log_p, self.log_q = -np.logaddexp(0, -self.z), -np.logaddexp(0, self.z)
        self.p, self.q = np.exp(self.log_p), np.exp(self.log_q)


def with_excluded(problem: Problem, value: np.ndarray, slope: np.ndarray, size: np.ndarray, unit: np.ndarray) -> Result:
    """A term of the candidates, and -λ Σ w log(1 - p) of the excluded labels."""
    lam = problem.lam[:, None]
    outside = np.where(problem.excluded, problem.weight, 0.0) * lam
    terms = -outside * problem.log_q
    unit = np.where(problem.candidate, np.broadcast_to(unit, slope.shape), outside)
    return value + terms.sum(1), slope + outside * problem.p, size + terms.sum(1), unit


def softmax(terms: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log Σ exp over the chosen entries (0 where there are none), and the share of each."""
    kept = np.where(chosen, terms, -np.inf)
    top = kept.max(axis=1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    parts = np.exp(kept - top)
    total = parts.sum(1, keepdims=True)
    safe = np.where(total > 0, total, 1.0)
    return (np.log(safe) + top)[:, 0], parts / safe


def propml(problem: Problem) -> Result:
    counted = problem.candidate & (problem.weight > 0)
    heaviest = np.where(counted, problem.weight, 0.0).max(axis=1, initial=0.0)
    log_weight = np.log(np.where(problem.weight > 0, problem.weight, 1.0))
    # The weights last: beside a far logit they are lost.
    top = np.where(counted, problem.log_p, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    relative = problem.log_p - top + log_weight - np.log(np.where(heaviest > 0, heaviest, 1.0))[:, None]
    log_found, share = softmax(relative, counted)
    log_found = log_found + top[:, 0]
    strength = np.where(counted.any(1), heaviest, 0.0)
    size = strength * (1 + np.abs(log_found) + np.abs(np.where(counted, log_weight, 0.0)).max(1, initial=0.0))
    return with_excluded(
        problem, -strength * log_found, -strength[:, None] * share * problem.q, size, strength[:, None]
    )


def bce(problem: Problem) -> Result:
    inside = np.where(problem.candidate, problem.weight, 0.0)
    terms = -inside * problem.log_p
    return with_excluded(problem, terms.sum(1), -inside * problem.q, terms.sum(1), inside)


def asl(problem: Problem) -> Result:
    positive, negative, clip = (problem.options[name] for name in ("gamma_positive", "gamma_negative", "clip"))
    inside = np.where(problem.candidate, problem.weight, 0.0)
    outside = np.where(problem.excluded, problem.weight, 0.0) * problem.lam[:, None]
    focus = np.exp(positive * problem.log_q)
    value_in = -focus * problem.log_p
    slope_in = -focus * problem.q + positive * problem.p * focus * problem.log_p
    kept = np.maximum(problem.p - clip, 0.0)
    rest = np.minimum(problem.q + clip, 1.0)
    log_rest = np.log(rest) if clip > 0 else problem.log_q
    value_out = -(kept**negative) * log_rest
    slope_of_rest = problem.p * problem.q / rest if clip > 0 else problem.p
    with np.errstate(divide="ignore", invalid="ignore"):
        slope_of_focus = np.where(kept > 0, negative * kept ** (negative - 1) * problem.p * problem.q * log_rest, 0.0)
    slope_out = np.where(kept > 0, kept**negative, 0.0) * slope_of_rest - slope_of_focus
    if clip == 0:
        slope_out = kept**negative * (problem.p - negative * problem.q * log_rest)
    values = inside * value_in + outside * value_out
    unit = (inside + outside) * (1 + max(positive, negative))
    return values.sum(1), inside * slope_in + outside * slope_out, values.sum(1) + unit.sum(1), unit


def propall(problem: Problem) -> Result:
    counted = problem.candidate & (problem.weight > 0)
    # log(-log(1 - p)), which far below is z.
    log_each = np.where(problem.z < -37, problem.z, np.log(-np.where(problem.z < -37, -1.0, problem.log_q)))
    log_terms = log_each + np.log(np.where(problem.weight > 0, problem.weight, 1.0))
    log_s, share = softmax(log_terms, counted)
    s = np.exp(np.minimum(log_s, 700.0))
    # log(1 - exp(-s)) and its slope by log s, which is s / (exp(s) - 1).
    found = np.where(s < 1e-10, log_s - s / 2, np.log(-np.expm1(-np.maximum(s, 1e-10))))
    rate = np.where(s < 1e-10, 1.0, s / np.expm1(np.clip(s, 1e-10, 700.0)))
    slope = -rate[:, None] * share * np.exp(problem.log_p - log_each)
    some = counted.any(1)
    found, slope = np.where(some, found, 0.0), np.where(some[:, None], slope, 0.0)
    return with_excluded(problem, -found, slope, np.where(some, 1 + np.abs(found), 0.0), np.ones((1, 1)))


def power(problem: Problem) -> Result:
    assert problem.order is not None
    a = problem.order
    counted = problem.candidate & (problem.weight > 0)
    weight = np.where(counted, problem.weight, 0.0)
    size = weight.sum(1)
    safe = np.where(size > 0, size, 1.0)
    top = np.where(counted, problem.log_p, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    terms = a[:, None] * (problem.log_p - top) + np.log(np.where(counted, problem.weight, 1.0)) - np.log(safe)[:, None]
    log_mean, share = softmax(terms, counted)
    safe_a = np.where(a > 0, a, 1.0)
    strength = np.where(size > 0, safe ** (1 - a), 0.0)
    log_mean = np.where(a > 0, log_mean / safe_a + top[:, 0], (weight * problem.log_p).sum(1) / safe)
    log_weight = np.abs(np.log(np.where(counted, problem.weight, 1.0))).max(1, initial=0.0)
    scale = strength * (np.abs(log_mean) + (1 + log_weight) / safe_a)
    unit = np.where(a > 0, strength, 0.0)[:, None] + np.where(a[:, None] > 0, 0.0, weight)
    return with_excluded(problem, -strength * log_mean, -strength[:, None] * share * problem.q, scale, unit)


def rank(problem: Problem) -> Result:
    inside = np.where(problem.candidate, problem.weight * (1.0 if problem.soft is None else problem.soft), 0.0)
    outside = np.where(problem.excluded, problem.weight, 0.0)
    total = inside.sum(1, keepdims=True), outside.sum(1, keepdims=True)
    inside, outside = (
        part / np.where(whole > 0, whole, 1.0) for part, whole in zip((inside, outside), total, strict=True)
    )
    gap = np.maximum(0.0, 1 - problem.z[:, :, None] + problem.z[:, None, :])
    pairs = inside[:, :, None] * outside[:, None, :] * problem.lam[:, None, None]
    slope = (2 * pairs * gap).sum(1) - (2 * pairs * gap).sum(2)
    known = problem.candidate | problem.excluded
    middle = problem.z.sum(1, keepdims=True) / np.maximum(known.sum(1, keepdims=True), 1)
    # The sums of squares lose digits to the spread of the row.
    spread = 1 + np.abs(np.where(known, problem.z - middle, 0.0)).max(axis=1, initial=0.0)
    some = problem.lam * (pairs.sum((1, 2)) > 0)
    return (pairs * gap**2).sum((1, 2)), slope, some * spread**2, np.broadcast_to((some * spread)[:, None], slope.shape)


def unbiased(problem: Problem) -> Result:
    flip, miss = problem.options["flip_rate"], problem.options["miss_rate"]
    known = np.where(problem.states >= 0, problem.weight, 0.0) / (1 - flip - miss)
    on_true = np.where(problem.candidate, 1 - flip, -flip) * known
    on_false = np.where(problem.candidate, -miss, 1 - miss) * known
    slope = -on_true * problem.q + on_false * problem.p
    sizes = -np.abs(on_true) * problem.log_p - np.abs(on_false) * problem.log_q
    value = -(on_true * problem.log_p + on_false * problem.log_q).sum(1)
    return value, slope, sizes.sum(1), np.abs(on_true) + np.abs(on_false)


DEFINITIONS = {
    "propml": propml,
    "bce": bce,
    "asl": asl,
    "propall": propall,
    "power": power,
    "rank": rank,
    "unbiased": unbiased,
}
