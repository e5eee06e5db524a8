"""The power mean of the candidates' probabilities: the family between BCE and ProPML."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.candidates import Marks
from propml.losses.kernels.fused import computed
from propml.losses.problem import (
    POWER,
    Lam,
    Problem,
    Reduction,
    check_non_negative,
    excluded_term,
    log_of_sum,
    log_share,
    sum_over_labels,
    weighted,
)

TINY_ORDER = 1e-3


def power_loss(
    logits: Tensor,
    candidates: Marks,
    *,
    lam: Lam = 1.0,
    order: Lam = 0.5,
    label_dim: int = -1,
    label_weight: Tensor | None = None,
    example_weight: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: Reduction = "none",
) -> Tensor:
    r"""The family between BCE and ProPML: the candidates' probabilities enter by their power mean of order ``order``.

    .. math:: L_a = -|S|^{1-a} \log M_a(p_S) - \lambda \sum_{j \notin S} \log(1 - p_j), \quad
              M_a(p_S) = \Big(\frac{1}{|S|} \sum_{i \in S} p_i^a\Big)^{1/a}

    Parameters
    ----------
    order : float or Tensor
        At least 0: a = 0 is the geometric mean and gives BCE on candidates, a = 1 the arithmetic mean and gives ProPML
        up to the constant log|S|. A tensor is broadcast against the returned values.

    Notes
    -----
    The gradient on a candidate's logit is :math:`-|S|^{1-a} \, \frac{p_i^a}{\sum_S p^a} (1 - p_i)`: of the pull that
    BCE gives to every candidate alike, each gets the share of its :math:`p_i^a`. Below a = 1 the pull does not die when
    one candidate is found. Label weights enter the mean: |S| becomes the sum of the candidates' weights.
    In float32 the value of a small order above 0.001 loses digits as 1/a grows: the relative error was up to 3e-5 at
    a = 0.01. Gradients do not.
    """
    problem = Problem(POWER, _formula, candidates, lam, label_dim, label_weight, example_weight, mask, {"order": order})
    return computed(logits, problem, reduction)


def _formula(logits: Tensor, given: Problem) -> Tensor:
    """What PyTorch differentiates by itself: one value per example."""
    lam, label_weight = given.lam, given.label_weight
    order = given.options["order"]
    check_non_negative("order", order)
    z, positive, negative = given.entries(logits)
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
    return weighted(lam * excluded_term(z, negative, label_weight) - found, given.example_weight)
