"""What was measured: one result per (experiment, dataset, noise, method, seed, fold, metric), and means over folds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# A level; where an experiment has several kinds of noise, the kind and its level, such as "flips 0.2"; None: real.
Noise = float | str | None


class Result(NamedTuple):
    """One number.

    Attributes
    ----------
    experiment : str
        Such as ``"real-world"``.
    dataset : str
        Its name in :mod:`propml.datasets`, such as ``"birds"``.
    noise : float, str or None
        The level as the paper prints it: percent of false candidates per true label for tables (50, 100, 150), the rate
        of flips for images (0.1, 0.2, 0.4), ``None`` where the candidates are real. Where an experiment has several
        kinds of noise, the kind and its level: ``"flips 0.2"``.
    method : str
        The name that the experiment gives it, which is the one its tables print.
    seed, fold : int
    metric : str
        A name of :data:`propml.metrics.METRICS`.
    value : float
        A fraction, as :func:`propml.metrics.evaluate` returns it.
    """

    experiment: str
    dataset: str
    noise: Noise
    method: str
    seed: int
    fold: int
    metric: str
    value: float


class Summary(NamedTuple):
    """Mean and standard deviation (dividing by n, as the paper's tables do) of ``n`` values, in percent."""

    mean: float
    std: float
    n: int


class Setting(NamedTuple):
    """A row of a table: one dataset at one noise level."""

    dataset: str
    noise: Noise


def summarise(results: Iterable[Result], metric: str) -> dict[tuple[Setting, str], Summary]:
    """Mean over folds and seeds for every (setting, method), in the order in which they come.

    >>> rows = [Result("toy", "birds", 50, "Ridge", 0, fold, "one_error", 0.25 + 0.5 * fold) for fold in (0, 1)]
    >>> summarise(rows, "one_error")[Setting("birds", 50), "Ridge"]
    Summary(mean=50.0, std=25.0, n=2)
    """
    values: dict[tuple[Setting, str], list[float]] = {}
    for result in results:
        if result.metric == metric:
            values.setdefault((Setting(result.dataset, result.noise), result.method), []).append(100 * result.value)
    return {key: Summary(float(np.mean(v)), float(np.std(v)), len(v)) for key, v in values.items()}
