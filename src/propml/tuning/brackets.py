"""Hyperband's arithmetic: how many trials start together, and how many of them go on after how many epochs.

Li, Jamieson, DeSalvo, Rostamizadeh, Talwalkar: *Hyperband*, JMLR 2018; BOHB (Falkner, Klein, Hutter, ICML 2018) runs
the same brackets with proposals of a model, which here is Optuna's TPE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["ETA", "Bracket", "best_places", "brackets_of", "levels"]

# One in so many goes on, for so many times the epochs.
ETA = 3
# Rungs at most: with four the shortest training has a 27th of the epochs.
MOST_RUNGS = 4


@dataclass(frozen=True)
class Bracket:
    """Trials that start together.

    Attributes
    ----------
    size : int
        How many start.
    rungs : tuple of int
        Epochs at which they are compared; the last is the whole budget.
    """

    size: int
    rungs: tuple[int, ...]


def levels(epochs: int) -> tuple[int, ...]:
    """All epochs at which trials are compared.

    >>> levels(81), levels(10), levels(1)
    ((3, 9, 27, 81), (1, 3, 10), (1,))
    """
    found = [epochs]
    while len(found) < MOST_RUNGS and found[0] // ETA >= 1:
        found.insert(0, round(found[0] / ETA))
    return tuple(found)


def brackets_of(epochs: int) -> list[Bracket]:
    """The brackets of one round, from many trials that start short to few that train for all epochs.

    >>> [(each.size, each.rungs) for each in brackets_of(9)]
    [(9, (1, 3, 9)), (5, (3, 9)), (3, (9,))]
    """
    all_levels = levels(epochs)
    most = len(all_levels) - 1
    return [Bracket(math.ceil((most + 1) / (s + 1) * ETA**s), all_levels[most - s :]) for s in range(most, -1, -1)]


def bracket_at(epochs: int, position: int) -> Bracket:
    """The bracket to which the trial at a position belongs; its size is what is left of it from there."""
    brackets = brackets_of(epochs)
    left = position % sum(each.size for each in brackets)
    for each in brackets:
        if left < each.size:
            return Bracket(each.size - left, each.rungs)
        left -= each.size
    raise AssertionError("a position lies in one of the brackets")


def best_places(values: Sequence[float], others: Sequence[float] = ()) -> list[int]:
    """Who goes on: the best third of the values that are numbers, rounded up.

    Fewer than three trials cannot be compared with each other only: ``others`` are what earlier trials had at the same
    epoch, and a trial goes on if it is in the best third of all.

    >>> best_places([0.5, 0.9, float("nan"), 0.7]), best_places([0.5], others=[0.8, 0.9, 0.7])
    ([1], [])
    """
    finite = [place for place, value in enumerate(values) if math.isfinite(value)]
    ranked = sorted(finite, key=lambda place: -values[place])
    if len(finite) >= ETA:
        return sorted(ranked[: math.ceil(len(finite) / ETA)])
    pool = np.sort([*(values[place] for place in finite), *(v for v in others if math.isfinite(v))])[::-1]
    cut = math.ceil(len(pool) / ETA)
    return sorted(place for place in ranked if values[place] >= pool[cut - 1])
