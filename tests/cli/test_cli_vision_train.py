"""`propml vision train`: from a command to a network, and what people are told."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from command_line import propml, told
from PIL import Image

from propml.vision.backbone import resolved
from propml.vision.checkpoint import load_network
from propml.vision.recipe import RECIPES, VisionRecipe

SMALL = (
    "--backbone",
    "small_cnn",
    "--size",
    16,
    "--epochs",
    2,
    "--learning-rate",
    0.003,
    "--augment",
    "none",
    "--limit",
    60,
)


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def photos(folder, n=24, *, truth=False):
    """A folder of bright and dark pictures with a CSV of their candidates."""
    rng = np.random.default_rng(0)
    with (folder / "photos.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "candidates", *(["split", "truth"] if truth else [])])
        for i in range(n):
            bright = i % 2
            Image.fromarray(rng.integers(128 * bright, 127 + 128 * bright, (20, 20, 3), np.uint8)).save(
                folder / f"{i}.png"
            )
            label = "day" if bright else "night"
            more = ["test" if i >= n - 8 else "train", label] if truth else []
            writer.writerow([f"{i}.png", f"{label};{'sea' if i % 3 else 'city'}", *more])
    return folder / "photos.csv"


def test_the_example_of_the_help_trains_and_tells_what_it_did():
    printed = propml("vision", "train", "--dataset", "digits-mosaic", "--noise", 0.3, "--loss", "propml", *SMALL)
    assert printed.code == 0, printed.err
    assert "best on held-out candidates" in printed.out
    assert "mAP" in printed.out
    trained = load_network("run")
    assert trained.label_names == tuple("0123456789")
    assert trained.recipe.noise == 0.3
    assert len(json.loads(Path("run/lam.json").read_text())["tried"]) == 4
    again = propml("vision", "train", "--dataset", "digits-mosaic", "--noise", 0.3, *SMALL, "--resume")
    assert again.out == printed.out


def test_what_a_search_found_is_trained_but_for_options_that_are_given():
    Path("best.toml").write_text("[recipe]\nlr = 0.004\nlam = 0.3\nweight_decay = 1e-5\n")
    printed = propml("vision", "train", "--dataset", "digits-mosaic", "--noise", 0.3, "--tuned", "best.toml", *SMALL)
    assert printed.code == 0, printed.err
    recipe = load_network("run").recipe
    assert (recipe.learning_rate, recipe.lam, recipe.weight_decay, recipe.noise) == (
        0.003,
        0.3,
        1e-5,
        0.3,
    )  # SMALL has --learning-rate
    Path("best.toml").write_text('[methods.Tuned]\nmethod = "ridge"\nparams = { alpha = 3.0 }\n')
    command = ("vision", "train", "--dataset", "digits-mosaic", "--tuned", "best.toml", "--out", "other")
    assert "give it to propml fit --tuned" in told(propml(*command))
    Path("best.toml").write_text("[recipe]\nlrr = 0.1\n")
    assert "best.toml has settings that this version does not know: lrr" in told(propml(*command))
    Path("best.toml").write_text("[recipe]\nsize = 16.0\n")
    assert told(propml(*command)) == "size is 16.0; give a whole number"


def test_a_table_of_ones_own_needs_no_truth(tmp_path):
    command = ("vision", "train", "--dataset", photos(tmp_path), "--lam", 0.3, "--batch-size", 8, *SMALL)
    assert "2 of 24 images are held out, and no class has both" in told(propml(*command))
    printed = propml(*command, "--hold-out", 0.3)
    assert printed.code == 0, printed.err
    assert "on the validation images" not in printed.out
    assert load_network("run").label_names == ("city", "day", "night", "sea")


def test_a_table_with_truth_is_reported_on_and_a_missing_image_is_named(tmp_path):
    table = photos(tmp_path, truth=True)
    (tmp_path / "3.png").unlink()
    command = ("vision", "train", "--dataset", table, "--loss", "bce", "--batch-size", 8, *SMALL)
    printed = propml(*command)
    assert printed.code == 0, printed.err
    assert "on the validation images: mAP" in printed.out
    assert "3.png (there is no such file)" in printed.err
    assert "3.png" in told(propml(*command, "--out", "strict", "--strict"))
    assert propml(*command, "--out", "silent", "--validation", "none").code == 0


def test_a_devkit_that_lacks_images_is_trained_on_and_they_are_named(tmp_path):
    root = tmp_path / "VOC2007"
    for folder in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (root / folder).mkdir(parents=True)
    for split, numbers in (("trainval", range(20)), ("test", range(20, 30))):
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{i:06}\n" for i in numbers))
        for i in numbers:
            Image.new("RGB", (20, 20), (8 * i, 0, 0)).save(root / "JPEGImages" / f"{i:06}.jpg")
            label = ("dog", "cat")[i % 2]
            annotation = f"<annotation><object><name>{label}</name></object></annotation>"
            (root / "Annotations" / f"{i:06}.xml").write_text(annotation)
    for i in (3, 24):
        (root / "JPEGImages" / f"{i:06}.jpg").unlink()
    command = ("vision", "train", "--dataset", root, "--noise", 0.1, "--loss", "bce", "--batch-size", 8, *SMALL)
    printed = propml(*command)
    assert printed.code == 0, printed.err
    assert "on the validation images: mAP" in printed.out
    for part, name in (("trainval", "000003.jpg"), ("test", "000024.jpg")):
        assert re.search(rf"voc2007 \({part}\): .*1 could not be read .*{name} \(there is no such file\)", printed.err)
    assert len(Path("run/skipped.txt").read_text().splitlines()) == 2
    sentence = told(propml(*command, "--out", "strict", "--strict"))
    assert "000003.jpg cannot be read (there is no such file); repair it" in sentence


def test_true_labels_without_a_test_part_are_not_passed_over_in_silence(tmp_path):
    (tmp_path / "t.csv").write_text(photos(tmp_path).read_text().replace("candidates", "truth"))
    command = ("vision", "train", "--dataset", "t.csv", "--loss", "bce", "--batch-size", 8, "--hold-out", 0.3, *SMALL)
    printed = propml(*command)
    assert printed.code == 0, printed.err
    assert "note: nothing to report on: t.csv has no column 'split'" in printed.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--lam", "best"), "--lam is 'best'; give a number, or auto"),
        (("--loss", "hinge"), "loss is 'hinge'; choose one of propml"),
        (("--backbone", "resnet18x"), "timm knows no image model 'resnet18x'; did you mean 'resnet18'"),
        (("--weights", "nowhere.pth"), "there is no file of weights at nowhere.pth"),
        (("--validation", "dev"), "split is 'dev'"),
        (("--device", "abacus"), "device abacus cannot be used here"),
        (("--noise", 1), "noise is 1.0; it is a share of at least 0 and below 1"),
        (("--loss", "asl", "--clip", 2), "clip is 2.0; it is a share of at least 0 and below 1"),
        (("--size", 4), "small_cnn cannot take images of 4 × 4 pixels"),
        (("--limit", 5), "0 of 5 images are held out, and no class has both"),
    ],
)
def test_mistakes_are_told_in_one_sentence(options, sentence):
    assert sentence in told(propml("vision", "train", "--dataset", "digits-mosaic", *SMALL, *options))


def test_a_folder_with_a_run_is_not_overwritten():
    command = ("vision", "train", "--dataset", "digits-mosaic", "--loss", "bce", *SMALL)
    assert propml(*command).code == 0
    assert "holds a run already; go on with it (--resume)" in told(propml(*command))
    assert "was started with seed 0, not 1" in told(propml(*command, "--resume", "--seed", 1))


def test_a_mistyped_command_does_not_block_its_folder():
    command = ("vision", "train", "--dataset", "digits-mosaic", "--loss", "bce", *SMALL)
    assert "no image model 'smal_cnn'" in told(propml(*command, "--backbone", "smal_cnn"))
    assert propml(*command).code == 0


def test_a_test_part_without_any_true_label_is_not_reported_on(tmp_path):
    table = photos(tmp_path, truth=True)
    lines = [line.rsplit(",", 1) for line in table.read_text().splitlines()]
    table.write_text("\n".join(",".join([start, end if end == "truth" else "-"]) for start, end in lines) + "\n")
    command = ("vision", "train", "--dataset", table, "--loss", "bce", "--batch-size", 8, *SMALL)
    printed = propml(*command)
    assert printed.code == 0, printed.err
    assert "note: nothing to report on: no image of photos (test) has a true label" in printed.err
    asked = propml(*command, "--out", "asked", "--validation", "test")
    assert "none of the 8 validation images has a true label" in told(asked)


def test_the_oracle_needs_true_labels(tmp_path):
    command = ("vision", "train", "--dataset", photos(tmp_path), "--lam", 0.3, *SMALL, "--select", "oracle")
    assert "no column 'split'" in told(propml(*command))


def test_help_shows_examples():
    printed = propml("vision", "train", "--help")
    assert "propml vision train --dataset voc2007 --loss propml --noise 0.4" in printed.out
    assert "coco2014 --noise 0.2" in printed.out
    assert "or else their true labels" in " ".join(printed.out.replace("│", " ").split())
    assert {"train", "predict", "picture", "features", "export"} <= set(propml("vision", "--help").out.split())


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ((), {}),
        (("--recipe", "paper", "--lr", 0.1), {**RECIPES["paper"], "learning_rate": 0.1}),
        (
            ("--weights", "none", "--no-ema-warmup", "--ema", 0.9),
            {**RECIPES["scratch"], "ema_warmup": False, "ema_decay": 0.9},
        ),
        (("--tune", "head", "--lam", 0.3, "--noise", 0.1), {"tune": "head", "lam": 0.3, "noise": 0.1}),
    ],
)
def test_options_are_the_settings_of_a_recipe(options, settings, monkeypatch):
    """Every one, so that no number stands in two places."""
    seen = []
    monkeypatch.setattr("propml.vision.training.train", lambda learned, judged, recipe, *_, **__: seen.append(recipe))
    monkeypatch.setattr("propml.cli.vision._tell", lambda *_: None)
    assert propml("vision", "train", "--dataset", "digits-mosaic", *options).code == 0
    assert seen == [resolved(VisionRecipe(**settings))]
    assert "--recipe is 'papers'; choose one of default" in told(
        propml("vision", "train", "--dataset", "digits-mosaic", "--recipe", "papers")
    )
