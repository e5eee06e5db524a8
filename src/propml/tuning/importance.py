"""Which arguments mattered, over all trials and not only those that had the whole budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propml.tuning.spaces import Choice, Dimension, Number, Space, searched

if TYPE_CHECKING:
    from propml.tuning.result import TrialRecord

__all__ = ["Importance", "importances", "position"]

# Below so many trials nothing can be said.
FEWEST = 8
# Out of range, so that a tree can part "not there" from every value.
ABSENT = -1.0


class Importance(NamedTuple):
    """Shares that sum to one, the largest first, and on which trials they rest."""

    shares: dict[str, float]
    epoch: int
    trials: int


def importances(trials: Sequence[TrialRecord], space: Space, seed: int = 0) -> Importance | None:
    """How much worse a forest predicts the value of a trial when one argument is shuffled; None for too few trials.

    Trials are compared at one epoch: the last that at least half of them reached, since most of Hyperband's trials stop
    early. An argument that a trial does not have (a condition did not hold) is a value of its own.
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    epoch = _common_epoch(trials)
    known = [each for each in trials if math.isfinite(each.curve.get(epoch, math.nan))]
    names = searched(space)
    if len(known) < FEWEST or not names:
        return None
    X = np.array([[position(space[name], each.params.get(name)) for name in names] for each in known])
    y = np.array([each.curve[epoch] for each in known])
    if np.ptp(y) == 0:
        return None
    forest = RandomForestRegressor(64, min_samples_leaf=2, random_state=seed).fit(X, y)
    found = permutation_importance(forest, X, y, n_repeats=8, random_state=seed).importances_mean.clip(min=0)
    total = found.sum() or 1.0
    shares = sorted(zip(names, found / total, strict=True), key=lambda pair: -pair[1])
    return Importance({name: float(share) for name, share in shares}, epoch, len(known))


def _common_epoch(trials: Sequence[TrialRecord]) -> int:
    counts: dict[int, int] = {}
    for each in trials:
        for epoch in each.curve:
            counts[epoch] = counts.get(epoch, 0) + 1
    judged = sum(bool(each.curve) for each in trials)
    common = [epoch for epoch, count in counts.items() if 2 * count >= judged]
    return max(common, default=max(counts, default=0))


def position(dimension: Dimension, value: Any) -> float:
    """Where a value lies between the ends of its dimension, 0 to 1; below 0 where there is none.

    >>> position(Number(0.01, 1, log=True), 0.1), position(Choice(("a", "b", "c")), "b")
    (0.5, 0.5)
    """
    if value is None:
        return ABSENT
    if isinstance(dimension, Choice):
        if value not in dimension.values:
            return ABSENT
        return dimension.values.index(value) / max(1, len(dimension.values) - 1)
    assert isinstance(dimension, Number)
    low, high, at = (
        (math.log(each) for each in (dimension.low, dimension.high, value))
        if dimension.log
        else (dimension.low, dimension.high, value)
    )
    return float(round((at - low) / (high - low), 12))
