"""Files of arrays that carry their labels themselves: svmlight text, npz, and the ``.mat`` files of the literature."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.datasets.dataset import Dataset
from propml.file_errors import reading
from propml.schema import checked_csr
from propml.targets import Candidates
from propml.unpacking import check_unpacked, check_zip, inflated, open_unpacked

# More is a slip in the file, and would fill the memory with the names of its features alone.
MAX_FEATURES = 10_000_000
CANDIDATE_KEYS = ("partial_labels", "candidate_labels")
# Counts with fewer non-zeros than this (YeastBP: 1-2 %) are smaller and faster to multiply when sparse.
SPARSE_BELOW = 0.1
# Storage types of MATLAB files; 14 and 15 hold other elements.
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_SPARSE_CLASS, _NUMERIC_CLASSES = 5, range(6, 16)
_COMPLEX_FLAG = 0x800


def checked_features(X: Any, path: Path, called: str) -> Any:
    """The matrix, if it has a number of features that is no slip, and finite numbers."""
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(f"{path}: {called} has shape {X.shape} and type {X.dtype}, expected a matrix of numbers")
    if X.shape[1] > MAX_FEATURES:
        raise ValueError(f"{path} has a feature index of {X.shape[1] - 1}, which is beyond {MAX_FEATURES}")
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError(f"{path}: {called} has entries that are not finite; fill them in before reading")
    return X


def _dataset(
    name: str, X: Any, labels: Sequence[str], given: Any, truth: Any = None, features: tuple[str, ...] | None = None
) -> Dataset:
    candidates = None if given is None else Candidates.from_matrix(given, labels, empty="ignore")
    features = features or tuple(f"feature_{j}" for j in range(X.shape[1]))
    return Dataset(name, X, truth, candidates, tuple(labels), features)


# -- svmlight and npz --------------------------------------------------------------------------------------------------


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
    given = Candidates.from_lists(rows, labels, empty="ignore").states if labels else None
    return _dataset(name, X, labels, given)


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
    if truth is not None:
        if (wrong := np.argwhere(~np.isin(truth, (0, 1)))).size:
            row, label = wrong[0].tolist()
            told = "unknown (-1)" if truth[row, label] == -1 else f"{truth[row, label]:g}"
            raise ValueError(
                f"{path}: row {row}: label {labels[label]!r} is {told}; truth has entries other than 0 and 1, "
                f"by which nothing can be judged: write one of them, or leave the row out"
            )
        truth = truth.astype(np.uint8)
    return _dataset(name, X, labels, given, truth, names_in(content, "feature_names", X.shape[1], path))


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
            content = dict(file)
        if strange := [key for key, value in content.items() if not isinstance(value, np.ndarray)]:
            raise ValueError(f"its member {strange[0]!r} is not an array")
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


# -- MATLAB, version 5 to 7: https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf --------------------------
# By hand, since a damaged file ends the process in SciPy's reader: it looks up number types that do not exist, and
# trusts the indices of a sparse matrix. Here every length is checked first.


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
            expected = f"the variables data, target and one of {' or '.join(CANDIDATE_KEYS)}"
            raise ValueError(f"{path} holds {', '.join(sorted(content)) or 'nothing'}; expected {expected}")
        X = _mat_features(content["data"], path)
        candidates = None if key is None else _label_matrix(content[key], key, X.shape[0], path)
        truth = _label_matrix(content["target"], "target", X.shape[0], path) if "target" in content else None
        n_labels = next((matrix.shape[1] for matrix in (candidates, truth) if matrix is not None), 0)
        return _dataset(name or path.stem, X, [f"label_{j}" for j in range(n_labels)], candidates, truth)


def _mat_features(data: Any, path: Path) -> np.ndarray | sp.csr_array:
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
        raise ValueError(f"{path}: {key} has shape {stored.shape}, expected (n_labels, {n_samples}) as data has rows")
    check_unpacked(path, stored.shape[0] * n_samples)
    matrix = stored.toarray() if sp.issparse(stored) else np.asarray(stored)
    if (bad := np.argwhere((matrix != 0) & (matrix != 1))).size:
        label, row = bad[0]
        raise ValueError(f"{path}: {key} is {matrix[label, row]} for label {label} of row {row}, expected 0 or 1")
    return np.ascontiguousarray(matrix.T, dtype=np.uint8)


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
        kind, size = struct.unpack_from(f"{order}II", buffer, position)
        start = position + 8
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
            position += 8
        else:
            position = start + (size + 7) // 8 * 8 if padded else start + size
        if start + size > len(buffer):
            raise ValueError("an element is longer than the file")
        yield kind, buffer[start : start + size]


def _matrix(body: memoryview, order: str, wanted: Collection[str] | None) -> tuple[str, Any]:
    """Name and value of a matrix element; the value is read only where the name is wanted."""
    elements = _elements(body, order)
    (_, flag_bytes), sizes, (_, letters) = islice(elements, 3)
    (flags,) = struct.unpack_from(f"{order}I", flag_bytes)
    shape, name = tuple(_numbers(sizes, order).tolist()), bytes(letters).decode("latin-1")
    kind = flags & 0xFF
    is_real = not flags & _COMPLEX_FLAG and (kind == _SPARSE_CLASS or kind in _NUMERIC_CLASSES)
    if not is_real if wanted is None else name not in wanted:
        return name, None
    if not is_real:
        raise ValueError(f"{name} is not a matrix of real numbers")
    values = [_numbers(element, order) for element in elements]
    if kind == _SPARSE_CLASS:  # by columns, which are the rows of the transpose
        rows, ends, entries = values
        used = slice(int(ends[-1]))
        return name, checked_csr(entries[used], rows[used], ends, shape[::-1]).T
    if len(values) != 1 or min(shape) < 0:
        raise ValueError(f"{name} has shape {shape} and {len(values)} parts")
    return name, values[0].reshape(shape, order="F")


def _numbers(part: tuple[int, memoryview], order: str) -> np.ndarray:
    kind, body = part
    kind_of_number = np.dtype(order + _NUMBERS[kind])
    return np.frombuffer(body, dtype=kind_of_number).astype(kind_of_number.newbyteorder("="))
