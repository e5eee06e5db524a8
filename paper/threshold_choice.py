"""The threshold that is chosen without clean labels: beside the best of all, and how it was chosen.

    PROPML_DATA=… python paper/threshold_choice.py [--rows 1000] [--jobs 2] [--out paper/threshold_choice.csv]

``ProPMLClassifier()`` learns from the candidates of four fifths of the rows of each dataset, with the kinds of noise of
``ground_choice.py`` and four further levels. On the other rows OF1 and Hamming loss are measured at the thresholds
``"auto"``, ``"f1"`` and ``"hamming"``, at the best threshold for these very rows, and at other rules for ``"auto"``:
always half-way between the two others, or half-way where a row has so many labels. ``regenerate.py`` puts the means of
each dataset into ``paper/README.md``, and which rule the other datasets choose.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest import mock

import joblib
import numpy as np
import torch
from ground_choice import CODE, DATASETS, MODULES, NOISES
from kept import age_text

from propml import ProPMLClassifier
from propml.benchmark.provenance import age_of, fingerprint
from propml.benchmark.reporting.formats import markdown_table
from propml.corruption import corrupt
from propml.datasets import load
from propml.methods.propml import CUTS
from propml.metrics import f1_scores, hamming_loss
from propml.neural import fitting
from propml.neural.judgement import balanced_threshold, f1_threshold

LEVELS = (*NOISES, ("flips", {"rate": 0.1}), ("flips", {"rate": 0.4}), ("svm", {"ratio": 0.5}), ("svm", {"ratio": 1.5}))
METRICS = ("OF1", "Hamming loss")
# Labels a row with which the default threshold lies half-way between the two others.
HALF_WAYS = {f"{labels} labels": labels for labels in (1, 2, 3, 4, 6, 8)}
RULES = ("f1", "hamming", "always half-way", *HALF_WAYS)
COLUMNS = [f"{metric} {cut}" for metric in METRICS for cut in ("auto", *RULES, "best")]
# Each metric at the thresholds that are meant for it.
SHOWN = [
    *(f"OF1 {cut}" for cut in ("auto", "f1", "best")),
    *(f"Hamming loss {cut}" for cut in ("auto", "hamming", "best")),
]


def main() -> None:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000, help="rows of each dataset, drawn at random (default: 1000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--out", type=Path, default=Path("threshold_choice.csv"), help="every setting")
    arguments = parser.parse_args()
    settings = [(name, noise) for name in DATASETS for noise in LEVELS]
    work = joblib.Parallel(n_jobs=arguments.jobs, verbose=5)
    found = work(joblib.delayed(on_setting)(name, *noise, arguments.rows) for name, noise in settings)
    with arguments.out.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{CODE}{fingerprint(MODULES)}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["dataset", "noise", *COLUMNS])
        for (name, (noise, level)), values in zip(settings, found, strict=True):
            kind = " ".join([noise, *map(str, level.values())])
            writer.writerow([name, kind, *(f"{value:.3f}" for value in values)])
    print(threshold_table(arguments.out), rule_table(arguments.out), sep="\n\n")


def on_setting(name: str, noise: str, level: dict[str, float], most: int) -> list[float]:
    """The values of ``COLUMNS``, in percent, on a fifth of the rows."""
    torch.set_num_threads(1)
    data = load(name).drop_unlabelled()
    rows = np.random.default_rng(0).permutation(len(data.truth))[:most]
    X, truth = data.X[rows], np.asarray(data.truth)[rows]
    candidates = corrupt(noise, X, truth, **level)
    test, train = np.split(np.arange(len(rows)), [len(rows) // 5])
    train = train[candidates.sizes()[train] > 0]
    model, cuts = ProPMLClassifier(random_state=0), {}
    choose = fitting._threshold

    def all_of_them(*given: Any) -> float:
        """Every threshold from the same opinions; the model takes its own."""
        *opinions, _, weight = given
        cuts.update({cut: choose(*opinions, cut, weight) for cut in ("auto", "f1", "hamming")})
        two = cuts["f1"], cuts["hamming"]
        cuts["always half-way"] = fmean(two)
        cuts.update({rule: balanced_threshold(opinions[0], *two, weight, at) for rule, at in HALF_WAYS.items()})
        return cuts["auto"]

    with mock.patch.object(fitting, "_threshold", all_of_them):
        model.fit(X[train], candidates[train])
    return at_thresholds(model.decision_function(X[test]) + cuts["auto"], truth[test], cuts)


def at_thresholds(scores: np.ndarray, truth: np.ndarray, cuts: dict[str, float]) -> list[float]:
    """OF1 and Hamming loss (percent) of each cut, and the best that any cut could give."""
    predicted = [(scores > cut).astype(int) for cut in cuts.values()]
    best = (scores > f1_threshold(scores, truth)).astype(int)
    f1 = [f1_scores(truth, each).OF1 for each in (*predicted, best)]
    losses = [hamming_loss(truth, each) for each in predicted]
    return [100 * float(value) for value in (*f1, *losses, _least_hamming_loss(scores, truth))]


def _least_hamming_loss(scores: np.ndarray, truth: np.ndarray) -> float:
    labels = truth.ravel()[np.argsort(-scores, axis=None, kind="stable")] > 0
    # With the k highest scores predicted: what is true below them, and false among them.
    wrong = labels.sum() + np.concatenate([[0], np.cumsum(np.where(labels, -1, 1))])
    return float(wrong.min() / labels.size)


def threshold_table(path: Path) -> str:
    """Means over the kinds of noise by dataset, from the CSV."""
    code, values = _of_datasets(path)
    values["mean"] = {column: fmean(means[column] for means in values.values()) for column in COLUMNS}
    heads = [
        f'{metric}, "{cut}"' if cut in CUTS else f"{metric}, {cut}"
        for metric, cut in (name.rsplit(" ", 1) for name in SHOWN)
    ]
    rows = [[name, *(f"{means[column]:.1f}" for column in SHOWN)] for name, means in values.items()]
    return f"{markdown_table(['dataset', *heads], rows)}\n\n{age_text([age_of(code, MODULES)])}"


def rule_table(path: Path) -> str:
    """Which rule the other datasets choose by OF1 minus Hamming loss, what that gives there, and what ours does."""
    code, values = _of_datasets(path)
    gains = {
        name: [means[f"OF1 {rule}"] - means[f"Hamming loss {rule}"] for rule in RULES] for name, means in values.items()
    }
    rows, numbers = [], []
    for name, means in values.items():
        chosen = RULES[int(np.mean([gain for other, gain in gains.items() if other != name], axis=0).argmax())]
        numbers.append(
            [means[f"{metric} {rule}"] for metric in METRICS for rule in (chosen, "auto", "always half-way")]
        )
        rows.append([name, chosen, *(f"{value:.1f}" for value in numbers[-1])])
    rows.append(["mean", "", *(f"{value:.1f}" for value in np.mean(numbers, axis=0))])
    columns = [f"{metric}, {rule}" for metric in METRICS for rule in ("there", "ours", "always half-way")]
    table = markdown_table(["left out", "chosen elsewhere", *columns], rows, left=range(2))
    means = [f"{rule}: {fmean(gain[place] for gain in gains.values()):.1f}" for place, rule in enumerate(RULES)]
    return f"{table}\n\nOF1 minus Hamming loss: {'; '.join(means)}. {age_text([age_of(code, MODULES)])}"


def _of_datasets(path: Path) -> tuple[str, dict[str, dict[str, float]]]:
    """The fingerprint of what made the CSV, and each dataset's means over the kinds of noise."""
    lines = path.read_text(encoding="utf-8").splitlines()
    code = lines.pop(0).removeprefix(CODE)
    rows = list(csv.DictReader(lines))
    names = dict.fromkeys(row["dataset"] for row in rows)
    return code, {
        name: {column: fmean(float(row[column]) for row in rows if row["dataset"] == name) for column in COLUMNS}
        for name in names
    }


if __name__ == "__main__":
    main()
