"""The features on the device, and the first layer's product with a batch of their rows.

Dense features are gathered; sparse ones are never densified as a whole: on the CPU a batch stays a sparse matrix, on a
GPU rows are kept padded to the longest one and scattered into a dense batch (static shapes, as CUDA graphs need them).
"""

import copy
import math
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from propml.neural.encoding import QuantileBins

# Dropout masks are drawn for so many rows (or stored values) at most; row i has mask i modulo this, so that a million
# rows need no more memory for them than a few thousand.
MASK_ROWS = 4096
MASK_VALUES = 2**22
# Up to so many encoded numbers (256 MB) rows are encoded once; beyond, batch by batch, and only raw columns are stored.
ENCODED_ONCE = 2**26


class Rows(Protocol):
    """Features that can be multiplied batch by batch."""

    n_features: int
    n_columns: int  #: of the batches, which weights have as many rows as; those past the features are 0
    mask_shape: tuple[int, ...]  #: of a dropout mask over all features of all rows

    def product(self, index: Tensor, weight: Tensor, kept: Tensor | None = None) -> Tensor:
        """``(F, B, W)``: rows ``index`` (F, B) of the features times ``weight`` (F, D, W).

        ``kept`` holds the scaled input-dropout mask of each fold, ``(F, *mask_shape)``.
        """
        ...


def make_rows(X: Any, device: torch.device, bins: QuantileBins | None = None) -> Rows:
    """The rows of a dense array, which may be encoded by bins, or of a SciPy sparse matrix, on a device."""
    if not sp.issparse(X):
        dense = torch.as_tensor(np.ascontiguousarray(X, dtype=np.float32), device=device)
        return DenseRows(dense, None if bins is None else copy.deepcopy(bins).to(device))
    matrix = sp.csr_array(X).astype(np.float32)
    return SparseRows(matrix) if device.type == "cpu" else PaddedRows(matrix, device)


def keep_scale(rate: float) -> float:
    """What :func:`keep_mask` multiplies by what it keeps: 1 / (1 - rate), the rate rounded to 1/256."""
    return 256 / (256 - round(rate * 256))


def keep_mask(shape: tuple[int, ...], rate: float, generator: torch.Generator, out: Tensor | None = None) -> Tensor:
    """A scaled dropout mask of one byte of chance per entry: 0 with probability ``rate``, else 1 / (1 - rate)."""
    size = math.prod(shape)
    # Eight entries per number drawn: the generator is what this waits for.
    words = torch.empty(-(-size // 8), dtype=torch.int64, device=generator.device).random_(
        -(2**63), None, generator=generator
    )
    chance = words.view(torch.uint8)[:size].view(shape)
    mask = torch.empty(shape, device=generator.device) if out is None else out
    return torch.ge(chance, round(rate * 256), out=mask).mul_(keep_scale(rate))


def gathered(table: Tensor, index: Tensor) -> Tensor:
    """``(F, B, W)``: for each fold the mask rows of its batch, from a table ``(F, rows, W)``."""
    folds, rows, width = table.shape
    place = index % rows + rows * torch.arange(folds, device=index.device).unsqueeze(1)
    return _rows_of(table.view(folds * rows, width), place)


def _rows_of(table: Tensor, index: Tensor) -> Tensor:
    """``table[index]``, whole rows at a time, which a CPU does several times faster than advanced indexing."""
    return table.index_select(0, index.flatten()).view(*index.shape, table.shape[1])


class DenseRows:
    """Features as one dense tensor ``(n, D)``, which may be encoded by their bins."""

    def __init__(self, X: Tensor, bins: QuantileBins | None = None) -> None:
        self.n_features = self.n_columns = X.shape[1] + (0 if bins is None else bins.n_added)
        self.mask_shape: tuple[int, ...] = (min(len(X), MASK_ROWS), self.n_features)
        self.X, self.bins = X, bins
        if bins is not None and len(X) * self.n_features <= ENCODED_ONCE:
            self.X, self.bins = bins(X), None

    def product(self, index: Tensor, weight: Tensor, kept: Tensor | None = None) -> Tensor:
        batch = _rows_of(self.X, index)
        if self.bins is not None:
            batch = self.bins(batch)
        if kept is not None:
            batch = batch * gathered(kept, index)
        return torch.bmm(batch, weight)


class PaddedRows:
    """Sparse features on a GPU: column numbers and values of each row, padded with zeros to the longest row.

    Batches have some columns of zeros more, so that every row starts at a multiple of 16 bytes: a GPU's fast products
    of matrices want that.
    """

    def __init__(self, X: sp.csr_array, device: torch.device) -> None:
        self.n_features, self.n_columns = X.shape[1], -(-X.shape[1] // 8) * 8
        lengths = np.diff(X.indptr)
        width = max(int(lengths.max(initial=0)), 1)
        self.mask_shape: tuple[int, ...] = (min(X.shape[0], MASK_ROWS), width)
        place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], lengths)
        row = np.repeat(np.arange(X.shape[0]), lengths)
        columns = np.zeros((X.shape[0], width), dtype=np.int64)
        values = np.zeros((X.shape[0], width), dtype=np.float32)
        columns[row, place], values[row, place] = X.indices, X.data
        self.columns, self.values = torch.as_tensor(columns, device=device), torch.as_tensor(values, device=device)

    def product(self, index: Tensor, weight: Tensor, kept: Tensor | None = None) -> Tensor:
        values = self.values[index]
        if kept is not None:
            values = values * gathered(kept, index)
        batch = torch.zeros(*index.shape, self.n_columns, device=values.device)
        return torch.bmm(batch.scatter_add_(2, self.columns[index], values), weight)


