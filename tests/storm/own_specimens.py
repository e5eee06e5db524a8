"""Small valid files of every kind that propml writes, and what they give when they are read through the front door."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

import propml
from propml.auditing import AuditReport
from propml.auditing.decisions import Decision, read_decisions, write_decisions
from propml.auditing.folder import apply_review, write_audit
from propml.auditing.model_card import make_card, read_model, write_model
from propml.benchmark.cell import MethodEntry, TabularCell
from propml.benchmark.experiment import load_experiment
from propml.benchmark.results import Failure, FoldResult
from propml.benchmark.store import ResultStore
from propml.methods.registry import method_class
from propml.methods.ridge import RidgeRegressionClassifier as RidgeClassifier
from propml.noise import Noise
from propml.tables.features import learn_features
from propml.tables.files import read_table
from propml.tables.sources import open_table
from propml.tuning.result import read_best
from propml.vision.backbone import make_network
from propml.vision.checkpoint import TrainingState, load_network, save_network
from propml.vision.optimiser import WeightAverage, make_optimiser
from propml.vision.recipe import VisionRecipe

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4)) * (RNG.random((30, 4)) < 0.7)
Y = (RNG.random((30, 3)) < 0.4).astype(int)
Y[:, 0] |= Y.sum(axis=1) == 0
METHODS = {
    "propml": {"hidden": (4,), "epochs": 1, "cv": 2, "random_state": 0},
    **{name: {} for name in ("ridge", "kernel-ridge", "ml-knn", "cplst", "pml-ni", "par-map", "par-vls")},
}
RUN = {"run": "20250101T000000-abcdef", "propml": "0"}


@dataclass(frozen=True)
class Specimen:
    """A folder of one kind.

    Attributes
    ----------
    what : str
        Its row in the table.
    folder : Path
    twin : Path
        Another folder of the same kind, from which parts are swapped in.
    use : function of the folder
        Reads it and returns what it gives, as plain values and arrays.
    checked : bool
        Whether checksums bind what it gives; without, only crashes count.
    parts : bool
        Whether what it gives is a set, of which a part may be missing.
    """

    what: str
    folder: Path
    twin: Path
    use: Callable[[Path], Any]
    checked: bool = True
    parts: bool = False


def make_specimens(root: Path) -> list[Specimen]:
    """One folder of every kind, with its twin."""
    made = []
    for name in METHODS:
        made.append(_pair(root, f"model {name}", lambda folder, i, name=name: _save_model(folder, name, i), _predict))
    made.append(_pair(root, "model folder", _fit_folder, _use_folder))
    made.append(_pair(root, "audit folder", _audit_folder, _apply))
    made.append(_pair(root, "report", _save_report, _read_report))
    made.append(_pair(root, "results store", _fill_store, _read_store, parts=True))
    made.append(_pair(root, "decisions", _decide, _read_decisions, checked=False))
    made.append(_pair(root, "experiment", _write_toml, _read_toml, checked=False))
    made.append(_pair(root, "checkpoint", _save_checkpoint, _restore))
    made.append(_pair(root, "network", _save_network, _score))
    return made


def _pair(
    root: Path, what: str, make: Callable[[Path, int], None], use: Callable[[Path], Any], **facts: bool
) -> Specimen:
    folders = [root / f"{what} {number}" for number in (0, 1)]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        make(folder, number)
    return Specimen(what, *folders, use, **facts)


# -- models ---------------------------------------------------------------------------------------------------------


def _save_model(folder: Path, name: str, number: int) -> None:
    rows = sp.csr_array(X + number) if name in ("kernel-ridge", "ml-knn") else X + number
    method_class(name)(**METHODS[name]).fit(rows, Y).save(folder / "model.safetensors")


def _predict(folder: Path) -> Any:
    model = propml.load(folder / "model.safetensors")
    return model.predict_proba(X[:5]), model.predict(X[:5])


def _table(folder: Path, number: int) -> Any:
    rng = np.random.default_rng(number)
    lines = [f"p{i},{x:.3f},{'red' if y > 0 else 'blue'},{'a;b' if x > 0 else 'b;c'}" for i, (x, y) in
             enumerate(rng.normal(size=(24, 2)))]  # fmt: skip
    (folder / "data").mkdir()
    (folder / "data" / "d.csv").write_text("\n".join(["id,x,colour,tags", *lines]) + "\n")
    return read_table(folder / "data" / "d.csv", candidates="tags", id_column="id")


def _fit_folder(folder: Path, number: int) -> None:
    table = _table(folder, number)
    learned = learn_features(table)
    model = RidgeClassifier(alpha=1.0 + number).fit(learned.X, table.candidates)
    reading = {"id_column": "id", "sep": ";"}
    write_model(folder / "m", model, learned.features, make_card(model, table, learned.features, reading=reading))


def _use_folder(folder: Path) -> Any:
    saved = read_model(folder / "m")
    given, notes = saved.features.apply(open_table(folder / "data" / "d.csv"))
    return saved.model.predict_proba(given), list(saved.model.labels_), notes, saved.card["settings"]


# -- audits ---------------------------------------------------------------------------------------------------------


def _audit_folder(folder: Path, number: int) -> None:
    table = _table(folder, number)
    learned = learn_features(table)
    report = propml.audit(learned.X, table.candidates, model=RidgeClassifier(), cv=2)
    reading = {"candidates": "tags", "id_column": "id"}
    write_audit(folder / "audit", report, table, learned.features, reading=reading, settings={})
    write_decisions([Decision("p0", "b", belongs=False, verdict="drop")], folder / "data" / "decisions.csv")


def _apply(folder: Path) -> Any:
    path, counts, _ = apply_review(folder / "audit", folder / "data" / "decisions.csv", data=folder / "data" / "d.csv")
    return path.read_bytes(), tuple(counts)


def _save_report(folder: Path, number: int) -> None:
    votes = propml.Candidates.from_votes(
        np.repeat(np.arange(12), 2), ["eve", "tom"] * 12, RNG.choice(["cat", "dog", "owl"], 24)
    )
    propml.audit(X[: len(votes)] + number, votes, model=RidgeClassifier(), cv=2).save(folder)


def _read_report(folder: Path) -> Any:
    report = AuditReport.load(folder)
    told = report.verdicts()
    return told.row, told.label, told.probability, list(report.item_ids), repr(report), report.cleaned().to_matrix()


# -- benchmark and tuning -------------------------------------------------------------------------------------------


def _fill_store(folder: Path, number: int) -> None:
    store = ResultStore(folder)
    for seed in range(3):
        entry, noise = MethodEntry("Ridge", "ridge"), Noise("svm", 0.5)
        cell = TabularCell("toy", "birds", noise, entry, seed + 10 * number, metrics=("one_error",))
        folds = [
            FoldResult(fold, np.arange(4), np.eye(4, 3, dtype=np.float32), np.eye(4, 3, dtype=np.uint8),
                       {"one_error": 0.1 * fold + seed}, 0.5, 0.25, {"lam": 0.3})
            for fold in (0, 1)
        ]  # fmt: skip
        store.add(cell.result(folds, peak_bytes=1000), RUN)
    store.add(cell.result(failure=Failure("ValueError", "too hot")), RUN)


def _read_store(folder: Path) -> Any:
    store = ResultStore(folder)
    kept = [
        (fold.fold, fold.test, fold.scores, fold.predicted)
        for key in sorted(store.done())
        for fold in store.scores(key)
    ]
    return {repr(each) for each in [*store.cells(), *store.runs(), *kept]}


def _decide(folder: Path, number: int) -> None:
    write_decisions(
        [Decision(f"p{i}", "=sea", bool(i % 2), "drop", "2025-01-01") for i in range(5 + number)], folder / "d.csv"
    )


def _read_decisions(folder: Path) -> Any:
    return read_decisions(folder / "d.csv")


def _write_toml(folder: Path, number: int) -> None:
    (folder / "e.toml").write_text(
        f'title = "Toy"\ndatasets = ["birds"]\nnoise = [50, {100 + number}]\nfolds = 3\nseeds = [0, 1]\n'
        '[methods.Ridge]\nmethod = "ridge"\nparams = { alpha = 3.0 }\n[methods."A b"]\nmethod = "propml"\n'
        'params = { hidden = [8, 8], loss = "bce" }\n'
    )
    (folder / "best.toml").write_text('[methods.Tuned]\nmethod = "ridge"\nparams = { alpha = 3.0, hidden = [1, 2] }\n')


def _read_toml(folder: Path) -> Any:
    return load_experiment(folder / "e.toml"), read_best(folder / "best.toml")


# -- vision ---------------------------------------------------------------------------------------------------------


def _training(number: int) -> TrainingState:
    torch.manual_seed(number)
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    return TrainingState(
        network,
        WeightAverage(network, 0.9),
        make_optimiser(network, "adam", 1e-2, 0.1),
        torch.amp.GradScaler("cpu", enabled=False),
    )


def _save_checkpoint(folder: Path, number: int) -> None:
    state = _training(number)
    state.network(torch.ones(4, 3)).sum().backward()
    state.optimiser.step()
    state.epoch, state.losses, state.best = 1 + number, [0.5], {"worth": 0.5, "epoch": 1, "weights": "ema"}
    state.history = [{"epoch": 1, "loss": 0.7}]
    state.save(folder / "last.safetensors")


def _restore(folder: Path) -> Any:
    state = _training(7)
    state.restore(folder / "last.safetensors")
    state.network(torch.ones(4, 3)).sum().backward()
    state.optimiser.step()
    weights = [value.numpy() for value in state.network.state_dict().values()]
    return weights, state.epoch, state.losses, state.history, state.best


def _save_network(folder: Path, number: int) -> None:
    torch.manual_seed(number)
    recipe = VisionRecipe(size=16, backbone="small_cnn", epochs=1)
    network = make_network(recipe, 3, load_weights=False)
    save_network(folder / "best.safetensors", network, recipe, ("cat", "dog", "owl"), {"lam": 0.3})


def _score(folder: Path) -> Any:
    trained = load_network(folder)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trained.network(torch.ones(1, 3, 16, 16)).numpy(), trained.label_names, trained.mean, trained.std
