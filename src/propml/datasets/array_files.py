"""A user's own arrays: svmlight text and npz files, which carry their labels themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.datasets.dataset import Dataset
from propml.file_errors import reading
from propml.schema import checked_csr
from propml.targets import Candidates
from propml.unpacking import check_zip, open_unpacked

__all__ = ["checked_features", "load_arrays", "names_in", "read_npz", "read_svmlight"]

# More is a slip in the file, and would fill the memory with the names of its features alone.
MAX_FEATURES = 10_000_000


def checked_features(X: Any, path: Path, called: str) -> Any:
    """The matrix, if it has a number of features that is no slip, and finite numbers."""
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(f"{path}: {called} has shape {X.shape} and type {X.dtype}, expected a matrix of numbers")
    if X.shape[1] > MAX_FEATURES:
        raise ValueError(f"{path} has a feature index of {X.shape[1] - 1}, which is beyond {MAX_FEATURES}")
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError(f"{path}: {called} has entries that are not finite; fill them in before reading")
    return X


def read_svmlight(path: Path, labels: Sequence[str] | None, name: str) -> Dataset:
    """Rows of ``label,label index:value …``; the labels, if there are some, are the candidates, named by their numbers.

    Positions are taken as they are written: a guess whether they start at 0 or 1 may differ from file to file.
    """
    from sklearn.datasets import load_svmlight_file

    with reading(path, "svmlight file", "a row is 'label,label index:value …'"), open_unpacked(path) as file:
        X, numbers = load_svmlight_file(file, multilabel=True, zero_based=True)
        if not X.shape[0] or not X.nnz:
            raise ValueError(f"{path} has no rows or no features")
        X = checked_features(checked_csr(X.data, X.indices, X.indptr, X.shape), path, "its matrix")
    rows = [[f"{number:.15g}" for number in row] for row in numbers]
    if labels is None:
        labels = [f"{number:.15g}" for number in sorted({number for row in numbers for number in row})]
    return Dataset(
        name=name,
        X=X,
        truth=None,
        candidates=Candidates.from_lists(rows, labels, empty="ignore") if labels else None,
        label_names=tuple(labels),
        feature_names=tuple(f"feature_{j}" for j in range(X.shape[1])),
    )


def read_npz(path: Path, labels: Sequence[str] | None, name: str) -> Dataset:
    """The array ``X``, and ``candidates``, ``truth``, ``label_names`` and ``feature_names`` where they are there."""
    content = load_arrays(path)
    X = _feature_matrix(content, path)
    given, truth = (content.get(key) for key in ("candidates", "truth"))
    for key, matrix in (("candidates", given), ("truth", truth)):
        if matrix is not None and (matrix.ndim != 2 or 0 in matrix.shape or len(matrix) != X.shape[0]):
            raise ValueError(f"{path}: {key} has shape {matrix.shape}, expected ({X.shape[0]}, n_labels)")
    n_labels = next((matrix.shape[1] for matrix in (given, truth) if matrix is not None), 0)
    if labels is None:
        labels = (n_labels and names_in(content, "label_names", n_labels, path)) or list(map(str, range(n_labels)))
    if truth is not None and not np.isin(truth, (0, 1)).all():
        row, label = np.argwhere(~np.isin(truth, (0, 1)))[0].tolist()
        told = "unknown (-1)" if truth[row, label] == -1 else f"{truth[row, label]:g}"
        raise ValueError(
            f"{path}: row {row}: label {labels[label]!r} is {told}; truth has entries other than 0 and 1, "
            f"by which nothing can be judged: write one of them, or leave the row out"
        )
    feature_names = names_in(content, "feature_names", X.shape[1], path)
    return Dataset(
        name=name,
        X=X,
        truth=None if truth is None else truth.astype(np.uint8),
        candidates=None if given is None else Candidates.from_matrix(given, labels, empty="ignore"),
        label_names=tuple(labels),
        feature_names=feature_names or tuple(f"feature_{j}" for j in range(X.shape[1])),
    )


def names_in(content: dict[str, np.ndarray], key: str, count: int, path: Path) -> tuple[str, ...] | None:
    """Names that an npz file holds for so many labels or features; None where it holds none."""
    if key not in content:
        return None
    if content[key].shape != (count,):
        raise ValueError(f"{path}: {key} has shape {content[key].shape}, expected one name for each of {count}")
    return tuple(map(str, content[key].tolist()))


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file by name; one that holds objects, or is damaged, is refused."""
    with reading(path, "npz file of plain arrays", "save it with numpy.savez, without objects"):
        check_zip(path)
        with np.load(path, allow_pickle=False) as file:
            content = {key: file[key] for key in file.files}
            if strange := next((key for key, value in content.items() if not isinstance(value, np.ndarray)), None):
                raise ValueError(f"its member {strange!r} is not an array")
            return content


def _feature_matrix(content: dict[str, np.ndarray], path: Path) -> Any:
    """The features ``(n_samples, n_features)`` among the arrays: ``X``, or the four parts of a sparse matrix."""
    parts = ("X_data", "X_indices", "X_indptr", "X_shape")
    if "X" in content:
        return checked_features(content["X"], path, "X").astype(np.float64)
    if not all(part in content for part in parts):
        raise ValueError(f"{path} holds {', '.join(content)}; the array X is missing")
    try:
        X = checked_csr(*(content[part] for part in parts)).astype(np.float64)
    except ValueError as error:
        raise ValueError(f"{path}: {', '.join(parts)} do not form a sparse matrix ({error})") from error
    X.sum_duplicates()
    return checked_features(X, path, "X")
