"""Cells that cost nothing: an experiment whose methods return set numbers, fail, wait, or take their process down.

As a script it runs them, and prints what it did: ``fake_cells.py FOLDER WORKERS METHOD…``.
"""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from propml.benchmark.cell import MethodEntry, TabularCell
from propml.benchmark.experiment import Experiment
from propml.benchmark.results import FoldResult
from propml.noise import Noise

METRICS = ("average_precision", "one_error")


def experiment(methods=("Plain", "Other"), datasets=("birds", "scene"), noise=(50.0, 100.0), seeds=(0,), kind="svm"):
    """Noise as files write it: percent for "svm"."""
    entries = tuple(MethodEntry(name, "ridge") for name in methods)
    levels = tuple(Noise.read(level, kind) for level in noise)
    return Experiment(
        "toy", "A toy", datasets=datasets, methods=entries, noise=levels, seeds=seeds, folds=2, metrics=METRICS
    )


def cell(method="Plain", dataset="birds", noise=50.0, seed=0, kind="svm", **settings):
    entry, level = MethodEntry(method, "ridge"), Noise.read(noise, kind)
    return TabularCell("toy", dataset, level, entry, seed, **{"folds": 2, "metrics": METRICS, **settings})


def outcome(cell):
    """The same numbers for the same cell, in whatever process."""
    seed = int(hashlib.sha256(cell.key.encode()).hexdigest()[:8], 16)
    rng = np.random.default_rng(seed)
    folds = []
    for fold in range(cell.folds):
        scores = rng.normal(size=(6, 3)).astype(np.float32)
        values = {metric: float(rng.random()) for metric in cell.metrics}
        test = np.arange(fold, 6 * cell.folds, cell.folds)
        folds.append(FoldResult(fold, test, scores, (scores > 0).astype(np.uint8), values, 0.25, 0.125, {"lam": 0.1}))
    return cell.result(folds, peak_bytes=1000, device="cpu")


def compute(cell):
    """Note that it was called, then do what the name of the method says."""
    folder = os.environ.get("FAKE_CELLS")
    if folder:
        with (Path(folder) / "computed.txt").open("a") as file:
            file.write(f"{cell.key} {os.getpid()}\n")
    ACTIONS.get(cell.method.name, lambda cell: None)(cell)
    return outcome(cell)


def computed(folder):
    """The keys that :func:`compute` was called with, in order."""
    path = Path(folder) / "computed.txt"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def _fail(cell):
    raise ZeroDivisionError(f"nothing to divide in {cell.dataset}")


def _kill_itself(cell):
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_itself_once(cell):
    mark = Path(os.environ["FAKE_CELLS"]) / f"killed-{cell.key}"
    if not mark.exists():
        mark.touch()
        _kill_itself(cell)


def _wait_for_a_sign(cell):
    """Until the file "go" appears."""
    for _ in range(3000):
        if (Path(os.environ["FAKE_CELLS"]) / "go").exists():
            return
        time.sleep(0.01)


ACTIONS = {
    "Fails": _fail,
    "Exits": lambda cell: os._exit(3),
    "Killed": _kill_itself,
    "Killed once": _kill_itself_once,
    "Waits": _wait_for_a_sign,
    "Slow": lambda cell: time.sleep(0.05),
}


def main():
    from propml.benchmark.runner import run_experiment

    folder, workers, *methods = sys.argv[1:]
    summary = run_experiment(experiment(methods), folder, workers=int(workers), compute=compute)
    done, skipped = ([cell.key for cell in cells] for cells in summary[:2])
    print(json.dumps({"done": done, "skipped": skipped, "failed": [cell.key for cell in summary.failed]}))  # noqa: T201


if __name__ == "__main__":
    main()
