"""Candidates above excluded labels: a loss on the order within a row, which needs no λ."""

import torch
from torch import Tensor

Lam = float | Tensor


def rank_loss(logits: Tensor, candidates: Tensor, *, lam: Lam = 1.0) -> Tensor:
    r"""Squared hinge over all pairs of a candidate and an excluded label of a row.

    .. math:: L = \frac{1}{|S| \, |\bar S|} \sum_{i \in S} \sum_{k \notin S} \max(0, 1 - z_i + z_k)^2

    Every row weighs the same, however many of its labels are candidates: where nearly all of them are, the few excluded
    ones, which are surely false, speak as loud as elsewhere. Only differences
    within a row count: a threshold over rows has to be found afterwards.

    Parameters
    ----------
    logits : Tensor, shape (…, C)
    candidates : Tensor, same shape
        1 for a candidate, 0 for an excluded label, -1 for an unknown one, which carries no loss.
    lam : float or Tensor
        A plain factor, for the sake of a common signature: candidates and excluded labels enter in pairs, so there is
        nothing to balance.

    Returns
    -------
    Tensor, shape (…)
        0 for rows without a candidate or without an excluded label.

    Notes
    -----
    The pairs are not formed. Sorted from high to low, the excluded labels inside the margin of candidate i come first;
    with their number m and the sums A of their logits and B of the squares, its pairs add up to
    :math:`B + 2 (1 - z_i) A + (1 - z_i)^2 m`. A row costs C log C.

    Examples
    --------
    >>> rank_loss(torch.tensor([[1.0, 0.0, 0.5]]), torch.tensor([[1, 1, 0]]))  # (0.5² + 1.5²) / 2
    tensor([1.2500])
    """
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    positive, negative = candidates > 0, candidates == 0
    n_positive, n_negative = positive.sum(dim=-1), negative.sum(dim=-1)
    # Differences alone count: around the row's middle the sums of squares lose no digits.
    z = z - z.detach().mean(dim=-1, keepdim=True)
    excluded, order = torch.where(negative, z, -torch.inf).sort(dim=-1, descending=True)
    real = negative.gather(-1, order)
    values = torch.where(real, excluded, 0.0)
    margin = (z - 1).detach()
    # How many excluded labels lie above z_i - 1: searchsorted wants ascending order, hence the signs.
    inside = torch.searchsorted(-excluded.detach().contiguous(), -margin.contiguous(), right=False)
    start = torch.zeros_like(values[..., :1])
    first = torch.cat([start, values.cumsum(dim=-1)], dim=-1).gather(-1, inside)
    second = torch.cat([start, values.square().cumsum(dim=-1)], dim=-1).gather(-1, inside)
    room = 1 - z
    pairs = second + 2 * room * first + room.square() * inside
    total = torch.where(positive, pairs, 0.0).sum(dim=-1)
    return lam * total / (n_positive * n_negative).clamp(min=1)
