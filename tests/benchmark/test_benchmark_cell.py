"""Cells: their names, and that what is computed is the protocol: trained on candidates, tested on truth."""

import csv
import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_info

from propml.benchmark.cell import MethodEntry, TabularCell, compute
from propml.benchmark.experiment import load_experiment
from propml.benchmark.problem import CandidateProblem, load_problem
from propml.methods import METHODS, CandidateClassifier
from propml.methods.registry import Method
from propml.methods.ridge import RidgeRegressionClassifier
from propml.metrics import evaluate
from propml.noise import Noise
from propml.paper import METRIC_NAMES, evaluate_metrics
from propml.range_scaler import RangeScaler

RIDGE = MethodEntry("Ridge", "ridge", {"alpha": 3.0})
NETWORK = MethodEntry("ProPML", "propml", {"loss": "propml", "hidden": (8,), "epochs": 3, "cv": 2}, "none")
TOY = TabularCell("toy", "digits-mosaic", Noise("flips", 0.2), RIDGE, 0, rows=90, folds=3)


@pytest.fixture(scope="module")
def problem():
    return load_problem("digits-mosaic", Noise("flips", 0.2), 0, rows=90)


def with_other_truth(problem):
    """The same rows and candidates, and a truth that has nothing to do with them."""
    noise = np.random.default_rng(7).permutation(problem.truth.ravel()).reshape(problem.truth.shape)
    return CandidateProblem(problem.X, problem.candidates, noise)


# -- the key ----------------------------------------------------------------------------------------------------------


def test_the_key_is_readable_and_ends_in_the_hash_of_the_configuration():
    canonical = json.dumps(TOY.configuration(), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
    assert TOY.key == f"toy-digits-mosaic-0.2-Ridge-0-{digest}"
    assert replace(TOY, noise=None).key.startswith("toy-digits-mosaic-real-Ridge-0-")


def test_the_key_never_changes_by_itself():
    # If this fails, results that are kept are no longer found: raise PROTOCOL if the numbers changed, else mend it.
    assert (
        TabularCell("toy", "birds", Noise("svm", 0.5), MethodEntry("Ridge", "ridge"), 0).key
        == "toy-birds-50-Ridge-0-98125648"
    )


def test_another_process_gives_the_same_key():
    code = (
        "from propml.benchmark.cell import TabularCell, MethodEntry\nfrom propml.noise import Noise\n"
        "entry = MethodEntry('K', 'kernel-ridge', {'gamma': 0.1, 'alpha': 1 / 3})\n"
        "noise, settings = Noise('svm', 0.5), {'rounding': 'exact'}\n"
        "print(TabularCell('toy', 'birds', noise, entry, 3, corruption_settings=settings).key)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    entry = MethodEntry("K", "kernel-ridge", {"alpha": 1 / 3, "gamma": 0.1})
    settings = {"rounding": "exact"}
    cell = TabularCell("toy", "birds", Noise("svm", 0.5), entry, 3, corruption_settings=settings)
    assert told.stdout.strip() == cell.key


def test_keys_differ_between_all_cells_and_are_safe_as_file_names():
    keys = [cell.key for name in ("quick", "real-world", "artificial") for cell in load_experiment(name).cells()]
    assert len({key.lower() for key in keys}) == len(keys)
    assert all(re.fullmatch(r"[A-Za-z0-9.-]{10,200}", key) for key in keys)
    odd = TabularCell("../own", "birds", Noise("svm", 0.5), MethodEntry("λ/…\\ " + "x" * 300, "ridge"), 0)
    assert re.fullmatch(r"[A-Za-z0-9.-]{10,200}", odd.key)
    assert not odd.key.startswith(".-")


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "birds"},
        {"noise": Noise("flips", 0.3)},
        {"noise": Noise("fraction", 0.2)},
        {"noise": None},
        {"seed": 1},
        {"corruption_settings": {"rounding": "exact"}},
        {"rows": 91},
        {"folds": 4},
        {"stratified": True},
        {"selection": "oracle"},
        {"method": replace(RIDGE, params={"alpha": 4.0})},
        {"method": replace(RIDGE, params={})},
        {"method": replace(RIDGE, method="kernel-ridge")},
        {"method": replace(RIDGE, scaling="none")},
        {"method": replace(RIDGE, name="Other")},
        {"method": replace(RIDGE, lams=(0.1,))},
    ],
)
def test_the_hash_changes_with_what_changes_the_numbers(change):
    assert replace(TOY, **change).key.rpartition("-")[2] != TOY.key.rpartition("-")[2]


def test_the_key_stays_where_nothing_that_counts_changes(monkeypatch):
    assert replace(TOY, metrics=("one_error",)).key == TOY.key
    # an argument that is spelled out and one that is left at its default are the same method
    plain = replace(TOY, method=replace(RIDGE, params={}))
    assert replace(TOY, method=replace(RIDGE, params={"alpha": 10.0})).key == plain.key
    # candidates that are real know no corruption
    real = replace(TOY, noise=None)
    assert replace(real, corruption_settings={"rounding": "exact"}).key == real.key
    assert (
        replace(TOY, method=replace(NETWORK, params={"verbose": True})).key
        == replace(TOY, method=replace(NETWORK, params={})).key
    )


