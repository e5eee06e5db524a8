"""The weights of forest and ridge regression, and how much of the noise floor: chosen on all datasets but one.

    PROPML_DATA=… python paper/ground_choice.py [--rows 600] [--out paper/ground_choice.csv]

Every setting (dataset × noise) is fitted once; the members' opinions on held-out and on test rows are then put together
in every way that is tried. Printed: for each dataset what the others chose, its average precision there (percent), what
the classifier's own constants reach, and the best that its true labels could have chosen.
"""

from __future__ import annotations

import argparse
import csv
import itertools
from pathlib import Path

import numpy as np
import torch

from propml import ProPMLClassifier
from propml.corruption.registry import corrupt
from propml.datasets import load
from propml.metrics import average_precision
from propml.neural.fitting import FOREST_WEIGHT, LINEAR_WEIGHT
from propml.neural.noise_floor import QUANTILE, SHARE, noise_floor, true_logits
from propml.neural.saving import ensemble_from_state
from propml.neural.thresholds import candidate_sigmoid
from propml.progress import track

DATASETS = ("birds", "cal500", "chd-49", "enron", "foodtruck", "genbase", "medical", "scene", "yeast")
NOISES = (("none", {}), ("flips", {"rate": 0.3}), ("class-flips", {"rate": 0.3}), ("svm", {"ratio": 1.0}))
FOREST_WEIGHTS, LINEAR_WEIGHTS = (0.0, 0.1, 0.25, 0.5), (0.0, 0.1, 0.2, 0.4)
SHARES, QUANTILES = (0.0, 0.4, 0.65, 0.9), (0.1, 0.25)
CHOSEN = (FOREST_WEIGHT, LINEAR_WEIGHT, SHARE, QUANTILE)


def main() -> None:
    """Fit, choose, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600, help="rows of each dataset, drawn at random (default: 600)")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--out", type=Path, help="CSV of every combination on every setting")
    arguments = parser.parse_args()
    names = arguments.datasets.split(",")
    options = list(itertools.product(FOREST_WEIGHTS, LINEAR_WEIGHTS, SHARES, QUANTILES))
    values: dict[str, list[np.ndarray]] = {name: [] for name in names}
    settings = [(name, noise) for name in names for noise in NOISES]
    rows = []
    for name, (noise, level) in track(settings, "fitting", len(settings)):
        found = on_setting(name, noise, level, options, arguments.rows)
        values[name].append(found)
        rows += [[name, noise, *option, f"{value:.3f}"] for option, value in zip(options, found, strict=True)]
    if arguments.out:
        with arguments.out.open("w", newline="") as file:
            head = ["dataset", "noise", "forest_weight", "linear_weight", "share", "quantile", "average_precision"]
            csv.writer(file, lineterminator="\n").writerows([head, *rows])
    report({name: np.mean(found, axis=0) for name, found in values.items()}, options)


def on_setting(name: str, noise: str, level: dict[str, float], options: list, most: int) -> np.ndarray:
    """The average precision of every combination, in percent, on a fifth of the rows."""
    data = load(name).drop_unlabelled()
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data.truth))[:most]
    X, truth = data.X[rows], np.asarray(data.truth)[rows]
    candidates = corrupt(noise, X, truth, **level).to_matrix()
    test, train = np.split(np.arange(len(rows)), [len(rows) // 5])
    train = train[candidates[train].any(axis=1)]
    model = ProPMLClassifier(forest=True, random_state=0)
    fitted = model._fitted(X[train], candidates[train], None)
    ensemble = ensemble_from_state(model.ensemble_).double()
    dense = X[test].toarray() if hasattr(X, "toarray") else X[test]
    scaled = ensemble.scaler(torch.as_tensor(dense, dtype=torch.float64))
    encoded = scaled if ensemble.bins is None else ensemble.bins(scaled)
    pairs = zip(ensemble.members, ensemble.standards, strict=True)
    opinions = [standard.apply(member(encoded).double()).detach().numpy() for member, standard in pairs]
    held = [member.held for member in fitted.members]
    return np.array([of_option(option, held, opinions, candidates[train], truth[test]) for option in options])


def of_option(option: tuple, held: list, opinions: list, states: np.ndarray, truth: np.ndarray) -> float:
    """Average precision of one combination, in percent."""
    forest, linear, share, quantile = option
    weights = np.array([0.5, 0.5, forest, linear]) / (1 + forest + linear)
    inside = np.tensordot(weights, np.nan_to_num(held), 1)
    slope, offset = candidate_sigmoid(inside, states)
    rate = torch.from_numpy(share * noise_floor(slope * inside + offset, quantile))
    logits = torch.from_numpy(slope * np.tensordot(weights, opinions, 1) + offset)
    return 100 * float(average_precision(truth, true_logits(logits, rate).numpy()))


def report(values: dict[str, np.ndarray], options: list) -> None:
    """The table of what was chosen without each dataset, and what it cost there."""
    own, plain = options.index(CHOSEN), options.index((0.0, 0.0, 0.0, QUANTILES[0]))
    print("| left out | chosen elsewhere: forest, ridge, share, quantile | there | ours | networks alone | best |")
    print("|---|---|---|---|---|---|")
    table = []
    for name, mine in values.items():
        chosen = int(np.mean([found for other, found in values.items() if other != name], axis=0).argmax())
        table.append([mine[chosen], mine[own], mine[plain], mine.max()])
        shown = " | ".join(f"{value:.2f}" for value in table[-1])
        print(f"| {name} | {', '.join(f'{value:g}' for value in options[chosen])} | {shown} |")
    print("| mean | | " + " | ".join(f"{value:.2f}" for value in np.mean(table, axis=0)) + " |")


if __name__ == "__main__":
    main()
