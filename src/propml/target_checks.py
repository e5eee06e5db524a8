"""What a candidate label may be: the parts and checks behind :mod:`propml.targets`; errors name the row and the fix."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from propml.jsonable import unboxed
from propml.messages import did_you_mean

CANDIDATE, EXCLUDED, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class Annotations:
    """Who proposed what: one entry per (row, annotator, label), ``label`` -1 where an annotator saw nothing.

    ``confidence`` says how sure each entry is, 1 where nothing is told; ``None`` where that is so of all.
    """

    row: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    names: tuple[Hashable, ...]
    confidence: np.ndarray | None = None

    def take(self, rows: np.ndarray, n_rows: int) -> Annotations:
        """The entries of the given rows, renumbered to their new positions (a row may be taken twice)."""
        table = sp.csr_array(
            (np.arange(1, len(self.row) + 1), (self.row, np.arange(len(self.row)))), (n_rows, len(self.row))
        )
        picked = table[rows].tocoo()
        return replace(self.entries(picked.data - 1), row=picked.coords[0])

    def entries(self, which: np.ndarray) -> Annotations:
        """Some of the entries, by position or mask."""
        confidence = None if self.confidence is None else self.confidence[which]
        return Annotations(self.row[which], self.annotator[which], self.label[which], self.names, confidence)

    def counts(self, shape: tuple[int, int]) -> sp.csr_array:
        """How many annotators proposed each label, ``(n_samples, n_labels)``."""
        given = self.label >= 0
        ones = np.ones(int(given.sum()), dtype=np.int64)
        return sp.coo_array((ones, (self.row[given], self.label[given])), shape=shape).tocsr()


def is_torch(value: Any) -> bool:
    """Whether this is a tensor, found without importing torch."""
    return type(value).__module__.partition(".")[0] == "torch"


def is_missing(value: Any) -> bool:
    """Whether this is ``None``, NaN, masked, or pandas' NA, found without importing pandas."""
    if value is None or value is np.ma.masked or type(value).__name__ == "NAType":
        return True
    differs = value != value  # NaN is not equal to itself
    return isinstance(differs, bool | np.bool_) and bool(differs)


def has_columns(y: Any) -> bool:
    """Whether this has an axis of labels itself, as arrays and DataFrames do, and is no sequence of rows."""
    return hasattr(y, "columns") or len(getattr(y, "shape", (0,))) != 1


def form_of(y: Any) -> Literal["matrix", "names", "classes"]:
    """How candidate labels are given: as a 0/1 matrix, as the names of each row, or as one class per row."""
    if isinstance(y, str | bytes | Mapping | Set):
        raise ValueError(
            f"candidate labels are given row by row, got a {type(y).__name__}; give a list with one entry per row, "
            f"a 0/1 matrix or a DataFrame"
        )
    if has_columns(y):
        return "matrix"
    if is_torch(y) or sp.issparse(y):
        return "classes"
    form: Literal["names", "classes"] = "classes"
    for row in y:
        if is_missing(row):
            continue
        if isinstance(row, Set):
            return "names"
        if isinstance(row, str) or not isinstance(row, Iterable):
            return "classes"
        for entry in row:
            return "names" if isinstance(entry, str) else "matrix"
        form = "names"
    return form


def check_classes(rows: Iterable[Any]) -> None:
    """An error that names the first row whose class is missing or infinite."""
    for i, value in enumerate(rows):
        if is_missing(value) or value in (np.inf, -np.inf):
            raise ValueError(f"row {i} of the class vector is {value}; give every row a class")


def warn_of_delimited(classes: Iterable[Hashable]) -> None:
    """Warn where names of classes look like several labels in one text: by ``;`` or ``|``, or by commas that recur."""
    names = [name for name in classes if isinstance(name, str)]
    for sep in ";|,":
        held = [name for name in names if sep in name]
        if held and (sep != "," or len({part.strip() for name in names for part in name.split(sep)}) < len(names)):
            warnings.warn(
                f"each row is taken for one class, and {held[0]!r} is one of {len(names)}; if it lists several labels, "
                f"give Candidates.from_text(y, sep={sep!r})",
                stacklevel=3,
            )
            return


def dense_matrix(matrix: Any) -> sp.csr_array:
    """A dense matrix of any library as a float or integer csr_array; NaN survives for the check that names it."""
    if is_torch(matrix):
        tensor = matrix.detach().to_dense().cpu()
        values = tensor.double().numpy() if tensor.is_floating_point() else tensor.numpy()
    elif hasattr(matrix, "columns") and hasattr(matrix, "to_numpy"):
        values = matrix.to_numpy()
    elif isinstance(matrix, np.ma.MaskedArray):
        values = np.ma.filled(matrix.astype(np.float64), UNKNOWN)
    else:
        try:
            values = np.asarray(matrix)
        except ValueError as error:
            raise ValueError("the rows of the matrix differ in length; give every row one entry per label") from error
    if values.dtype.kind not in "biuf":
        try:
            if values.dtype.kind == "O":
                values = np.where(np.frompyfunc(is_missing, 1, 1)(values).astype(bool), np.nan, values)
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"a 0/1 matrix was expected, got entries such as {str(values.flat[0])!r}; "
                f"for label names use Candidates.from_lists"
            ) from error
    if values.ndim != 2:
        raise ValueError(f"a 0/1 matrix has two dimensions (n_samples, n_labels), got shape {values.shape}")
    return sp.csr_array(values)


def check_states(states: sp.csr_array, names: tuple[Hashable, ...]) -> sp.csr_array:
    """The matrix as sorted int8 states, or an error that names the first entry that is none."""
    if not states.has_canonical_format:
        states = states.copy()  # the caller's matrix stays as it is
        states.sum_duplicates()
    data = states.data
    if data.dtype != bool:
        wrong = np.flatnonzero((data != CANDIDATE) & (data != EXCLUDED) & (data != UNKNOWN))
        if wrong.size:
            row = int(np.searchsorted(states.indptr, wrong[0], side="right")) - 1
            name, value = names[states.indices[wrong[0]]], data[wrong[0]]
            told = "write -1 where a label is unknown" if value != value else "use 1 candidate, 0 excluded, -1 unknown"
            raise ValueError(f"row {row}, label {name!r} is {value}; {told}")
    states = states.astype(np.int8)
    states.eliminate_zeros()
    return states


def label_names(labels: Iterable[Hashable] | None, found: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """The names that were given, or else those that are found, sorted."""
    if labels is None:
        try:
            labels = sorted(found)  # type: ignore[type-var]
        except TypeError:
            labels = sorted(found, key=lambda name: (type(name).__name__, str(name)))
    names = tuple(map(unboxed, labels))
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"label name {twice!r} occurs twice; give every label its own name")
    return names


def names_array(names: Sequence[Hashable]) -> np.ndarray:
    """The names as a 1-D array: of objects, where they are tuples or of several types, so that each stays itself."""
    if any(isinstance(name, tuple) for name in names) or len({type(name) for name in names}) > 1:
        return np.fromiter(names, dtype=object, count=len(names))
    return np.asarray(names)


def column_of(name: Hashable, column: dict[Hashable, int], row: int) -> int:
    if name in column:
        return column[name]
    otherwise = f"the {len(column)} known labels start with {list(column)[:5]}"
    raise ValueError(f"row {row}: {name!r} is not one of the labels; {did_you_mean(name, column, otherwise)}")
