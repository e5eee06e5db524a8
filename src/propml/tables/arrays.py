"""npz, svmlight and ``.mat`` files, which hold a feature matrix and carry their labels themselves."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import replacing
from propml.datasets.array_files import load_arrays, read_npz, read_svmlight
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

    def copy(self, path: Path, changes: Mapping[int, Mapping[str, int]]) -> None:
        """Write the same file with other states of some labels, by row and name."""
        assert self.candidates is not None
        states, labels = self.candidates.states.tolil(), self.candidates.labels
        column = {str(name): j for j, name in enumerate(labels)}
        for row, new in changes.items():
            for name, state in new.items():
                states[row, column[name]] = state
        self.write(self.path, path, sp.csr_array(states), labels)


def read_array_file(path: Path, kind: str) -> ArrayFile:
    """Read one; ``kind`` is ``"npz"``, ``"svmlight"`` or ``"mat"``."""
    if kind == "mat":
        data = read_mat(path, needed=False)
    else:
        data = (read_npz if kind == "npz" else read_svmlight)(path, None, path.stem, needed=False)
    truth = None if data.truth is None else Candidates.from_matrix(data.truth, data.label_names, empty="ignore")
    if kind == "svmlight":  # its only labels are whatever somebody takes them for
        truth = data.candidates
    write = {"npz": _write_npz, "svmlight": _write_svmlight, "mat": _write_mat}[kind]
    return ArrayFile(path, data.X, data.candidates, truth, write)


def _write_npz(source: Path, path: Path, states: sp.csr_array, labels: tuple[Hashable, ...]) -> None:
    content = load_arrays(source)
    content["candidates"] = states.toarray().astype(content["candidates"].dtype)
    with replacing(path) as beside, beside.open("wb") as file:
        np.savez_compressed(file, **content)  # type: ignore[arg-type]


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
