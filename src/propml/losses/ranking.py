"""Candidates above excluded labels: a loss on the order within a row, which needs no λ."""

import torch
from torch import Tensor

from propml.losses.candidates import Marks, unpacked
from propml.losses.problem import Lam, check_non_negative, entries_of, highest, weighted


def rank_loss(
    logits: Tensor,
    candidates: Marks,
    *,
    lam: Lam = 1.0,
    label_dim: int = -1,
    label_weight: Tensor | None = None,
    example_weight: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Squared hinge over all pairs of a candidate and an excluded label of a row.

    .. math:: L = \frac{1}{|S| \, |\bar S|} \sum_{i \in S} \sum_{k \notin S} \max(0, 1 - z_i + z_k)^2

    Every row weighs the same, however many of its labels are candidates: where nearly all of them are, the few excluded
    ones, which are surely false, speak as loud as elsewhere. Only differences within a row count: a threshold over rows
    has to be found afterwards. The arguments are those of :mod:`propml.losses`.

    Parameters
    ----------
    candidates : Tensor, same shape as ``logits``, or CandidateBits
        A candidate may be a number in (0, 1]: how much its pairs count, for instance how plausible it is.
    lam : float or Tensor
        A plain factor, for the sake of a common signature: candidates and excluded labels enter in pairs, so there is
        nothing to balance.
    label_weight : Tensor, shape (C,), optional
        A pair counts as much as the product of its labels' weights; the mean over pairs is a weighted one.

    Returns
    -------
    Tensor
        0 for rows without a candidate or without an excluded label.

    Notes
    -----
    The pairs are not formed. Sorted from high to low, the excluded labels inside the margin of candidate i come first;
    with their number m and the sums A of their logits and B of the squares, its pairs add up to
    :math:`B + 2 (1 - z_i) A + (1 - z_i)^2 m`. A row costs C log C. The squares
    end where float32 does: the logits of a row must lie less than about 1e18 apart.

    Examples
    --------
    >>> rank_loss(torch.tensor([[1.0, 0.0, 0.5]]), torch.tensor([[1, 1, 0]]))  # (0.5² + 1.5²) / 2
    tensor([1.2500])
    """
    check_non_negative("lam", lam)
    candidates = unpacked(candidates, label_dim)
    z, positive, negative = entries_of(logits, candidates, mask, label_dim, soft=True)
    # Differences alone count: around the row's middle the sums of squares lose no digits.
    n_known = (positive | negative).sum(dim=-1, keepdim=True)
    z = z - z.detach().sum(dim=-1, keepdim=True) / n_known.clamp(min=1)
    excluded, order = torch.where(negative, z, -torch.inf).sort(dim=-1, descending=True)
    values = torch.where(negative.gather(-1, order), excluded, 0.0)
    margin = (z - 1).detach()
    # How many excluded labels lie above z_i - 1: searchsorted wants ascending order, hence the signs.
    inside = torch.searchsorted(-excluded.detach().contiguous(), -margin.contiguous(), right=False)
    # Relative to the heaviest: the product of two labels' weights may be more or less than float32 holds.
    counted = torch.where(positive, candidates.movedim(label_dim, -1).to(z), 0.0)
    inner = counted if label_weight is None else counted * _relative(label_weight.to(z), positive)
    outer = negative.to(z) if label_weight is None else _relative(label_weight.to(z), negative)
    weight = outer.gather(-1, order)
    number, counted = _sums_of_first(weight, inside), weight * values
    first, second = _sums_of_first(counted, inside), _sums_of_first(counted * values, inside)
    room = 1 - z
    pairs = second + 2 * room * first + room.square() * number
    total = torch.where(positive, inner * pairs, 0.0).sum(dim=-1)
    n_pairs = inner.sum(dim=-1) * outer.sum(dim=-1)
    return weighted(lam * total / torch.where(n_pairs > 0, n_pairs, 1.0), example_weight)


def _relative(weight: Tensor, chosen: Tensor) -> Tensor:
    """The weights of the chosen labels, the largest being 1; 0 elsewhere."""
    kept = torch.where(chosen, weight, 0.0)
    return kept / highest(kept, kept > 0).clamp(min=torch.finfo(kept.dtype).tiny).unsqueeze(-1)


def _sums_of_first(terms: Tensor, how_many: Tensor) -> Tensor:
    """Sums over so many first terms of the last axis."""
    start = torch.zeros_like(terms[..., :1])
    return torch.cat([start, terms.cumsum(dim=-1)], dim=-1).gather(-1, how_many)
