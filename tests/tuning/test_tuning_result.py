"""The files of a search."""

import csv
import tomllib

import numpy as np
import pytest
from fake_tasks import Hill, Thirsty

from propml.benchmark.experiment import load_experiment
from propml.benchmark.runner import run_experiment
from propml.datasets import digits_mosaic
from propml.tuning import read_best, search
from propml.tuning.searching import run_search
from propml.tuning.tasks import TableData


@pytest.fixture(scope="module")
def found():
    made = digits_mosaic(90)
    return search(made.X, made.candidates, trials=6, epochs=3, space={"hidden": [(8, 8), (4,)]})


def test_the_benchmark_runs_the_best_configuration_as_it_is(found, tmp_path):
    best = found.write(tmp_path, {"datasets": ["digits-mosaic"], "noise": [50], "rows": 60, "folds": 2})
    experiment = load_experiment(str(best))
    (entry,) = experiment.methods
    assert entry.name == "ProPML tuned"
    assert entry.method == "propml"
    assert entry.params == found.params
    assert len(experiment.cells()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"best.toml", "trials.csv", "search.html"}
    summary = run_experiment(experiment, tmp_path / "results", show=False)
    assert [cell.method.name for cell in summary.done] == ["ProPML tuned"]
    assert summary.failed == []


def test_reading_it_back_gives_the_same_arguments(found, tmp_path):
    method, params = read_best(found.write(tmp_path))
    assert method == "propml"
    assert params == found.params
    assert isinstance(params["hidden"], tuple)


def test_the_estimator_of_a_method_without_networks_scales_as_the_search_did():
    made = digits_mosaic(90)
    X = made.X * np.linspace(1, 100, made.X.shape[1])
    found = search(X, made.candidates, "ridge", trials=3)
    values = []
    data = TableData(X, made.candidates)
    for fold in data.folds:
        model = found.estimator().fit(X[fold.train], made.candidates[fold.train])
        values.append(data.judged(model.predict_proba(X[fold.held]), fold))
    # The search scales all rows at once, as the benchmark does, and the estimator those that it is given.
    assert np.mean(values) == pytest.approx(found.value, abs=0.02)
    assert model[0].fit_transform(X).min() == -1


def test_oracle_says_so_in_the_file(found):
    assert "held-out candidate labels" in found.to_toml()
    found.facts["objective"] = "oracle"
    assert "true labels (oracle)" in found.to_toml()
    found.facts["objective"] = "candidates"


def test_all_trials_are_in_the_table():
    found = run_search(Thirsty(), trials=10)
    rows = list(csv.DictReader(found.to_csv().splitlines()))
    assert [int(row["trial"]) for row in rows] == list(range(10))
    for row, each in zip(rows, found.trials, strict=True):
        assert float(row["x"]) == each.params["x"]
        assert (row["value"] == "") == (each.state == "failed") == (each.params["x"] > 0.5)
        assert row["why"] == each.why


def test_texts_and_numbers_survive_toml():
    from propml.tuning.result import _toml

    values = {"a": 1e-07, "b": True, "c": 'quo"te\n', "d": (1, 2), "e": 3, "f": (), "g": 0.1}
    text = "\n".join(f"{name} = {_toml(value)}" for name, value in values.items())
    assert tomllib.loads(text) == {**values, "d": [1, 2], "f": []}


def test_files_that_are_no_result_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not there; give the best\.toml"):
        read_best(tmp_path / "best.toml")
    (tmp_path / "other.toml").write_text("[methods.A]\nmethod = 'a'\n[methods.B]\nmethod = 'b'\n")
    with pytest.raises(ValueError, match="holds 2 methods"):
        read_best(tmp_path / "other.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("methods = 3", "methods is 3, expected fields"),
        ("", "holds 0 methods"),
        ("[methods]\nA = 3", "methods.A is 3, expected fields"),
        ("[methods.A]\nparams = {}", "methods.A has no 'method'"),
        ("[methods.A]\nmethod = 'ridge'\nparams = 3", "methods.A.params is 3, expected fields"),
        ("recipe = 3", "methods.recipe.params is 3, expected fields"),
        ("id,tags\np1,beach", "is not a readable TOML file"),
        ("\xff", "is not a readable TOML file"),
        ("x = " + "[" * 9999 + "]" * 9999, "is not a readable TOML file"),
    ],
)
def test_files_of_another_kind_are_told_by_name(tmp_path, text, words):
    (tmp_path / "b.toml").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=rf"b\.toml.*{words}.*; give the best\.toml that `propml tune` wrote"):
        read_best(tmp_path / "b.toml")


def test_a_study_without_values_has_no_best():
    study = run_search(Hill(), trials=1)
    assert study.best.number == 0
    assert study.failures() == []
