"""Cells on images: a whole run in worker processes, what it keeps, and what may and may not be looked at."""

import csv
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from noisy_published import fold_results

from propml.benchmark import image_cell
from propml.benchmark.experiment import load_experiment
from propml.benchmark.image_cell import ImageCell, ImageMethod, compute_images, open_part
from propml.benchmark.reporting import write_report
from propml.benchmark.results import Results
from propml.benchmark.runner import run_experiment
from propml.benchmark.store import ResultStore
from propml.methods.ridge import RidgeRegressionClassifier
from propml.metrics import VISION_METRICS, average_precision, mean_average_precision
from propml.noise import Noise
from propml.range_scaler import RangeScaler
from propml.vision.deep_features import backbone_alone, compute_features
from propml.vision.training_data import draw_candidates

SMALL = """
kind = "images"
title = "Small <mosaics>"
note = "Not the paper's setting: 5 % & less."
datasets = ["digits-mosaic"]
images = { train = 120, test = 80 }
noise = [0.2, 0.4]

[recipe]
size = 16
backbone = "small_cnn"
epochs = 2
lam_epochs = 1
batch_size = 32
learning_rate = 3e-3
augment = "none"
select = "last"

[methods.BCE]
method = "BCE"

[methods.ProPML]
method = "ProPML"

[methods.Diverges]
method = "BCE"
recipe = { learning_rate = 1e30 }
"""
RECIPE = {"size": 16, "backbone": "small_cnn", "epochs": 2, "batch_size": 32, "learning_rate": 3e-3, "augment": "none"}
N_TEST = 80


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("experiment") / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return load_experiment(path)


@pytest.fixture(scope="module")
def run(small, tmp_path_factory):
    """The folder of a run in two processes, and what it came to."""
    folder = tmp_path_factory.mktemp("results")
    return folder, run_experiment(small, folder, workers=2, verbose=False)


@pytest.fixture
def store(run):
    return ResultStore(run[0])


def toy(**recipe):
    method = ImageMethod("Toy", {**RECIPE, "loss": "bce", **recipe})
    return ImageCell("toy", "digits-mosaic", Noise("flips", 0.4), method, 0, images={"train": 100, "test": 60})


def nothing_is_computed(cell):
    raise AssertionError(f"{cell.key} was computed again")


def test_methods_are_trained_in_processes_and_one_that_fails_stops_no_other(run, store):
    summary = run[1]
    assert sorted((cell.method.name, cell.noise.level) for cell in summary.done) == [
        (name, noise) for name in ("BCE", "ProPML") for noise in (0.2, 0.4)
    ]
    assert {(cell.method, cell.failure.error) for cell in summary.failed} == {("Diverges", "ValueError")}
    assert "the loss is nan" in store.failed()[0].failure.message
    done = [cell for cell in store.cells() if not cell.failure]
    assert len(done) == 4
    for cell in done:
        assert [(fold.fold, set(fold.values)) for fold in cell.folds] == [(0, set(VISION_METRICS))]


def test_a_second_run_computes_nothing(small, run):
    part = small.narrowed(methods=["BCE", "ProPML"])
    again = run_experiment(part, run[0], verbose=False, compute=nothing_is_computed)
    assert (len(again.done), len(again.skipped), again.failed) == (0, 4, [])


def test_scores_are_probabilities_and_give_the_kept_numbers(store):
    truth = open_part("digits-mosaic", "test", {"test": N_TEST}).truth
    for key in store.done():
        (fold,) = store.scores(key)
        assert fold.scores.shape == (N_TEST, 10)
        assert fold.test.tolist() == list(range(N_TEST))
        assert 0 < fold.scores.min() < fold.scores.max() < 1
        assert (fold.predicted == (fold.scores > 0.5)).all()
        (cell,) = store.cells(keys=[key])
        assert cell.folds[0].values["mAP"] == pytest.approx(mean_average_precision(truth, fold.scores).value)


