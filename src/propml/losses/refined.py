"""The loss of the second stage: candidates count as much as a first model finds them plausible."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from propml.losses.functional import Lam


def refined_loss(logits: Tensor, plausibility: Tensor, *, lam: Lam = 1.0) -> Tensor:
    r"""Binary cross entropy with soft targets, summed over labels.

    .. math:: L = -\sum_{i \in S} \big( q_i \log p_i + \lambda (1 - q_i) \log(1 - p_i) \big)
              - \lambda \sum_{j \notin S} \log(1 - p_j)

    Parameters
    ----------
    logits : Tensor, shape (…, C)
    plausibility : Tensor, same shape
        q of a candidate in (0, 1], 0 for an excluded label, -1 for an unknown one, which carries no loss; see
        :func:`propml.neural.refinement.plausibility`.
    lam : float or Tensor
        Broadcast against the returned values.

    Notes
    -----
    With q = 1 for all candidates this is :func:`propml.losses.bce_loss`. Its minimum over p, label by label, is
    :math:`q / (q + \lambda (1 - q))`, which rises with q: a candidate that was implausible is pushed down, not pulled.

    Examples
    --------
    >>> refined_loss(torch.zeros(1, 3), torch.tensor([[1.0, 0.5, 0.0]]))  # 3 log 2
    tensor([2.0794])
    """
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    q = plausibility.to(z)
    known = q >= 0
    pull = torch.where(known, -q * logsigmoid(z), 0.0).sum(dim=-1)
    push = torch.where(known, -(1 - q) * logsigmoid(-z), 0.0).sum(dim=-1)
    return pull + lam * push
