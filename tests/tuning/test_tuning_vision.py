"""The vision trainer as a task: with a trainer whose curves are known, and once with the real one."""

import csv
from dataclasses import replace
from typing import get_args, get_type_hints

import fake_trainer
import pytest

from propml.tuning.result import read_best
from propml.tuning.search import Pruned, run_search
from propml.tuning.vision_trials import VisionTask, _failure, _train_one
from propml.vision.recipe import METHODS, Recipe
from propml.vision.sources import open_source


@pytest.fixture(scope="module")
def source():
    return open_source("digits-mosaic", "train", n_samples=60)


@pytest.fixture
def recipe():
    return Recipe(size=16, backbone="small_cnn", noise=0.2, epochs=3, batch_size=16, augment="none", lam=1.0)


def task(source, recipe, **arguments):
    return VisionTask(source, recipe, train=fake_trainer.train, device="cpu", **arguments)


def told(own, configuration, folder, stop_after=99):
    reports = []

    def report(epoch, value):
        reports.append((epoch, value))
        if epoch >= stop_after:
            raise Pruned

    try:
        own.run(configuration, report, folder)
    finally:
        (folder / "reports").write_text(repr(reports))
    return reports


def test_oracle_looks_at_the_validation_images(source, recipe, tmp_path):
    oracle = replace(recipe, select="oracle")
    with pytest.raises(ValueError, match="no validation images with true labels"):
        task(source, oracle)
    with pytest.raises(ValueError, match="judges nothing"):
        task(source, replace(recipe, select="last"))
    own = task(source, oracle, validation=source)
    assert own.facts()["objective"] == "oracle"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "curves.csv").write_text("epoch,held-out mAP raw,mAP raw,mAP ema\n1,0.9,0.3,0.4\n")
    assert own._curve(tmp_path / "run") == [(1, 0.4)]


@pytest.mark.parametrize("loss", get_args(get_type_hints(Recipe)["loss"]))
def test_a_search_is_called_as_its_method_is_in_the_tables(source, recipe, loss):
    title = task(source, replace(recipe, loss=loss)).title
    assert METHODS[title] == {"loss": loss}
    assert {"propml": "ProPML", "unbiased": "Unbiased", "bce": "BCE"}.get(loss, title) == title


def test_a_pruned_run_is_ended_at_once_and_leaves_no_weights(source, recipe, tmp_path):
    slow = replace(recipe, batch_size=7, epochs=50)  # half a second an epoch
    with pytest.raises(Pruned):
        told(task(source, slow), {"lr": 1e-4}, tmp_path, stop_after=1)
    with (tmp_path / "run" / "curves.csv").open() as file:
        assert len(list(csv.DictReader(file))) <= 2
    assert not (tmp_path / "run" / "last.safetensors").exists()


def test_a_run_whose_process_is_killed_fails_for_memory_and_goes_on_when_tried_again(source, recipe, tmp_path):
    with pytest.raises(MemoryError):
        told(task(source, replace(recipe, batch_size=13)), {"lr": 1e-4}, tmp_path)
    reports = told(task(source, recipe), {"lr": 1e-4, "lam": 0.3}, tmp_path)
    # Every epoch is reported, with the better of both kinds of weights; epoch 1 was not done again.
    assert [epoch for epoch, _ in reports] == [1, 2, 3]
    assert [value for _, value in reports] == pytest.approx([fake_trainer.worth(1e-4, e, 3) for e in (1, 2, 3)])
    with (tmp_path / "run" / "curves.csv").open() as file:
        assert [row["began"] for row in csv.DictReader(file)] == ["1", "2", "2"]


def test_what_the_trainer_says_is_why_a_trial_failed(source, recipe, tmp_path):
    with pytest.raises(ValueError, match=r"weight_decay is 0\.0005; that is too much"):
        told(task(source, recipe), {"weight_decay": 5e-4}, tmp_path)


def test_how_the_process_of_a_run_ends(source, recipe, tmp_path):
    seen = []
    _train_one(lambda *a, **k: seen.append(k), source, None, recipe, tmp_path, "cpu", None)
    assert seen == [{"resume": False, "device": "cpu", "cache": None, "show": False}]

    def fails(*_, **__):
        raise KeyError("what")

    with pytest.raises(SystemExit):
        _train_one(fails, source, None, recipe, tmp_path, "cpu", None)
    assert str(_failure(tmp_path, 1)) == "KeyError: 'what'"
    assert str(_failure(tmp_path / "nowhere", 3)) == "its process ended with exit code 3"
    assert str(_failure(tmp_path, -15)) == "its process ended with signal 15"


def test_spaces_of_images(source, recipe):
    assert set(task(source, recipe).space) == {"loss", "lr", "weight_decay", "lam"}
    with pytest.raises(ValueError, match="'learning_rate' is not an argument of the vision recipe"):
        task(source, recipe, changes={"learning_rate": 1.0})
    with pytest.raises(ValueError, match="is not an argument"):
        task(source, recipe, changes={"epochs": 3})
    assert task(source, recipe).facts() != task(source, replace(recipe, batch_size=8)).facts()


def test_the_real_trainer_is_searched(source, recipe, tmp_path):
    own = VisionTask(source, replace(recipe, epochs=2), {"lr": (1e-3, 1e-2)}, device="cpu", cache=None)
    found = run_search(own, trials=1, storage=tmp_path / "s.db", folder=tmp_path)
    assert found.trials[0].state == "complete"
    assert 0 < found.value <= 1
    method, params = read_best(found.write(tmp_path))
    assert method == "vision"
    with pytest.raises(ValueError, match="images were searched"):
        found.estimator()
    assert Recipe(**params) == replace(recipe, epochs=2, **{n: params[n] for n in ("lr", "weight_decay", "lam")})
    assert (tmp_path / "trials" / "0" / "run" / "best.safetensors").exists()