class SparseRows:
    """Sparse features on the CPU: every batch is a sparse matrix, product and gradient cost its non-zeros only."""

    def __init__(self, X: sp.csr_array) -> None:
        self.X = X
        self.n_features = self.n_columns = X.shape[1]
        self.mask_shape: tuple[int, ...] = (min(X.nnz, MASK_VALUES),)

    def product(self, index: Tensor, weight: Tensor, kept: Tensor | None = None) -> Tensor:
        n_folds, n_rows = index.shape
        rows = index.numpy().ravel()
        batch = self.X[rows]
        lengths = np.diff(batch.indptr)
        fold = np.repeat(np.repeat(np.arange(n_folds), n_rows), lengths)
        if kept is not None:
            entries = np.arange(batch.nnz) + np.repeat(self.X.indptr[rows] - batch.indptr[:-1], lengths)
            batch.data = batch.data * kept.numpy()[fold, entries % kept.shape[1]]
        # All folds side by side: one product, and one gradient of the weights' size.
        columns = batch.indices.astype(np.int64) + fold * self.n_features
        shape = (len(rows), n_folds * self.n_features)
        block = sp.csr_array((batch.data, columns, batch.indptr), shape=shape)
        return _SparseProduct.apply(weight.reshape(shape[1], -1), block).view(n_folds, n_rows, weight.shape[-1])


class _SparseProduct(torch.autograd.Function):
    """``batch @ weight`` for a SciPy batch; the gradient is ``batch.T @ gradient``, again sparse times dense."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, batch: sp.csr_array) -> Tensor:
        ctx.batch = batch
        return _times_dense(batch, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _times_dense(sp.csr_array(ctx.batch.T), gradients[0].contiguous()), None


def _times_dense(matrix: sp.csr_array, dense: Tensor) -> Tensor:
    """A sum of rows is an embedding bag, which torch computes several times faster than a product with a CSR matrix."""
    return embedding_bag(
        torch.from_numpy(matrix.indices.astype(np.int64)),
        dense,
        torch.from_numpy(matrix.indptr[:-1].astype(np.int64)),
        mode="sum",
        per_sample_weights=torch.from_numpy(matrix.data),
    )
