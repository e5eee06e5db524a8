"""Does a search need clean labels? ``PROPML_DATA=… python paper/tuning.py --out paper/tuning.csv``.

On birds and scene, corrupted by SVM confusions (100 %), and on others by name, each of five test folds is set aside. On
the other rows the same search is done twice: judged by held-out candidates, and by held-out true labels (oracle). Both
winners are then fitted on the candidates of these rows and tested on the true labels of the fold. ``--repeats`` parts
the rows into other folds and does it again. Appends one row per (dataset, noise, space, repeat, fold, objective); a row
that is there already is not computed again.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import KFold

from propml.benchmark.problem import CandidateProblem, has_real_candidates, load_problem
from propml.metrics import average_precision
from propml.noise import Noise
from propml.tuning import search

KEY = ("dataset", "noise", "space", "repeat", "fold", "objective")
COLUMNS = (*KEY, "value", "test_average_precision", "trials", "seconds", "params")
OBJECTIVES = ("candidates", "oracle")
# What the paper tunes (λ, learning rate, weight decay of its loss on one network), and all that propml.tuning declares.
SPACES = {
    "paper": {"loss": "propml", "hidden": (256, 256), "dropout": 0.5, "input_dropout": 0.0},
    "all": {},
}
# Some 250 to 500 training steps at most: birds has one or two batches an epoch, scene ten, MIRFlickr twenty.
EPOCHS = {"birds": 243, "scene": 27, "mirflickr": 27}


def measure(data: CandidateProblem, train: np.ndarray, test: np.ndarray, objective: str, **settings) -> dict:
    start = time.perf_counter()
    found = search(
        data.X[train],
        data.candidates[train],
        objective=objective,
        truth=data.truth[train] if objective == "oracle" else None,
        **settings,
    )
    seconds = time.perf_counter() - start
    model = found.estimator(random_state=0).fit(data.X[train], data.candidates[train])
    value = average_precision(data.truth[test], model.decision_function(data.X[test]))
    return {
        "value": round(100 * found.value, 2),
        "test_average_precision": round(100 * float(value), 2),
        "trials": len(found.trials),
        "seconds": round(seconds, 1),
        "params": json.dumps(found.params),
    }


def report(path: Path) -> None:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for kind in dict.fromkeys((row["dataset"], row["noise"], row["space"]) for row in rows):
        own = [row for row in rows if (row["dataset"], row["noise"], row["space"]) == kind]
        blind, told = (
            np.array([float(row["test_average_precision"]) for row in own if row["objective"] == objective])
            for objective in OBJECTIVES
        )
        error = (blind - told).std(ddof=1) / np.sqrt(len(blind)) if len(blind) > 1 else np.nan
        print(
            f"{' '.join(kind)}, {len(blind)} folds: candidates {blind.mean():.2f}, truth {told.mean():.2f}, "
            f"difference {(blind - told).mean():+.2f} ± {error:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["birds", "scene"])
    parser.add_argument("--noise", type=int, default=100)
    parser.add_argument("--spaces", nargs="+", default=list(SPACES), choices=list(SPACES))
    parser.add_argument("--repeats", type=int, default=1, help="ways to part the rows into five folds")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--epochs", type=int, help="by default 243 on birds, 27 on scene and mirflickr")
    parser.add_argument("--out", type=Path, default=Path("tuning.csv"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = set()
    if options.out.exists():
        with options.out.open(newline="") as file:
            done = {tuple(row[column] for column in KEY) for row in csv.DictReader(file)}
    else:
        options.out.write_text(",".join(COLUMNS) + "\n")
    with options.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        for name in options.datasets:
            noise = None if has_real_candidates(name) else options.noise
            data = load_problem(name, None if noise is None else Noise.read(noise, "svm"), seed=0)
            cells = itertools.product(options.spaces, range(options.repeats), range(5), OBJECTIVES)
            for space, repeat, fold, objective in cells:
                key = (name, "" if noise is None else str(noise), space, str(repeat), str(fold), objective)
                if key in done:
                    continue
                split = list(KFold(5, shuffle=True, random_state=repeat).split(data.truth))[fold]
                settings = {"trials": options.trials, "epochs": options.epochs or EPOCHS.get(name)}
                found = measure(data, *split, objective, space=SPACES[space], **settings)
                row = dict(zip(KEY, key, strict=True)) | found
                writer.writerow(row)
                file.flush()
                print(*(row[column] for column in COLUMNS[:-1]), flush=True)
    report(options.out)


if __name__ == "__main__":
    main()
