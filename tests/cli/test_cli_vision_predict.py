"""``propml vision features``, ``predict`` and ``export``, called as a shell would call them."""

import csv
import os
import re
import sys

import numpy as np
import pytest
import torch
import typer
from command_line import propml
from PIL import Image
from typer.testing import CliRunner

from propml.cli.vision_predict import export, features, picture, predict
from propml.vision.backbone import import_vision, make_network
from propml.vision.checkpoint import load_network, save_network
from propml.vision.predict import predict_images
from propml.vision.recipe import VisionRecipe
from propml.vision.sources import open_source
from propml.vision.training_data import draw_candidates

LABELS = ("cat", "dog", "person")


@pytest.fixture(scope="module")
def commands():
    app = typer.Typer()
    for command in (features, predict, picture, export):
        app.command()(command)
    return app


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder as training leaves it behind."""
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    recipe = VisionRecipe(backbone="small_cnn", size=16)
    save_network(folder / "best.safetensors", make_network(recipe, 3), recipe, LABELS, {})
    return folder


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("a.png", "b.png"):
        Image.fromarray(rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(folder / name)
    (folder / "broken.png").write_text("damaged")
    return folder


def called(commands, *words, code=0):
    done = CliRunner().invoke(commands, [str(word) for word in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_predict_prints_the_labels_of_each_image(commands, run, photos):
    done = called(commands, "predict", run, photos, "--top", 2)
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 2
    expected = predict_images(load_network(run), [photos / "a.png"]).labels(top=2)[0]
    told = ", ".join(f"{label} {p:.2f}" for label, p in expected)
    assert lines[0] == f"{photos / 'a.png'}: {told}"
    assert re.search(r"left out: .*broken\.png \(.+\)\n1 images could not be read", done.stderr)
    assert "a.png: no label" in called(commands, "predict", run, photos / "a.png", "--threshold", 1).stdout


def test_predict_writes_a_table_and_a_picture(commands, run, photos, tmp_path):
    called(commands, "predict", run, photos, "--out", tmp_path / "p.csv", "--picture", tmp_path / "p.png", "--top", 1)
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = predict_images(load_network(run), [photos])
    assert [row["image"] for row in rows] == [str(photos / name) for name in ("a.png", "b.png")]
    np.testing.assert_allclose(
        [[float(row[f"p({label})"]) for label in LABELS] for row in rows], found.probabilities, rtol=1e-4
    )
    assert [row["predicted"] for row in rows] == [LABELS[j] for j in found.probabilities.argmax(axis=1)]
    with Image.open(tmp_path / "p.png") as drawn:
        assert drawn.width > 100


def test_predict_says_what_is_wrong(commands, run, photos, tmp_path):
    done = called(commands, "predict", run, photos, "--strict", code=1)
    assert "broken.png cannot be read" in str(done.exception)
    done = called(commands, "predict", run, photos, "--out", tmp_path / "p.txt", code=1)
    assert "choose a name in .csv" in str(done.exception)
    done = called(commands, "predict", tmp_path / "none", photos, code=1)
    assert "no saved model" in str(done.exception)


def test_what_cannot_be_written_is_told_before_anything_is_read(commands, run, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("propml.vision.predict.predict_images", lambda *_, **__: pytest.fail("scored"))
    monkeypatch.setattr("propml.vision.predict.probabilities", lambda *_, **__: pytest.fail("scored"))
    for words in (("predict", run, photos, "--picture"), ("picture", run, "digits-mosaic", "--out")):
        done = called(commands, *words, tmp_path / "p.xyz", code=1)
        assert "p.xyz does not end in a kind of picture" in str(done.exception)
    recipe = VisionRecipe(backbone="small_cnn", size=16)
    save_network(tmp_path / "best.safetensors", make_network(recipe, 1), recipe, ("a;b",), {})
    done = called(commands, "predict", tmp_path, photos, "--out", tmp_path / "p.csv", code=1)
    assert "label 'a;b' contains ';'" in str(done.exception)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
def test_names_that_are_no_text_are_written_too(commands, run, photos, tmp_path):
    (photos / "a.png").rename(os.fsdecode(os.fsencode(photos) + b"/\xff.png"))
    out = tmp_path / "new" / "p.csv"
    called(commands, "predict", run, photos, "--out", out, "--picture", tmp_path / "other" / "p.png")
    with out.open(encoding="utf-8") as file:
        assert [row["image"] for row in csv.DictReader(file)] == [
            str(photos / "b.png"),
            str(photos / "\N{REPLACEMENT CHARACTER}.png"),
        ]
    assert (tmp_path / "other" / "p.png").is_file()


def test_features_of_a_run_and_of_a_backbone(commands, run, photos, tmp_path):
    cache = ("--cache", tmp_path / "cache")
    done = called(
        commands,
        "features",
        "digits-mosaic",
        "--model",
        run,
        "--noise",
        0.3,
        "--seed",
        5,
        *cache,
        "--out",
        tmp_path / "f.npz",
    )
    assert "2000 images, 128 features, 10 labels" in done.stdout
    source = open_source("digits-mosaic")
    with np.load(tmp_path / "f.npz") as content:
        assert content["X"].shape == (2000, 128)
        np.testing.assert_array_equal(content["candidates"], draw_candidates(source, 0.3, 5).to_matrix())
        np.testing.assert_array_equal(content["truth"], source.truth)
    table = tmp_path / "photos.csv"
    table.write_text("path,candidates\nphotos/a.png,cat\nphotos/b.png,dog;cat\nphotos/broken.png,dog\n")
    words = ("features", table, "--backbone", "small_cnn", "--weights", "none", *cache, "--out", tmp_path / "own.npz")
    done = called(commands, *words)
    assert "2 images, 128 features, 2 labels" in done.stdout
    assert "broken.png" in done.stderr
    assert "broken.png cannot be read" in str(called(commands, *words, "--strict", code=1).exception)
    assert "has no true labels to learn from or to add noise to" in str(
        called(commands, *words, "--noise", 0.1, code=1).exception
    )


def test_methods_for_tables_take_the_features(commands, run, tmp_path):
    """As the paper's rows of PML-NI and others on deep features: written here, fitted and judged by `propml`."""
    for split in ("train", "test"):
        words = ("features", "digits-mosaic", "--model", run, "--split", split, "--out", tmp_path / f"{split}.npz")
        words = (*words, "--cache", tmp_path / "cache")
        called(commands, *words, *(("--noise", 0.2) if split == "train" else ()))
    done = propml("fit", tmp_path / "train.npz", "--method", "pml-ni", "--out", tmp_path / "model")
    assert done.code == 0, done.err
    done = propml("evaluate", tmp_path / "model", tmp_path / "test.npz")
    assert done.code == 0, done.err
    assert float(re.search(r"Average precision +([0-9.]+) %", done.out)[1]) > 75  # by label frequency alone: 48.5


