"""ProPML: find at least one true label among the candidates, and none outside them."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.candidates import Marks
from propml.losses.kernels.fused import computed
from propml.losses.problem import (
    PROPML,
    CandidateLoss,
    Lam,
    Problem,
    Reduction,
    check_non_negative,
    excluded_term,
    log_of_sum,
    log_share,
    log_sum_exp,
    weighted,
)


def propml_loss(
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
    r"""ProPML: find at least one true label among the candidates, and none outside them.

    .. math:: L = -\log \sum_{i \in S} p_i \; - \; \lambda \sum_{j \notin S} \log(1 - p_j), \quad p = \sigma(z)

    Parameters
    ----------
    lam : float or Tensor
        The paper's λ, at least 0; a tensor is broadcast against the returned values (one λ per example, or per model).

    Notes
    -----
    The gradient on a candidate's logit is :math:`-p_i (1 - p_i) / \sum_S p`: the pull goes to the candidate that is
    already ahead. With one candidate and λ = 1 this is binary cross entropy summed over labels.
    With label weights the set's term counts as much as its heaviest label :math:`w_S`, and lighter labels enter the sum
    in proportion: :math:`-w_S \log \sum_{i \in S} (w_i / w_S) p_i`.

    References
    ----------
    Struski, Pardyl, Tabor, Zieliński: ProPML: Probability Partial Multi-label Learning. DSAA 2023, equation 1.

    Examples
    --------
    >>> logits, candidates = torch.zeros(1, 3), torch.tensor([[1, 1, 0]])
    >>> propml_loss(logits, candidates, lam=0.5)  # -log(0.5 + 0.5) - 0.5 log(0.5)
    tensor([0.3466])
    """
    problem = Problem(PROPML, _formula, candidates, lam, label_dim, label_weight, example_weight, mask)
    return computed(logits, problem, reduction)


def _formula(logits: Tensor, given: Problem) -> Tensor:
    """What PyTorch differentiates by itself: one value per example."""
    lam, label_weight = given.lam, given.label_weight
    z, positive, negative = given.entries(logits)
    excluded = excluded_term(z, negative, label_weight)
    if label_weight is None:
        found = log_sum_exp(logsigmoid(z), positive)
        return weighted(lam * excluded - found, given.example_weight)
    weight = label_weight.to(z)
    positive = positive & (weight > 0)
    heaviest = torch.where(positive, weight, 0.0).amax(dim=-1)
    whole = torch.where(heaviest > 0, heaviest, 1.0)
    found = log_of_sum(logsigmoid(z), positive, log_share(weight, positive, whole))
    return weighted(lam * excluded - heaviest * found, given.example_weight)


class ProPMLLoss(CandidateLoss):
    """The paper's loss, equation 1, in place of ``torch.nn.BCEWithLogitsLoss``; see :func:`propml.losses.propml_loss`.

    >>> import torch
    >>> loss = ProPMLLoss(lam=0.3)
    >>> loss(torch.zeros(2, 3), torch.tensor([[1, 1, 0], [1, 0, 0]]))
    tensor(0.6585)
    """

    def __init__(
        self,
        lam: float = 1.0,
        *,
        reduction: Reduction = "mean",
        label_dim: int = -1,
        label_weight: Tensor | None = None,
    ) -> None:
        check_non_negative("lam", lam)
        super().__init__(propml_loss, reduction=reduction, label_dim=label_dim, label_weight=label_weight, lam=lam)
