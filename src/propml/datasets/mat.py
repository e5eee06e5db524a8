"""The ``.mat`` files in which partial multi-label datasets are shared: features, true and candidate labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.datasets.array_files import check_n_features
from propml.datasets.dataset import Dataset
from propml.datasets.mat5 import read_mat5
from propml.file_errors import reading
from propml.targets import Candidates
from propml.unpacking import check_unpacked

__all__ = ["read_mat"]

CANDIDATE_KEYS = ("partial_labels", "candidate_labels")
# Counts with fewer non-zeros than this (YeastBP: 1-2 %) are smaller and faster to multiply when sparse.
SPARSE_BELOW = 0.1


def read_mat(path: str | Path, *, name: str | None = None) -> Dataset:
    """Read a PML ``.mat`` file.

    Parameters
    ----------
    path : path
        With the variables ``data`` (n_samples, n_features), ``partial_labels`` or ``candidate_labels``
        (n_labels, n_samples), and, where the truth is known, ``target`` (n_labels, n_samples).
    name : str, optional
        By default the name of the file.

    Returns
    -------
    Dataset
        Label matrices are turned to (n_samples, n_labels); rows may have no candidates, as in the Yeast files.
        ``X`` is sparse where the file was, and where it holds whole numbers that are mostly zero.
    """
    path = Path(path)
    with reading(path, ".mat file"):
        return _read(path, name or path.stem)


def _read(path: Path, name: str) -> Dataset:
    content = read_mat5(path, {"data", "target", *CANDIDATE_KEYS})
    key = next((key for key in CANDIDATE_KEYS if key in content), None)
    if "data" not in content or key is None:
        found = ", ".join(sorted(content)) or "nothing"
        raise ValueError(
            f"{path} holds {found}; expected the variables data, target and one of {' or '.join(CANDIDATE_KEYS)}"
        )
    X = _features(content["data"], path)
    candidates = _label_matrix(content[key], key, X.shape[0], path)
    truth = _label_matrix(content["target"], "target", X.shape[0], path) if "target" in content else None
    if truth is not None and truth.shape != candidates.shape:
        raise ValueError(
            f"{path}: target has {truth.shape[1]} labels and {key} has {candidates.shape[1]}; they must be the same"
        )
    labels = tuple(f"label_{j}" for j in range(candidates.shape[1]))
    return Dataset(
        name=name,
        X=X,
        truth=truth,
        candidates=Candidates.from_matrix(candidates, labels, empty="ignore"),
        label_names=labels,
        feature_names=tuple(f"feature_{j}" for j in range(X.shape[1])),
    )


def _features(data: Any, path: Path) -> np.ndarray | sp.csr_array:
    if data.ndim != 2 or 0 in data.shape:
        raise ValueError(f"{path}: data has shape {data.shape}, expected (n_samples, n_features)")
    check_n_features(data.shape[1], path)
    values = data.data if sp.issparse(data) else data
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{path}: data has entries that are not finite; fill them in before reading")
    if sp.issparse(data):
        return sp.csr_array(data, dtype=np.float64)
    mostly_zero = np.count_nonzero(data) < SPARSE_BELOW * data.size
    if mostly_zero and (data.dtype.kind != "f" or (data == np.floor(data)).all()):
        return sp.csr_array(data).astype(np.float64)
    return np.ascontiguousarray(data, dtype=np.float64)


def _label_matrix(stored: Any, key: str, n_samples: int, path: Path) -> np.ndarray:
    """0/1 of shape ``(n_samples, n_labels)`` from what is stored as ``(n_labels, n_samples)``."""
    if stored.ndim != 2 or stored.shape[1] != n_samples or stored.shape[0] == 0:
        raise ValueError(
            f"{path}: {key} has shape {stored.shape}, expected (n_labels, {n_samples}): one column per row of data"
        )
    check_unpacked(path, stored.shape[0] * n_samples)
    matrix = stored.toarray() if sp.issparse(stored) else np.asarray(stored)
    bad = np.argwhere((matrix != 0) & (matrix != 1))
    if bad.size:
        label, row = bad[0]
        raise ValueError(f"{path}: {key} is {matrix[label, row]} for label {label} of row {row}, expected 0 or 1")
    return np.ascontiguousarray(matrix.T, dtype=np.uint8)
