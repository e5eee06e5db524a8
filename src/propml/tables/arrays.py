"""npz, svmlight and ``.mat`` files, which hold a feature matrix and carry their labels themselves."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import replacing
from propml.datasets import array_files as readers
from propml.datasets.mat import CANDIDATE_KEYS, read_mat, read_mat5
from propml.targets import Candidates
from propml.unpacking import is_gzipped, open_unpacked

__all__ = ["ArrayFile", "read_array_file"]


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """A feature matrix with candidate labels, true labels, both or neither.

    Attributes
    ----------
    path : Path
    X : ndarray or csr_array, shape (n_samples, n_features)
    candidates, truth : Candidates or None
    write : callable
        From the file, a path and 0/1 states ``(n_samples, n_labels)`` to a copy with these candidates.
    """

    path: Path
    X: Any
    candidates: Candidates | None
    truth: Candidates | None
    write: Callable[[Path, Path, sp.csr_array, tuple[Hashable, ...]], None]

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    def where(self, row: int, name: str) -> str:
        """How to name a row to a person."""
        return f"{self.path}: row {row}"


def read_array_file(path: Path, kind: str) -> ArrayFile:
    """Read one; ``kind`` is ``"npz"``, ``"svmlight"`` or ``"mat"``."""
    return {"npz": _read_npz, "svmlight": _read_svmlight, "mat": _read_mat}[kind](path)


def _read_npz(path: Path) -> ArrayFile:
    content = readers.load_arrays(path)
    if "candidates" in content:
        data = readers.read_npz(path, None, path.stem)
        truth = None if data.truth is None else Candidates.from_matrix(data.truth, data.label_names, empty="ignore")
        return ArrayFile(path, data.X, data.candidates, truth, _write_npz)
    X = readers.feature_matrix(content, path)
    truth = None
    if "truth" in content:
        shape = content["truth"].shape
        if len(shape) != 2 or shape[0] != X.shape[0]:
            raise ValueError(f"{path}: truth has shape {shape}, expected ({X.shape[0]}, n_labels)")
        names = readers.names_in(content, "label_names", shape[1], path)
        truth = Candidates.from_matrix(content["truth"], names, empty="ignore")
    return ArrayFile(path, X, None, truth, _write_npz)


def _write_npz(source: Path, path: Path, states: sp.csr_array, labels: tuple[Hashable, ...]) -> None:
    content = readers.load_arrays(source)
    content["candidates"] = states.toarray().astype(content["candidates"].dtype)
    with replacing(path) as beside, beside.open("wb") as file:
        np.savez_compressed(file, **content)  # type: ignore[arg-type]


def _read_svmlight(path: Path) -> ArrayFile:
    X, numbers = readers.load_svmlight(path)
    candidates = None
    if any(numbers):
        labels = [f"{number:.15g}" for number in sorted({number for row in numbers for number in row})]
        rows = [[f"{number:.15g}" for number in row] for row in numbers]
        candidates = Candidates.from_lists(rows, labels, empty="ignore")
    return ArrayFile(path, X, candidates, candidates, _write_svmlight)


def _write_svmlight(source: Path, path: Path, states: sp.csr_array, labels: tuple[Hashable, ...]) -> None:
    row = 0
    with (
        open_unpacked(source) as lines,
        replacing(path) as beside,
        gzip.open(beside, "wb") if is_gzipped(source) else beside.open("wb") as file,
    ):
        for line in lines:
            if line.split(b"#", 1)[0].strip():
                own = states.indices[states.indptr[row] : states.indptr[row + 1]]
                head, space, rest = line.partition(b" ")
                # A row without labels starts with its features.
                rest = line.lstrip() if b":" in head or not head else rest
                line = ",".join(str(labels[j]) for j in sorted(own)).encode() + (space or b" ") + rest
                row += 1
            file.write(line)


def _read_mat(path: Path) -> ArrayFile:
    content = read_mat5(path, set())
    if not any(key in content for key in CANDIDATE_KEYS) and "data" in content:
        return _read_mat_without_candidates(path)
    data = read_mat(path)
    truth = None if data.truth is None else Candidates.from_matrix(data.truth, data.label_names, empty="ignore")
    return ArrayFile(path, data.X, data.candidates, truth, _write_mat)


def _read_mat_without_candidates(path: Path) -> ArrayFile:
    content = read_mat5(path, {"data", "target"})
    X, target = content["data"], content.get("target")
    values = X.data if sp.issparse(X) else X
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{path}: data has entries that are not finite; fill them in before reading")
    truth = None
    if target is not None:
        matrix = sp.csr_array(target).T
        if matrix.shape[0] != X.shape[0]:
            raise ValueError(f"{path}: target has shape {target.shape}, expected (n_labels, {X.shape[0]})")
        truth = Candidates.from_matrix(matrix, [f"label_{j}" for j in range(matrix.shape[1])], empty="ignore")
    X = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    return ArrayFile(path, X, None, truth, _write_mat)


def _write_mat(source: Path, path: Path, states: sp.csr_array, labels: tuple[Hashable, ...]) -> None:
    from scipy.io import savemat

    key = next(key for key in CANDIDATE_KEYS if key in read_mat5(source, set()))
    content = {name: value for name in read_mat5(source, set()) if (value := _numbers(source, name)) is not None}
    was_sparse = sp.issparse(content[key])
    content[key] = states.T.tocsc().astype(np.float64) if was_sparse else states.T.toarray().astype(np.float64)
    with replacing(path) as beside, beside.open("wb") as file:
        savemat(file, content, do_compression=True)


def _numbers(path: Path, name: str) -> Any:
    """A variable as MATLAB's usual double matrix, or None where it is no matrix of numbers."""
    try:
        value = read_mat5(path, {name})[name]
    except ValueError:
        return None
    return sp.csc_array(value, dtype=np.float64) if sp.issparse(value) else value.astype(np.float64)
