"""The demonstration: candidate labels go in, a model comes out, and the truth, kept aside, says how good it is."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from propml import __version__
from propml.benchmark.page import Page, embedded
from propml.corruption import Realised, realised_ratio, svm_confusions
from propml.datasets import Dataset, digits_mosaic
from propml.extras import require
from propml.methods.propml import ProPMLClassifier
from propml.metrics import METRICS, Evaluation, evaluate
from propml.targets import Candidates

SHOWN = ("average_precision", "coverage", "hamming_loss", "ranking_loss", "one_error")
# The same network with both losses, then everything that the classifier does by default.
NETWORK: dict[str, Any] = {"hidden": (256, 256), "linear": False}
MODELS: dict[str, dict[str, Any]] = {
    "BCE on candidates": {"loss": "bce", "lam": 1.0, **NETWORK},
    "ProPML, λ chosen": {"loss": "propml", **NETWORK},
    "default": {},
}


@dataclass(frozen=True)
class Demo:
    """What the demonstration made: data, candidates, scores and how good they are."""

    test: Dataset
    candidates: Candidates
    noise: Realised
    models: dict[str, ProPMLClassifier]
    scores: dict[str, np.ndarray]
    results: dict[str, Evaluation]


def run_demo(*, n_samples: int = 800, ratio: float = 1.0, epochs: int = 60, seed: int = 0, show: bool = False) -> Demo:
    """Corrupt the digits mosaic, train on candidates, and judge on clean test labels that no choice ever saw.

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
    models, scores, results = {}, {}, {}
    for name, settings in MODELS.items():
        model = ProPMLClassifier(**settings, epochs=epochs, random_state=seed, verbose=show)
        models[name] = model.fit(train.X, candidates)
        scores[name] = model.predict_proba(test.X)
        results[name] = evaluate(test.truth, scores[name], model.predict(test.X))
    return Demo(test, candidates, realised_ratio(train.truth, candidates), models, scores, results)


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
        f"Percent on {len(demo.test.X)} test mosaics of other digits, judged by their true labels. Nothing was chosen "
        f"by these: λ, epochs, shares and thresholds come from held-out candidates.",
        columns=columns,
        rows=rows,
    )
    page.add(
        "What the models say",
        figure=embedded(mosaic_figure(demo)),
        caption="Test mosaics with the probability of each digit; true digits are dark. Above 0.5 it is predicted.",
    )
    page.add(
        "How λ was chosen",
        f"λ = {demo.models['ProPML, λ chosen'].lam_['network']:.3g}: its networks rank held-out candidates best.",
        figure=embedded(choice_figure(demo)),
        caption="Average precision on held-out candidate labels against epochs, mean over five folds, one line per λ.",
    )
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


def choice_figure(demo: Demo) -> Any:
    """The criterion on held-out candidates against epochs, one line per λ."""
    Figure = require("matplotlib.figure", "report").Figure
    figure = Figure(figsize=(6, 2.6), layout="constrained")
    axis = figure.subplots()
    (history,) = demo.models["ProPML, λ chosen"].history_
    mean = 1 - history["criterion"].mean(axis=(1, 2))
    for number, setting in enumerate(history["settings"]):
        seen = np.isfinite(mean[:, number])
        axis.plot(1 + np.flatnonzero(seen), mean[seen, number], label=f"λ = {setting['lam']:.3g}")
    axis.set(xlabel="epoch", ylabel="average precision\non candidates")
    axis.legend(frameon=False)
    return figure
