"""A linear head on frozen features, trained by the candidate loss: the first half of the default recipe, in seconds.

λ, weight decay and epoch are chosen on held-out candidates. Features are standardised for training, which the weights
of the head take back, so that backbone and head together are a network like any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from propml.durable import write_whole
from propml.progress import track
from propml.targets import Candidates
from propml.vision.backbone import input_of, make_network
from propml.vision.checkpoint import TrainedNetwork, load_network, save_network
from propml.vision.deep_features import compute_features
from propml.vision.distributed import Process
from propml.vision.evaluation import candidate_precisions, check_held_out, judge_by_truth
from propml.vision.objective import lams_to_try, make_objective
from propml.vision.optimiser import one_cycle, set_rate
from propml.vision.recipe import Recipe
from propml.vision.sources import ImageSource
from propml.vision.training_data import FROZEN, TrainingData

__all__ = ["FittedHead", "fit_head", "learn_head"]


# AdamW on standardised features; the decays are tried with every λ. Of 1500 steps, the last leaves little of a weight
# that nothing speaks for, the first nearly all.
LEARNING_RATE, DECAYS = 1e-3, (0.01, 1.0, 5.0)


@dataclass(frozen=True)
class FittedHead:
    """The best head.

    Attributes
    ----------
    weight, bias : Tensor, shapes (n_labels, n_features) and (n_labels,)
        For features as they are.
    lam : float
    tried : list of dict
        What each λ and weight decay were worth, at their best epochs.
    """

    weight: Tensor
    bias: Tensor
    lam: float
    tried: list[dict[str, Any]]


def learn_head(
    data: TrainingData,
    recipe: Recipe,
    out: Path,
    here: Process,
    *,
    cache: str | Path | None = "auto",
    show: bool = True,
) -> float:
    """Write the frozen backbone with its best head to the folder of a run, and say which λ that took.

    Parameters
    ----------
    data : TrainingData
        With the images held out by whose candidates the head is chosen; ``select="oracle"``: by the truth of the
        validation images.
    cache : path, "auto" or None
        Where features are kept.
    """
    path = out / FROZEN
    if here.is_first and not path.exists():
        if recipe.select == "candidates":
            check_held_out(data, recipe)
        network = make_network(recipe, len(data.label_names)).eval()
        trained = TrainedNetwork(network, data.label_names, recipe, *input_of(recipe.backbone)[1:], {})

        def seen(images: np.ndarray, part: str) -> Tensor:
            source = ImageSource("images", images, None, None, (), part)
            made = compute_features(trained, source, cache=cache, device=str(here.device), show=show)
            return torch.from_numpy(made.X).to(here.device)

        X, learned, targets = seen(data.images, "to learn from"), data.learned, data.targets()
        if recipe.select == "oracle":
            if data.validation is None:
                raise ValueError('select is "oracle" and there are no validation images with true labels; give some')
            judged, truth = seen(data.validation[0], "to judge by"), data.validation[1]
            found = fit_head(
                X[learned],
                data.candidates[learned],
                recipe,
                judged,
                lambda z: judge_by_truth(truth, z)["mAP"],
                show=show,
            )
        else:
            held = targets[data.held_out]
            found = fit_head(
                X[learned],
                data.candidates[learned],
                recipe,
                X[data.held_out],
                lambda z: float(candidate_precisions(held, z, recipe.criterion).mean()),
                show=show,
            )
        head: Any = network.head
        with torch.no_grad():
            head.weight.copy_(found.weight)
            head.bias.copy_(found.bias)
        told = {"lam": found.lam, "select": recipe.select, "criterion": recipe.criterion, "tried": found.tried}
        write_whole(out / "lam.json", (json.dumps(told, indent=1) + "\n").encode())
        save_network(path, network.cpu(), recipe, data.label_names, {"lam": found.lam, "weights": "raw", "epoch": 0})
    here.wait()
    return float(load_network(path).card["lam"])


def fit_head(
    X: Tensor,
    candidates: Candidates,
    recipe: Recipe,
    judged: Tensor,
    worth: Callable[[Tensor], float],
    *,
    show: bool = False,
) -> FittedHead:
    """Train heads for all λ and decays, look at each after every epoch, and keep the best one.

    Parameters
    ----------
    X : Tensor, shape (n_images, n_features)
        Features of the images to learn from, on the device to train on.
    candidates : Candidates
        Theirs.
    judged : Tensor, shape (n_judged, n_features)
        Features of images that are not learned from.
    worth : callable
        Of the logits of these, ``(n_judged, n_labels)`` on the CPU.
    """
    mean, scale = X.mean(dim=0), X.std(dim=0, correction=0)
    scale = torch.where(scale > 1e-6 * scale.max().clamp(min=1e-12), scale, 1.0)
    Z, seen = (X - mean) / scale, (judged - mean) / scale
    targets = candidates.to_torch().to(X.device)
    pairs = [(lam, decay) for lam in lams_to_try(candidates, recipe) for decay in DECAYS]
    tried, best = [], None
    for lam, decay in track(pairs, "training heads", len(pairs), show=show):
        objective = make_objective(recipe, lam, candidates).to(X.device)
        found, head = _train(Z, targets, objective, decay, recipe, lambda head: worth(head(seen).float().cpu()))
        tried.append({"lam": lam, "weight_decay": decay, **found})
        if best is None or found["worth"] > best[0]["worth"]:
            best = tried[-1], head
    assert best is not None
    entry, (weight, bias) = best
    weight = weight / scale
    return FittedHead(weight.cpu(), (bias - weight @ mean).cpu(), entry["lam"], tried)


def _train(
    Z: Tensor, targets: Tensor, objective: nn.Module, decay: float, recipe: Recipe, worth: Callable[[nn.Module], float]
) -> tuple[dict[str, Any], tuple[Tensor, Tensor]]:
    """The best epoch of one head: what it was worth, its weights and its bias."""
    head = nn.Linear(Z.shape[1], targets.shape[1]).to(Z.device)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    groups = [{"params": [head.weight], "weight_decay": decay}, {"params": [head.bias], "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.95, 0.999))
    order = torch.Generator().manual_seed(recipe.seed)
    batches = -(-len(Z) // recipe.batch_size)
    best: tuple[dict[str, Any], tuple[Tensor, Tensor]] | None = None
    for epoch in range(recipe.head_epochs):
        for step, rows in enumerate(torch.randperm(len(Z), generator=order).to(Z.device).split(recipe.batch_size)):
            set_rate(optimiser, one_cycle(epoch * batches + step, recipe.head_epochs * batches, LEARNING_RATE))
            loss = objective(head(Z[rows]), targets[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            value = worth(head)
        if best is None or value > best[0]["worth"]:
            best = {"worth": value, "epoch": epoch + 1}, (head.weight.detach().clone(), head.bias.detach().clone())
    assert best is not None
    return best
