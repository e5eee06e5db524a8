"""A user's own table: CSV, TSV, Parquet, svmlight or npz, with candidate labels in one column or in several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from propml.datasets.array_files import read_npz, read_svmlight
from propml.datasets.columns import Columns, read_csv, read_parquet
from propml.datasets.dataset import Dataset
from propml.file_errors import reading
from propml.targets import Candidates

__all__ = ["read_table"]

_FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz",
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight",
}  # fmt: skip


def read_table(
    path: str | Path,
    *,
    candidates: str | Sequence[str] | None = None,
    sep: str = ";",
    features: Sequence[str] | None = None,
    truth: str | Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    labels: Sequence[str] | None = None,
    empty: Literal["error", "ignore", "drop"] = "error",
    delimiter: str | None = None,
    file_format: str | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a table of features with candidate labels.

    Parameters
    ----------
    path : path
        ``.csv`` or ``.tsv`` (also ``.gz``) with a header line, ``.parquet``, ``.svm`` / ``.svmlight`` / ``.libsvm``,
        or ``.npz`` with ``X``, ``candidates`` and optionally ``truth``, ``label_names`` and ``feature_names``
        (a sparse X as ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape``).
    candidates : str or sequence of str
        CSV and Parquet: the column of delimited text (``"beach;sunset"``; in Parquet also a list column), or the
        columns of 0 and 1, one per label (-1: unknown). The other formats carry their labels themselves.
    sep : str
        What stands between two labels in a text column.
    features : sequence of str, optional
        The feature columns; by default all that are not named otherwise.
    truth : str or sequence of str, optional
        The true labels, in the same two ways; 0/1 columns stand in the order of the labels.
    ignore : sequence of str
        Columns that are no features, such as an identifier.
    labels : sequence of str, optional
        The labels and their order; by default the names of the 0/1 columns, or all names that occur, sorted.
    empty : {"error", "ignore", "drop"}
        What to do with a row that has no candidate label.
    delimiter : str, optional
        Between the cells of a text table; by default ``,`` and, for ``.tsv``, a tab.
    file_format : {"csv", "tsv", "parquet", "svmlight", "npz"}, optional
        Where the name of the file does not tell.
    name : str, optional
        By default the name of the file.

    Returns
    -------
    Dataset
    """
    path = Path(path)
    kind = file_format or _format_of(path)
    name = name or path.name.partition(".")[0]
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file")
    if empty not in ("error", "ignore", "drop"):
        raise ValueError(f'empty is {empty!r}; choose "error", "ignore" or "drop"')
    if kind in ("svmlight", "npz"):
        if candidates is not None or truth is not None or features is not None or ignore:
            raise ValueError(f"{path}: {kind} files have no columns to name; leave out candidates, truth and features")
    elif kind not in ("csv", "tsv", "parquet"):
        raise ValueError(f"format {kind!r} is not known; choose csv, tsv, parquet, svmlight or npz")
    elif candidates is None:
        raise ValueError(f"{path}: say which columns hold the candidate labels, with candidates=…")
    with reading(path, f"{kind} file"):
        if kind in ("svmlight", "npz"):
            made = (read_svmlight if kind == "svmlight" else read_npz)(path, labels, name)
        else:
            assert candidates is not None
            between = delimiter or ("\t" if kind == "tsv" else ",")
            table = read_parquet(path) if kind == "parquet" else read_csv(path, between)
            made = _from_columns(table, candidates, truth, features, ignore, labels, sep, name)
        return _without_empty(made, empty, path)


def _format_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if not suffixes or suffixes[-1] not in _FORMATS:
        raise ValueError(f"{path}: the format is not clear from the name; use one of {', '.join(_FORMATS)}")
    return _FORMATS[suffixes[-1]]


