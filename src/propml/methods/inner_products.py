"""Inner products of the training rows: all that neighbours, reconstructions and dual machines need to know of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from propml.methods.base import Features

# Rows up to which all products are kept (800 MB); above, they are computed where they are needed.
GRAM_ROWS = 10_000
# Numbers in one block of work (32 MB).
BLOCK = 2**22


class InnerProducts:
    """Inner products of the rows of a matrix.

    Parameters
    ----------
    X : ndarray or csr_array, shape (n_samples, n_features)

    Examples
    --------
    >>> products = InnerProducts(np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 3.0]]))
    >>> products.among(np.array([[1, 2]]))
    array([[[5., 6.],
            [6., 9.]]])
    """

    def __init__(self, X: Features) -> None:
        self.X = X
        self.n_rows, self.n_features = X.shape
        self.squares = np.asarray((X * X).sum(axis=1)).ravel()
        self.matrix = dense(X @ X.T) if self.n_rows <= GRAM_ROWS else None

    def block(self, rows: slice) -> np.ndarray:
        """Products of some rows with all rows, ``(n_rows, n_samples)``."""
        return self.matrix[rows] if self.matrix is not None else dense(self.X[rows] @ self.X.T)

    def among(self, rows: np.ndarray) -> np.ndarray:
        """Products within each group of rows: ``(n_groups, size)`` indices give ``(n_groups, size, size)``."""
        if self.matrix is not None:
            return self.matrix.ravel().take((rows * self.n_rows)[:, :, None] + rows[:, None, :])
        products = np.empty((*rows.shape, rows.shape[1]))
        step = 1 if sp.issparse(self.X) else max(1, BLOCK // (rows.shape[1] * self.n_features))
        for start in range(0, len(rows), step):
            members = rows[start : start + step]
            part = self.X[members[0] if step == 1 else members]
            products[start : start + step] = dense(part @ (part.T if part.ndim == 2 else part.transpose(0, 2, 1)))
        return products


def dense(matrix: Features) -> np.ndarray:
    """The matrix as an array."""
    return sp.csr_array(matrix).toarray() if sp.issparse(matrix) else matrix
