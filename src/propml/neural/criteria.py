"""How good is a model on held-out *candidate* labels? What λ, epochs and weights are chosen by.

A criterion maps logits ``(…, B, C)`` and candidates ``(…, B, C)`` to one value per row ``(…, B)``; smaller is better.
None of them sees a true label.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from propml.losses import bce_loss

Criterion = Callable[[Tensor, Tensor], Tensor]


def average_precision_loss(logits: Tensor, candidates: Tensor) -> Tensor:
    """1 − average precision of each row's ranking, with the candidates in the place of true labels.

    It looks at the order of labels only, so it can compare networks whose λ gives them different offsets, which
    held-out BCE cannot. Rows whose known labels are all candidates, or all not, have value 0.

    >>> average_precision_loss(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[1, 0, 1]]))  # 1 - (1/1 + 2/3) / 2
    tensor([0.1667])
    """
    known = candidates >= 0
    order = torch.where(known, logits, -torch.inf).argsort(dim=-1, descending=True)
    hits = (candidates > 0).gather(-1, order).to(logits.dtype)
    rank = torch.arange(1, logits.shape[-1] + 1, device=logits.device)
    n_candidates = hits.sum(dim=-1)
    precision = (hits.cumsum(dim=-1) / rank * hits).sum(dim=-1) / n_candidates.clamp(min=1)
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
