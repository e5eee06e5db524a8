"""The numbers that the paper printed, loaded by name so that they can stand beside ours.

``results.csv`` holds its tables of real-world, artificial and vision datasets, those of the supplement included, and
``lambdas.csv`` the λ that the supplement gives. Datasets carry the names of :mod:`propml.datasets`, metrics those of
:data:`propml.metrics.METRICS`. Three things to know before comparing: the Hamming losses of ML-kNN and CPLST come from
slips in coding (:mod:`propml.metrics.paper`), λ was picked on test labels, and the F1 columns of the vision tables mix
decision rules.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import NamedTuple

from propml.noise import Noise, Setting

__all__ = ["Mean", "load_published", "published_lams"]


class Mean(NamedTuple):
    """One number of a table, the paper's or ours, in percent.

    Attributes
    ----------
    experiment : str
        Such as ``"real-world"``.
    dataset : str
        Its name in :mod:`propml.datasets`.
    noise : Noise or None
        ``None`` for real candidates. The supervised rows of the vision tables have a flip rate of 0.
    method, metric : str
    mean, std : float
        Over folds and seeds. Our deviation divides by ``n - 1``; the paper does not say what its own divides by. The
        vision tables print none, and a single value has none: NaN.
    n : int
        Of how many values; 0 where the paper printed it.
    """

    experiment: str
    dataset: str
    noise: Noise | None
    method: str
    metric: str
    mean: float
    std: float
    n: int = 0

    @property
    def setting(self) -> Setting:
        return Setting(self.dataset, self.noise)


def load_published(experiment: str | None = None) -> list[Mean]:
    """All printed numbers, or those of one experiment, in the order of the tables.

    Parameters
    ----------
    experiment : str, optional
        ``"real-world"``, ``"artificial"`` or ``"vision"``.

    Examples
    --------
    >>> load_published("real-world")[0]
    Mean(experiment='real-world', dataset='mirflickr', noise=None, method='CPLST', metric='average_precision', \
mean=78.67, std=0.53, n=0)
    """
    rows = _results()
    if experiment is None:
        return list(rows)
    known = list(dict.fromkeys(row.experiment for row in rows))
    if experiment not in known:
        raise ValueError(f"the paper has no experiment {experiment!r}; choose from {', '.join(known)}")
    return [row for row in rows if row.experiment == experiment]


def published_lams() -> dict[Setting, float]:
    """The λ of each table row that the supplement gives: all but YeastBP's.

    >>> published_lams()[Setting("birds", Noise("svm", 0.5))]
    0.09
    """
    return {Setting(row["dataset"], _noise(row["noise"])): float(row["lam"]) for row in _read("lambdas.csv")}


@cache
def _results() -> tuple[Mean, ...]:
    return tuple(
        Mean(
            row["experiment"],
            row["dataset"],
            _noise(row["noise"]),
            row["method"],
            row["metric"],
            float(row["mean"]),
            float(row["std"] or "nan"),
        )
        for row in _read("results.csv")
    )


def _read(name: str) -> Iterator[dict[str, str]]:
    text = (resources.files("propml.paper") / name).read_text(encoding="utf-8")
    return csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def _noise(text: str) -> Noise | None:
    return Noise.read(float(text)) if text else None
