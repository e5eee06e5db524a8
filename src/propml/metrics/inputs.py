"""What every metric takes: 0/1 matrices and a matrix of scores, checked once and then read block by block."""

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from propml.folds import row_blocks
from propml.targets import Candidates

# A dense matrix keeps the type it came in; only the block at work is turned into booleans.
BinaryMatrix: TypeAlias = np.ndarray | sp.csr_array


def binary_matrix(values: Any, name: str) -> BinaryMatrix:
    """Check 0/1 entries: an array, tensor, SciPy sparse matrix or Candidates; errors call them by ``name``."""
    if isinstance(values, Candidates):
        values = values.to_sparse()
    if not sp.issparse(values):
        matrix = _dense(values, name)
        for rows in row_blocks(*matrix.shape) if matrix.dtype != bool else ():
            wrong = (matrix[rows] != 0) & (matrix[rows] != 1)
            if wrong.any():
                row, column = np.argwhere(wrong)[0]
                raise _not_zero_one(name, rows.start + row, column, matrix[rows][row, column])
        return matrix
    sparse = sp.csr_array(values)
    if not sparse.has_canonical_format:
        sparse = sparse.copy()  # the caller's matrix stays as it is
        sparse.sum_duplicates()
    _check_not_empty(sparse.shape, name)
    if (bad := np.flatnonzero((sparse.data != 0) & (sparse.data != 1))).size:
        row = np.searchsorted(sparse.indptr, bad[0], side="right") - 1
        raise _not_zero_one(name, row, sparse.indices[bad[0]], sparse.data[bad[0]])
    return sparse


def score_matrix(scores: Any) -> np.ndarray:
    """Check a dense matrix of scores, shape (n_samples, n_labels): any real numbers, infinities too, no NaN."""
    if sp.issparse(scores):
        raise ValueError("scores are a sparse matrix, expected a dense one; call scores.toarray()")
    matrix = _dense(scores, "scores")
    for rows in row_blocks(*matrix.shape) if matrix.dtype.kind == "f" else ():
        missing = np.isnan(matrix[rows])
        if missing.any():
            row, column = np.argwhere(missing)[0]
            told = f"the score in row {rows.start + row}, column {column} is NaN"
            raise ValueError(f"{told}; a ranking needs a number there")
    return matrix


def truth_and_scores(truth: Any, scores: Any) -> tuple[BinaryMatrix, np.ndarray]:
    """Check both, and that they speak of the same rows and labels."""
    true, matrix = binary_matrix(truth, "truth"), score_matrix(scores)
    _check_same_shape(true, matrix, "scores")
    return true, matrix


def predicted_matrix(predicted: Any, truth: BinaryMatrix) -> BinaryMatrix:
    """Check 0/1 predictions for the rows and labels of a checked truth."""
    marked = binary_matrix(predicted, "predicted")
    _check_same_shape(truth, marked, "predicted")
    return marked


def compared(scores: np.ndarray) -> np.ndarray:
    """Scores as every ranking compares them: in float32, so that what only rounding errors tell apart is equal.

    >>> first, second = compared(np.array([0.3, 0.1 + 0.2]))
    >>> bool(first == second)
    True
    """
    with np.errstate(over="ignore"):  # what overflows is infinite, and ties
        return np.ascontiguousarray(scores, dtype=np.float32)


def boolean_rows(matrix: BinaryMatrix, rows: slice) -> np.ndarray:
    """The given rows as a dense boolean array."""
    block = matrix[rows] if isinstance(matrix, np.ndarray) else matrix[rows].toarray()
    return np.ascontiguousarray(block, dtype=bool)


def _dense(values: Any, name: str) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if "bfloat16" in str(values.dtype):
            values = values.float()  # NumPy has no bfloat16; float32 holds it exactly
    try:
        matrix = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} is not a matrix: its rows differ in length") from error
    if matrix.dtype.kind not in "buif":
        raise ValueError(f"{name} holds {matrix.dtype} values, expected numbers")
    if matrix.ndim != 2:
        raise ValueError(
            f"{name} has shape {matrix.shape}, expected two dimensions (n_samples, n_labels); "
            f"a class vector becomes a matrix with Candidates.from_classes"
        )
    _check_not_empty(matrix.shape, name)
    return matrix


def _check_same_shape(truth: BinaryMatrix, other: BinaryMatrix, name: str) -> None:
    if truth.shape != other.shape:
        raise ValueError(f"truth has shape {truth.shape} and {name} {other.shape}; both need (n_samples, n_labels)")


def _check_not_empty(shape: tuple[int, ...], name: str) -> None:
    if 0 in shape:
        what = "rows" if shape[0] == 0 else "labels"
        raise ValueError(f"{name} has shape {shape}: there are no {what} to measure on")


def _not_zero_one(name: str, row: int, column: int, value: Any) -> ValueError:
    hint = "; for -1/+1 coding pass (matrix > 0)" if value == -1 else ""
    return ValueError(f"{name} is {value} in row {row}, column {column}, expected 0 or 1{hint}")
