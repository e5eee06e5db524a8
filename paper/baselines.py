"""Every baseline on the paper's tables: ``python paper/baselines.py --out baselines.csv``.

Protocol of the paper: rows without a true label are dropped, features scaled to [-1, 1] on the whole set, clean labels
corrupted once by SVM confusions (rounded down), 5 shuffled folds (seed 0), trained on candidates, tested on true
labels; average precision with the paper's rule for ties. Appends one row per (dataset, noise, method); a row that is
there already is not computed again.
"""

from __future__ import annotations

import argparse
import csv
import resource
import time
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from propml.corruption import SVMConfusions
from propml.corruption.svm import scale_to_unit_range
from propml.datasets import load, names
from propml.datasets.locations import cache_dir
from propml.methods import METHODS, method_class
from propml.metrics import evaluate

COLUMNS = ("dataset", "noise", "method", "average_precision", "std", "hamming_loss", "paper_hamming_loss", "seconds")


def problems(datasets: list[str], noises: list[int]):
    for name in datasets:
        data = load(name).drop_unlabelled()
        X = scale_to_unit_range(data.X.toarray() if hasattr(data.X, "toarray") else data.X)
        if data.candidates is not None:
            yield name, 0, X, data.truth, data.candidates
            continue
        confusions = SVMConfusions(n_jobs=1, cache_dir=cache_dir() / "corruption").fit(data.X, data.truth)
        for noise in noises:
            yield name, noise, X, data.truth, confusions.set_params(ratio=noise / 100).transform(data.truth)


def measure(X: np.ndarray, truth: np.ndarray, candidates, method: str) -> dict[str, float]:
    values, paper, seconds = [], [], 0.0
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        model = method_class(method)()
        start = time.perf_counter()
        model.fit(X[train], candidates[train])
        scores, predicted = model.decision_function(X[test]), model.predict(X[test])
        seconds += time.perf_counter() - start
        values.append(evaluate(truth[test], scores, predicted))
        paper.append(evaluate(truth[test], scores, predicted, paper=True, method=METHODS[method].title))
    precision = [100 * value["average_precision"] for value in paper]
    return {
        "average_precision": round(float(np.mean(precision)), 2),
        "std": round(float(np.std(precision)), 2),
        "hamming_loss": round(100 * float(np.mean([value["hamming_loss"] for value in values])), 2),
        "paper_hamming_loss": round(100 * float(np.mean([value["hamming_loss"] for value in paper])), 2),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    artificial = [name for name in names("artificial") if name != "bibtex"]
    parser.add_argument("--datasets", nargs="+", default=["mirflickr", *artificial, "yeastcc", "yeastbp"])
    parser.add_argument("--noise", nargs="+", type=int, default=[50, 100, 150])
    parser.add_argument("--methods", nargs="+", default=[name for name in METHODS if name != "propml"])
    parser.add_argument("--out", type=Path, default=Path("baselines.csv"))
    options = parser.parse_args()
    done = set()
    if options.out.exists():
        with options.out.open(newline="") as file:
            done = {(row["dataset"], row["noise"], row["method"]) for row in csv.DictReader(file)}
    else:
        options.out.write_text(",".join(COLUMNS) + "\n")
    # One thread: on few cores two BLAS threads that wait for each other cost more than they bring.
    with threadpool_limits(1), options.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        for name, noise, X, truth, candidates in problems(options.datasets, options.noise):
            for method in options.methods:
                if (name, str(noise), method) in done:
                    continue
                row = {"dataset": name, "noise": noise, "method": method, **measure(X, truth, candidates, method)}
                writer.writerow(row)
                file.flush()
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
                print(*row.values(), f"peak {peak:.1f} GiB", flush=True)


if __name__ == "__main__":
    main()