def test_title_and_other_methods_do_not_matter(tmp_path):
    text = (Path(__file__).parents[2] / "paper" / "quick.toml").read_text(encoding="utf-8")
    head, _, methods = text.partition("\n[methods")
    (tmp_path / "quick.toml").write_text(
        head.replace("title = ", "title = 'x' #") + '\n[methods.New]\nmethod = "ridge"\n[methods' + methods
    )
    before = {cell.key for cell in load_experiment("quick").cells()}
    assert before < {cell.key for cell in load_experiment(tmp_path / "quick.toml").cells()}


def test_cells_travel_between_processes():
    for cell in load_experiment("real-world").cells():
        again = pickle.loads(pickle.dumps(cell))
        assert again == cell
        assert again.key == cell.key


# -- the protocol -----------------------------------------------------------------------------------------------------


def test_computed_as_the_protocol_says(problem):
    metrics = ("average_precision", "hamming_loss", "one_error:paper")
    outcome = compute(replace(TOY, metrics=metrics))
    X = RangeScaler().fit_transform(problem.X)
    for fold, (train, test) in enumerate(KFold(3, shuffle=True, random_state=0).split(X)):
        model = RidgeRegressionClassifier(3.0).fit(X[train], problem.candidates[train])
        scores = model.decision_function(X[test]).astype(np.float32)
        found = outcome.folds[fold]
        assert found.fold == fold
        assert np.array_equal(found.test, test)
        assert found.scores.dtype == np.float32
        assert np.allclose(found.scores, scores, atol=1e-6)
        assert found.predicted.dtype == np.uint8
        assert np.array_equal(found.predicted, model.predict(X[test]))
        ours = evaluate(problem.truth[test], found.scores, found.predicted)
        paper = evaluate(problem.truth[test], found.scores, found.predicted, paper=True)
        assert found.values == {
            "average_precision": ours["average_precision"],
            "hamming_loss": ours["hamming_loss"],
            "one_error:paper": paper["one_error"],
        }
        assert found.seconds_fit > 0
        assert found.seconds_predict > 0
    assert (outcome.key, outcome.settings) == (TOY.key, TOY.configuration())
    assert outcome.device == "cpu"
    assert outcome.peak_bytes > 50 * 2**20


@pytest.mark.parametrize("entry", [RIDGE, NETWORK, MethodEntry("PAR-VLS", "par-vls")], ids=lambda entry: entry.name)
def test_training_never_sees_truth(problem, entry):
    cell = replace(TOY, method=entry)
    right, wrong = compute(cell, problem=problem), compute(cell, problem=with_other_truth(problem))
    for one, other in zip(right.folds, wrong.folds, strict=True):
        assert np.array_equal(one.scores, other.scores)
        assert np.array_equal(one.predicted, other.predicted)
        assert one.chosen == other.chosen
        assert one.values != other.values


def test_training_never_sees_candidates_of_test_rows(problem):
    outcome = compute(TOY, problem=problem)
    matrix = problem.candidates.to_matrix()
    matrix[outcome.folds[0].test] = 1 - matrix[outcome.folds[0].test]
    turned = CandidateProblem(problem.X, type(problem.candidates).from_matrix(matrix, empty="ignore"), problem.truth)
    assert np.array_equal(compute(TOY, problem=turned).folds[0].scores, outcome.folds[0].scores)


def test_what_the_method_chose_is_kept_as_plain_values(problem):
    for fold in compute(replace(TOY, method=NETWORK), problem=problem).folds:
        assert set(fold.chosen) == {"lam", "shares", "threshold"}
        assert json.loads(json.dumps(fold.chosen)) == fold.chosen
        assert fold.chosen["lam"]["network"] > 0
        assert sum(fold.chosen["shares"].values()) == pytest.approx(1)


def test_the_seed_decides_folds_and_networks(problem):
    cell = replace(TOY, method=NETWORK)
    first, again, other = (compute(replace(cell, seed=seed), problem=problem) for seed in (0, 0, 1))
    assert np.array_equal(first.folds[0].scores, again.folds[0].scores)
    assert not np.array_equal(first.folds[0].test, other.folds[0].test)


def test_stratified_folds_are_taken_where_asked(problem):
    plain, stratified = (compute(replace(TOY, stratified=which), problem=problem) for which in (False, True))
    assert any(not np.array_equal(a.test, b.test) for a, b in zip(plain.folds, stratified.folds, strict=True))


def test_indistinguishable_labels_are_tied_and_judged_again_alike(problem):
    """Two labels with the same candidates have the same scores, whatever rounding did to them."""
    matrix = problem.candidates.to_matrix()
    matrix[:, 4] = matrix[:, 3]
    twins = CandidateProblem(problem.X, type(problem.candidates).from_matrix(matrix), problem.truth)
    cell = replace(TOY, method=MethodEntry("PML-NI", "pml-ni"), metrics=METRIC_NAMES[:5])
    for fold in compute(cell, problem=twins).folds:
        assert np.array_equal(fold.scores[:, 3], fold.scores[:, 4])
        again = evaluate_metrics(problem.truth[fold.test], fold.scores, fold.predicted, cell.metrics, "PML-NI")
        assert again == fold.values


