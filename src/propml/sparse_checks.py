"""Sparse matrices from files: their parts are checked before anything relies on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["checked_csr"]

_LARGEST_32_BIT = np.iinfo(np.int32).max
_TOO_LARGE = np.iinfo(np.int64).max


def checked_csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: Any) -> sp.csr_array:
    """A sparse matrix from its three arrays, or a ``ValueError`` that says which of them is wrong.

    SciPy trusts these arrays: its own full check passes over them where the last entry of ``indptr`` is 0, and a wrong
    one ends the process. Indices become 32-bit where they fit, as scikit-learn's trees ask for.

    Parameters
    ----------
    data : ndarray of numbers or flags, shape (n_entries,)
    indices : ndarray of int, shape (n_entries,)
        The column of each entry.
    indptr : ndarray of int, shape (n_rows + 1,)
        Where each row starts; it begins with 0, never falls, and ends with ``n_entries``.
    shape : pair of int

    Examples
    --------
    >>> checked_csr(np.ones(2), np.array([0, 1]), np.array([0, 2]), (1, 2)).toarray()
    array([[1., 1.]])
    >>> checked_csr(np.ones(2), np.array([0, 1]), np.array([0, 2, 0]), (2, 2))
    Traceback (most recent call last):
    ...
    ValueError: indptr falls after position 1; it must rise from 0 to the number of entries, 2
    """
    data, indices, indptr = np.asarray(data), np.asarray(indices), np.asarray(indptr)
    n_rows, n_columns = _checked_shape(shape)
    for name, part, kinds in (("data", data, "biuf"), ("indices", indices, "iu"), ("indptr", indptr, "iu")):
        if part.ndim != 1 or part.dtype.kind not in kinds:
            expected = "numbers" if name == "data" else "whole numbers"
            raise ValueError(f"{name} has shape {part.shape} and type {part.dtype}, expected one row of {expected}")
    if len(indices) != len(data):
        raise ValueError(f"there are {len(indices)} indices for {len(data)} entries of data")
    if len(indptr) != n_rows + 1:
        raise ValueError(f"indptr has {len(indptr)} entries, expected {n_rows + 1} for {n_rows} rows")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if falls.size or indptr[0] != 0 or indptr[-1] != len(data):
        seen = f"falls after position {falls[0]}" if falls.size else f"goes from {indptr[0]} to {indptr[-1]}"
        raise ValueError(f"indptr {seen}; it must rise from 0 to the number of entries, {len(data)}")
    if len(indices) and (indices.min() < 0 or indices.max() >= n_columns):
        raise ValueError(f"indices go from {indices.min()} to {indices.max()}, and there are {n_columns} columns")
    kind = np.int32 if max(n_rows, n_columns, len(data)) <= _LARGEST_32_BIT else np.int64
    return sp.csr_array((data, indices.astype(kind), indptr.astype(kind)), shape=(n_rows, n_columns))


def _checked_shape(shape: Any) -> tuple[int, int]:
    sizes = np.asarray(shape)
    if sizes.shape != (2,) or sizes.dtype.kind not in "iu" or sizes.min() < 0 or sizes.max() >= _TOO_LARGE:
        raise ValueError(f"the shape is {shape!r}, expected two whole numbers from 0 to 2**63 - 2")
    return int(sizes[0]), int(sizes[1])
