"""Experiments: the paper's files say what the paper did, and a part of one is a part of its cells."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from propml.benchmark import experiment as experiment_module
from propml.benchmark.experiment import experiment_names, load_experiment
from propml.benchmark.rivals import RIVALS
from propml.datasets import names as dataset_names
from propml.methods import METHODS
from propml.noise import Noise
from propml.paper import load_published

ROOT = Path(__file__).parents[2]
OURS = ("quick", "real-world", "artificial", "ground", "ground-quick")


# -- the paper's ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["real-world", "artificial"])
def test_every_published_row_is_asked_for(name):
    experiment = load_experiment(name)
    asked = {(cell.dataset, cell.noise, cell.method.name) for cell in experiment.cells()}
    published = load_published(name)
    assert {(row.dataset, row.noise, row.method) for row in published} <= asked
    assert {row.metric for row in published} <= set(experiment.metrics)
    assert {f"{row.metric}:paper" for row in published} <= set(experiment.metrics)
    assert set(experiment.datasets) == set(dataset_names(name))
    assert (experiment.folds, experiment.seeds, experiment.selection) == (5, (0,), "candidates")
    assert {entry.method for entry in experiment.methods} == set(METHODS)


def test_numbers_of_cells():
    methods = len(load_experiment("artificial").methods)
    assert len(load_experiment("artificial").cells()) == 5 * 3 * methods
    assert len(load_experiment("real-world").cells()) == 5 * methods
    assert {cell.noise for cell in load_experiment("real-world").cells()} == {None}


@pytest.mark.parametrize("name", OURS)
def test_test_labels_are_looked_at_only_by_methods_that_say_so(name):
    for cell in load_experiment(name).cells():
        assert (cell.selection == "oracle") == cell.method.name.endswith(("(oracle)", "(as published)"))


@pytest.mark.parametrize("name", OURS)
def test_older_methods_get_scaled_features_and_propml_scales_by_itself(name):
    for entry in load_experiment(name).methods:
        assert entry.scaling == ("none" if entry.method in ("propml", *RIVALS) else "unit-range")


def test_quick_runs_every_method_at_two_levels_on_embedded_data():
    quick = load_experiment("quick")
    assert {entry.method for entry in quick.methods} == set(METHODS)
    assert {"ProPML default", "ProPML", "BCE"} <= {entry.name for entry in quick.methods}
    assert (quick.datasets, quick.folds) == (("digits-mosaic",), 3)
    assert {cell.noise for cell in quick.cells()} == {*quick.noise} == {Noise("svm", 0.5), Noise("svm", 1.5)}


def test_the_ground_has_every_kind_of_noise_and_every_rival():
    ground = load_experiment("ground")
    names = {str(noise) for noise in ground.noise}
    assert {"none", "svm 50", "svm 100", "svm 150", "flips 0.1", "flips 0.2", "flips 0.4"} <= names
    kinds = {noise.kind for noise in ground.noise}
    assert kinds == {"none", "svm", "neighbours", "flips", "class-flips", "count", "annotators"}
    assert {entry.method for entry in ground.methods} == {"propml", "ridge", "kernel-ridge", "pml-ni", *RIVALS}
    default = next(entry for entry in ground.methods if entry.name == "ProPML default")
    assert default.params == {}
    real = {cell.dataset for cell in ground.cells() if cell.noise is None}
    assert real == {"mirflickr", "yeastcc", "yeastbp", "redv2"}
    assert len(ground.cells()) == (11 * 11 + 4) * len(ground.methods)


def test_the_quick_ground_is_a_part_of_the_ground():
    ground, quick = load_experiment("ground"), load_experiment("ground-quick")
    assert set(quick.datasets) < set(ground.datasets)
    assert set(quick.noise) < set(ground.noise)
    assert quick.metrics == ground.metrics
    assert {entry.name for entry in quick.methods} < {entry.name for entry in ground.methods}
    assert all(entry in ground.methods for entry in quick.methods)
    assert (quick.rows, quick.folds, quick.test_folds) == (300, 5, 1)


def test_names_are_those_of_the_files():
    assert {*OURS, "vision"} <= set(experiment_names()) == {path.stem for path in (ROOT / "paper").glob("*.toml")}


def test_a_wheel_carries_the_files_where_they_are_looked_for(monkeypatch, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {f"paper/{path.name}" for path in (ROOT / "paper").glob("*.toml")} <= set(included)
    for source, target in included.items():
        if source.startswith("paper/"):
            assert ROOT / "src" / target == experiment_module.INSTALLED / Path(source).name
            shutil.copy(ROOT / source, tmp_path)
    monkeypatch.setattr(experiment_module, "FOLDER", tmp_path)
    assert set(OURS) <= set(experiment_names())
    assert load_experiment("quick").title


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(
        ValueError, match=r"experiment 'realworld' is not known \(.*\.toml file\); did you mean 'real-world'\?$"
    ):
        load_experiment("realworld")


# -- a part of it -----------------------------------------------------------------------------------------------------


def test_narrowed_keeps_what_is_asked_for_in_the_order_of_the_experiment():
    whole = load_experiment("artificial")
    part = whole.narrowed(datasets=["scene", "Birds"], methods=["Ridge", "CPLST"], noise=[1.5, "50"], seeds=[0])
    assert part.datasets == ("birds", "scene")
    assert [entry.name for entry in part.methods] == ["CPLST", "Ridge"]
    assert part.noise == (Noise("svm", 0.5), Noise("svm", 1.5))
    assert len(part.cells()) == 2 * 2 * 2
    assert {cell.key for cell in part.cells()} <= {cell.key for cell in whole.cells()}
    assert whole.narrowed() == whole


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"datasets": ["yeastcc"]}, "artificial has no dataset 'yeastcc'; "),
        ({"datasets": ["birdz"]}, "dataset 'birdz' is not known; did you mean 'birds'?"),
        ({"methods": ["ridge"]}, "artificial has no method 'ridge'; did you mean 'Ridge'?"),
        ({"noise": [0.75]}, "artificial has no noise level 0.75; "),
        ({"seeds": [3]}, "artificial has no seed 3; known are 0"),
        ({"methods": []}, "no method of artificial was asked for"),
    ],
)
def test_narrowing_to_what_is_not_there_is_told(asked, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        load_experiment("artificial").narrowed(**asked)
