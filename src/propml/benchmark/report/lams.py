"""Which λ was chosen where, beside the paper's, and the curves of scores over λ that an oracle run leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from propml.benchmark.figures.lambda_curves import LambdaPoint
from propml.benchmark.published import published_lams
from propml.benchmark.report.tables import order_settings
from propml.benchmark.results import Setting

if TYPE_CHECKING:
    from propml.benchmark.store import Chosen


@dataclass(frozen=True)
class ChosenLam:
    """The λ of one method in one setting, over folds and seeds.

    Attributes
    ----------
    part : str
        Which λ, for a method that has several.
    middle, least, most : float
        Median, minimum and maximum.
    n : int
    published : float or None
        The paper's, where it says.
    """

    setting: Setting
    method: str
    part: str
    middle: float
    least: float
    most: float
    n: int
    published: float | None


def chosen_lams(chosen: Sequence[Chosen], *, beside_paper: bool) -> list[ChosenLam]:
    """One line per setting and method that chose a λ."""
    values: dict[tuple[Setting, str, str], list[float]] = {}
    for row in chosen:
        for part, lam in _parts(row.chosen.get("lam")).items():
            values.setdefault((Setting(row.dataset, row.noise), row.method, part), []).append(lam)
    paper = published_lams() if beside_paper else {}
    order = order_settings(setting for setting, _, _ in values)
    return [
        ChosenLam(*key, median(lams), min(lams), max(lams), len(lams), paper.get(key[0]))
        for key, lams in sorted(values.items(), key=lambda item: order.index(item[0][0]))
    ]


def lam_points(chosen: Sequence[Chosen]) -> list[LambdaPoint]:
    """The path over λ that a search on test labels recorded."""
    return [
        LambdaPoint(row.dataset, row.noise, row.fold, step["lam"], metric, step[metric])
        for row in chosen
        for step in row.chosen.get("path") or ()
        for metric in ("average_precision",)
        if "lam" in step and step.get(metric) is not None and "order" not in step
    ]


def _parts(lam: Any) -> dict[str, float]:
    """One λ, or one of each part of a mixture.

    >>> _parts(0.1), _parts({"network": 0.1, "linear": None})
    ({'': 0.1}, {'network': 0.1})
    """
    if isinstance(lam, Mapping):
        return {str(part): float(value) for part, value in lam.items() if isinstance(value, int | float)}
    return {"": float(lam)} if isinstance(lam, int | float) else {}
