"""ProPML, BCE, ASL and the power mean as formulas that PyTorch differentiates by itself, and the steps they share.

What a kernel cannot do, and every float64 loss, is computed here; the kernels are tested against it.
"""

import math
from numbers import Real

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.candidate_bits import CandidateBits
from propml.losses.marks import check_marks

Lam = float | Tensor
Marks = Tensor | CandidateBits
TINY_ORDER = 1e-3


def propml(
    logits: Tensor,
    candidates: Marks,
    *,
    lam: Lam,
    label_dim: int,
    label_weight: Tensor | None,
    example_weight: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """See :func:`propml.losses.propml_loss`."""
    check_non_negative("lam", lam)
    z, positive, negative = entries_of(logits, candidates, mask, label_dim)
    excluded = excluded_term(z, negative, label_weight)
    if label_weight is None:
        found = log_sum_exp(logsigmoid(z), positive)
        return weighted(lam * excluded - found, example_weight)
    weight = label_weight.to(z)
    positive = positive & (weight > 0)
    heaviest = torch.where(positive, weight, 0.0).amax(dim=-1)
    whole = torch.where(heaviest > 0, heaviest, 1.0)
    found = log_of_sum(logsigmoid(z), positive, log_share(weight, positive, whole))
    return weighted(lam * excluded - heaviest * found, example_weight)


def bce(
    logits: Tensor,
    candidates: Marks,
    *,
    lam: Lam,
    label_dim: int,
    label_weight: Tensor | None,
    example_weight: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """See :func:`propml.losses.bce_loss`."""
    check_non_negative("lam", lam)
    z, positive, negative = entries_of(logits, candidates, mask, label_dim)
    found = sum_over_labels(-logsigmoid(z), positive, label_weight)
    return weighted(found + lam * excluded_term(z, negative, label_weight), example_weight)


def asl(
    logits: Tensor,
    candidates: Marks,
    *,
    lam: Lam,
    label_dim: int,
    label_weight: Tensor | None,
    example_weight: Tensor | None,
    mask: Tensor | None,
    gamma_positive: float,
    gamma_negative: float,
    clip: float,
    detach_focus: bool,
) -> Tensor:
    """See :func:`propml.losses.asl_loss`."""
    check_non_negative("lam", lam)
    z, positive, negative = entries_of(logits, candidates, mask, label_dim)
    log_p, log_not_p = logsigmoid(z), logsigmoid(-z)
    focus_positive = torch.exp(gamma_positive * log_not_p)
    if clip > 0:
        kept = log_p.exp() - clip
        # A floor instead of zero: the power's slope stays finite for exponents below one.
        focus_negative = torch.where(kept > 0, kept.clamp(min=1e-8) ** gamma_negative, 0.0)
        log_rest = torch.log((log_not_p.exp() + clip).clamp(max=1.0))
    else:
        focus_negative, log_rest = torch.exp(gamma_negative * log_p), log_not_p
    if detach_focus:
        focus_positive, focus_negative = focus_positive.detach(), focus_negative.detach()
    found = sum_over_labels(-focus_positive * log_p, positive, label_weight)
    excluded = sum_over_labels(-focus_negative * log_rest, negative, label_weight)
    return weighted(found + lam * excluded, example_weight)


def power(
    logits: Tensor,
    candidates: Marks,
    *,
    lam: Lam,
    label_dim: int,
    label_weight: Tensor | None,
    example_weight: Tensor | None,
    mask: Tensor | None,
    order: Lam,
) -> Tensor:
    """See :func:`propml.losses.power_loss`."""
    check_non_negative("lam", lam)
    check_non_negative("order", order)
    z, positive, negative = entries_of(logits, candidates, mask, label_dim)
    log_p = logsigmoid(z)
    counted = positive if label_weight is None else positive & (label_weight.to(z) > 0)
    size = sum_over_labels(torch.ones_like(z), counted, label_weight)
    safe_size = torch.where(size > 0, size, 1.0)
    a = torch.as_tensor(order, dtype=z.dtype, device=z.device)
    tiny = a < TINY_ORDER  # there the power mean is the geometric one to float precision, and 1/a would lose digits
    safe_a = torch.where(tiny, 1.0, a)
    share = log_share(torch.ones_like(z) if label_weight is None else label_weight.to(z), counted, safe_size)
    power_mean = log_of_sum(log_p, counted, share, safe_a) / safe_a
    geometric_mean = sum_over_labels(log_p, counted, label_weight) / safe_size
    found = torch.where(tiny, geometric_mean, power_mean) * safe_size ** torch.where(tiny, 1.0, 1 - a)
    found = torch.where(size > 0, found, 0.0)
    return weighted(lam * excluded_term(z, negative, label_weight) - found, example_weight)


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


def unpacked(candidates: Marks, label_dim: int) -> Tensor:
    """The candidates as a tensor with the axes of the logits."""
    if isinstance(candidates, CandidateBits):
        return candidates.to_matrix().movedim(-1, label_dim)
    if not isinstance(candidates, Tensor):
        raise TypeError(
            f"candidates are of type {type(candidates).__name__}; give a tensor: torch.as_tensor(array), "
            "or torch.as_tensor(candidates.to_matrix()) where they are Candidates"
        )
    return candidates


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
