"""True labels of a file, over the labels of a model or of candidates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path

from propml.messages import argument
from propml.tables.arrays import ArrayFile
from propml.tables.labels import FlagLabels, labels_in, over_labels, same_spelling
from propml.tables.sources import Source
from propml.targets import Candidates

__all__ = ["certain", "over_labels", "true_labels"]


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
        return (
            f"{source.where(row, column or name)} has the label {name!r}, which the model never saw in training; "
            f"remove it from the file, or give {argument('ignore_unseen', True)}"
        )

    return certain(source, over_labels(given, labels, told, matched_by=matched_by, ignore_unseen=ignore_unseen))


def certain(source: Source, true: Candidates) -> Candidates:
    """The true labels, if none of them is unknown."""
    if true.has_unknown:
        at = true.states.tocoo()
        row, label = (int(axis[at.data < 0][0]) for axis in at.coords)
        name = str(true.labels[label])
        raise ValueError(
            f"{source.where(row, name)}: label {name!r} is unknown (-1), and a model is judged by labels that are true "
            f"or not; write 1 or 0, or leave the row out"
        )
    return true
