"""Draw the figures of the README and the docs: ``python docs/make_figures.py``."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from propml import audit
from propml.corruption import independent_flips
from propml.datasets import digits_mosaic
from propml.losses import asl_loss, bce_loss, propml_loss

FOLDER = Path(__file__).parent / "figures"
COLOURS = {"ProPML": "#c2410c", "BCE": "#1f3a5f", "ASL": "#6b8e23"}
VERDICTS = {"keep": "#1f3a5f", "doubtful": "#a8b3c4", "drop": "#c2410c"}
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


def audited(shown: int = 5) -> None:
    """What an audit says of the candidate labels of the first mosaics that have false ones, beside the truth."""
    mosaics = digits_mosaic(600)
    given = independent_flips(mosaics.truth, rate=0.3, labels=mosaics.label_names, random_state=0)
    report = audit(mosaics.X, given)
    frame = report.to_frame()
    frame["true"] = [
        mosaics.truth[row, label] == 1
        for row, label in zip(frame["item"].astype(int), map(int, frame["label"]), strict=True)
    ]
    dropped = frame["verdict"] == "drop"
    false = int((~frame["true"]).sum())
    figure = Figure(figsize=(8, 3.3), layout="constrained")
    figure.suptitle(
        f"600 mosaics of digits, {len(frame)} candidate labels, {false} of them false: {dropped.sum()} are dropped, "
        f"and {(dropped & ~frame['true']).sum()} of these are false",
        fontsize=9,
    )
    pictures, bars = figure.subplots(2, shown, height_ratios=[1, 1.1])
    rows = np.flatnonzero(given.sizes() > mosaics.truth.sum(axis=1))[:shown]
    for row, picture, bar in zip(rows, pictures, bars, strict=True):
        picture.imshow(mosaics.X[row].reshape(16, 16), cmap="gray_r", interpolation="bilinear")
        picture.set_axis_off()
        own = frame[frame["item"].astype(int) == row].sort_values("label", ascending=False)
        bar.barh(range(len(own)), own["probability"], color=[VERDICTS[verdict] for verdict in own["verdict"]])
        bar.set(
            yticks=range(len(own)),
            yticklabels=[
                f"{label} {'✓' if true else '✗'}" for label, true in zip(own["label"], own["true"], strict=True)
            ],
        )
        bar.set(xlim=(0, 1), xticks=[0, 0.5, 1])
    bars[0].set_xlabel("P(true)")
    handles = [Patch(color=colour, label=verdict) for verdict, colour in VERDICTS.items()]
    figure.legend(handles=handles, loc="outside lower right", ncols=3, frameon=False)
    save(figure, "audited")


if __name__ == "__main__":
    losses()
    audited()
