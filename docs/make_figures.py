"""Draw the figures of the README and the docs: ``python docs/make_figures.py``."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from propml import ProPMLClassifier
from propml.corruption import svm_confusions
from propml.datasets import digits_mosaic
from propml.losses import asl_loss, bce_loss, propml_loss

FOLDER = Path(__file__).parent / "figures"
COLOURS = {"ProPML": "#c2410c", "BCE": "#1f3a5f", "ASL": "#6b8e23"}
mpl.rcParams.update({"svg.hashsalt": "propml", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})


def save(figure: Figure, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})


def losses() -> None:
    """Value and gradient on a row of three candidates whose probabilities are equal, against their sum."""
    p = torch.linspace(0.005, 0.995, 400, dtype=torch.float64)
    logits = torch.logit(p).unsqueeze(1).repeat(1, 3).requires_grad_()
    candidates = torch.ones_like(logits)
    figure = Figure(figsize=(7.5, 2.8), layout="constrained")
    value_axis, gradient_axis = figure.subplots(1, 2)
    for name, loss in {"ProPML": propml_loss, "BCE": bce_loss, "ASL": asl_loss}.items():
        value = loss(logits, candidates)
        (gradient,) = torch.autograd.grad(value.sum(), logits)
        value_axis.plot(3 * p, value.detach(), label=name, color=COLOURS[name])
        gradient_axis.plot(3 * p, gradient[:, 0], label=name, color=COLOURS[name])
    value_axis.set(xlabel="Σ p over three candidates", ylabel="loss", ylim=(-1.3, 8))
    value_axis.axhline(0, color="#bbb", linewidth=0.8, zorder=0)
    gradient_axis.set(xlabel="Σ p over three candidates", ylabel="gradient on one candidate's logit")
    value_axis.legend(frameon=False)
    save(figure, "losses")


def candidates() -> None:
    """What goes in and what comes out, on one training and one test mosaic."""
    train, test = digits_mosaic(800, split="train"), digits_mosaic(400, 1, split="test")
    given = svm_confusions(train.X, train.truth, 1.0, labels=train.label_names)
    scores = ProPMLClassifier(epochs=60, random_state=0).fit(train.X, given).predict_proba(test.X)
    truth = test.truth
    row = int(np.argmax([(s[t == 1].min() - s[t == 0].max()) for s, t in zip(scores[:40], truth[:40], strict=True)]))
    figure = Figure(figsize=(7.5, 2.3), layout="constrained")
    sets, picture, bars = figure.subplots(1, 3, width_ratios=[1.6, 1, 1.6])
    sets.set_axis_off()
    sets.text(0.5, 0.98, "in: items with candidate labels", ha="center", va="top", weight="bold")
    for i, names in enumerate(given.to_lists()[:4]):
        sets.text(
            0.02, 0.74 - 0.2 * i, f"item {i + 1}   {{{', '.join(map(str, names))}}}", va="center", family="monospace"
        )
    picture.imshow(test.X[row].reshape(16, 16), cmap="gray_r", interpolation="bilinear")
    picture.set_axis_off()
    picture.set_title("a new item", fontsize=9)
    bars.bar(range(10), scores[row], color=["#c2410c" if mark else "#d5dbe5" for mark in truth[row]])
    bars.set(xticks=range(10), ylim=(0, 1), title="out: which labels are true")
    bars.title.set_fontsize(9)
    save(figure, "candidates")


if __name__ == "__main__":
    losses()
    candidates()
