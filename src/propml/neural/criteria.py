"""What networks learn by and are chosen by: losses by name, criteria on held-out candidates, and where λ lies.

A criterion maps logits ``(…, B, C)`` and candidates ``(…, B, C)`` to one value per row ``(…, B)``; smaller is better.
None of them sees a true label.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from propml.losses import asl_loss, bce_loss, power_loss, propall_loss, propml_loss, rank_loss
from propml.messages import did_you_mean
from propml.targets import Candidates

# (logits (K, B, C), candidates (K, B, C), **settings (K, 1)) -> (K, B)
Loss = Callable[..., Tensor]
Criterion = Callable[[Tensor, Tensor], Tensor]

# λ is tried so far to both sides of the balanced one.
SPREAD = (1 / 3, 1.0, 3.0)
# name -> (function, order of the power mean whose balance of terms it shares)
LOSSES: dict[str, tuple[Loss, float]] = {
    "propml": (propml_loss, 1.0),
    "bce": (bce_loss, 0.0),
    "asl": (asl_loss, 0.0),
    "propall": (propall_loss, 1.0),
    "power": (power_loss, 0.5),
    "rank": (rank_loss, 0.0),
}


def get_loss(loss: str | Loss) -> tuple[Loss, float]:
    """The function and its order, by name; a function of one's own is taken to be like ProPML.

    >>> get_loss("bce")[1]
    0.0
    """
    if callable(loss):
        return loss, 1.0
    if loss not in LOSSES:
        known = f"choose one of {', '.join(LOSSES)}, or give a function"
        raise ValueError(f"loss is {loss!r}; {did_you_mean(loss, LOSSES, known)}")
    return LOSSES[loss]


def average_precision_loss(logits: Tensor, candidates: Tensor, counts: Tensor | None = None) -> Tensor:
    """1 − average precision of each row's ranking, with the candidates in the place of true labels.

    It looks at the order of labels only, so it can compare networks whose λ gives them different offsets, which
    held-out BCE cannot. ``counts`` (C,) or (B, C) says how much each candidate counts, by default all alike. Rows
    whose known labels are all candidates, or all not, have value 0.

    >>> average_precision_loss(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[1, 0, 1]]))  # 1 - (1/1 + 2/3) / 2
    tensor([0.1667])
    """
    known = candidates >= 0
    order = torch.where(known, logits, -torch.inf).argsort(dim=-1, descending=True)
    hits = (candidates > 0).gather(-1, order).to(logits.dtype)
    rank = torch.arange(1, logits.shape[-1] + 1, device=logits.device)
    n_candidates = hits.sum(dim=-1)
    counted = hits if counts is None else hits * counts.expand_as(logits).gather(-1, order)
    precision = (hits.cumsum(dim=-1) / rank * counted).sum(dim=-1) / counted.sum(dim=-1).clamp(min=1e-12)
    ranked = (n_candidates > 0) & (n_candidates < known.sum(dim=-1))
    return torch.where(ranked, 1 - precision, 0.0)


def one_error_loss(logits: Tensor, candidates: Tensor) -> Tensor:
    """1 where the label on top is no candidate."""
    top = torch.where(candidates >= 0, logits, -torch.inf).argmax(dim=-1, keepdim=True)
    return (candidates.gather(-1, top).squeeze(-1) <= 0).to(logits.dtype)


CRITERIA: dict[str, Criterion] = {
    "average_precision": average_precision_loss,
    "bce": lambda logits, candidates: bce_loss(logits, candidates),
    "one_error": one_error_loss,
}


def get_criterion(criterion: str | Criterion) -> Criterion:
    """A criterion by name, or the callable itself."""
    if callable(criterion):
        return criterion
    if criterion not in CRITERIA:
        raise ValueError(f"criterion is {criterion!r}; choose one of {', '.join(CRITERIA)} or give a function")
    return CRITERIA[criterion]


def balanced_lam(candidates: Candidates, order: float = 1.0) -> float:
    """The λ at which the pull on the candidates of an average row equals the push on its excluded labels.

    At p = 1/2 everywhere the candidates of a row are pulled with total strength ``|S|^(1 - order) / 2`` (ProPML has
    order 1, BCE order 0) and its excluded labels are pushed with ``λ (C - |S|) / 2``. Hence λ falls with the number of
    labels: 1/3 for 6 labels of which 3 are candidates, 1/200 for 205 of which 5 are.

    >>> round(balanced_lam(Candidates.from_matrix([[1, 1, 1, 0, 0, 0]])), 4)
    0.3333
    """
    sizes = candidates.sizes()
    pull = np.where(sizes > 0, np.maximum(sizes, 1.0) ** (1 - order), 0.0).mean()
    unknown = (np.diff(candidates.states.indptr) - sizes).mean()  # stored, and not as candidates
    excluded = candidates.shape[1] - sizes.mean() - unknown
    return float(pull / max(excluded, 1 / len(candidates)))


def lam_grid(candidates: Candidates, order: float = 1.0, spread: tuple[float, ...] = SPREAD) -> list[float]:
    """The λ that ``lam="auto"`` tries: multiples of the balanced one."""
    return [factor * balanced_lam(candidates, order) for factor in spread]
