"""What it costs to choose without clean labels: ``python paper/chosen.py RESULTS``.

RESULTS is a folder that ``propml benchmark run real-world`` and ``artificial`` filled, with kept scores. Prints, for
each dataset and noise level, the average precision of ProPML with the λ chosen on held-out candidates beside the best
of 20 λ by test labels (``ProPML (oracle)``, one network, which also takes its epoch from them), and the Hamming loss of
the default classifier's predictions beside that of the best single threshold, and of the best ones per label, by test
labels.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean

import numpy as np

from propml.benchmark.experiment import load_experiment
from propml.benchmark.results import means
from propml.benchmark.store import ResultStore
from propml.noise import Setting, noise_order

DEFAULT = "ProPML default"


def best_hamming(truth: np.ndarray, scores: np.ndarray) -> float:
    """The Hamming loss of the threshold that is best for these very labels."""
    order = np.argsort(-scores, axis=None, kind="stable")
    labels = truth.ravel()[order] > 0
    # With the k highest scores predicted: what is true below them, and false among them.
    wrong = labels.sum() + np.concatenate([[0], np.cumsum(np.where(labels, -1, 1))])
    return float(wrong.min() / labels.size)


def best_hamming_per_label(truth: np.ndarray, scores: np.ndarray) -> float:
    """The same with one threshold per label."""
    return mean(best_hamming(truth[:, j], scores[:, j]) for j in range(truth.shape[1]))


def by_test_labels(store: ResultStore) -> dict[tuple, float]:
    """Percent by setting and measure: what test labels would have made of the default classifier's kept scores."""
    measures, done = {"best": best_hamming, "best per label": best_hamming_per_label}, store.done()
    found = defaultdict(list)
    for experiment in ("real-world", "artificial"):
        cells = load_experiment(experiment).narrowed(methods=[DEFAULT]).cells()
        for cell in (cell for cell in cells if cell.key in done):
            truth = cell.truth()
            for fold in store.scores(cell.key):
                for name, measure in measures.items():
                    place = (Setting(cell.dataset, cell.noise), DEFAULT, name)
                    found[place].append(100 * measure(truth[fold.test], fold.scores))
    return {place: mean(values) for place, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    store = ResultStore(parser.parse_args().results)
    values = {(mean.setting, mean.method, mean.metric): mean.mean for mean in means(store.cells())}
    values |= by_test_labels(store)
    lams = defaultdict(list)
    for cell in store.cells():
        for fold in cell.folds:
            value = fold.chosen.get("lam")
            lam = value.get("network") if isinstance(value, dict) else value
            if lam is not None:
                lams[cell.setting, cell.method].append(lam)
    print("| dataset | noise % | λ chosen | λ oracle | AP, λ chosen | AP, λ oracle | gap |", end="")
    print(" Hamming loss | best threshold | best per label |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    gaps = []
    for setting in sorted(
        {setting for setting, _, _ in values}, key=lambda each: (each.dataset, noise_order(each.noise))
    ):
        own = [values.get((setting, name, "average_precision")) for name in ("ProPML", "ProPML (oracle)")]
        hamming = [values.get((setting, DEFAULT, m)) for m in ("hamming_loss", "best", "best per label")]
        if None in own or None in hamming:
            continue
        ranges = [_range(lams[setting, name]) for name in ("ProPML", "ProPML (oracle)")]
        gaps.append(own[0] - own[1])
        cells = [setting.dataset, str(setting.noise or ""), *ranges, *(f"{value:.2f}" for value in own)]
        print("|", " | ".join([*cells, f"{gaps[-1]:+.2f}", *(f"{value:.2f}" for value in hamming)]), "|")
    print(f"\nmean gap of average precision: {mean(gaps):+.2f}")


def _range(values: list[float]) -> str:
    return f"{min(values):.2g} … {max(values):.2g}" if values else ""


if __name__ == "__main__":
    main()