def test_a_picture_shows_candidates_and_truth_beside_what_is_predicted(commands, run, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        "propml.vision.predict.image_grid", lambda *parts, **options: drawn.update(options, parts=parts)
    )
    recipe = VisionRecipe(backbone="small_cnn", size=16)
    save_network(tmp_path / "best.safetensors", make_network(recipe, 10), recipe, tuple("0123456789"), {})
    words = ("picture", tmp_path, "digits-mosaic", "-n", 5, "--noise", 0.3, "--seed", 2, "--out", tmp_path / "g.png")
    assert "5 images; picture: " in called(commands, *words).stdout
    images, found, names = drawn["parts"]
    assert (images.shape, found.shape, names) == ((5, 16, 16, 3), (5, 10), tuple("0123456789"))
    source = open_source("digits-mosaic", "test")
    rows = [int(np.flatnonzero((source.items == image).all(axis=(1, 2, 3)))[0]) for image in images]
    np.testing.assert_array_equal(drawn["truth"], source.truth[rows])
    np.testing.assert_array_equal(drawn["candidates"], draw_candidates(source, 0.3, 2).to_matrix()[rows])
    done = called(commands, "picture", run, "digits-mosaic", code=1)
    assert "has other labels than the network" in str(done.exception)


def test_mosaics_are_those_that_the_network_was_trained_on(commands, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "propml.vision.deep_features.run_network",
        lambda trained, images, *_, **__: seen.append(images) or torch.zeros(len(images), 1),
    )
    monkeypatch.setattr("propml.vision.predict.image_grid", lambda images, *_, **__: seen.append(images))
    recipe = VisionRecipe(backbone="small_cnn", size=24)
    save_network(tmp_path / "best.safetensors", make_network(recipe, 10), recipe, tuple("0123456789"), {})
    monkeypatch.setattr("propml.vision.deep_features.BLOCK", 3000)
    more = ("--cache", tmp_path / "cache", "--out", tmp_path / "f.npz")
    called(commands, "features", "digits-mosaic", "--model", tmp_path, "--split", "test", *more)
    own = ("--backbone", "small_cnn", "--weights", "none", "--size", 20)
    called(commands, "features", "digits-mosaic", *own, *more)
    called(commands, "picture", tmp_path, "digits-mosaic", "-n", 3000, "--out", tmp_path / "g.png")
    expected = open_source("digits-mosaic", "test", size=24).items
    np.testing.assert_array_equal(seen[0], expected)
    np.testing.assert_array_equal(seen[1], open_source("digits-mosaic", size=20).items)
    np.testing.assert_array_equal(seen[2], expected)


