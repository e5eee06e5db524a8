"""Adam with the groups of parameters that timm makes, and the one-cycle schedule as a function of the step.

The schedule has no state: a run that goes on after a kill asks for the rate of its step, and gets the same one.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from propml.vision.torchvision_import import import_vision

__all__ = ["make_optimiser", "one_cycle", "set_rate"]

# The defaults of torch.optim.lr_scheduler.OneCycleLR, which the paper leaves as they are.
START_DIVISOR, END_DIVISOR = 25.0, 1e4
MOMENTA = (0.85, 0.95)  # Adam's beta1 falls while the rate rises, and rises while it falls


def make_optimiser(
    network: Any, kind: str, learning_rate: float, weight_decay: float, layer_decay: float = 1.0
) -> torch.optim.Optimizer:
    """Adam (weight decay added to the gradient, as in the paper) or AdamW; one fused kernel on a GPU.

    Parameters
    ----------
    kind : {"adam", "adamw"}
    layer_decay : float
        Below 1 each layer of ``network.backbone`` learns at this share of the next one's rate, the head at the whole.
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

    The values of ``torch.optim.lr_scheduler.OneCycleLR``.

    Parameters
    ----------
    step : int
        From 0; beyond the end the last value stays.
    pct_start : float
        The share of steps in which the rate rises.

    Examples
    --------
    >>> [round(one_cycle(step, 100, 1.0)[0], 6) for step in (0, 19, 99)]
    [0.04, 1.0, 4e-06]
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
