"""The demonstration: candidate labels go in, a model comes out, and the truth, kept aside, says how good it is."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit

from propml import __version__
from propml.benchmark.page import Page, embedded
from propml.corruption import Realised, realised_ratio, svm_confusions
from propml.datasets import Dataset, digits_mosaic
from propml.extras import require
from propml.metrics import METRICS, Evaluation, evaluate
from propml.neural.fleet import Fold, train_fleet
from propml.neural.recipe import Recipe
from propml.neural.rows import make_rows
from propml.targets import Candidates

SHOWN = ("average_precision", "coverage", "hamming_loss", "ranking_loss", "one_error")
# The paper's λ for data of about ten labels with mostly false candidates lies around here.
LAM = 0.1
LOSSES = {"BCE on candidates": {"lam": 1.0, "order": 0.0}, f"ProPML, λ = {LAM}": {"lam": LAM, "order": 1.0}}


@dataclass(frozen=True)
class Demo:
    """What the demonstration made: data, candidates, scores and how good they are."""

    test: Dataset
    candidates: Candidates
    noise: Realised
    scores: dict[str, np.ndarray]
    results: dict[str, Evaluation]
    losses: dict[str, np.ndarray]


def run_demo(*, n_samples: int = 1500, ratio: float = 1.0, seed: int = 0, show: bool = False) -> Demo:
    """Corrupt the digits mosaic, train the same network with two losses, and judge both on clean test labels.

    Parameters
    ----------
    n_samples : int
        Rows to train on; half as many are tested on.
    ratio : float
        False candidates per true label.
    """
    train = digits_mosaic(n_samples, seed, split="train")
    test = digits_mosaic(max(n_samples // 2, 50), seed + 1, split="test")
    assert train.truth is not None
    assert test.truth is not None
    candidates = svm_confusions(
        train.X, train.truth, ratio, n_jobs=-1, random_state=seed, verbose=show, labels=train.label_names
    )
    rows = make_rows(np.vstack([train.X, test.X]), torch.device("cpu"))
    targets = torch.zeros((len(train.X) + len(test.X), candidates.shape[1]), dtype=torch.int8)
    targets[: len(train.X)] = candidates.to_torch()
    everything = Fold(np.arange(len(train.X)), np.arange(0), name=seed)
    trained = train_fleet(
        rows, targets, [everything], Recipe(epochs=60), list(LOSSES.values()), seeds=(seed,), show=show
    )
    logits = trained.logits(rows, len(train.X) + np.arange(len(test.X))).numpy()
    scores = {name: expit(logits[k]) for k, name in enumerate(LOSSES)}
    return Demo(
        test,
        candidates,
        realised_ratio(train.truth, candidates),
        scores,
        {name: evaluate(test.truth, value) for name, value in scores.items()},
        {name: trained.loss[:, k] for k, name in enumerate(LOSSES)},
    )


def table(demo: Demo) -> tuple[list[str], list[list[str]]]:
    """Column titles and rows of percentages."""
    columns = ["", *(f"{METRICS[name].title} {'↑' if METRICS[name].higher_is_better else '↓'}" for name in SHOWN)]
    rows = [[name, *(f"{100 * result[metric]:.2f}" for metric in SHOWN)] for name, result in demo.results.items()]
    return columns, rows


def write_report(demo: Demo, path: str | Path, *, command: str) -> Path:
    """The page of the demonstration, with a picture of test mosaics and what each network says."""
    columns, rows = table(demo)
    page = Page(
        "ProPML on the digits mosaic",
        lead=f"Each of {len(demo.candidates)} training mosaics shows four handwritten digits. A network saw only "
        f"candidate labels: the true digits and {demo.noise.ratio:.1f} times as many false ones, "
        f"{demo.noise.mean_size:.1f} per mosaic in all.",
        facts={
            "propml": __version__,
            "torch": torch.__version__,
            "Python": platform.python_version(),
            "made by": command,
        },
    )
    page.add(
        "How good the predictions are",
        f"Percent on {len(demo.test.X)} test mosaics of other digits, judged by their true labels, which training "
        f"never saw. Hamming loss at a threshold of 0.5.",
        columns=columns,
        rows=rows,
    )
    page.add(
        "What the networks say",
        figure=embedded(mosaic_figure(demo)),
        caption="Test mosaics with the probability of each digit under both losses; true digits are filled dark.",
    )
    page.add("Training", figure=embedded(loss_figure(demo)), caption="Mean training loss of each epoch.")
    return page.write(path)


def mosaic_figure(demo: Demo, n: int = 6) -> Any:
    """Test mosaics above bars of the predicted probabilities."""
    Figure = require("matplotlib.figure", "report").Figure
    figure = Figure(figsize=(2.1 * n, 4.6), layout="constrained")
    grid = figure.subplots(1 + len(demo.scores), n, squeeze=False, height_ratios=[1.5] + [1] * len(demo.scores))
    assert demo.test.truth is not None
    for i in range(n):
        true = demo.test.truth[i].astype(bool)
        grid[0, i].imshow(demo.test.X[i].reshape(16, 16), cmap="gray_r")
        grid[0, i].set_axis_off()
        for row, (name, scores) in enumerate(demo.scores.items(), start=1):
            axis = grid[row, i]
            axis.bar(range(10), scores[i], color=["#1f3a5f" if mark else "#b9c7d9" for mark in true])
            axis.set(ylim=(0, 1), xticks=range(10), yticks=[])
            axis.tick_params(labelsize=7, length=0)
            if i == 0:
                axis.set_ylabel(name, fontsize=8)
    return figure


def loss_figure(demo: Demo) -> Any:
    """Training loss against epochs."""
    Figure = require("matplotlib.figure", "report").Figure
    figure = Figure(figsize=(6, 2.6), layout="constrained")
    axis = figure.subplots()
    for name, values in demo.losses.items():
        axis.plot(range(1, len(values) + 1), values, label=name)
    axis.set(xlabel="epoch", ylabel="training loss")
    axis.legend(frameon=False)
    return figure
