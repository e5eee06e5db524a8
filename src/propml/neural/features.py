"""Raw features → features a network can learn from, as one differentiable layer.

Dense features are standardised, and clipped at five standard deviations so that one wild value does not drown the rest.
Features that are mostly zero (words, tags, interactions) keep their zeros: counts go through log(1 + x), and each
column is divided by the root mean square of its *non-zero* values, so that a rare word does not become a loud one.
"""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

CLIP = 5.0
# From this share of zeros on, a zero means "absent" rather than "small".
MOSTLY_ZERO = 0.6


class FeatureScaler(nn.Module):
    """The scaling, learned by :meth:`fit`; as a module it travels inside an exported model.

    Attributes
    ----------
    keeps_zeros : bool
        Whether zeros stay zeros (mostly-zero or sparse features).
    counts : bool
        Whether log(1 + x) comes first.
    center, scale : Tensor of float64, shape (n_features,)
        In double precision: a date differs little from the mean of all dates, beside what both are.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.keeps_zeros = False
        self.counts = False
        self.register_buffer("center", torch.zeros(n_features, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(n_features, dtype=torch.float64))

    def fit(self, X: Any, rarity: float = 0.0) -> Self:
        """Learn from dense ``(n, D)`` or SciPy sparse features.

        ``rarity`` turns up rare columns of mostly-zero features: a column that is filled in a share f of the rows is
        multiplied by ``f ** (-rarity / 2)``. At 0 a rare word is as loud as a common one where it occurs, at 1 all
        columns have the same mean square.
        """
        filled = X.nnz if sp.issparse(X) else np.count_nonzero(X)
        self.keeps_zeros = bool(sp.issparse(X) or filled < (1 - MOSTLY_ZERO) * X.size)
        if not self.keeps_zeros:
            deviation = X.std(axis=0)
            # The mean of a constant may be rounded off it, and of numbers far from zero little differs.
            low, high = X.min(axis=0), X.max(axis=0)
            varies = (high > low) & (deviation > 1e-12 * np.maximum(np.abs(low), np.abs(high)))
            self.center = torch.as_tensor(X.mean(axis=0), dtype=torch.float64)
            self.scale = torch.as_tensor(np.where(varies, 1 / np.where(varies, deviation, 1), 0), dtype=torch.float64)
            return self
        values = X.data if sp.issparse(X) else X
        self.counts = bool((values >= 0).all() and (values == np.round(values)).all() and values.max(initial=0) > 1)
        squares, number = _squares_of_columns(X, self.counts)
        typical = np.sqrt(squares / np.maximum(number, 1)) * (np.maximum(number, 1) / X.shape[0]) ** (rarity / 2)
        self.scale = torch.as_tensor(
            np.where(typical > 0, 1 / np.where(typical > 0, typical, 1), 0), dtype=torch.float64
        )
        return self

    def forward(self, X: Tensor) -> Tensor:
        scaled = torch.log1p(X.clamp(min=0)) if self.counts else X
        if self.keeps_zeros:
            scaled = scaled * self.scale
        else:
            scaled = ((scaled - self.center) * self.scale).clamp(-CLIP, CLIP)
        return scaled.to(X.dtype if X.is_floating_point() else torch.get_default_dtype())

    def transform(self, X: Any) -> Any:
        """The scaled features as float32, sparse where they came sparse."""
        if not sp.issparse(X):
            with torch.no_grad():
                return self(torch.from_numpy(np.array(X, dtype=np.float64))).float().numpy()
        scaled = sp.csr_array(X, copy=True).astype(np.float64)
        if self.counts:
            scaled.data = np.log1p(np.maximum(scaled.data, 0))
        scaled.data *= self.scale.numpy()[scaled.indices]
        return scaled.astype(np.float32)


def _squares_of_columns(X: Any, counts: bool) -> tuple[np.ndarray, np.ndarray]:
    """The sum of squares and the number of the non-zero values of each column."""
    if sp.issparse(X):
        entries = sp.csr_array(X)
        values = np.log1p(entries.data) if counts else entries.data
        squares = np.bincount(entries.indices, values**2, minlength=X.shape[1])
        return squares, np.bincount(entries.indices[entries.data != 0], minlength=X.shape[1])
    values = np.log1p(X) if counts else X
    return (values**2).sum(axis=0), np.count_nonzero(X, axis=0)
