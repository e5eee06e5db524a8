"""Raw features → features a network can learn from, as one differentiable layer.

Numeric columns are standardised, clipped at five standard deviations so that one wild value does not drown the rest,
and then encoded once more by their quantile bins (piecewise-linear encoding, Gorishniy et al., NeurIPS 2022): bin k
holds 0 below its lower edge, 1 above its upper edge and the fraction within; the outer bins extrapolate. A network
with such columns can bend its first layer at every quantile. Missing values (NaN) get a column of their own.

Features that are mostly zero (words, tags, interactions) keep their zeros: counts go through log(1 + x), and each
column is divided by the root mean square of its *non-zero* values, so that a rare word does not become a loud one.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

CLIP = 5.0
# From this share of zeros on, a zero means "absent" rather than "small".
MOSTLY_ZERO = 0.6
# How far the outer bins extrapolate, in widths of the bin.
BEYOND = 1.0
# Rows from which quantiles are read.
QUANTILE_ROWS = 100_000


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
    missing : Tensor of int64, shape (n_missing,)
        The columns that held missing values; for each an indicator follows the scaled columns.
    """

    center: Tensor
    scale: Tensor
    missing: Tensor

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.keeps_zeros = False
        self.counts = False
        self.register_buffer("center", torch.zeros(n_features, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(n_features, dtype=torch.float64))
        self.register_buffer("missing", torch.zeros(0, dtype=torch.long))

    @property
    def n_outputs(self) -> int:
        return len(self.scale) + len(self.missing)

    def fit(self, X: Any, rarity: float = 0.0) -> Self:
        """Learn from dense ``(n, D)`` or SciPy sparse features.

        ``rarity`` turns up rare columns of mostly-zero features: a column that is filled in a share f of the rows is
        multiplied by ``f ** (-rarity / 2)``. At 0 a rare word is as loud as a common one where it occurs, at 1 all
        columns have the same mean square.
        """
        filled = X.nnz if sp.issparse(X) else np.count_nonzero(X)
        self.keeps_zeros = bool(sp.issparse(X) or filled < (1 - MOSTLY_ZERO) * X.size)
        if not sp.issparse(X):
            absent = np.isnan(X)
            self.missing = torch.as_tensor(np.flatnonzero(absent.any(axis=0)))
            if len(self.missing):
                X = np.where(absent, 0.0 if self.keeps_zeros else _means_of_known(X, absent), X)
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
        scaled = scaled.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)  # the mean, or nothing
        if len(self.missing):
            scaled = torch.cat([scaled, X.index_select(-1, self.missing).isnan().to(scaled.dtype)], dim=-1)
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


class QuantileBins(nn.Module):
    """Scaled columns ``(…, D)`` → the same columns followed by their quantile bins, ``(…, D + P · bins)``.

    Only columns with more than two values have bins. A column with fewer distinct quantiles has fewer real bins; the
    others are 0. Bins are centred on their mean over the training rows.

    Attributes
    ----------
    columns : Tensor of int64, shape (P,)
        Which columns have bins.
    edges : Tensor, shape (P, bins + 1)
        Quantiles; a column with fewer of them repeats the last one.
    lower, inverse, least, most, level : Tensor, shape (P, bins)
        Lower edge, 1 / width, the range to which each bin is clipped, and its mean.
    """

    columns: Tensor
    edges: Tensor
    lower: Tensor
    inverse: Tensor
    least: Tensor
    most: Tensor
    level: Tensor

    def __init__(self, columns: Any, edges: Any, level: Any = None) -> None:
        super().__init__()
        edges = torch.as_tensor(edges, dtype=torch.float32)
        self.register_buffer("columns", torch.as_tensor(columns, dtype=torch.long))
        self.register_buffer("edges", edges)
        width = edges.diff(dim=1)
        real = width > 0
        self.register_buffer("lower", edges[:, :-1].clone())
        self.register_buffer("inverse", torch.where(real, 1 / torch.where(real, width, 1.0), 0.0))
        least, most = torch.zeros_like(width), real.float()
        least[:, :1] -= BEYOND
        # The last bin of a column extrapolates upwards; edges are padded at the end.
        last = real.sum(dim=1, keepdim=True).clamp(min=1) - 1
        most.scatter_add_(1, last, torch.full_like(last, 1, dtype=most.dtype) * BEYOND)
        self.register_buffer("least", least)
        self.register_buffer("most", most)
        self.register_buffer("level", torch.zeros_like(width))
        if level is not None:
            self.level = torch.as_tensor(level, dtype=torch.float32)

    @classmethod
    def of(cls, scaled: np.ndarray, bins: int) -> Self:
        """Bins by the quantiles of scaled training rows ``(n, D)``."""
        rows = scaled[:: len(scaled) // QUANTILE_ROWS + 1]
        probabilities = np.linspace(0, 1, bins + 1)
        columns, edges = [], []
        for j in range(rows.shape[1]):
            values = np.unique(rows[:, j])
            if len(values) <= 2:
                continue
            # Quantiles of the column; where most rows share one value, of its distinct values.
            own = np.unique(np.quantile(rows[:, j], probabilities))
            if len(own) < 3:
                own = np.unique(np.quantile(values, probabilities))
            columns.append(j)
            edges.append(np.pad(own, (0, bins + 1 - len(own)), mode="edge"))
        self = cls(np.array(columns, dtype=np.int64), np.array(edges, dtype=np.float32).reshape(-1, bins + 1))
        if columns:
            with torch.no_grad():
                self.level = self._bins(torch.from_numpy(rows)).mean(dim=0)
        return self

    @property
    def n_added(self) -> int:
        return self.lower.numel()

    def _bins(self, X: Tensor) -> Tensor:
        inside = (X.index_select(-1, self.columns).unsqueeze(-1) - self.lower) * self.inverse
        return torch.minimum(torch.maximum(inside, self.least), self.most) - self.level

    def forward(self, X: Tensor) -> Tensor:
        return torch.cat([X, self._bins(X).flatten(-2)], dim=-1) if self.n_added else X


def _means_of_known(X: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """The mean of each column's known values; 0 where none is known."""
    known = (~absent).sum(axis=0)
    return np.where(absent, 0.0, X).sum(axis=0) / np.maximum(known, 1)


def _squares_of_columns(X: Any, counts: bool) -> tuple[np.ndarray, np.ndarray]:
    """The sum of squares and the number of the non-zero values of each column."""
    if sp.issparse(X):
        entries = sp.csr_array(X)
        values = np.log1p(entries.data) if counts else entries.data
        squares = np.bincount(entries.indices, values**2, minlength=X.shape[1])
        return squares, np.bincount(entries.indices[entries.data != 0], minlength=X.shape[1])
    values = np.log1p(X) if counts else X
    return (values**2).sum(axis=0), np.count_nonzero(X, axis=0)
