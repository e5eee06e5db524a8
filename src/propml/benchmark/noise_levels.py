"""What the noise level of an experiment means to each corruption."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["LEVELS", "Level"]


class Level(NamedTuple):
    """What a noise level is to a corruption: the argument, the number in it, the most that makes sense, the unit."""

    argument: str
    of: Callable[[float], float]
    most: float = float("inf")
    unit: str = ""


LEVELS: dict[str, Level] = {
    "svm": Level("ratio", lambda noise: noise / 100, unit=" %"),
    "flips": Level("rate", float, 1.0),
    "count": Level("count", int),
    "fraction": Level("fraction", float, 1.0),
    "annotators": Level("false_positive_rate", float, 1.0),
}
