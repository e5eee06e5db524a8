"""Adam without decay on biases and norms, and the one-cycle schedule as a function of the step.

The schedule has no state: a run that goes on after a kill asks for the rate of its step, and gets the same one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

__all__ = ["decay_groups", "make_optimiser", "one_cycle", "set_rate"]

# The defaults of torch.optim.lr_scheduler.OneCycleLR, which the paper leaves as they are.
START_DIVISOR, END_DIVISOR = 25.0, 1e4
MOMENTA = (0.85, 0.95)  # Adam's beta1 falls while the rate rises, and rises while it falls


def decay_groups(network: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups of parameters: those of one dimension and biases, which do not decay, and all others.

    >>> [len(group["params"]) for group in decay_groups(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), 0.1)]
    [3, 1]
    """
    groups: dict[bool, list[nn.Parameter]] = {False: [], True: []}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            groups[parameter.ndim > 1 and not name.endswith("bias")].append(parameter)
    return [
        {"params": groups[False], "weight_decay": 0.0},
        {"params": groups[True], "weight_decay": weight_decay},
    ]


def make_optimiser(network: nn.Module, kind: str, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """Adam (weight decay added to the gradient, as in the paper) or AdamW; one fused kernel on a GPU.

    Parameters
    ----------
    kind : {"adam", "adamw"}
    """
    on_gpu = next(network.parameters()).device.type == "cuda"
    make = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
    return make(decay_groups(network, weight_decay), lr=lr, betas=(MOMENTA[1], 0.999), fused=True if on_gpu else None)


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
    lr, beta1 = rate
    for group in optimiser.param_groups:
        group["lr"], group["betas"] = lr, (beta1, group["betas"][1])


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))
