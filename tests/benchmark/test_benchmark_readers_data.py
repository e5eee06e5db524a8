"""The paper's datasets that are not at hand: files of the same shape go through the same commands."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from typer.testing import CliRunner

from propml import benchmark
from propml.benchmark.image_cell import ImageMethod
from propml.cli.benchmark import app
from propml.noise import Noise
from propml.paper import load_published


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("PROPML_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("dataset", "file", "n_rows", "n_features", "n_labels"),
    [
        ("music-emotion", "music_emotion.mat", 6833, 98, 11),
        ("music-style", "music_style.mat", 6839, 98, 10),
        ("mirflickr", "mirflickr.mat", 10433, 100, 7),
    ],
)
def test_tables_with_real_candidates(tmp_path, dataset, file, n_rows, n_features, n_labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    truth = X[:, :n_labels] > 0.5
    truth[:, 0] |= ~truth.any(axis=1)
    (tmp_path / "data/pml").mkdir(parents=True)
    # Labels × rows, as in the published files.
    candidates = truth | (rng.random(truth.shape) < 0.3)
    content = {"data": X, "target": truth.T.astype(float), "partial_labels": candidates.T.astype(float)}
    savemat(tmp_path / "data/pml" / file, content)
    command = ["run", "real-world", "--datasets", dataset, "--methods", "Ridge,CPLST"]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert "cells: 2 done now; results: results/real-world" in told.stdout
    results = benchmark.load_results("results/real-world")
    assert {(cell.dataset, len(cell.folds)) for cell in results.cells} == {(dataset, 5)}
    (report,) = benchmark.report(results, "report", formats=["md"])
    # The paper's number of CPLST on this dataset stands beside ours.
    (published,) = [
        row.mean
        for row in load_published("real-world")
        if (row.dataset, row.method, row.metric) == (dataset, "CPLST", "average_precision")
    ]
    lines = [line for line in report.read_text().replace("*", "").splitlines() if line.startswith("| CPLST ")]
    assert any(f"({published:.2f}, " in line for line in lines)


def test_coco_in_its_own_layout(tmp_path):
    root = tmp_path / "data/coco2014"
    (root / "annotations").mkdir(parents=True)
    for split, n in (("train", 12), ("val", 8)):
        (root / f"{split}2014").mkdir()
        names = [f"COCO_{split}2014_{number:012d}.jpg" for number in range(n)]
        for number, name in enumerate(names):
            Image.new("RGB", (24, 16), (20 * number, 90, 120 * (number % 2))).save(root / f"{split}2014" / name)
        content = {
            "images": [{"id": number, "file_name": name} for number, name in enumerate(names)],
            "categories": [{"id": 1, "name": "person"}, {"id": 3, "name": "car"}, {"id": 90, "name": "toothbrush"}],
            "annotations": [{"image_id": number, "category_id": (1, 3, 90)[number % 3]} for number in range(n)],
        }
        (root / f"annotations/instances_{split}2014.json").write_text(json.dumps(content))
    recipe = {"size": 16, "backbone": "small_cnn", "epochs": 1, "batch_size": 4, "augment": "none", "select": "last"}
    whole = benchmark.load_experiment("vision-coco")
    assert whole.datasets == ("coco2014",)
    small = replace(
        whole, methods=(ImageMethod("BCE", {**recipe, "loss": "bce"}),), seeds=(0,), noise=(Noise("flips", 0.1),)
    )
    summary = benchmark.run(small, "results", verbose=False, device="cpu")
    assert [each.failure.reason for each in summary.failed] == []
    (cell,) = benchmark.load_results("results").cells
    assert set(cell.folds[0].values) == set(whole.metrics)


def test_coco_runs_what_voc_runs_at_the_papers_own_rates():
    voc, coco = (benchmark.load_experiment(name) for name in ("vision", "vision-coco"))
    assert coco.methods == voc.methods
    assert (coco.metrics, coco.seeds) == (voc.metrics, voc.seeds)
    rates = {row.noise for row in load_published("vision") if row.dataset == "coco2014" and row.method == "ProPML"}
    assert set(coco.noise) == rates
