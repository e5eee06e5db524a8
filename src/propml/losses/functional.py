"""Losses on candidate labels: pure functions of logits that return one value per example.

All of them share their arguments:

logits : Tensor
    Scores before the sigmoid, any shape; one axis, ``label_dim``, runs over the labels.
candidates : Tensor, same shape as ``logits``, or CandidateBits
    1 for a candidate, 0 for an excluded label, -1 (or NaN) for an unknown one, which carries no loss. Any dtype.
    :class:`propml.losses.CandidateBits` hold them in one bit each, labels in the last axis whatever ``label_dim`` is.
label_dim : int
    The axis of the labels: ``-1`` for ``(N, C)`` and ``(N, A, C)``, ``1`` for ``(N, C, H, W)``.
label_weight : Tensor, shape (C,), optional
    How much each label counts.
example_weight : Tensor, optional
    How much each example counts; broadcast against the returned values.
mask : Tensor of bool, same shape as ``logits``, optional
    False where an entry carries no loss (the same as an unknown label), whatever its logit is.

They return the shape of ``logits`` without ``label_dim``, in float32 at least: float16 and bfloat16 logits are lifted
before anything is summed. Everything is computed in log space; value and gradient are finite for finite logits, and an
empty candidate set contributes its excluded labels only.

ProPML, BCE, ASL and the power mean have fused kernels, which are used where they apply (:mod:`propml.losses.fused`).
These four take ``reduction`` ("none", "mean" or "sum" over examples): a kernel that knows it saves a pass over the
gradient.
"""

import math
from numbers import Real

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses import plain
from propml.losses.fused import Reduction, fused_or_plain
from propml.losses.plain import (
    Lam,
    Marks,
    check_non_negative,
    entries_of,
    excluded_term,
    log_of_sum,
    sum_over_labels,
    weighted,
)
from propml.losses.rows import Problem


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
    problem = Problem(plain.propml, candidates, lam, label_dim, label_weight, example_weight, mask, {})
    return fused_or_plain(logits, problem, reduction)


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

    >>> bce_loss(torch.zeros(1, 2), torch.tensor([[1, 0]]))  # 2 log 2
    tensor([1.3863])
    """
    problem = Problem(plain.bce, candidates, lam, label_dim, label_weight, example_weight, mask, {})
    return fused_or_plain(logits, problem, reduction)


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
    problem = Problem(plain.asl, candidates, lam, label_dim, label_weight, example_weight, mask, options)
    return fused_or_plain(logits, problem, reduction)


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
    """
    problem = Problem(plain.power, candidates, lam, label_dim, label_weight, example_weight, mask, {"order": order})
    return fused_or_plain(logits, problem, reduction)


def unbiased_loss(
    logits: Tensor,
    candidates: Marks,
    *,
    flip_rate: Lam,
    miss_rate: Lam = 0.0,
    label_dim: int = -1,
    label_weight: Tensor | None = None,
    example_weight: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Binary cross entropy corrected for known noise: on average over the noise it is the loss on the true labels.

    With :math:`\rho` = ``flip_rate``, P(candidate | false), and :math:`\mu` = ``miss_rate``, P(not candidate | true),

    .. math:: \ell_{S=1} = \frac{(1-\rho)\,\ell_1 - \mu\,\ell_0}{1-\rho-\mu}, \quad
              \ell_{S=0} = \frac{(1-\mu)\,\ell_0 - \rho\,\ell_1}{1-\rho-\mu}, \quad
              \ell_1 = -\log p, \; \ell_0 = -\log(1-p)

    Parameters
    ----------
    flip_rate, miss_rate : float or Tensor
        Rates below one together; a tensor is broadcast against the labels (one rate per label).

    Notes
    -----
    Single values may be negative, and a strong network can drive their mean below zero: see
    :class:`propml.losses.UnbiasedLoss` for the clamps that prevent it.

    References
    ----------
    Natarajan et al., NIPS 2013; Xie, Huang: CCMN, TPAMI 2022.
    """
    entries = unbiased_entries(
        logits, candidates, flip_rate=flip_rate, miss_rate=miss_rate, label_dim=label_dim, mask=mask
    )
    if label_weight is not None:
        entries = entries * label_weight.to(entries)
    return weighted(entries.sum(dim=-1), example_weight)


def unbiased_entries(
    logits: Tensor,
    candidates: Marks,
    *,
    flip_rate: Lam,
    miss_rate: Lam = 0.0,
    label_dim: int = -1,
    mask: Tensor | None = None,
) -> Tensor:
    """The terms that :func:`unbiased_loss` sums, with the labels as the last axis; 0 where an entry is unknown."""
    check_rates(flip_rate, miss_rate)
    z, positive, negative = entries_of(logits, candidates, mask, label_dim)
    if_true, if_false = -logsigmoid(z), -logsigmoid(-z)
    observed = (1 - flip_rate) * if_true - miss_rate * if_false
    absent = (1 - miss_rate) * if_false - flip_rate * if_true
    entries = torch.where(positive, observed, torch.where(negative, absent, 0.0))
    return entries / (1 - flip_rate - miss_rate)


def check_rates(flip_rate: Lam, miss_rate: Lam) -> None:
    """Refuse noise rates, where they are numbers, that leave nothing to learn."""
    for rate in (flip_rate, miss_rate):
        if not isinstance(rate, Tensor) and not (isinstance(rate, Real) and 0 <= rate < 1):
            raise ValueError(f"a noise rate lies in [0, 1), got {rate!r}")
    if not isinstance(flip_rate, Tensor) and not isinstance(miss_rate, Tensor) and flip_rate + miss_rate >= 1:
        raise ValueError(f"flip_rate + miss_rate is {flip_rate + miss_rate}; at 1 or more the labels tell nothing")
