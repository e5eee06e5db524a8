"""Files of the literature: npz, svmlight and ``.mat`` hold a matrix of features and their labels; ARFF has columns."""

import gzip
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import replacing
from propml.datasets.arff import decoded, read_arff, read_header, split_cells, without_comment
from propml.datasets.array_files import CANDIDATE_KEYS, load_arrays, read_mat, read_mat5, read_npz, read_svmlight
from propml.tables.table import Cells, Edits, Extra, Keep, Table, checked_column
from propml.targets import Candidates
from propml.unpacking import is_gzipped, open_unpacked


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """A feature matrix with candidate labels, true labels, both or neither."""

    path: Path
    X: Any  #: ndarray or csr_array, shape (n_samples, n_features)
    candidates: Candidates | None
    truth: Candidates | None
    #: from the file, a path, states ``(n_samples, n_labels)`` and labels to a copy with these candidates
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
        data = (read_npz if kind == "npz" else read_svmlight)(path, None, path.stem)
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

    content = {name: value for name, value in read_mat5(source).items() if value is not None}
    key = next(key for key in CANDIDATE_KEYS if key in content)
    content[key] = states.T if sp.issparse(content[key]) else states.T.toarray()
    for name, value in content.items():  # as MATLAB's usual double matrices
        content[name] = sp.csc_array(value, dtype=np.float64) if sp.issparse(value) else value.astype(np.float64)
    with replacing(path) as beside, beside.open("wb") as file:
        savemat(file, content, do_compression=True)


# -- ARFF --------------------------------------------------------------------------------------------------------------


class ArffTable(Table):
    """ARFF: numeric attributes as numbers, nominal ones as their declared values; a copy keeps every line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        content = read_arff(path)
        self._attributes = content.attributes
        self._data: Any = sp.csc_array(content.data) if sp.issparse(content.data) else content.data
        self.names = tuple(attribute.name for attribute in content.attributes)
        self.n_rows = self._data.shape[0]

    def cells(self, name: str) -> Cells:
        numbers, values = self._column(self.names.index(checked_column(self, name)))
        if values is None:
            return numbers
        if set(values) <= {"0", "1"}:
            return np.array([float(value) for value in values])[numbers.astype(np.int64)]
        return [values[int(code)] for code in numbers]

    def _column(self, column: int) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """Numbers, or positions in the declared values."""
        stored = self._data[:, [column]]
        return (stored.toarray() if sp.issparse(stored) else stored).ravel(), self._attributes[column].values

    def copy(self, path: Path, edits: Edits = None, keep: Keep = None, extra: Extra = ()) -> None:
        if keep is not None or extra:
            raise ValueError("an ARFF file holds one row per item; an annotator table is a CSV, TSV or Parquet file")
        changed: dict[int, Sequence[str]] = {}
        for name, edit in (edits or {}).items():
            column = self.names.index(checked_column(self, name))
            numbers, values = self._column(column)
            changed[column] = edit(0, [f"{n:.15g}" if values is None else values[int(n)] for n in numbers])
        zeros = {column: (self._attributes[column].values or ("0",))[0] for column in changed}
        with open_unpacked(self.path) as file:
            text, encoding = decoded(file.read())  # a byte-order mark stays where it is
        lines = text.split("\n")
        _, _, start = read_header([line.rstrip("\r") for line in lines], self.path)
        row = 0
        for number in range(start, len(lines)):
            bare = without_comment(lines[number]).strip()
            if bare:
                new = {column: cells[row] for column, cells in changed.items()}
                lines[number] = lines[number].replace(bare, _edited(bare, new, zeros), 1)
                row += 1
        content = "\n".join(lines).encode(encoding)
        with replacing(path) as beside:
            beside.write_bytes(gzip.compress(content) if is_gzipped(self.path) else content)


def _edited(line: str, new: Mapping[int, str], zeros: Mapping[int, str]) -> str:
    """A line of the data section with other values at some positions; ``zeros`` are those that sparse rows omit."""
    if not line.startswith("{"):
        cells = split_cells(line) or []
        return ",".join(new.get(column, cell) for column, cell in enumerate(cells))
    pairs = [pair.split(None, 1) for pair in split_cells(line[1:-1]) or [] if pair]
    values = {int(position): value for position, value in pairs if int(position) not in new}
    values |= {column: value for column, value in new.items() if value != zeros[column]}
    return "{" + ",".join(f"{column} {values[column]}" for column in sorted(values)) + "}"
