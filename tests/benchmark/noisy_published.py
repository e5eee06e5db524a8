"""Results that look like measured ones: the published numbers with seeded noise, some of them missing or failed."""

import numpy as np

from propml.benchmark.published import load_published
from propml.benchmark.report.measured import Measured
from propml.benchmark.results import Result
from propml.benchmark.store import Chosen, Failure, Timing

LAMS = (0.01, 0.03, 0.1, 0.3, 1.0)
HOSTILE = "<img src=x onerror=alert(1)>"


def fold_results(experiment, dataset, noise, method, metric, values, seed=0):
    """One result per fold, from percentages."""
    return [Result(experiment, dataset, noise, method, seed, i, metric, v / 100) for i, v in enumerate(values)]


def noisy_published(experiment="artificial", datasets=("birds", "scene"), extra=("Ridge",), seed=0):
    """An experiment with all methods of the paper, others of ours, an oracle, a failure, costs and provenance."""
    rng = np.random.default_rng(seed)
    results, timings, chosen = [], [], []
    for row in load_published(experiment):
        if row.dataset not in datasets:
            continue
        names = {"PML-NI": ("PML-NI", *extra), "ProPML": ("ProPML", "ProPML (oracle)")}.get(row.method, (row.method,))
        for method in names:
            values = row.mean + rng.normal(0, 1.2) + rng.normal(0, 0.5, size=3)
            identity = (experiment, row.dataset, row.noise, method)
            results += fold_results(*identity, row.metric, values)
            results += fold_results(*identity, f"{row.metric}:paper", values + 0.25)
            if row.metric != "average_precision":
                continue
            timings.append(Timing(*identity, 0, float(rng.uniform(0.5, 90)), 0.25, 3 * 2**30, "cpu"))
            if method.startswith("ProPML"):
                chosen += [
                    Chosen(*identity, 0, fold, _choice(method, value / 100)) for fold, value in enumerate(values)
                ]
    level = next(row.noise for row in results if row.dataset == datasets[0])
    failures = [Failure(experiment, datasets[0], level, "fPML", 0, f"no rank {HOSTILE}", "LinAlgError", "line 1", "k")]
    provenance = [
        {
            "run": "20250101T000000-aaaaaa",
            "propml": "0.1.0",
            "commit": "0123456789abcdef",
            "dirty": False,
            "packages": {"numpy": "2.1.0"},
            "device": "cpu",
            "started": "2025-01-01T00:00:00+00:00",
            "command": "propml benchmark run artificial --workers 2",
        }
    ]
    return Measured(results, failures, timings, chosen, provenance=provenance)


def _choice(method, value):
    if method == "ProPML":
        return {"lam": {"network": 0.1}}
    return {"lam": 0.3, "path": [{"lam": lam, "epoch": 5, "average_precision": value - lam / 20} for lam in LAMS]}
