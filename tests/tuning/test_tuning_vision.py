"""The vision trainer as a task: with a trainer whose records are known, and once with the real one."""

import json
from dataclasses import replace
from typing import get_args, get_type_hints

import fake_trainer
import pytest

from propml.tuning.result import read_best
from propml.tuning.searching import run_search
from propml.tuning.tasks import VisionTask
from propml.tuning.trials import DIED, TrialQueue
from propml.vision.recipe import METHODS, PAPER, VisionRecipe
from propml.vision.sources import open_source


@pytest.fixture(scope="module")
def source():
    return open_source("digits-mosaic", "train", n_samples=60)


@pytest.fixture
def recipe():
    small = {"size": 16, "backbone": "small_cnn", "batch_size": 16, "augment": "none"}
    return replace(PAPER, noise=0.2, epochs=3, lam=1.0, **small)


def task(source, recipe, **arguments):
    return fake_trainer.FakeVisionTask(source, recipe, device="cpu", **arguments)


def history(folder):
    return json.loads((folder / "run" / "history.json").read_text())


def reported(own, configuration, folder, stop_after=99):
    reports = []

    def report(epoch, value):
        reports.append((epoch, value))
        return epoch >= stop_after

    own.run(configuration, report, folder)
    return reports


def test_oracle_looks_at_the_validation_images(source, recipe):
    oracle = replace(recipe, select="oracle")
    with pytest.raises(ValueError, match="no validation images with true labels"):
        task(source, oracle)
    with pytest.raises(ValueError, match="judges nothing"):
        task(source, replace(recipe, select="last"))
    own = task(source, oracle, validation=source)
    assert own.facts()["objective"] == "oracle"
    assert own.value({"epoch": 1, "held-out mAP raw": 0.9, "mAP raw": 0.3, "mAP ema": 0.4}) == 0.4


@pytest.mark.parametrize("loss", get_args(get_type_hints(VisionRecipe)["loss"]))
def test_a_search_is_called_as_its_method_is_in_the_tables(source, recipe, loss):
    title = task(source, replace(recipe, loss=loss)).title
    assert METHODS[title] == {"loss": loss}
    assert {"propml": "ProPML", "unbiased": "Unbiased", "bce": "BCE"}.get(loss, title) == title


def test_a_pruned_run_ends_after_its_epoch_and_leaves_no_weights(source, recipe, tmp_path):
    assert len(reported(task(source, recipe), {"learning_rate": 1e-4}, tmp_path, stop_after=1)) == 1
    assert len(history(tmp_path)) == 1
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_run_that_kills_its_process_is_tried_again_and_the_search_goes_on(source, recipe, tmp_path):
    """As the system does where memory runs out."""
    own = task(source, recipe, changes={"batch_size": [13, 16]})
    TrialQueue(own, 2, tmp_path / "s.db").study.enqueue_trial({"batch_size": 13})
    found = run_search(own, trials=2, storage=tmp_path / "s.db", folder=tmp_path)
    failed, done = found.trials
    assert (failed.params["batch_size"], failed.why) == (13, DIED)
    assert done.params["batch_size"] == 16
    assert not done.why
    # Every try has gone on from the first epoch, which was not done again.
    assert [record["began"] for record in history(tmp_path / "trials" / "0")] == [1]


def test_a_run_goes_on_from_its_checkpoint_and_reports_all_epochs(source, recipe, tmp_path):
    reported(task(source, recipe), {"learning_rate": 1e-4, "lam": 0.3}, tmp_path, stop_after=1)
    reports = reported(task(source, recipe), {"learning_rate": 1e-4, "lam": 0.3}, tmp_path)
    # The better of both kinds of weights counts; epoch 1 was not done again.
    assert [epoch for epoch, _ in reports] == [1, 2, 3]
    assert [value for _, value in reports] == pytest.approx([fake_trainer.worth(1e-4, e, 3) for e in (1, 2, 3)])
    assert [record["began"] for record in history(tmp_path)] == [1, 2, 2]


def test_what_the_trainer_says_is_why_a_trial_failed(source, recipe):
    with pytest.raises(ValueError, match=r"all 2 trials failed.*weight_decay is 0\.0005; that is too much"):
        run_search(task(source, recipe, changes={"weight_decay": 5e-4}), trials=2)


def test_spaces_of_images(source, recipe):
    assert set(task(source, recipe).space) == {"loss", "learning_rate", "weight_decay", "lam"}
    with pytest.raises(ValueError, match="'rate' is not an argument of the vision recipe"):
        task(source, recipe, changes={"rate": 1.0})
    assert task(source, recipe, changes={"lr": (1e-3, 1e-2)}).space["learning_rate"].high == 1e-2  # its former name
    with pytest.raises(ValueError, match="is not an argument"):
        task(source, recipe, changes={"epochs": 3})
    assert task(source, recipe).facts() != task(source, replace(recipe, batch_size=8)).facts()


def test_the_real_trainer_is_searched(source, recipe, tmp_path):
    own = VisionTask(source, replace(recipe, epochs=2), {"learning_rate": (1e-3, 1e-2)}, device="cpu", cache=None)
    found = run_search(own, trials=1, storage=tmp_path / "s.db", folder=tmp_path)
    assert found.trials[0].state == "complete"
    assert 0 < found.value <= 1
    method, params = read_best(found.write(tmp_path))
    assert method == "vision"
    with pytest.raises(ValueError, match="images were searched"):
        found.estimator()
    assert VisionRecipe(**params) == replace(
        recipe, epochs=2, **{n: params[n] for n in ("learning_rate", "weight_decay", "lam")}
    )
    assert (tmp_path / "trials" / "0" / "run" / "best.safetensors").exists()
