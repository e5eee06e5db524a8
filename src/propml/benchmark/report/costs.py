"""What each method costs: time to fit and to predict, and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from propml.benchmark.report.tables import order_settings
from propml.benchmark.results import Setting

if TYPE_CHECKING:
    from propml.benchmark.store import Timing


@dataclass(frozen=True)
class MethodCost:
    """The cost of one method on one kind of device.

    Attributes
    ----------
    n_cells : int
    seconds_fit, seconds_predict : float
        Over all cells: every dataset, noise level, seed and fold.
    peak_bytes : int
        The most that any cell needed.
    by_dataset : dict
        Mean seconds to fit a cell (all of its folds), by dataset.
    """

    method: str
    device: str
    n_cells: int
    seconds_fit: float
    seconds_predict: float
    peak_bytes: int
    by_dataset: dict[str, float]


def method_costs(timings: Sequence[Timing], methods: Sequence[str]) -> list[MethodCost]:
    """One line per method and device, in the order of ``methods``."""
    groups: dict[tuple[str, str], list[Timing]] = {}
    for timing in timings:
        groups.setdefault((timing.method, timing.device), []).append(timing)
    order = list(dict.fromkeys([*methods, *(method for method, _ in groups)]))
    costs = []
    for method, device in sorted(groups, key=lambda key: (order.index(key[0]), key[1])):
        rows = groups[method, device]
        datasets = dict.fromkeys(s.dataset for s in order_settings(Setting(row.dataset, row.noise) for row in rows))
        costs.append(
            MethodCost(
                method,
                device,
                len(rows),
                sum(row.seconds_fit for row in rows),
                sum(row.seconds_predict for row in rows),
                max(row.peak_bytes for row in rows),
                {name: fmean(row.seconds_fit for row in rows if row.dataset == name) for name in datasets},
            )
        )
    return costs
