"""Recipes: the paper's values, CDCR's stages, and what is refused."""

import json
import subprocess
import sys

import pytest

from propml.vision.recipe import METHODS, PAPER, RECIPES, VisionRecipe, read_recipe, write_recipe


def test_the_papers_recipe_is_the_released_configuration():
    recipe = PAPER
    assert (recipe.backbone, recipe.size, recipe.batch_size, recipe.epochs) == ("tresnet_l", 224, 64, 50)
    assert (recipe.learning_rate, recipe.weight_decay, recipe.pct_start, recipe.ema_decay) == (
        7.4134e-5,
        6.627e-7,
        0.2,
        0.9997,
    )
    assert recipe.optimiser == "adam"


def test_cdcr_as_published_warms_up_for_16_epochs_and_selects_for_41_under_a_schedule_of_80():
    stages = VisionRecipe(curriculum="cdcr", epochs=57, warmup_epochs=16, schedule_epochs=80).stages()
    assert stages == [(0, 16, 80, False), (16, 57, 80, True)]


def test_a_schedule_ends_with_its_stage_unless_told_otherwise():
    assert VisionRecipe(curriculum="cdcr", epochs=30, warmup_epochs=10).stages() == [
        (0, 10, 10, False),
        (10, 30, 20, True),
    ]


def test_lam_is_chosen_only_where_the_loss_has_one():
    assert VisionRecipe(loss="propml").chooses_lam
    assert VisionRecipe(loss="power").chooses_lam
    assert not VisionRecipe(loss="bce").chooses_lam
    assert not VisionRecipe(loss="propml", lam=0.1).chooses_lam


def test_every_method_of_the_tables_is_a_recipe():
    for changes in METHODS.values():
        for recipe in RECIPES.values():
            VisionRecipe(**{**recipe, **changes})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"loss": "hinge"}, "loss is 'hinge'; choose one of propml"),
        ({"compile": "fast"}, "compile is 'fast'"),
        ({"epochs": 0}, "epochs is 0; give at least 1"),
        ({"crop_size": 8}, 'crop_size is 8; give at least 1, and augment="crop" with it'),
        ({"noise": 1.0}, "noise is 1.0; it is a share of at least 0 and below 1"),
        ({"ema_decay": 1.0}, "ema_decay is 1.0"),
        ({"lam": -1.0}, "lam is -1.0"),
        ({"lam": "best"}, "lam is 'best'; give a number or auto"),
        ({"size": 16.0}, "size is 16.0; give a whole number"),
        ({"size": 0}, "size is 0; give at least 1"),
        ({"layer_decay": 0.0}, "layer_decay is 0.0; it is a share above 0"),
        ({"tune": "some"}, "tune is 'some'; choose one of auto"),
        ({"tune": "all", "head": "query2label"}, 'tune is "all", which needs head = "linear"'),
        ({"tune": "head", "select": "last"}, 'tune is "head", which chooses on images held out'),
        ({"epochs": True}, "epochs is True; give a whole number"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast'; give a number"),
        ({"lam_epochs": 2.5}, "lam_epochs is 2.5; give a whole number"),
        ({"weights": 3}, "weights is 3; give a text"),
        ({"ema_warmup": 1}, "ema_warmup is 1; give true or false"),
        ({"clip": 2}, "clip is 2; it is a share"),
        ({"gamma_negative": -3.0}, "gamma_negative is -3.0; give a finite number of at least 0"),
        ({"gamma_positive": -1}, "gamma_positive is -1; give"),
        ({"order": -5.0}, "order is -5.0; give a finite number of at least 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"hold_out": 0.0}, "λ is chosen on held-out images"),
        ({"hold_out": 0.0, "lam": 1.0}, "epoch and weights are chosen on held-out images"),
        ({"curriculum": "cdcr", "epochs": 2}, "warms up for 2 of 2 epochs"),
    ],
)
def test_a_wrong_setting_is_named(changes, told):
    with pytest.raises(ValueError, match=told):
        VisionRecipe(**changes)


def test_a_recipe_survives_its_file(tmp_path):
    recipe = VisionRecipe(noise=0.2, lam=0.06, weights="pretrained")
    write_recipe(tmp_path / "recipe.json", recipe)
    assert read_recipe(tmp_path / "recipe.json") == recipe


def test_settings_of_a_newer_version_are_named(tmp_path):
    (tmp_path / "recipe.json").write_text(json.dumps({"epochs": 3, "mixup": 0.2}))
    with pytest.raises(ValueError, match="does not know: mixup"):
        read_recipe(tmp_path / "recipe.json")


def test_a_run_of_a_version_that_trained_everything_at_once_goes_on_so(tmp_path):
    (tmp_path / "recipe.json").write_text(json.dumps({"epochs": 3, "weights": "pretrained", "size": 224}))
    assert (read_recipe(tmp_path / "recipe.json").tune, read_recipe(tmp_path / "recipe.json").layer_decay) == (
        "at-once",
        1,
    )


def test_the_learning_rate_is_read_under_its_former_name(tmp_path):
    (tmp_path / "recipe.json").write_text(json.dumps({"tune": "all", "lr": 0.5}))
    assert read_recipe(tmp_path / "recipe.json") == VisionRecipe(tune="all", learning_rate=0.5)
    with pytest.warns(DeprecationWarning, match="now called learning_rate="):
        assert VisionRecipe(lr=0.5) == VisionRecipe(learning_rate=0.5)


def test_what_is_only_watched_may_change_within_a_run():
    assert VisionRecipe(eval_every=1).differs_from(VisionRecipe(eval_every=5, compile="default")) == []
    assert VisionRecipe(learning_rate=1e-3, seed=1).differs_from(VisionRecipe()) == ["learning_rate", "seed"]


def test_whole_numbers_are_numbers_and_some_settings_may_be_left_open():
    recipe = VisionRecipe(learning_rate=1, lam=0, noise=None, flip_rate=None, crop_size=None, weights=None)
    assert (recipe.learning_rate, recipe.lam) == (1, 0)


def test_recipes_are_read_without_torch():
    """The command line takes its defaults from here, and its help is to be fast."""
    code = "import sys, propml.vision.recipe; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
