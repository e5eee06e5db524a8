"""ProPML and binary cross entropy where labels are too many to score: all candidates, and a sample of the excluded."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.problem import Lam, check_non_negative, log_sum_exp, sum_over_labels, weighted


def sampled_propml_loss(
    candidate_logits: Tensor,
    excluded_logits: Tensor,
    *,
    weight: float | Tensor = 1.0,
    lam: Lam = 1.0,
    candidate_mask: Tensor | None = None,
    excluded_mask: Tensor | None = None,
    example_weight: Tensor | None = None,
) -> Tensor:
    r"""An unbiased estimate of :func:`propml.losses.propml_loss` from a sample A of the labels.

    .. math:: \hat L = -\log \sum_{i \in S} p_i
              \; - \; \lambda \sum_{j \in A \setminus S} w_j \log(1 - p_j), \quad w_j = 1 / P(j \in A)

    Each excluded label is in the sample with probability :math:`1 / w_j`, so value and gradient are those of the full
    loss on average, whatever the logits are. One sample may serve all rows of a batch: the candidates of a row that are
    in it are masked for this row.

    Parameters
    ----------
    candidate_logits : Tensor, shape (..., K)
        The logits of all candidates of each row, filled up to the longest row.
    excluded_logits : Tensor, shape (..., M)
        The logits of the sampled labels.
    weight : float or Tensor that spreads over ``excluded_logits``
        How many labels each sampled one stands for: C / M, where M of C labels are drawn without replacement; 1 for
        labels that are always there.
    lam : float or Tensor
        As in :func:`propml.losses.propml_loss`.
    candidate_mask : Tensor of bool, shape (..., K), optional
        False where ``candidate_logits`` is filled up; whatever stands there carries no loss.
    excluded_mask : Tensor of bool, shape (..., M), optional
        False where a sampled label is a candidate of the row, or unknown.
    example_weight : Tensor, shape (...), optional

    Returns
    -------
    Tensor, shape (...)
        One value per row, in float32 at least; a row without candidates has its excluded labels only.

    Notes
    -----
    With E excluded labels in a row, m of them drawn, ``weight = E / m`` is as good on average and exact where all
    excluded labels have equal logits. It is undefined where none was drawn, and among thousands of labels the two
    hardly differ, since nearly all of them are excluded.

    Examples
    --------
    >>> all_of_them = sampled_propml_loss(torch.zeros(1, 2), torch.zeros(1, 4), lam=0.5)
    >>> half_of_them = sampled_propml_loss(torch.zeros(1, 2), torch.zeros(1, 2), weight=4 / 2, lam=0.5)
    >>> all_of_them, half_of_them  # -log(0.5 + 0.5) - 0.5 * 4 log(0.5)
    (tensor([1.3863]), tensor([1.3863]))
    """
    z, inside = _counted("candidate", candidate_logits, candidate_mask)
    push = _push(excluded_logits, excluded_mask, weight, lam)
    return weighted(push - log_sum_exp(logsigmoid(z), inside), example_weight)


def sampled_bce_loss(
    candidate_logits: Tensor,
    excluded_logits: Tensor,
    *,
    weight: float | Tensor = 1.0,
    lam: Lam = 1.0,
    candidate_mask: Tensor | None = None,
    excluded_mask: Tensor | None = None,
    example_weight: Tensor | None = None,
) -> Tensor:
    r"""An unbiased estimate of :func:`propml.losses.bce_loss`; arguments as in :func:`sampled_propml_loss`.

    .. math:: \hat L = -\sum_{i \in S} \log p_i \; - \; \lambda \sum_{j \in A \setminus S} w_j \log(1 - p_j)

    >>> sampled_bce_loss(torch.zeros(1, 1), torch.zeros(1, 1), weight=3.0)  # 4 log 2
    tensor([2.7726])
    """
    z, inside = _counted("candidate", candidate_logits, candidate_mask)
    push = _push(excluded_logits, excluded_mask, weight, lam)
    return weighted(push - sum_over_labels(logsigmoid(z), inside, None), example_weight)


def _push(logits: Tensor, mask: Tensor | None, weight: float | Tensor, lam: Lam) -> Tensor:
    """-λ Σ w log(1 - p) over the sampled labels that are excluded."""
    check_non_negative("lam", lam)
    check_non_negative("weight", weight)
    z, outside = _counted("excluded", logits, mask)
    return lam * sum_over_labels(-logsigmoid(-z), outside, torch.as_tensor(weight, device=z.device))


def _counted(name: str, logits: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Logits in float32 at least, 0 where they do not count, and where they do."""
    if not logits.is_floating_point():
        raise ValueError(f"{name}_logits are {logits.dtype}; give floating-point scores before the sigmoid")
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if mask is None:
        return z, torch.ones_like(z, dtype=torch.bool)
    if mask.shape != logits.shape or mask.dtype != torch.bool:
        raise ValueError(f"{name}_mask is {mask.dtype} of shape {tuple(mask.shape)}; give bool of the logits' shape")
    return torch.where(mask, z, 0.0), mask
