"""The features on the device, and the first layer's product with a batch of their rows.

Dense features are gathered; sparse ones are never densified as a whole: on the CPU a batch stays a sparse matrix, on a
GPU rows are kept padded to the longest one and scattered into a dense batch (static shapes, as CUDA graphs need them).
"""

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


class Rows(Protocol):
    """Features that can be multiplied batch by batch."""

    n_features: int

    def product(self, index: Tensor, weight: Tensor, kept: Tensor | None = None) -> Tensor:
        """``(F, B, W)``: rows ``index`` (F, B) of the features times ``weight`` (F, D, W).

        ``kept`` holds the scaled input-dropout mask of each fold, as :meth:`drawn_mask` made it.
        """
        ...

    def drawn_mask(self, rate: float, generators: list[torch.Generator]) -> Tensor:
        """A scaled dropout mask over all features of all rows, one per generator (fold)."""
        ...


def make_rows(X: Any, device: torch.device) -> Rows:
    """The rows of a dense array or a SciPy sparse matrix on a device."""
    if not sp.issparse(X):
        return DenseRows(torch.as_tensor(np.ascontiguousarray(X, dtype=np.float32), device=device))
    matrix = sp.csr_array(X).astype(np.float32)
    return SparseRows(matrix) if device.type == "cpu" else PaddedRows(matrix, device)


def keep_mask(shape: tuple[int, ...], rate: float, generator: torch.Generator) -> Tensor:
    """A scaled dropout mask of one byte of chance per entry: 0 with probability ``rate``, else 1 / (1 - rate)."""
    silent = round(rate * 256)
    chance = torch.randint(256, shape, dtype=torch.uint8, device=generator.device, generator=generator)
    return (chance >= silent).float().mul_(256 / (256 - silent))


class DenseRows:
    """Features as one dense tensor ``(n, D)``."""

    def __init__(self, X: Tensor) -> None:
        self.X = X
        self.n_features = X.shape[1]

    def product(self, index: Tensor, weight: Tensor, kept: Tensor | None = None) -> Tensor:
        batch = self.X[index]
        if kept is not None:
            batch = batch * torch.stack([mask[rows] for mask, rows in zip(kept, index, strict=True)])
        return torch.bmm(batch, weight)

    def drawn_mask(self, rate: float, generators: list[torch.Generator]) -> Tensor:
        return torch.stack([keep_mask(tuple(self.X.shape), rate, g) for g in generators])


class PaddedRows:
    """Sparse features on a GPU: column numbers and values of each row, padded with zeros to the longest row."""

    def __init__(self, X: sp.csr_array, device: torch.device) -> None:
        self.n_features = X.shape[1]
        lengths = np.diff(X.indptr)
        width = max(int(lengths.max(initial=0)), 1)
        place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], lengths)
        row = np.repeat(np.arange(X.shape[0]), lengths)
        columns = np.zeros((X.shape[0], width), dtype=np.int64)
        values = np.zeros((X.shape[0], width), dtype=np.float32)
        columns[row, place], values[row, place] = X.indices, X.data
        self.columns, self.values = torch.as_tensor(columns, device=device), torch.as_tensor(values, device=device)

    def product(self, index: Tensor, weight: Tensor, kept: Tensor | None = None) -> Tensor:
        values = self.values[index]
        if kept is not None:
            values = values * torch.stack([mask[rows] for mask, rows in zip(kept, index, strict=True)])
        batch = torch.zeros(*index.shape, self.n_features, device=values.device)
        return torch.bmm(batch.scatter_add_(2, self.columns[index], values), weight)

    def drawn_mask(self, rate: float, generators: list[torch.Generator]) -> Tensor:
        return torch.stack([keep_mask(tuple(self.values.shape), rate, g) for g in generators])


class SparseRows:
    """Sparse features on the CPU: every batch is a sparse matrix, product and gradient cost its non-zeros only."""

    def __init__(self, X: sp.csr_array) -> None:
        self.X = X
        self.n_features = X.shape[1]

    def product(self, index: Tensor, weight: Tensor, kept: Tensor | None = None) -> Tensor:
        wide = []
        for fold, rows in enumerate(index.numpy()):
            batch = self.X[rows]
            if kept is not None:
                starts, ends = self.X.indptr[rows], self.X.indptr[rows + 1]
                entries = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
                batch.data = batch.data * kept[fold].numpy()[entries]
            wide.append(_SparseProduct.apply(weight[fold], batch))
        return torch.stack(wide)

    def drawn_mask(self, rate: float, generators: list[torch.Generator]) -> Tensor:
        return torch.stack([keep_mask((self.X.nnz,), rate, g) for g in generators])


class _SparseProduct(torch.autograd.Function):
    """``batch @ weight`` for a SciPy batch; the gradient is ``batch.T @ gradient``, again sparse times dense."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, batch: sp.csr_array) -> Tensor:
        ctx.batch = batch
        return _tensor(batch) @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _tensor(sp.csr_array(ctx.batch.T)) @ gradients[0].contiguous(), None


def _tensor(matrix: sp.csr_array) -> Tensor:
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data),
        size=matrix.shape,
        check_invariants=False,
    )
