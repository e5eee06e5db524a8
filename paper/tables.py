"""ProPMLClassifier on the paper's tables, everything chosen on candidates: ``python paper/tables.py``.

Protocol of the paper: rows without a true label are dropped; clean labels are corrupted once by SVM confusions (50, 100
and 150 %, rounded down); 5 folds; train on candidates, test on true labels. Writes one line of JSON per fit.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler

from propml.corruption import SVMConfusions
from propml.datasets import Dataset, load
from propml.datasets.locations import cache_dir
from propml.methods.propml import ProPMLClassifier
from propml.methods.ridge import RidgeClassifier
from propml.metrics import evaluate

REAL = ("mirflickr", "yeastcc", "yeastbp")
ARTIFICIAL = ("birds", "medical", "scene", "enron", "bibtex")
NETWORK = {"hidden": (256, 256), "linear": False}


def methods(sparse: bool) -> dict[str, object]:
    """The default; the same network with the paper's loss and with BCE; ridge on features in [-1, 1] (or [0, 1])."""
    scaler = MaxAbsScaler() if sparse else MinMaxScaler((-1, 1))
    return {
        "default": ProPMLClassifier(random_state=0),
        "ProPML": ProPMLClassifier("propml", random_state=0, **NETWORK),
        "BCE": ProPMLClassifier("bce", lam=1.0, random_state=0, **NETWORK),
        "ridge": make_pipeline(scaler, RidgeClassifier(10.0)),
    }


def problems(names: list[str], noises: list[int]):
    """Every (dataset, noise, data, candidates), the corruption cached."""
    for name in names:
        data = load(name).drop_unlabelled()
        if name in REAL:
            yield name, 0, data, data.candidates
            continue
        confusions = SVMConfusions(n_jobs=-1, cache_dir=cache_dir() / "corruption").fit(data.X, data.truth)
        for noise in noises:
            yield name, noise, data, confusions.set_params(ratio=noise / 100).transform(data.truth)


def best_hamming(truth: np.ndarray, scores: np.ndarray) -> float:
    """The least Hamming loss that a single threshold can give when it knows the truth."""
    cuts = np.quantile(scores, np.linspace(0.3, 0.9999, 500))
    return min(float(((scores > cut) != truth).mean()) for cut in cuts)


def run(data: Dataset, candidates, wanted: list[str], folds: int):
    for fold, (train, test) in enumerate(KFold(5, shuffle=True, random_state=0).split(np.arange(len(data.truth)))):
        if fold >= folds:
            break
        for name, model in methods(hasattr(data.X, "tocsr")).items():
            if name not in wanted:
                continue
            start = time.perf_counter()
            model.fit(data.X[train], candidates[train])
            seconds = time.perf_counter() - start
            scores = model.decision_function(data.X[test])
            predicted = model.predict(data.X[test])
            values = dict(evaluate(data.truth[test], scores, predicted))
            paper = evaluate(data.truth[test], scores, predicted, paper=True)
            row = {"method": name, "fold": fold, "seconds": round(seconds, 2)}
            row |= {key: round(100 * value, 3) for key, value in values.items()}
            row["average_precision_paper_ties"] = round(100 * paper["average_precision"], 3)
            row["best_hamming_loss"] = round(100 * best_hamming(data.truth[test], scores), 3)
            if isinstance(model, ProPMLClassifier):
                row |= {"lam": model.lam_, "shares": model.shares_}
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=[*REAL, *ARTIFICIAL[:4]])
    parser.add_argument("--noise", nargs="+", type=int, default=[50, 100, 150])
    parser.add_argument("--methods", nargs="+", default=["default", "ProPML", "BCE", "ridge"])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("tables.jsonl"))
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    with options.out.open("a", encoding="utf-8") as file:
        for name, noise, data, candidates in problems(options.datasets, options.noise):
            for row in run(data, candidates, options.methods, options.folds):
                row = {"dataset": name, "noise": noise, **row}
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(
                    f"{name:10} {noise:4d} {row['method']:8} fold {row['fold']}  AP {row['average_precision']:.2f}  "
                    f"HL {row['hamming_loss']:.2f} (best {row['best_hamming_loss']:.2f})  {row['seconds']:.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
