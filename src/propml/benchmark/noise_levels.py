"""What the noise level of an experiment means to each corruption.

An experiment with one corruption has levels that are numbers; one with several has texts that say both, such as
``"flips 0.2"``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from propml.benchmark.results import Noise

__all__ = ["LEVELS", "Level", "level_arguments", "noise_name", "noise_order", "noise_text"]


class Level(NamedTuple):
    """What a noise level is to a corruption: the argument, the number in it, the most that makes sense, the unit.

    A corruption without an argument has no level.
    """

    argument: str = ""
    of: Callable[[float], float] = float
    most: float = float("inf")
    unit: str = ""


LEVELS: dict[str, Level] = {
    "svm": Level("ratio", lambda noise: noise / 100, unit=" %"),
    "neighbours": Level("ratio", lambda noise: noise / 100, unit=" %"),
    "flips": Level("rate", float, 1.0),
    "class-flips": Level("rate", float, 0.5),
    "count": Level("count", int),
    "fraction": Level("fraction", float, 1.0),
    "annotators": Level("false_positive_rate", float, 1.0),
    "none": Level(),
}


def noise_name(corruption: str, level: float | None) -> str:
    """What an experiment with several kinds of noise calls one of them.

    >>> noise_name("flips", 0.2), noise_name("none", None)
    ('flips 0.2', 'none')
    """
    return corruption if level is None else f"{corruption} {level:g}"


def level_arguments(noise: float | str, corruption: str) -> dict[str, Any]:
    """What a level gives a corruption.

    >>> level_arguments(50, "svm"), level_arguments("flips 0.2", "flips"), level_arguments("none", "none")
    ({'ratio': 0.5}, {'rate': 0.2}, {})
    """
    level = LEVELS[corruption]
    number = noise.removeprefix(corruption) if isinstance(noise, str) else noise
    return {level.argument: level.of(float(number))} if level.argument else {}


def noise_text(noise: Noise) -> str:
    """A level as commands take it, and as it stands in files; nothing where candidates are real.

    >>> noise_text(50.0), noise_text("flips 0.2"), noise_text(None)
    ('50', 'flips 0.2', '')
    """
    return "" if noise is None else noise if isinstance(noise, str) else f"{noise:g}"


def noise_order(noise: Noise) -> tuple[int, float]:
    """To sort by: real candidates, then numbers upwards, then kind by kind in the order of :data:`LEVELS`.

    >>> sorted(["flips 0.2", "svm 100", "svm 50", 5, None], key=noise_order)
    [None, 5, 'svm 50', 'svm 100', 'flips 0.2']
    """
    if not isinstance(noise, str):
        return (-2, 0.0) if noise is None else (-1, noise)
    corruption, _, level = noise.partition(" ")
    return list(LEVELS).index(corruption), float(level or 0)
