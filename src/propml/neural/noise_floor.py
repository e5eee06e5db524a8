"""How often a label is proposed where it is false, from held-out candidates alone.

Where candidates are complete, a label is a candidate of row x with probability c(x) = t(x) + (1 − t(x)) ρ: it is true,
or it is not and was proposed all the same, at the label's noise rate ρ. No c(x) lies below ρ, so a low quantile of c
over held-out rows bounds ρ from above; it is the rate itself for labels that are surely false in some rows. A label
that is frequent everywhere has a high floor without any noise, and no data can tell the two apart. So half of the floor
is taken away. ``paper/ground_choice.py`` judges share and quantile, leaving datasets out.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

QUANTILE = 0.1
SHARE = 0.5
# Below the floor a label keeps this part of its probability: its order among others, not more.
BELOW = 1e-3


def noise_floor(logits: np.ndarray, quantile: float = QUANTILE) -> np.ndarray:
    """The low quantile of each label's P(candidate) over held-out rows, ``(n_labels,)``.

    Parameters
    ----------
    logits : ndarray, shape (n_samples, n_labels)
        Of P(candidate); rows that were not held out are NaN.
    """
    seen = np.isfinite(logits[:, 0])
    return np.quantile(1 / (1 + np.exp(-logits[seen].astype(np.float64))), quantile, axis=0)


def true_logits(logits: Tensor, rate: Tensor) -> Tensor:
    """From logits of P(candidate) to logits of P(true) = (c − ρ) / (1 − ρ); strictly increasing.

    >>> true_logits(torch.tensor([0.0]), torch.tensor([0.2])).sigmoid()  # (0.5 - 0.2) / 0.8
    tensor([0.3750])
    """
    candidate = torch.sigmoid(logits)
    true = torch.maximum((candidate - rate) / (1 - rate), BELOW * candidate)
    # 1 − P(true) = (1 − c) / (1 − ρ), without cancellation.
    return torch.log(true) + softplus(logits) + torch.log1p(-rate)
