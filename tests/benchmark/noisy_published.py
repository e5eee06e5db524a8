"""Results that look like measured ones: the published numbers with seeded noise, some of them missing or failed."""

import numpy as np

from propml.benchmark.results import CellResult, Failure, FoldResult, Results
from propml.noise import Noise
from propml.paper import Mean, load_published

LAMS = (0.01, 0.03, 0.1, 0.3, 1.0)
HOSTILE = "<img src=x onerror=alert(1)>"


def at(level):
    """The noise that files write as a number."""
    return None if level is None else level if isinstance(level, Noise) else Noise.read(level)


def fold_results(experiment, dataset, noise, method, metric, values, seed=0):
    """A cell with one metric, from percentages of its folds."""
    folds = tuple(FoldResult(fold, values={metric: value / 100}) for fold, value in enumerate(values))
    return [CellResult(experiment, dataset, at(noise), method, seed, folds=folds)]


def printed(experiment, dataset, noise, method, metric, mean, std=1.0):
    """A published number."""
    return Mean(experiment, dataset, at(noise), method, metric, mean, std)


def noisy_published(experiment="artificial", datasets=("birds", "scene"), extra=("Ridge",), seed=0):
    """An experiment with all methods of the paper, others of ours, an oracle, a failure, costs and provenance."""
    rng = np.random.default_rng(seed)
    cells = []
    for row in load_published(experiment):
        if row.dataset not in datasets:
            continue
        names = {"PML-NI": ("PML-NI", *extra), "ProPML": ("ProPML", "ProPML (oracle)")}.get(row.method, (row.method,))
        for method in names:
            values = row.mean + rng.normal(0, 1.2) + rng.normal(0, 0.5, size=3)
            first = row.metric == "average_precision"
            seconds = float(rng.uniform(0.5, 90)) if first else 0.0
            folds = tuple(
                FoldResult(
                    fold,
                    values={row.metric: value / 100, f"{row.metric}:paper": (value + 0.25) / 100},
                    # All seconds in the first fold of the first metric: those of a cell are the sum over its folds.
                    seconds_fit=seconds if fold == 0 else 0.0,
                    seconds_predict=0.25 if first and fold == 0 else 0.0,
                    chosen=_choice(method, value / 100) if first and method.startswith("ProPML") else {},
                )
                for fold, value in enumerate(values)
            )
            cells.append(CellResult(experiment, row.dataset, row.noise, method, 0, folds=folds, peak_bytes=3 * 2**30))
    level = next(cell.noise for cell in cells if cell.dataset == datasets[0])
    failure = Failure("LinAlgError", f"no rank {HOSTILE}", "line 1")
    cells.append(CellResult(experiment, datasets[0], level, "fPML", 0, "k", failure=failure))
    run = {
        "run": "20250101T000000-aaaaaa",
        "propml": "0.1.0",
        "commit": "0123456789abcdef",
        "dirty": False,
        "packages": {"numpy": "2.1.0"},
        "device": "cpu",
        "started": "2025-01-01T00:00:00+00:00",
        "command": "propml benchmark run artificial --workers 2",
    }
    return Results(cells, [run])


def _choice(method, value):
    if method == "ProPML":
        return {"lam": {"network": 0.1}}
    return {"lam": 0.3, "path": [{"lam": lam, "epoch": 5, "average_precision": value - lam / 20} for lam in LAMS]}