def test_a_metric_of_later_needs_no_training(small, run, tmp_path):
    shutil.copytree(run[0], tmp_path / "copy")
    more = replace(small.narrowed(methods=["BCE"]), metrics=("mAP", "average_precision"))
    run_experiment(more, tmp_path / "copy", verbose=False, compute=nothing_is_computed)
    truth = open_part("digits-mosaic", "test", {"test": N_TEST}).truth
    store, key = ResultStore(tmp_path / "copy"), more.cells()[0].key
    (cell,) = store.cells(keys=[key])
    assert cell.folds[0].values["average_precision"] == pytest.approx(
        average_precision(truth, store.scores(key)[0].scores)
    )


def test_this_process_computes_what_a_worker_did(small, store):
    cell = small.narrowed(methods=["ProPML"], noise=[0.4]).cells()[0]
    here = compute_images(cell)
    np.testing.assert_allclose(here.folds[0].scores, store.scores(cell.key)[0].scores, atol=1e-5)
    assert here.device == "cpu"
    assert here.peak_bytes > 0


def test_another_way_to_choose_lam_makes_other_cells_of_those_that_choose_it(monkeypatch):
    recipes = {"auto": {"loss": "propml"}, "given": {"loss": "propml", "lam": 0.3}, "without": {"loss": "bce"}}
    cells = {
        name: ImageCell("toy", "voc2007", Noise("flips", 0.1), ImageMethod("it", recipe), 0)
        for name, recipe in recipes.items()
    }
    before = {name: cell.key for name, cell in cells.items()}
    monkeypatch.setattr(image_cell, "LAM_RULE", image_cell.LAM_RULE + 1)
    assert {name for name, cell in cells.items() if cell.key != before[name]} == {"auto"}


def test_what_was_chosen_is_kept(store):
    done = {(cell.method, cell.noise.level): cell for cell in store.cells() if not cell.failure}
    chosen = {key: cell.folds[0].chosen for key, cell in done.items()}
    assert chosen["BCE", 0.2] == {"epoch": 2, "weights": "raw"}  # nothing to choose: to the last epoch, no λ
    found = chosen["ProPML", 0.4]
    assert len(found["tried"]) == 4
    taken = next(each for each in found["tried"] if each["lam"] == found["lam"])
    assert taken["worth"] == pytest.approx(taken["mAP"])
    assert taken["worth"] == max(each["worth"] for each in found["tried"])
    settings = done["ProPML", 0.4].settings
    assert (settings["params"]["lam"], settings["kind"]) == ("auto", "images")


def test_the_report_has_numbers_note_and_figure_in_all_formats(run, tmp_path):
    write_report(run[0], tmp_path)
    page, text, tex = ((tmp_path / name).read_text() for name in ("report.html", "report.md", "tables.tex"))
    assert "<h1>Small &lt;mosaics&gt;</h1>" in page
    assert "Not the paper&#39;s setting: 5\N{NO-BREAK SPACE}% &amp; less." in page
    assert 'aria-label="mAP against noise, ours"' in page
    assert "Not the paper's setting: 5 % & less." in text
    assert r"% Small \textless{}mosaics\textgreater{}: mAP" in tex
    assert "the loss is nan" in text
    rows = list(csv.DictReader((tmp_path / "results-long.csv").open()))
    assert {row["method"] for row in rows if row["metric"] == "mAP"} >= {"BCE", "ProPML"}
    lams = text.split("### Which λ was chosen")[1].split("###")[0]
    assert "ProPML" in lams
    assert "BCE" not in lams


def test_published_numbers_and_the_note_stand_beside_a_run_of_the_papers_experiment(tmp_path):
    rows = [
        row for noise in (0.1, 0.2) for row in fold_results("vision", "voc2007", noise, "ProPML", "mAP", [30.0, 32.0])
    ]
    write_report(Results(rows), tmp_path)
    page, text = ((tmp_path / name).read_text() for name in ("report.html", "report.md"))
    assert "31.00 (***89.43***, −58.43)" in text
    for told in (page.replace("&#39;", "'"), text):
        assert "The setting is not the paper's: part of VOC2007 at 160" in told
    assert 'aria-label="mAP against noise, ours"' in page
    assert "<h5>mAP against noise, the paper&#39;s numbers</h5>" in page