class Probe(CandidateClassifier):
    """Notes how many BLAS threads it was given, and takes 200 MB."""

    threads: ClassVar[list[int]] = []

    def __init__(self, random_state=None):
        self.random_state = random_state

    def _fit(self, X, candidates):
        Probe.threads += [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        self.seed_ = self.random_state or 0
        self.large_ = np.ones(25_000_000)

    def _scores(self, X):
        return np.tile(np.arange(len(self.labels_)) + float(self.seed_), (len(X), 1))


@pytest.fixture
def probe(monkeypatch):
    monkeypatch.setitem(METHODS, "probe", Method("Probe", __name__, "Probe"))
    Probe.threads.clear()
    return MethodEntry("Probe", "probe")


def test_a_method_gets_the_seed_and_one_thread(problem, probe):
    outcome = compute(replace(TOY, method=probe, seed=5), problem=problem)
    assert outcome.folds[0].scores[0, 0] == 5
    assert set(Probe.threads) == {1}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets the peak of a process")
def test_memory_is_that_of_the_cell_and_not_of_the_one_before(problem, probe):
    heavy = compute(replace(TOY, method=probe), problem=problem).peak_bytes
    light = compute(TOY, problem=problem).peak_bytes
    assert heavy > light + 100 * 2**20


def test_on_a_gpu_its_name_and_its_memory_are_told(problem, probe, monkeypatch):
    """What is asked of CUDA; without a GPU its answers are made up."""
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: asked.append("reset"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: asked.append("read") or 12345)
    monkeypatch.setattr(Probe, "get_params", lambda self, deep=True: {"device": "auto"})
    outcome = compute(replace(TOY, method=probe), problem=problem)
    assert (outcome.device, outcome.peak_bytes) == ("NVIDIA H200", 12345)
    assert asked == ["reset", "read"]
    monkeypatch.setattr(Probe, "get_params", lambda self, deep=True: {"device": "cpu"})
    assert compute(replace(TOY, method=probe), problem=problem).device == "cpu"
    assert compute(TOY, problem=problem).device == "cpu"


def test_a_system_that_does_not_tell_its_memory_gives_zero(problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert compute(TOY, problem=problem).peak_bytes == 0


def test_what_a_method_raises_comes_through(problem):
    with pytest.raises(ValueError, match="alpha is -1"):
        compute(replace(TOY, method=replace(RIDGE, params={"alpha": -1})), problem=problem)
    with pytest.raises(ValueError, match="selection is 'truth'"):
        compute(replace(TOY, selection="truth"), problem=problem)


def test_a_dataset_that_is_not_there_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PROPML_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (cell,) = load_experiment("real-world").narrowed(datasets=["music-style"], methods=["Ridge"]).cells()
    with pytest.raises(FileNotFoundError, match="run `propml datasets fetch music-style` or set PROPML_DATA"):
        compute(cell)


def test_a_released_rule_sees_the_true_labels_of_training_rows_only(problem):
    cell = replace(TOY, method=MethodEntry("PML-NI (oracle)", "pml-ni", {"cut": "released"}), selection="oracle")
    (first, *_), (blind, *_) = (
        compute(each, problem=problem).folds for each in (cell, replace(cell, selection="candidates"))
    )
    np.testing.assert_array_equal(first.scores, blind.scores)
    assert (first.predicted != blind.predicted).any()
    other = with_other_truth(problem).truth
    other[np.setdiff1d(np.arange(len(other)), first.test)] = np.delete(problem.truth, first.test, axis=0)
    (again, *_) = compute(cell, problem=CandidateProblem(problem.X, problem.candidates, other)).folds
    np.testing.assert_array_equal(again.predicted, first.predicted)


# -- real files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ridge", "cplst", "ml-knn", "pml-ni"])
def test_the_numbers_of_the_paper_folder_come_out_on_birds(data_dir, method):
    """What ``paper/results`` says of a method, a run of today says too."""
    title = METHODS[method].title
    with (Path(__file__).parents[2] / "paper" / "results" / "results-long.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if (r["dataset"], r["noise"], r["method"]) == ("birds", "100", title)]
    kept = {row["metric"]: float(row["ours_mean"]) for row in rows}
    (cell,) = load_experiment("artificial").narrowed(datasets=["birds"], noise=[1.0], methods=[title]).cells()
    outcome = compute(cell)
    for metric in ("average_precision:paper", "hamming_loss", "hamming_loss:paper"):
        measured = 100 * np.mean([fold.values[metric] for fold in outcome.folds])
        assert measured == pytest.approx(kept[metric], abs=0.02)


def test_a_sparse_real_set_stays_sparse_for_networks(data_dir):
    entry = replace(NETWORK, params={**NETWORK.params, "epochs": 1})
    outcome = compute(TabularCell("toy", "yeastcc", None, entry, 0, rows=200, folds=2))
    assert sum(len(fold.test) for fold in outcome.folds) == 200
    assert all(np.isfinite(fold.scores).all() for fold in outcome.folds)
