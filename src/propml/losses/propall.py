"""ProPaLL: at least one candidate fires, by noisy-or."""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.candidates import Marks
from propml.losses.problem import (
    CandidateLoss,
    Lam,
    Reduction,
    check_non_negative,
    entries_of,
    excluded_term,
    log_of_sum,
    sum_over_labels,
    weighted,
)


def propall_loss(
    logits: Tensor,
    candidates: Marks,
    *,
    lam: Lam = 1.0,
    label_dim: int = -1,
    label_weight: Tensor | None = None,
    example_weight: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    r"""ProPaLL: the probability that at least one candidate fires (noisy-or), and none outside.

    .. math:: L = -\log\Big(1 - \prod_{i \in S} (1 - p_i)\Big) - \lambda \sum_{j \notin S} \log(1 - p_j)

    The paper has λ = 1. A label's weight is an exponent of its factor :math:`(1 - p_i)^{w_i}`.

    References
    ----------
    Struski, Tabor, Zieliński: ProPaLL: Probabilistic Partial Label Learning. 2022.
    """
    check_non_negative("lam", lam)
    z, positive, negative = entries_of(logits, candidates, mask, label_dim)
    weight = None if label_weight is None else label_weight.to(z)
    if weight is not None:
        positive = positive & (weight > 0)
    each = -logsigmoid(-z)
    # s = -log Π (1 - p) is summed up in logarithms: small weights may make it less than float32 holds, and large ones
    # its slopes more. The logarithm of a term is z to the last digit below log(eps).
    smallest = math.log(torch.finfo(z.dtype).eps)
    low = z < smallest
    log_each = torch.where(low, z, torch.where(low, 1.0, each).log())
    log_s = log_of_sum(log_each, positive, None if weight is None else torch.where(positive, weight, 1.0).log())
    # log(1 - exp(-s)): up to 1 as log(s) and a correction, -s / 2 for small s, where a compiled expm1 lacks digits.
    up_to_one, bound = log_s.clamp(max=0.0).exp(), math.exp(smallest / 2)
    usual = up_to_one.clamp(min=bound)
    correction = torch.where(up_to_one < bound, -up_to_one / 2, torch.log(-torch.expm1(-usual) / usual))
    large = torch.where(log_s > 0, sum_over_labels(each, positive, weight), 1.0)
    found = torch.where(log_s > 0, torch.log1p(-torch.exp(-large)), log_s + correction)
    found = torch.where(positive.any(dim=-1), found, 0.0)
    return weighted(lam * excluded_term(z, negative, label_weight) - found, example_weight)


class ProPaLLLoss(CandidateLoss):
    """Noisy-or over the candidates; see :func:`propml.losses.propall_loss`."""

    def __init__(
        self, *, reduction: Reduction = "mean", label_dim: int = -1, label_weight: Tensor | None = None
    ) -> None:
        super().__init__(propall_loss, reduction=reduction, label_dim=label_dim, label_weight=label_weight)
