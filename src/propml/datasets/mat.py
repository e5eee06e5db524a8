"""The ``.mat`` files in which partial multi-label datasets are shared: features, true and candidate labels.

SciPy reads MATLAB files of version 5 to 7 too, but a damaged sparse matrix makes it write outside its memory, which
ends the process. Here every length is checked first; the format:
https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.datasets.array_files import checked_features
from propml.datasets.dataset import Dataset
from propml.file_errors import reading
from propml.schema import checked_csr
from propml.targets import Candidates
from propml.unpacking import check_unpacked, inflated

__all__ = ["read_mat", "read_mat5"]

CANDIDATE_KEYS = ("partial_labels", "candidate_labels")
# Counts with fewer non-zeros than this (YeastBP: 1-2 %) are smaller and faster to multiply when sparse.
SPARSE_BELOW = 0.1
# Storage types of the format; 14 and 15 hold other elements.
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_SPARSE_CLASS, _NUMERIC_CLASSES = 5, range(6, 16)
_COMPLEX_FLAG = 0x800


def read_mat(path: str | Path, *, name: str | None = None, needed: bool = True) -> Dataset:
    """Read a PML ``.mat`` file.

    Parameters
    ----------
    path : path
        With the variables ``data`` (n_samples, n_features), ``partial_labels`` or ``candidate_labels``
        (n_labels, n_samples), and, where the truth is known, ``target`` (n_labels, n_samples).
    name : str, optional
        By default the name of the file.
    needed : bool
        Whether a file without candidate labels is an error.

    Returns
    -------
    Dataset
        Label matrices are turned to (n_samples, n_labels); rows may have no candidates, as in the Yeast files.
        ``X`` is sparse where the file was, and where it holds whole numbers that are mostly zero.
    """
    path = Path(path)
    with reading(path, ".mat file"):
        content = read_mat5(path, {"data", "target", *CANDIDATE_KEYS})
        key = next((key for key in CANDIDATE_KEYS if key in content), None)
        if "data" not in content or (key is None and needed):
            found = ", ".join(sorted(content)) or "nothing"
            raise ValueError(
                f"{path} holds {found}; expected the variables data, target and one of {' or '.join(CANDIDATE_KEYS)}"
            )
        X = _features(content["data"], path)
        candidates = None if key is None else _label_matrix(content[key], key, X.shape[0], path)
        truth = _label_matrix(content["target"], "target", X.shape[0], path) if "target" in content else None
        if truth is not None and candidates is not None and truth.shape != candidates.shape:
            raise ValueError(
                f"{path}: target has {truth.shape[1]} labels and {key} has {candidates.shape[1]}; they must be the same"
            )
        n_labels = next((matrix.shape[1] for matrix in (candidates, truth) if matrix is not None), 0)
        labels = tuple(f"label_{j}" for j in range(n_labels))
        return Dataset(
            name=name or path.stem,
            X=X,
            truth=truth,
            candidates=None if candidates is None else Candidates.from_matrix(candidates, labels, empty="ignore"),
            label_names=labels,
            feature_names=tuple(f"feature_{j}" for j in range(X.shape[1])),
        )


def _features(data: Any, path: Path) -> np.ndarray | sp.csr_array:
    data = checked_features(data, path, "data")
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


# -- the format --------------------------------------------------------------------------------------------------------


def read_mat5(path: Path, wanted: Collection[str] | None = None) -> dict[str, Any]:
    """The variables of a file: arrays for those that are wanted, ``None`` for the others.

    By default all are wanted that are matrices of real numbers; one that is named and is none is an error.
    """
    content = path.read_bytes()
    if content[:10] == b"MATLAB 7.3" or content[124:128] in (b"\x00\x02IM", b"\x02\x00MI"):
        raise ValueError(f"{path} is a MATLAB v7.3 file, which is HDF5; save it again with -v7")
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise ValueError(f"{path} is not a MATLAB file of version 5 to 7; save it again with -v7")
    variables: dict[str, Any] = {}
    unpacked = 0
    with reading(path, ".mat file", "it may be truncated: copy it again, or save it again with -v7"):
        for kind, body in _elements(memoryview(content)[128:], order, padded=False):
            if kind == _COMPRESSED:
                body = memoryview(inflated(body, path))
                unpacked += len(body)
                check_unpacked(path, unpacked, known=False)
                kind, body = next(_elements(body, order), (0, body))
            if kind == _MATRIX:
                name, value = _matrix(body, order, wanted)
                if value is not None:  # a sparse matrix of a few bytes may have any number of rows
                    check_unpacked(path, 8 * max(value.shape))
                variables[name] = value
    return variables


def _elements(buffer: memoryview, order: str, *, padded: bool = True) -> Iterator[tuple[int, memoryview]]:
    """Type and bytes of each element; elements of up to four bytes are packed into their tag."""
    position = 0
    while position < len(buffer):
        if len(buffer) - position < 8:
            raise ValueError("an element is cut off")
        kind, size = struct.unpack_from(f"{order}II", buffer, position)
        start = position + 8
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
            position += 8
            if size > 4:
                raise ValueError("a small element is too long")
        else:
            position = start + (size + 7) // 8 * 8 if padded else start + size
        if start + size > len(buffer):
            raise ValueError("an element is longer than the file")
        yield kind, buffer[start : start + size]


def _matrix(body: memoryview, order: str, wanted: Collection[str] | None) -> tuple[str, Any]:
    """Name and value of a matrix element; the value is read only where the name is wanted."""
    elements = _elements(body, order)
    parts = list(islice(elements, 3))
    if len(parts) < 3 or len(parts[0][1]) < 4 or parts[1][0] not in _NUMBERS:
        raise ValueError("a variable has no flags, dimensions or name")
    flags = struct.unpack_from(f"{order}I", parts[0][1])[0]
    shape = tuple(int(size) for size in _numbers(parts[1], order))
    name = bytes(parts[2][1]).decode("latin-1")
    kind = flags & 0xFF
    is_real = not flags & _COMPLEX_FLAG and (kind == _SPARSE_CLASS or kind in _NUMERIC_CLASSES)
    if not is_real if wanted is None else name not in wanted:
        return name, None
    if not is_real:
        raise ValueError(f"{name} is not a matrix of real numbers")
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"{name} has shape {shape}")
    values = [_numbers(element, order) for element in elements]
    if kind == _SPARSE_CLASS:
        return name, _sparse(name, shape, values)
    if len(values) != 1 or math.prod(shape) != len(values[0]):
        raise ValueError(f"{name} has shape {shape} and not as many entries")
    return name, values[0].reshape(shape, order="F")


def _sparse(name: str, shape: tuple[int, ...], values: list[np.ndarray]) -> sp.csc_array:
    if len(values) != 3 or len(shape) != 2 or len(values[1]) != shape[1] + 1:
        raise ValueError(f"{name} is not a whole sparse matrix")
    rows, ends, entries = values
    n_entries = int(ends[-1])
    if not 0 <= n_entries <= min(len(rows), len(entries)):
        raise ValueError(f"{name} has fewer entries than it says")
    try:  # by columns, which are the rows of the transpose
        return checked_csr(entries[:n_entries], rows[:n_entries], ends, shape[::-1]).T
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _numbers(part: tuple[int, memoryview], order: str) -> np.ndarray:
    kind, body = part
    if kind not in _NUMBERS:
        raise ValueError(f"an element of type {kind} stands where numbers are expected")
    kind_of_number = np.dtype(order + _NUMBERS[kind])
    if len(body) % kind_of_number.itemsize:
        raise ValueError("an element ends inside a number")
    return np.frombuffer(body, dtype=kind_of_number).astype(kind_of_number.newbyteorder("="))
