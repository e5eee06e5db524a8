"""What it costs to choose without clean labels: ``python paper/chosen.py RESULTS``.

RESULTS is a folder that ``propml benchmark run real-world`` and ``artificial`` filled, with kept scores. Prints, for
each dataset and noise level, the average precision of ProPML with the λ chosen on held-out candidates beside the best
of 20 λ by test labels (``ProPML (oracle)``, one network, which also takes its epoch from them). For thresholds see
``threshold_choice.py``.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean

from propml.benchmark.results import means
from propml.benchmark.store import ResultStore
from propml.noise import noise_order


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    store = ResultStore(parser.parse_args().results)
    values = {(mean.setting, mean.method, mean.metric): mean.mean for mean in means(store.cells())}
    lams = defaultdict(list)
    for cell in store.cells():
        for fold in cell.folds:
            value = fold.chosen.get("lam")
            lam = value.get("network") if isinstance(value, dict) else value
            if lam is not None:
                lams[cell.setting, cell.method].append(lam)
    print("| dataset | noise % | λ chosen | λ oracle | AP, λ chosen | AP, λ oracle | gap |")
    print("|---|---|---|---|---|---|---|")
    gaps = []
    for setting in sorted(
        {setting for setting, _, _ in values}, key=lambda each: (each.dataset, noise_order(each.noise))
    ):
        own = [values.get((setting, name, "average_precision")) for name in ("ProPML", "ProPML (oracle)")]
        if None in own:
            continue
        ranges = [_range(lams[setting, name]) for name in ("ProPML", "ProPML (oracle)")]
        gaps.append(own[0] - own[1])
        cells = [setting.dataset, str(setting.noise or ""), *ranges, *(f"{value:.2f}" for value in own)]
        print("|", " | ".join([*cells, f"{gaps[-1]:+.2f}"]), "|")
    print(f"\nmean gap of average precision: {mean(gaps):+.2f}")


def _range(values: list[float]) -> str:
    return f"{min(values):.2g} … {max(values):.2g}" if values else ""


if __name__ == "__main__":
    main()
