"""The asymmetric loss of Ridnik et al.: easy negatives count less than hard ones."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.candidates import Marks
from propml.losses.kernels.fused import computed
from propml.losses.problem import (
    ASL,
    CandidateLoss,
    Lam,
    Problem,
    Reduction,
    check_non_negative,
    sum_over_labels,
    weighted,
)


def asl_loss(
    logits: Tensor,
    candidates: Marks,
    *,
    lam: Lam = 1.0,
    gamma_positive: float = 1.0,
    gamma_negative: float = 4.0,
    clip: float = 0.05,
    detach_focus: bool = False,
    label_dim: int = -1,
    label_weight: Tensor | None = None,
    example_weight: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: Reduction = "none",
) -> Tensor:
    r"""Asymmetric loss: easy negatives are turned down, the easiest are dropped; summed over labels.

    .. math:: L = -\sum_{i \in S} (1-p_i)^{\gamma_+} \log p_i - \lambda \sum_{j \notin S} m_j^{\gamma_-} \log(1-m_j),
              \quad m = \max(p - \mathrm{clip}, 0)

    Parameters
    ----------
    gamma_positive, gamma_negative, clip : float
        The authors' class defaults; their COCO script uses ``gamma_positive=0``.
    detach_focus : bool
        Send no gradient through the focusing weights, as the authors' training script does.

    References
    ----------
    Ridnik et al.: Asymmetric Loss for Multi-Label Classification. ICCV 2021.
    """
    options: dict[str, Lam] = {
        "gamma_positive": gamma_positive,
        "gamma_negative": gamma_negative,
        "clip": clip,
        "detach_focus": detach_focus,
    }
    problem = Problem(ASL, _formula, candidates, lam, label_dim, label_weight, example_weight, mask, options)
    return computed(logits, problem, reduction)


def _formula(logits: Tensor, given: Problem) -> Tensor:
    """What PyTorch differentiates by itself: one value per example."""
    gamma_positive, gamma_negative, clip, detach_focus = given.options.values()
    z, positive, negative = given.entries(logits)
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
    found = sum_over_labels(-focus_positive * log_p, positive, given.label_weight)
    excluded = sum_over_labels(-focus_negative * log_rest, negative, given.label_weight)
    return weighted(found + given.lam * excluded, given.example_weight)


class ASLLoss(CandidateLoss):
    """The asymmetric loss; see :func:`propml.losses.asl_loss`."""

    def __init__(
        self,
        gamma_positive: float = 1.0,
        gamma_negative: float = 4.0,
        clip: float = 0.05,
        *,
        detach_focus: bool = False,
        reduction: Reduction = "mean",
        label_dim: int = -1,
        label_weight: Tensor | None = None,
    ) -> None:
        own = {"gamma_positive": gamma_positive, "gamma_negative": gamma_negative, "clip": clip}
        for name, value in own.items():
            check_non_negative(name, value)
        own["detach_focus"] = detach_focus
        super().__init__(asl_loss, reduction=reduction, label_dim=label_dim, label_weight=label_weight, **own)
