"""Binary cross entropy on candidates, the loss that takes all of them for true."""

from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.candidates import Marks
from propml.losses.kernels.fused import computed
from propml.losses.problem import BCE, CandidateLoss, Lam, Problem, Reduction, excluded_term, sum_over_labels, weighted


def bce_loss(
    logits: Tensor,
    candidates: Marks,
    *,
    lam: Lam = 1.0,
    label_dim: int = -1,
    label_weight: Tensor | None = None,
    example_weight: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: Reduction = "none",
) -> Tensor:
    r"""Binary cross entropy that takes every candidate for true, summed over labels.

    .. math:: L = -\sum_{i \in S} \log p_i \; - \; \lambda \sum_{j \notin S} \log(1 - p_j)

    >>> import torch
    >>> bce_loss(torch.zeros(1, 2), torch.tensor([[1, 0]]))  # 2 log 2
    tensor([1.3863])
    """
    problem = Problem(BCE, _formula, candidates, lam, label_dim, label_weight, example_weight, mask)
    return computed(logits, problem, reduction)


def _formula(logits: Tensor, given: Problem) -> Tensor:
    """What PyTorch differentiates by itself: one value per example."""
    z, positive, negative = given.entries(logits)
    found = sum_over_labels(-logsigmoid(z), positive, given.label_weight)
    return weighted(found + given.lam * excluded_term(z, negative, given.label_weight), given.example_weight)


class CandidateBCELoss(CandidateLoss):
    """Binary cross entropy that takes every candidate for true; see :func:`propml.losses.bce_loss`.

    It takes logits, unlike ``torch.nn.BCELoss``, and sums over labels, unlike ``torch.nn.BCEWithLogitsLoss``.
    """

    def __init__(
        self, *, reduction: Reduction = "mean", label_dim: int = -1, label_weight: Tensor | None = None
    ) -> None:
        super().__init__(bce_loss, reduction=reduction, label_dim=label_dim, label_weight=label_weight)