def test_a_picture_of_ones_own_images(commands, run, photos, tmp_path):
    table = tmp_path / "photos.csv"
    table.write_text("path,candidates\nphotos/a.png,cat;person\nphotos/b.png,dog\nphotos/broken.png,dog\n")
    done = called(commands, "picture", run, table, "--split", "train", "--out", tmp_path / "g.png", "--top", 2)
    assert "2 images; picture: " in done.stdout
    assert "broken.png" in done.stderr
    with Image.open(tmp_path / "g.png") as picture_file:
        assert picture_file.width > 100


def test_features_say_what_is_wrong(commands, run, tmp_path):
    for option in (("--weights", "w.pth"), ("--size", 224), ("--mean", "0,0,0"), ("--backbone", "resnet18")):
        done = called(commands, "features", "digits-mosaic", "--model", run, *option, code=1)
        assert "--model has its own network; leave out" in str(done.exception)
    done = called(commands, "features", "digits-mosaic", "--model", run, "--out", tmp_path / "f.csv", code=1)
    assert "written as .npz or .parquet" in str(done.exception)
    own = ("features", "digits-mosaic", "--backbone", "small_cnn")
    assert "small_cnn has no pretrained weights" in str(called(commands, *own, code=1).exception)
    done = called(commands, *own, "--weights", "none", "--mean", "0.5", code=1)
    assert "mean is (0.5,)" in str(done.exception)


@pytest.mark.filterwarnings("ignore")
def test_export_writes_onnx(commands, run, tmp_path):
    done = called(commands, "export", run, "--out", tmp_path / "model.onnx")
    assert re.search(r"model\.onnx: probabilities differ from the network's by at most \d", done.stdout)
    assert (tmp_path / "model.onnx").stat().st_size > 100_000


def test_features_of_a_file_of_weights_go_straight_to_the_classifier(commands, photos, tmp_path):
    timm = import_vision("timm")
    torch.manual_seed(0)
    torch.save(timm.create_model("test_resnet", num_classes=0).state_dict(), tmp_path / "w.pth")
    rows = "".join(f"photos/{'ab'[i % 2]}.png,{('cat', 'dog')[i % 2]};person\n" for i in range(40))
    (tmp_path / "photos.csv").write_text(f"path,candidates\n{rows}")
    where = ("--cache", tmp_path / "cache", "--out", tmp_path / "f.parquet")
    words = ("features", tmp_path / "photos.csv", "--backbone", "test_resnet", "--weights", tmp_path / "w.pth", *where)
    assert "40 images" in called(commands, *words).stdout
    options = ("--candidates", "candidates", "--id", "image", "--quick", "--out", tmp_path / "model")
    done = propml("fit", tmp_path / "f.parquet", *options)
    assert "is 'photos/a.png', as in row 0" in done.err or "as in row 0" in done.err  # an image that stands there twice
    done = propml("fit", tmp_path / "f.parquet", "--candidates", "candidates", "--ignore", "image", *options[4:])
    assert done.code == 0, done.err
