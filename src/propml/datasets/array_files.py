"""A user's own arrays: svmlight text and npz files, which carry their labels themselves."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.datasets.dataset import Dataset
from propml.targets import Candidates

__all__ = ["feature_matrix", "load_arrays", "read_npz", "read_svmlight"]

# More is a slip in the file, and would fill the memory with the names of its features alone.
MAX_FEATURES = 10_000_000

# What NumPy and zipfile raise on broken bytes; the last two for encryption and compression they do not know.
_NPZ_PROBLEMS = (
    ValueError, EOFError, KeyError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error, RuntimeError,
    NotImplementedError,
)  # fmt: skip


def load_svmlight(path: Path) -> tuple[sp.csr_matrix, list[tuple[float, ...]]]:
    """Features and the labels of each row of ``label,label index:value …``.

    Positions are taken as they are written: a guess whether they start at 0 or 1 may differ from file to file.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        X, numbers = load_svmlight_file(path, multilabel=True, zero_based=True)
    except (ValueError, EOFError, OverflowError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not valid svmlight ({error}); a row is 'label,label index:value …'") from error
    if not X.shape[0] or not X.nnz:
        raise ValueError(f"{path} has no rows or no features")
    if X.shape[1] > MAX_FEATURES:
        raise ValueError(f"{path} has a feature index of {X.shape[1] - 1}, which is beyond {MAX_FEATURES}")
    if not np.isfinite(X.data).all():
        raise ValueError(f"{path} has values that are not finite; fill them in before reading")
    return X, numbers


def read_svmlight(path: Path, labels: Sequence[str] | None, name: str) -> Dataset:
    """Rows of ``label,label index:value …``; the labels are the candidates, named by their numbers."""
    X, numbers = load_svmlight(path)
    rows = [[f"{number:.15g}" for number in row] for row in numbers]
    if labels is None:
        labels = [f"{number:.15g}" for number in sorted({number for row in numbers for number in row})]
    return Dataset(
        name=name,
        X=sp.csr_array(X),
        truth=None,
        candidates=Candidates.from_lists(rows, labels, empty="ignore"),
        label_names=tuple(labels),
        feature_names=tuple(f"feature_{j}" for j in range(X.shape[1])),
    )


def read_npz(path: Path, labels: Sequence[str] | None, name: str) -> Dataset:
    """Arrays ``X`` and ``candidates``, optionally ``truth``, ``label_names`` and ``feature_names``."""
    content = load_arrays(path)
    X = feature_matrix(content, path)
    for key in ("candidates", "truth"):
        if key in content and content[key].ndim != 2:
            raise ValueError(f"{path}: {key} has shape {content[key].shape}, expected (n_samples, n_labels)")
    if "candidates" not in content:
        raise ValueError(f"{path} holds {', '.join(content)}; the array candidates is missing")
    given, truth = content["candidates"], content.get("truth")
    if labels is None:
        labels = [str(label) for label in content.get("label_names", range(given.shape[1]))]
    if truth is not None and not np.isin(truth, (0, 1)).all():
        raise ValueError(f"{path}: truth has entries other than 0 and 1")
    feature_names = content.get("feature_names", [f"feature_{j}" for j in range(X.shape[1])])
    return Dataset(
        name=name,
        X=X,
        truth=None if truth is None else truth.astype(np.uint8),
        candidates=Candidates.from_matrix(given, labels, empty="ignore"),
        label_names=tuple(labels),
        feature_names=tuple(str(feature) for feature in feature_names),
    )


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file by name; one that holds objects, or is damaged, is refused."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except _NPZ_PROBLEMS as error:
        raise ValueError(
            f"{path} is not a readable npz file of plain arrays ({error}); save it with numpy.savez, without objects"
        ) from error


def feature_matrix(content: dict[str, np.ndarray], path: Path) -> Any:
    """The features ``(n_samples, n_features)`` among the arrays: ``X``, or the four parts of a sparse matrix."""
    parts = ("X_data", "X_indices", "X_indptr", "X_shape")
    if "X" in content:
        X = content["X"]
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise ValueError(f"{path}: X has shape {X.shape} and type {X.dtype}, expected a matrix of numbers")
        X = X.astype(np.float64)
    elif all(part in content for part in parts):
        data, indices, indptr, shape = (content[part] for part in parts)
        try:
            X = sp.csr_array((data.astype(np.float64), indices, indptr), shape=tuple(shape.tolist()))
            X.check_format(full_check=True)  # a position outside the matrix would crash later
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {', '.join(parts)} do not form a sparse matrix ({error})") from error
        X.sum_duplicates()
    else:
        raise ValueError(f"{path} holds {', '.join(content)}; the array X is missing")
    values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        raise ValueError(f"{path}: X has entries that are not finite; fill them in before reading")
    return X
