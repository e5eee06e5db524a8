"""The loss of the second stage: candidates count as much as a first model finds them plausible."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.candidates import Marks, unpacked
from propml.losses.problem import Lam, check_non_negative, entries_of, weighted


def refined_loss(
    logits: Tensor,
    plausibility: Marks,
    *,
    lam: Lam = 1.0,
    label_dim: int = -1,
    label_weight: Tensor | None = None,
    example_weight: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Binary cross entropy with soft targets, summed over labels.

    .. math:: L = -\sum_{i \in S} \big( q_i \log p_i + \lambda (1 - q_i) \log(1 - p_i) \big)
              - \lambda \sum_{j \notin S} \log(1 - p_j)

    The other arguments are those of :mod:`propml.losses`.

    Parameters
    ----------
    plausibility : Tensor, same shape as ``logits``, or CandidateBits
        q of a candidate in (0, 1], 0 for an excluded label, -1 (or NaN) for an unknown one, which carries no loss. In
        packed bits, q is 1 for all candidates.

    Notes
    -----
    With q = 1 for all candidates this is :func:`propml.losses.bce_loss`. Its minimum over p, label by label, is
    :math:`q / (q + \lambda (1 - q))`, which rises with q: a candidate that was implausible is pushed down, not pulled.

    Examples
    --------
    >>> refined_loss(torch.zeros(1, 3), torch.tensor([[1.0, 0.5, 0.0]]))  # 3 log 2
    tensor([2.0794])
    """
    check_non_negative("lam", lam)
    plausibility = unpacked(plausibility, label_dim)
    z, positive, negative = entries_of(logits, plausibility, mask, label_dim, soft=True)
    known = positive | negative
    q = torch.where(known, plausibility.movedim(label_dim, -1).to(z), 0.0)
    rest = known.to(z) - q
    if label_weight is not None:
        q, rest = q * label_weight.to(z), rest * label_weight.to(z)
    pull, push = (q * logsigmoid(z)).sum(dim=-1), (rest * logsigmoid(-z)).sum(dim=-1)
    return weighted(-pull - lam * push, example_weight)
