"""A user's own table of numbers as a :class:`~propml.datasets.Dataset`, as it is; and the true labels of any file."""

import warnings
from collections.abc import Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from propml.datasets.array_files import read_npz, read_svmlight
from propml.datasets.dataset import Dataset
from propml.file_errors import reading
from propml.messages import argument
from propml.tables.arrays import ArrayFile
from propml.tables.cell_lists import shown
from propml.tables.files import feature_columns
from propml.tables.labels import FlagLabels, TextLabels, labels_in, merged, over_labels, same_spelling, told_alike
from propml.tables.sources import Source, format_of, open_table
from propml.tables.table import Table, checked_column
from propml.tables.values import as_numbers
from propml.targets import Candidates, Empty


def read_dataset(
    path: str | Path,
    *,
    candidates: str | Sequence[str] | None = None,
    sep: str = ";",
    features: Sequence[str] | None = None,
    truth: str | Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    labels: Sequence[str] | None = None,
    merge_labels: bool = False,
    empty: Empty = "error",
    delimiter: str | None = None,
    file_format: str | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a table of numbers with candidate labels, and true labels where there are some.

    Parameters
    ----------
    path : path
        A table with columns (CSV, JSON, Parquet, …), ``.svm``, ``.svmlight`` or ``.npz``.
    candidates : str or sequence of str
        Of tables with columns: the column of delimited text or of lists, or the columns of 0 and 1, one per label (-1:
        unknown). The other formats carry their labels themselves.
    sep, features, ignore, merge_labels, delimiter, file_format
        As in :func:`read_table`; labels that differ in case or blanks only are named in a warning.
    truth : str or sequence of str, optional
        The true labels, in the same two ways; 0/1 columns stand in the order of the labels.
    labels : sequence of str, optional
        The labels and their order; by default the names of the 0/1 columns, or all names that occur, sorted.
    empty : {"error", "ignore", "drop"}
        What to do with a row that has no candidate label.
    name : str, optional
        By default the name of the file.
    """
    path = Path(path)
    kind = file_format or format_of(path)
    name = name or path.name.partition(".")[0]
    if kind in ("svmlight", "npz"):
        if candidates is not None or truth is not None or features is not None or ignore:
            raise ValueError(f"{path}: {kind} files have no columns to name; leave out candidates, truth and features")
        with reading(path, f"{kind} file"):
            dataset = (read_svmlight if kind == "svmlight" else read_npz)(path, labels, name)
            if dataset.candidates is None:
                raise ValueError(f"{path} holds no candidate labels; in an npz file the array candidates is missing")
            return _without_empty(dataset, empty, path)
    if candidates is None:
        raise ValueError(f"{path}: say which columns hold the candidate labels, with {argument('candidates')}")
    table: Any = open_table(path, delimiter=delimiter, file_format=kind)
    if isinstance(table, ArrayFile):
        raise ValueError(f"{path}: a {kind} file is read with propml.tables.read_table or propml.datasets.read_mat")
    with reading(path, f"{kind} file"):
        given = [[each] if isinstance(each, str) else each or () for each in (candidates, truth, ignore)]
        named = {checked_column(table, column) for columns in given for column in columns}
        chosen = feature_columns(table, features, named)
        places = [candidates] if truth is None else [candidates, truth]
        proposed, *true = _label_sets(table, places, labels, sep, merge_labels)
        dataset = Dataset(
            name=name,
            X=np.column_stack([_finite_numbers(table, column) for column in chosen]),
            truth=certain(table, true[0]).to_matrix(np.uint8) if true else None,
            candidates=proposed,
            label_names=tuple(map(str, proposed.labels)),
            feature_names=tuple(chosen),
        )
        return _without_empty(dataset, empty, path)


def _without_empty(dataset: Dataset, empty: Empty, path: Path) -> Dataset:
    """Rows without a candidate: refused, kept, or left out of every part alike."""
    assert dataset.candidates is not None
    try:
        kept = Candidates.from_matrix(dataset.candidates.states, empty=empty).index
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return dataset if len(kept) == len(dataset.candidates) else dataset.take(kept)


def _label_sets(
    table: Table, places: Sequence[str | Sequence[str]], labels: Sequence[str] | None, sep: str, merge: bool
) -> list[Candidates]:
    """Candidates and true labels over the same labels, each from a column of names or from columns of 0 and 1."""
    sets = []
    for columns in places:
        where = TextLabels.of(table, columns, sep) if isinstance(columns, str) else FlagLabels(tuple(columns))
        sets.append((columns, merged(where.read(table)) if merge else where.read(table)))
    matched_by = same_spelling if merge else str
    if labels is None:
        by_name = [name for columns, given in sets if isinstance(columns, str) for name in given.labels]
        first = {matched_by(name): str(name) for name in reversed(by_name)}
        labels = sorted(first.values()) if isinstance(places[0], str) else [str(name) for name in sets[0][1].labels]
    for told in told_alike(labels):
        warnings.warn(f"{table.path}: {told}", stacklevel=4)
    over = []
    for columns, given in sets:
        if isinstance(columns, str):
            over.append(over_labels(given, labels, partial(_not_one, table, columns), matched_by=matched_by))
        elif given.shape[1] == len(labels):
            over.append(Candidates.from_matrix(given.states, labels, empty="ignore"))
        else:
            told = f"{given.shape[1]} columns of 0 and 1 were named for {len(labels)} labels"
            raise ValueError(f"{table.path}: {told}; name one for each label")
    return over


def _not_one(table: Table, column: str, row: int, label: str) -> str:
    return f"{table.where(row, column)} has label {label!r}, which is not one of the labels"


def _finite_numbers(table: Table, column: str) -> np.ndarray:
    """A column as numbers, or an error that names the first cell that is none."""
    cells = table.cells(column)
    values = as_numbers(cells)
    if values is not None and np.isfinite(values).all():
        return values
    each = (as_numbers(cells[row : row + 1]) for row in range(table.n_rows))
    row = next(row for row, value in enumerate(each) if value is None or not np.isfinite(value).all())
    told = f"{table.where(row, column)} is {shown(cells[row])}, expected a finite number"
    raise ValueError(f"{told}; fill it in, or leave the row out, or the column with {argument('ignore', [column])}")


# -- what a model is judged by -----------------------------------------------------------------------------------------


def true_labels(
    source: Source,
    labels: Sequence[Hashable],
    truth: str | None = None,
    *,
    sep: str = ";",
    label_columns: str | Sequence[str] | None = None,
    xml: str | Path | None = None,
    merge_labels: bool = False,
    ignore_unseen: bool = False,
) -> Candidates:
    """The true labels of a file, over the labels of a model; a file with a matrix holds them itself.

    Where they stand and how they are spelled is said as in :func:`read_table`. With ``ignore_unseen`` true labels that
    the model does not have are left out; otherwise they are an error.
    """
    matched_by = same_spelling if merge_labels else str
    column = None
    if isinstance(source, ArrayFile):
        if truth is not None or label_columns is not None or xml is not None:
            raise ValueError(f"{source.path} has no columns to name; it holds its labels beside a matrix of features")
        if source.truth is None:
            raise ValueError(f"{source.path} holds no true labels, so nothing can be judged by it")
        given = source.truth
    else:
        where = labels_in(source, truth, sep, label_columns, xml, what="true")
        assert where is not None
        if isinstance(where, FlagLabels):  # a label of the model that has no column cannot be judged
            there = set(map(matched_by, where.columns))
            where = FlagLabels((*where.columns, *(str(name) for name in labels if matched_by(name) not in there)))
        given, column = where.read(source), truth

    def told(row: int, name: str) -> str:
        place = f"{source.where(row, column or name)} has the label {name!r}, which the model never saw in training"
        return f"{place}; remove it from the file, or give {argument('ignore_unseen', True)}"

    return certain(source, over_labels(given, labels, told, matched_by=matched_by, ignore_unseen=ignore_unseen))


def certain(source: Source, true: Candidates) -> Candidates:
    """The true labels, if none of them is unknown."""
    if true.has_unknown:
        at = true.states.tocoo()
        row, label = (int(axis[at.data < 0][0]) for axis in at.coords)
        name = str(true.labels[label])
        told = f"{source.where(row, name)}: label {name!r} is unknown (-1), and a model is judged by 1 and 0"
        raise ValueError(f"{told}; write one of them, or leave the row out")
    return true