def _without_empty(dataset: Dataset, empty: str, path: Path) -> Dataset:
    """Rows without a candidate: refused, kept, or left out of every part alike."""
    assert dataset.candidates is not None
    bare = np.diff(dataset.candidates.states.indptr) == 0
    if empty == "ignore" or not bare.any():
        return dataset
    if empty == "error":
        row, more = np.flatnonzero(bare)[0], bare.sum() - 1
        raise ValueError(
            f"{path}: row {row}{f' (and {more} more)' if more else ''} has no candidate label; "
            f'pass empty="drop" to leave such rows out, or empty="ignore" to keep them'
        )
    if bare.all():
        raise ValueError(f"{path}: no row has a candidate label")
    return dataset.take(~bare)


def _from_columns(
    table: Columns,
    candidates: str | Sequence[str],
    truth: str | Sequence[str] | None,
    features: Sequence[str] | None,
    ignore: Sequence[str],
    labels: Sequence[str] | None,
    sep: str,
    name: str,
) -> Dataset:
    for column in ignore:
        table.column(column)  # a name that is not there is a slip worth telling
    named = {*_as_list(candidates), *_as_list(truth), *ignore}
    chosen = [column for column in table.cells if column not in named] if features is None else list(features)
    if not chosen:
        raise ValueError(f"{table.path}: no column is left for the features")
    clash = sorted(set(chosen) & named)
    if clash:
        raise ValueError(f"{table.path}: column {clash[0]!r} is named as a feature and as something else")
    if labels is None:
        labels = _labels_of(table, candidates, truth, sep)
    given = _label_matrix(table, candidates, labels, sep, (0, 1, -1))
    true = None if truth is None else _label_matrix(table, truth, labels, sep, (0, 1)).astype(np.uint8)
    return Dataset(
        name=name,
        X=np.column_stack([table.numbers(column) for column in chosen]),
        truth=true,
        candidates=Candidates.from_matrix(given, labels, empty="ignore"),
        label_names=tuple(labels),
        feature_names=tuple(chosen),
    )


def _labels_of(
    table: Columns, candidates: str | Sequence[str], truth: str | Sequence[str] | None, sep: str
) -> list[str]:
    if not isinstance(candidates, str):
        return list(candidates)
    columns = [candidates] + ([truth] if isinstance(truth, str) else [])
    occurring = {label for column in columns for row in _label_lists(table, column, sep) for label in row}
    if not occurring:
        raise ValueError(f"{table.path}: column {candidates!r} names no label; is it the right column?")
    return sorted(occurring)


def _label_lists(table: Columns, column: str, sep: str) -> list[list[str]]:
    """The labels of each row, from delimited text or (Parquet) from lists."""
    rows = []
    for i, cell in enumerate(table.as_list(column)):
        if cell is None or isinstance(cell, str):
            rows.append([label for part in (cell or "").split(sep) if (label := part.strip())])
        elif isinstance(cell, Iterable):
            rows.append([str(label) for label in cell])
        else:
            raise ValueError(
                f"{table.where(i, column)} is {cell!r}, expected label names separated by {sep!r}; "
                f"for a 0/1 column pass a list: [{column!r}]"
            )
    return rows


def _label_matrix(
    table: Columns, columns: str | Sequence[str], labels: Sequence[str], sep: str, allowed: tuple[int, ...]
) -> np.ndarray:
    """Label states, shape ``(n_samples, n_labels)``."""
    if not isinstance(columns, str):
        if len(columns) != len(labels):
            raise ValueError(
                f"{table.path}: {len(columns)} columns of 0 and 1 were named for {len(labels)} labels; "
                f"name one for each label"
            )
        return np.column_stack([table.states(column, allowed) for column in columns])
    position = {label: j for j, label in enumerate(labels)}
    matrix = np.zeros((len(table.column(columns)), len(labels)), dtype=np.int8)
    for i, row in enumerate(_label_lists(table, columns, sep)):
        for label in row:
            if label not in position:
                raise ValueError(f"{table.where(i, columns)} has label {label!r}, which is not one of the labels")
            matrix[i, position[label]] = 1
    return matrix


def _as_list(columns: str | Sequence[str] | None) -> list[str]:
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) else list(columns)
