"""What training is made of: the loss of a recipe and its λ, Adam and its one-cycle schedule, the average of weights.

Where λ is "auto", several around the balanced one (:func:`propml.neural.criteria.balanced_lam`) are tried, and held-out
candidates choose. The schedule has no state: a run that goes on after a kill asks for the rate of its step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from propml.losses import CandidateLoss, UnbiasedLoss
from propml.neural.criteria import get_loss, lam_grid
from propml.targets import Candidates
from propml.vision.backbone import import_vision
from propml.vision.recipe import VisionRecipe

FACTORS = (1 / 3, 1.0, 3.0, 9.0)  # of the balanced λ
# The defaults of torch.optim.lr_scheduler.OneCycleLR, which the paper leaves as they are.
START_DIVISOR, END_DIVISOR = 25.0, 1e4
MOMENTA = (0.85, 0.95)  # Adam's beta1 falls while the rate rises, and rises while it falls


def make_objective(recipe: VisionRecipe, lam: float | torch.Tensor, candidates: Candidates) -> CandidateLoss:
    """The mean over images of the recipe's loss, with λ (a tensor: of each example) for the weight of excluded labels.

    ``unbiased`` has none; its flip rate is estimated from the candidates where the recipe does not give it.
    """
    if recipe.loss == "unbiased":
        return UnbiasedLoss(estimate_flip_rate(candidates) if recipe.flip_rate is None else recipe.flip_rate)
    own = {"asl": ("gamma_positive", "gamma_negative", "clip"), "power": ("order",)}.get(recipe.loss, ())
    options: dict[str, Any] = {name: getattr(recipe, name) for name in own}
    if recipe.loss == "asl":
        options["detach_focus"] = True  # as in the training scripts of ASL and Query2Label
    return CandidateLoss(get_loss(recipe.loss)[0], lam=lam, **options)


def lams_to_try(candidates: Candidates, recipe: VisionRecipe) -> list[float]:
    """The λ to choose from; one where the recipe or the loss leaves no choice."""
    if not recipe.chooses_lam:
        return [1.0 if recipe.lam == "auto" else float(recipe.lam)]
    tried = lam_grid(candidates, recipe.order if recipe.loss == "power" else 1.0, FACTORS)
    return [float(f"{lam:.4g}") for lam in tried]


def estimate_flip_rate(candidates: Candidates) -> float:
    """P(candidate | not true) from candidates alone: how often the rarest of the labels is a candidate.

    With one flip rate ρ for all, a label that is true with frequency π is a candidate with π + (1 − π) ρ: the rarest
    label's frequency is the closest to ρ, and above it by less than its π.
    """
    states = candidates.states
    known = len(candidates) - np.asarray((states < 0).sum(axis=0)).ravel()
    share = np.asarray((states > 0).sum(axis=0)).ravel() / np.maximum(known, 1)
    return float(min(share[known > 0].min(), 0.95))


def make_optimiser(
    network: Any, kind: str, learning_rate: float, weight_decay: float, layer_decay: float = 1.0
) -> torch.optim.Optimizer:
    """Adam (weight decay added to the gradient, as in the paper) or AdamW; one fused kernel on a GPU.

    With a ``layer_decay`` below 1 each layer of the backbone learns at this share of the next one's rate.
    """
    timm = import_vision("timm.optim")
    if layer_decay == 1:
        groups = timm.param_groups_weight_decay(network, weight_decay)
    else:
        groups = timm.param_groups_layer_decay(network.backbone, weight_decay, layer_decay=layer_decay)
        groups += timm.param_groups_weight_decay(network.head, weight_decay)
    groups = [group for group in groups if group["params"]]
    on_gpu = next(network.parameters()).device.type == "cuda"
    make = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
    return make(groups, lr=learning_rate, betas=(MOMENTA[1], 0.999), fused=True if on_gpu else None)


def one_cycle(step: int, total_steps: int, max_lr: float, pct_start: float = 0.2) -> tuple[float, float]:
    """Learning rate and beta1 of a step: up in a cosine to ``max_lr``, down in a cosine to almost nothing.

    The values of ``torch.optim.lr_scheduler.OneCycleLR``: the rate rises in a share ``pct_start`` of the steps, and
    beyond the end the last value stays.
    """
    peak, end = pct_start * total_steps - 1, total_steps - 1
    low, high = MOMENTA
    start = max_lr / START_DIVISOR
    if step <= peak and peak > 0:
        return _cosine(start, max_lr, step / peak), _cosine(high, low, step / peak)
    peak = max(peak, 0.0)
    done = min((step - peak) / (end - peak), 1.0) if end > peak else 1.0
    return _cosine(max_lr, start / END_DIVISOR, done), _cosine(low, high, done)


def set_rate(optimiser: torch.optim.Optimizer, rate: tuple[float, float]) -> None:
    """Give the optimiser the learning rate and beta1 of a step."""
    learning_rate, beta1 = rate
    for group in optimiser.param_groups:
        group["lr"], group["betas"] = learning_rate * group.get("lr_scale", 1.0), (beta1, group["betas"][1])


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


class WeightAverage:
    """The exponential moving average of everything in the state of a network, batch-norm statistics included.

    It is timm's, whose steps are counted here. ``decay`` is the share of the average that stays at a step t = 0, 1, …;
    with ``warmup`` it is min(decay, t / (9 + t)): with a constant 0.9997 a random first network still makes up 31 % of
    the average after 3950 steps, the paper's whole training on VOC2007.
    """

    def __init__(self, network: nn.Module, decay: float, *, warmup: bool = True) -> None:
        self.source, self.warmup, self.updates = network, warmup, 0
        average = import_vision("timm.utils").ModelEmaV3
        self._average: Any = average(network, decay, use_warmup=warmup, warmup_gamma=9.0, warmup_power=1.0)

    @property
    def network(self) -> nn.Module:
        """A network with the averaged weights, in evaluation mode."""
        return self._average.module

    def update(self) -> None:
        """Move the average towards the network; integers (counts of batches) are copied."""
        self.updates += 1
        self._average.update(self.source, self.updates if self.warmup else None)
