"""Hyperband's arithmetic: how many trials start together, and how many of them go on after how many epochs.

Li, Jamieson, DeSalvo, Rostamizadeh, Talwalkar: *Hyperband*, JMLR 2018; BOHB (Falkner, Klein, Hutter, ICML 2018) runs
the same brackets with proposals of a model, which here is Optuna's TPE. Optuna's own Hyperband, which prunes single
trials, has no brackets that start together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

__all__ = ["ETA", "best_places", "bracket_at", "brackets_of", "levels"]

# One in so many goes on, for so many times the epochs.
ETA = 3
# Rungs at most: with four the shortest training has a 27th of the epochs.
MOST_RUNGS = 4


def levels(epochs: int) -> tuple[int, ...]:
    """All epochs at which trials are compared.

    >>> levels(81), levels(10), levels(1)
    ((3, 9, 27, 81), (1, 3, 10), (1,))
    """
    rungs = [epochs]
    while len(rungs) < MOST_RUNGS and rungs[0] >= ETA:
        rungs.insert(0, round(rungs[0] / ETA))
    return tuple(rungs)


def brackets_of(epochs: int) -> list[tuple[int, tuple[int, ...]]]:
    """The brackets of one round: how many trials start together, and the epochs at which they are compared.

    >>> brackets_of(9)
    [(9, (1, 3, 9)), (5, (3, 9)), (3, (9,))]
    """
    rungs = levels(epochs)
    return [
        (math.ceil(len(rungs) / (s + 1) * ETA**s), rungs[len(rungs) - 1 - s :]) for s in reversed(range(len(rungs)))
    ]


def bracket_at(epochs: int, position: int) -> tuple[int, tuple[int, ...]]:
    """The bracket of the trial at a position: how many trials are left of it from there, and its rungs."""
    for size, rungs in itertools.cycle(brackets_of(epochs)):
        if position < size:
            return size - position, rungs
        position -= size
    raise AssertionError("the brackets begin again and again")


def best_places(values: Sequence[float], others: Sequence[float] = ()) -> list[int]:
    """Who goes on: the best third of the values that are numbers, rounded up.

    Fewer than three trials cannot be compared with each other only: ``others`` are what earlier trials had at the same
    epoch, and a trial goes on if it is in the best third of all.

    >>> best_places([0.5, 0.9, float("nan"), 0.7]), best_places([0.5], others=[0.8, 0.9, 0.7])
    ([1], [])
    """
    ranked = sorted((place for place, value in enumerate(values) if math.isfinite(value)), key=lambda p: -values[p])
    if len(ranked) >= ETA:
        return sorted(ranked[: math.ceil(len(ranked) / ETA)])
    pool = sorted([*(values[place] for place in ranked), *filter(math.isfinite, others)], reverse=True)
    return sorted(place for place in ranked if values[place] >= pool[math.ceil(len(pool) / ETA) - 1])
