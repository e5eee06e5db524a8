"""Experiments on images: the paper's file says what is compared, and a mistake in one's own is told in one sentence."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from propml.benchmark.experiment import load_experiment
from propml.benchmark.image_cell import ImageCell, ImageMethod
from propml.metrics import METRICS, VISION_METRICS
from propml.noise import Noise
from propml.paper import load_published
from propml.vision.recipe import PAPER

ROOT = Path(__file__).parents[2]

MINE = """
kind = "images"
title = "Mosaics"
note = "Tiny images."
datasets = ["digits-mosaic"]
images = { train = 300, test = 200 }
noise = [0.1, 0.4]
seeds = [0, 1]

[recipe]
size = 16
backbone = "small_cnn"
epochs = 3
learning_rate = 3e-3

[methods.BCE]
method = "BCE"

[methods."ProPML, gently"]
method = "ProPML"
recipe = { lam = 0.3, learning_rate = 1e-3 }

[methods.Unbiased]
method = "Unbiased"
recipe = { flip_rate = "noise" }

[methods.Own]
recipe = { loss = "power", order = 0.25 }
"""


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_the_papers_comparison():
    vision = load_experiment("vision")
    networks = {
        "BCE",
        "ASL",
        "Query2Label",
        "CDCR",
        "ProPML",
    }  # the others of its table are shallow methods on features
    rows = [row for row in load_published("vision") if row.dataset == "voc2007" and row.method in networks]
    cells = {(cell.dataset, cell.noise, cell.method.name) for cell in vision.cells()}
    assert {(row.dataset, row.noise, row.method) for row in rows} <= cells
    assert {row.metric for row in rows} <= set(vision.metrics) == set(VISION_METRICS) <= set(METRICS)
    assert len(vision.cells()) == 4 * 17 * 3
    assert [cell.seed for cell in vision.cells()] == [seed for seed in (0, 1, 2) for _ in range(4 * 17)]
    assert "not the paper's" in vision.note


def test_no_method_of_the_papers_comparison_sees_test_labels_and_all_share_the_setting():
    cells = load_experiment("vision").cells()
    recipes = [cell.recipe() for cell in cells if cell.method.table is None]
    assert {recipe.select for recipe in recipes} == {"candidates"}
    assert {cell.selection for cell in cells} == {"candidates"}
    assert len({(r.size, r.weights, r.backbone, r.augment, r.learning_rate, r.weight_decay) for r in recipes}) == 1
    assert {(c.recipe().backbone, c.recipe().size) for c in cells} == {("tf_efficientnet_lite3", 280)}
    assert {recipe.chooses_lam for recipe in recipes if recipe.loss in ("propml", "power")} == {True}
    assert {(r.noise, r.flip_rate) for r in recipes if r.loss == "unbiased"} == {
        (rate, rate) for rate in (0, 0.1, 0.2, 0.4)
    }
    assert {(r.head_width, r.gamma_negative) for r in recipes if r.head == "query2label"} == {(512, 2.0)}
    quick = load_experiment("vision-quick").cells()
    assert {cell.recipe().tune for cell in quick} == {"head"}
    paper = [cell.recipe() for cell in load_experiment("vision-paper").cells()]
    for name in ("tune", "optimiser", "learning_rate", "weight_decay", "layer_decay", "augment", "ema_decay"):
        assert {getattr(recipe, name) for recipe in paper} == {getattr(PAPER, name)}


def test_a_file_that_says_lr_means_the_learning_rate_and_stored_results_keep_their_keys(write):
    old = load_experiment(write(MINE.replace("learning_rate", "lr"))).cells()
    new = load_experiment(write(MINE)).cells()
    assert [cell.key for cell in old] == [cell.key for cell in new]
    assert new[0].configuration()["params"]["lr"] == 3e-3


def test_a_file_of_ones_own(write):
    found = load_experiment(write(MINE))
    assert (found.kind, found.title, found.note) == ("images", "Mosaics", "Tiny images.")
    assert (found.images, found.metrics) == ({"train": 300, "test": 200}, VISION_METRICS)
    cells = found.cells()
    assert len(cells) == 2 * 2 * 4
    assert all(isinstance(cell, ImageCell) and cell.images == found.images for cell in cells)
    recipes = {cell.method.name: cell.recipe() for cell in cells if (cell.noise.level, cell.seed) == (0.4, 1)}
    bce, gently, unbiased, own = recipes.values()
    assert (bce.loss, bce.size, bce.learning_rate, bce.noise, bce.seed) == ("bce", 16, 3e-3, 0.4, 1)
    assert (gently.loss, gently.lam, gently.learning_rate, gently.epochs) == ("propml", 0.3, 1e-3, 3)
    assert (unbiased.flip_rate, own.loss, own.order) == (0.4, "power", 0.25)
    part = found.narrowed(methods=["BCE"], noise=[0.4], seeds=[1], datasets=["Digits mosaic"])
    assert [cell.key for cell in part.cells()] == [cells[12].key]


def test_the_examples_of_the_documents_are_right(write, tmp_path):
    rows = ["file,checked,tags,red", "a.jpg,beach,beach|night,0.3", "b.jpg,city|night,city|night,0.7"]
    (tmp_path / "photos.csv").write_text("\n".join(rows), encoding="utf-8")
    text = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    tables, several, own, images = (load_experiment(write(block)) for block in blocks)
    assert (tables.kind, len(tables.cells())) == ("tables", 2 * 2 * 2 * 2)
    assert [*map(str, several.noise)] == ["none", "svm 50", "svm 100", "flips 0.2", "annotators 0.05"]
    assert [(cell.dataset, cell.noise) for cell in own.cells()] == 2 * [("photos.csv", None)]
    assert (images.kind, len(images.cells())) == ("images", 2 * 3 * 3)


def test_oracle_means_test_labels_for_the_experiment_or_for_a_method(write):
    whole = load_experiment(write('selection = "oracle"' + MINE))
    assert {cell.recipe().select for cell in whole.cells()} == {"oracle"}
    one = load_experiment(write(MINE + 'selection = "oracle"\n'))
    selects = {cell.method.name: (cell.recipe().select, cell.configuration()["selection"]) for cell in one.cells()}
    assert selects.pop("Own") == ("oracle", "oracle")
    assert set(selects.values()) == {("candidates", "candidates")}


def test_a_note_may_stand_in_any_experiment(write):
    text = 'datasets = ["yeastcc"]\nnote = "Read this."\n[methods.Ridge]\nmethod = "ridge"\n'
    assert load_experiment(write(text)).note == "Read this."
    assert load_experiment(write(text.replace('note = "Read this."\n', ""))).note == ""


MISTAKES = [
    # (what stands there, what is written instead, what is said)
    ('kind = "images"', 'kind = "image"', "kind is 'image', which is not a known kind; did you mean 'images'?"),
    ('kind = "images"', "", 'is not a known key of an experiment on tables, which it is without kind = "images"'),
    ('kind = "images"\n', 'kind = "images"\nfolds = 3\n', "folds is not a known key of an experiment on images"),
    ("seeds", "seed", "seed is not a known key of an experiment on images"),
    ('note = "Tiny images."', "note = 3", "note is 3; a text was expected"),
    ('"digits-mosaic"', '"birds"', "datasets names 'birds', which is not a known dataset of images; "),
    ('"digits-mosaic"', '"voc2070"', "datasets names 'voc2070', which is not a known dataset of images; did you mean"),
    ('datasets = ["digits-mosaic"]', "", "datasets is missing; give a list of names out of voc2007, coco2014, digits"),
    ("train = 300", "training = 300", "images.training is not a known part; did you mean 'train'?"),
    ("train = 300", "train = 0", "images.train is 0; a whole number of at least 1"),
    ("noise = [0.1, 0.4]", "", "noise is missing; candidates are made by flips"),
    ("noise = [0.1, 0.4]", "noise = [50]", "noise holds 50; 'flips' expects a number between 0 and 1"),
    ("noise = [0.1, 0.4]", 'noise = [0.1]\nmetrics = ["map2"]', "metrics names 'map2', which is not a known metric"),
    ("size = 16", "sise = 16", "recipe.sise is not a known setting of a recipe (noise and seeds are"),
    ("size = 16", "size = 16.5", "recipe.size is 16.5; give a whole number"),
    ("size = 16", "size = true", "recipe.size is True; give a whole number"),
    ("size = 16", "size = 0", "recipe.size is 0; give at least 1"),
    ("size = 16", "seed = 3", "recipe.seed is not a known setting of a recipe (noise and seeds are the experiment's)"),
    ("size = 16", "checkpoint_seconds = 3", "recipe.checkpoint_seconds is not a known setting of a recipe"),
    ("size = 16", 'select = "oracle"', 'recipe.select is "oracle"; say selection = "oracle"'),
    ("size = 16", 'head = "lineal"', "recipe.head is 'lineal'; choose one of linear, query2label"),
    ("size = 16", "ema_warmup = 1", "recipe.ema_warmup is 1; give true or false"),
    ("size = 16", "compile = 1", "recipe.compile is 1; choose one of default"),
    ("size = 16", 'lam = "aut"', "recipe.lam is 'aut'; give a number or auto"),
    ("size = 16", "hold_out = 0", "recipe.hold_out is 0 and epoch and weights are chosen on held-out images"),
    ("size = 16", 'flip_rate = "noisy"', "recipe.flip_rate is 'noisy'; give a number"),
    ("learning_rate = 3e-3", "learning_rate = -1", "recipe.learning_rate is -1; give a finite number of at least 0"),
    ("learning_rate = 3e-3", "learning_rate = nan", "recipe.learning_rate is nan; give a finite number of at least 0"),
    (
        "learning_rate = 1e-3",
        "learning_rate = -1",
        'methods."ProPML, gently".recipe.learning_rate is -1; give a finite number',
    ),
    ('loss = "power"', 'loss = "power", los = 1', "methods.Own.recipe.los is not a known setting of a recipe ("),
    (
        'loss = "power"',
        'curriculum = "cdcr", warmup_epochs = 3',
        "methods.Own.recipe does not work: CDCR warms up",
    ),
    (
        'method = "BCE"',
        'method = "BSE"',
        "methods.BCE.method is 'BSE', which is not a known method; did you mean 'BCE'?",
    ),
    ('method = "BCE"', "", "methods.BCE names no method and no recipe; say method = \"…\" (did you mean 'BCE'?)"),
    ('method = "BCE"', 'method = "BCE"\nparams = {}', "methods.BCE.params is not a known key of a method for images"),
    ('method = "BCE"', 'method = "ridge"\nparams = { alpa = 1 }', "methods.BCE.params.alpa is not a known argument of"),
]


@pytest.mark.parametrize(("right", "wrong", "told"), MISTAKES, ids=lambda value: value[:32])
def test_a_mistake_is_one_sentence_with_file_key_and_nearest_name(write, right, wrong, told):
    assert right in MINE
    path = write(MINE.replace(right, wrong, 1))
    with pytest.raises(ValueError) as error:
        load_experiment(path)
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_recipe_is_not_for_tables(write):
    text = 'datasets = ["yeastcc"]\n[methods.Ridge]\nmethod = "ridge"\nrecipe = { learning_rate = 1 }\n'
    with pytest.raises(ValueError, match=r"methods\.Ridge\.recipe is not a known key of a method for tables"):
        load_experiment(write(text))


def test_no_method_at_all_is_told(write):
    with pytest.raises(ValueError, match="methods is empty; give at least one method"):
        load_experiment(write(MINE[: MINE.index("[methods")]))


def test_the_key_says_what_is_learned_and_not_where_or_what_is_measured():
    noise = Noise("flips", 0.4)
    cell = ImageCell("toy", "digits-mosaic", noise, ImageMethod("BCE", {"loss": "bce", "look_every": 7}), 0)
    other = ImageMethod("BCE", {"loss": "bce", "look_every": 50})
    same = ImageCell("toy", "digits-mosaic", noise, other, 0, metrics=("mAP",), device="cpu")
    assert cell.key == same.key == cell.on_device("cuda:1").key
    assert cell.on_device("cuda:1").device == "cuda:1"
    changed = [
        ImageCell("toy", "digits-mosaic", Noise("flips", 0.2), other, 0),
        ImageCell("toy", "digits-mosaic", noise, other, 1),
        ImageCell("toy", "voc2007", noise, other, 0),
        ImageCell("toy", "digits-mosaic", noise, other, 0, images={"train": 5}),
        ImageCell("toy", "digits-mosaic", noise, other, 0, selection="oracle"),
        ImageCell("toy", "digits-mosaic", noise, ImageMethod("BCE", {"loss": "bce", "learning_rate": 2e-3}), 0),
    ]
    hashes = {each.key.rpartition("-")[2] for each in [cell, *changed]}
    assert len(hashes) == 1 + len(changed)


def test_reading_an_experiment_imports_nothing_heavy():
    code = (
        "import sys, propml.benchmark.experiment as e; e.load_experiment('vision').cells()[0].key; "
        "print([m for m in ('timm', 'torchvision', 'matplotlib', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
