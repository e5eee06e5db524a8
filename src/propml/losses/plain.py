"""The steps that the plain formulas share. They run in log space, on logits of float32 or float64."""

import math
from numbers import Real

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.candidates import Marks, check_marks, unpacked

__all__ = [
    "Lam",
    "check_non_negative",
    "entries_of",
    "excluded_term",
    "highest",
    "log_of_sum",
    "log_share",
    "log_sum_exp",
    "sum_over_labels",
    "weighted",
]

Lam = float | Tensor


def entries_of(
    logits: Tensor, candidates: Marks, mask: Tensor | None, label_dim: int, *, soft: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits in float32 at least, and which of them are candidates and excluded; the labels are the last axis.

    Where an entry is neither, its logit is 0, so that it does no harm whatever it was. Candidates may have ``soft``
    values; all others than 1, 0, -1 and NaN are refused where they are not.
    """
    candidates = unpacked(candidates, label_dim)
    if candidates.shape != logits.shape:
        raise ValueError(
            f"candidates have shape {tuple(candidates.shape)}, logits {tuple(logits.shape)}; give one entry per logit"
        )
    if not logits.is_floating_point():
        raise ValueError(f"logits are {logits.dtype}; give floating-point scores before the sigmoid")
    lifted = torch.promote_types(logits.dtype, torch.float32)
    z = logits.to(lifted).movedim(label_dim, -1)
    marks = candidates.movedim(label_dim, -1)
    positive = marks if marks.dtype == torch.bool else marks > 0.5
    known = None if marks.dtype in (torch.bool, torch.uint8) else marks > -0.5  # not so for NaN
    if mask is not None:
        if mask.shape != logits.shape or mask.dtype != torch.bool:
            raise ValueError(f"mask is {mask.dtype} of shape {tuple(mask.shape)}; give bool of the logits' shape")
        counted = mask.movedim(label_dim, -1)
        positive = positive & counted
        known = counted if known is None else known & counted
    if not soft:
        check_marks(candidates, mask)
    if known is None:
        return z, positive, ~positive
    return torch.where(known, z, 0.0), positive, known & ~positive


def check_non_negative(name: str, value: Lam) -> None:
    """Refuse a number below 0, NaN or infinity; a tensor is not looked into, a GPU would have to wait for that."""
    if isinstance(value, Tensor):
        return
    if not isinstance(value, Real) or not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r}; give a finite number of at least 0, or a tensor of such numbers")


def log_sum_exp(values: Tensor, chosen: Tensor) -> Tensor:
    """log Σ exp over the chosen entries of the last axis; 0, without gradient, where none is chosen."""
    # torch.logsumexp takes its slopes from its result, which far from 0 no longer tells one entry from two equal ones.
    top = highest(values, chosen)
    total = torch.where(chosen, values - top.unsqueeze(-1), -torch.inf).exp().sum(dim=-1)
    return torch.where(chosen.any(dim=-1), total, 1.0).log() + top


def log_of_sum(log_p: Tensor, chosen: Tensor, log_weight: Tensor | None, order: Lam = 1.0) -> Tensor:
    """log Σ w p^order over the chosen entries of the last axis; 0 where none is chosen."""
    # Relative to the largest before anything is multiplied or added, beside which far logits would lose their digits.
    top = highest(log_p, chosen)
    terms = (order.unsqueeze(-1) if isinstance(order, Tensor) else order) * (log_p - top.unsqueeze(-1))
    return log_sum_exp(terms if log_weight is None else terms + log_weight, chosen) + order * top


def log_share(weight: Tensor, chosen: Tensor, whole: Tensor) -> Tensor:
    """log(w / whole) of the chosen labels, also where float32 does not hold the ratio; anything elsewhere."""
    return torch.where(chosen, weight, 1.0).log() - whole.log().unsqueeze(-1)


def highest(values: Tensor, chosen: Tensor) -> Tensor:
    """The largest of the chosen entries of the last axis, as a constant; 0 where there is none that is finite."""
    if values.shape[-1] == 0:
        return values.detach().sum(dim=-1)
    top = torch.where(chosen, values.detach(), -torch.inf).amax(dim=-1)
    return torch.where(top.isfinite(), top, 0.0)


def sum_over_labels(values: Tensor, chosen: Tensor, weight: Tensor | None) -> Tensor:
    """Σ over the chosen entries of the last axis, each label by its weight."""
    kept = torch.where(chosen, values, 0.0)
    return (kept if weight is None else kept * weight.to(kept)).sum(dim=-1)


def excluded_term(z: Tensor, negative: Tensor, weight: Tensor | None) -> Tensor:
    """-Σ log(1 - p) over the labels outside the candidate set."""
    return sum_over_labels(-logsigmoid(-z), negative, weight)


def weighted(values: Tensor, example_weight: Tensor | None) -> Tensor:
    return values if example_weight is None else values * example_weight.to(values)