def test_a_method_for_tables_learns_from_features_and_the_candidates_that_a_network_would_get(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    method = ImageMethod("Ridge", {"backbone": "small_cnn", "weights": None}, table="ridge", params={"alpha": 3.0})
    cell = ImageCell("toy", "digits-mosaic", Noise("flips", 0.1), method, 0, images={"train": 200, "test": 60})
    (fold,) = compute_images(cell).folds
    train, test = (open_part("digits-mosaic", part, cell.images) for part in ("train", "test"))
    network = backbone_alone("small_cnn", None, 16)
    scaler = RangeScaler().fit(compute_features(network, train, cache=None).X)
    X, new = (scaler.transform(compute_features(network, part, cache=None).X) for part in (train, test))
    expected = RidgeRegressionClassifier(alpha=3.0).fit(X, draw_candidates(train, 0.1, 0)).decision_function(new)
    np.testing.assert_allclose(fold.scores, expected, atol=1e-4)
    other = replace(cell, method=replace(method, params={"alpha": 4.0}))
    assert other.key != cell.key
    assert (
        replace(cell, method=replace(method, recipe={**method.recipe, "learning_rate": 1.0})).key == cell.key
    )  # no part of it


@pytest.fixture
def other_truth(monkeypatch):
    """Test images with the true labels of others."""

    def opened(dataset, part, images):
        source = open_part(dataset, part, images)
        return replace(source, truth=source.truth[::-1]) if part == "test" else source

    monkeypatch.setattr(image_cell, "open_part", opened)


def test_true_labels_of_test_images_enter_in_the_metric_alone(request):
    cell = replace(toy(lam_epochs=1, loss="propml", select="candidates"), metrics=("mAP",))
    before = compute_images(cell).folds[0]
    request.getfixturevalue("other_truth")
    after = compute_images(cell).folds[0]
    assert (before.scores == after.scores).all()
    assert before.chosen == after.chosen
    assert before.values != after.values


def test_but_where_the_experiment_says_oracle(monkeypatch):
    import propml.vision.training as training

    shown = []

    def spy(learned, judged, recipe, *given, **more):
        shown.append((recipe.select, judged is not None))
        return train(learned, judged, recipe, *given, **more)

    train = training.train
    monkeypatch.setattr(training, "train", spy)
    compute_images(replace(toy(), selection="oracle"))
    compute_images(toy(epochs=1, select="last"))
    assert shown == [("oracle", True), ("last", False)]


def test_a_gpu_is_taken_where_there_is_one_and_called_by_its_number(monkeypatch):
    current = []
    monkeypatch.setattr(image_cell, "choose_device", lambda name: torch.device("cuda" if name == "auto" else name))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    names = [image_cell._device(name) for name in ("auto", "cuda", "cuda:1", "cpu")]
    assert names == ["cuda:0", "cuda:0", "cuda:1", "cpu"]
    assert current == names[:3]


def test_a_part_of_real_images_is_the_same_for_every_seed_and_truth_needs_no_image(tmp_path, monkeypatch):
    root = tmp_path / "VOCdevkit" / "VOC2007"
    for folder in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (root / folder).mkdir(parents=True)
    for part, numbers in (("trainval", range(30)), ("test", range(30, 50))):
        (root / "ImageSets/Main" / f"{part}.txt").write_text("".join(f"{i:06}\n" for i in numbers))
        for i in numbers:
            name = "cat" if i % 2 else "dog"
            xml = f"<annotation><object><name>{name}</name></object></annotation>"
            (root / "Annotations" / f"{i:06}.xml").write_text(xml)
    monkeypatch.setenv("PROPML_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = open_part("voc2007", "test", {"train": 7})
    assert len(whole) == 20
    part = open_part("voc2007", "train", {"train": 7})
    assert len(part) == 7
    assert part.items == open_part("voc2007", "train", {"train": 7}).items
    cats = [int(path.stem) % 2 for path in part.items]
    assert part.truth[:, part.label_names.index("cat")].tolist() == cats
    assert not list((root / "JPEGImages").iterdir())
