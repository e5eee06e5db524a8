"""Candidate labels in a table: one delimited column, or columns of 0 and 1; read from it and written back.

Labels that differ in case or blanks only are told, or merged on request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from propml.datasets.mulan import read_label_header
from propml.messages import argument
from propml.tables.arrays import ArffTable
from propml.tables.cell_lists import holds_lists, identifier, is_quoted_list, list_in, list_like, shown
from propml.tables.table import Edit, Table, checked_column, choose_columns, quoted_names
from propml.targets import CANDIDATE, EXCLUDED, UNKNOWN, Annotations, Candidates

__all__ = [
    "FlagLabels", "States", "TextLabels", "alike", "changes_between", "labels_in", "merged", "over_labels",
    "same_spelling", "told_alike",
]  # fmt: skip

OTHER_SEPARATORS = (";", ",", "|", "/", "\t", " ")
# From this share of the cells on, another separator is what was meant.
OFTEN = 0.2
_MOST_TOLD = 5
STATES = (EXCLUDED, CANDIDATE, UNKNOWN)
#: By label what is to be written: 1 candidate, 0 excluded, -1 unknown.
States: TypeAlias = dict[str, int]


def changes_between(before: Candidates, after: Candidates, rows: Sequence[Any] | np.ndarray) -> dict[Any, States]:
    """The new states where two sets of labels of the same rows differ; ``rows`` is what each row is called."""
    if before.shape != after.shape or before.labels != after.labels:
        raise ValueError(
            f"the cleaned labels are {after.shape[0]} rows by {after.shape[1]} labels and those of the file "
            f"{before.shape[0]} by {before.shape[1]}; they do not belong together"
        )
    differ = sp.csr_array(after.states != before.states)
    differ.sort_indices()
    row, label = differ.nonzero()
    state = np.ravel(after.states[row, label]) if len(row) else row
    changes: dict[Any, States] = {}
    for i, j, new in zip(row.tolist(), label.tolist(), state.tolist(), strict=True):
        changes.setdefault(rows[i], {})[str(after.labels[j])] = new
    return changes


@dataclass(frozen=True)
class TextLabels:
    """One column of delimited text (``"beach;sunset"``), of lists (Parquet), or of text that spells lists.

    An empty ``sep`` means that every cell is one label, a text or a whole number.
    """

    column: str
    sep: str = ";"
    spelled: bool = False

    @classmethod
    def of(cls, table: Table, column: str, sep: str) -> TextLabels:
        """Look at the column: do its cells spell lists, and does the separator occur in them?"""
        if not sep:
            return cls(column, sep)
        texts = {row: cell for row, cell in enumerate(table.cells(column)) if isinstance(cell, str) and cell.strip()}
        if holds_lists(texts.values()):
            return cls(column, sep, spelled=True)
        for row, cell in texts.items():
            if is_quoted_list(cell):
                raise ValueError(
                    f"{table.where(row, column)} is {shown(cell)}, a list where most cells are none; write all alike"
                )
        _check_separator(table, column, sep, list(texts.values()))
        return cls(column, sep)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def read(self, table: Table) -> Candidates:
        """The candidates of every row, over the names that occur, sorted."""
        from sklearn.preprocessing import MultiLabelBinarizer

        cells = table.cells(self.column)
        rows = enumerate(cells.tolist() if isinstance(cells, np.ndarray) else cells)
        binarizer = MultiLabelBinarizer(sparse_output=True)
        states = binarizer.fit_transform(self.names(cell, table, row) for row, cell in rows)
        if not states.nnz:
            raise ValueError(f"{table.path}: column {self.column!r} names no label; is it the right column?")
        states.sort_indices()
        return Candidates.from_matrix(sp.csr_array(states, dtype=np.int8), binarizer.classes_.tolist(), empty="ignore")

    def names(self, cell: Any, table: Table, row: int) -> list[str]:
        """The labels of a cell."""
        if cell is None or (isinstance(cell, float) and cell != cell):
            return []
        values = cell
        if isinstance(cell, str):
            if not self.spelled or not cell.strip():
                return self._split(cell)
            if (values := list_in(cell)) is None:
                raise ValueError(
                    f"{table.where(row, self.column)} is {shown(cell)}, expected a list of labels, as most cells of "
                    f"the column are; correct it"
                )
        if isinstance(values, Iterable):
            if any(isinstance(value, dict | list) for value in values):
                raise ValueError(f"{table.where(row, self.column)} is {shown(cell)}, expected the names of labels")
            return [name for value in values if (name := identifier(value))]
        if not self.sep and isinstance(cell, int | float) and not isinstance(cell, bool) and float(cell).is_integer():
            return [identifier(cell)]
        raise ValueError(
            f"{table.where(row, self.column)} is {cell!r}, expected label names; for columns of 0 and 1 name "
            f"all of them ({argument('label_columns')}), for whole numbers give {argument('sep', '')}"
        )

    def edits(self, changes: Mapping[int, States]) -> Mapping[str, Edit]:
        """What to write instead; a cell whose labels stay is left as it is, to the character."""

        def edit(start: int, cells: Sequence[Any]) -> Sequence[Any]:
            edited = list(cells)
            for row, cell in enumerate(cells):
                if (states := changes.get(start + row)) is None:
                    continue
                if self.spelled:
                    values = list_in(cell) or []
                    edited[row] = list_like(cell, _edited_list(values, states, [values]))
                elif isinstance(cell, str) or (cell is None and not any(isinstance(c, list) for c in cells)):
                    edited[row] = self._edited_text(cell or "", states)
                elif isinstance(cell, int | float):
                    name = self._edited_text(identifier(cell), states)
                    edited[row] = type(cell)(name) if name else None
                else:
                    edited[row] = _edited_list(cell, states, cells)
            return edited

        return {self.column: edit}

    def _edited_text(self, cell: str, states: Mapping[str, int]) -> str:
        added = [name for name, state in states.items() if state == CANDIDATE]
        if clash := next((name for name in added if self.sep and self.sep in name), None):
            raise ValueError(f"label {clash!r} contains the separator; choose another than {argument('sep', self.sep)}")
        between = self.sep + " " if self.sep.strip() and self.sep + " " in cell else self.sep
        names = [name for name in self._split(cell) if states.get(name, CANDIDATE) == CANDIDATE] + added
        if not self.sep and len(names) > 1:
            raise ValueError(
                f"column {self.column!r} holds one label in a cell, and {names} are two; choose a {argument('sep')}"
            )
        return between.join(names)

    def _split(self, cell: str) -> list[str]:
        return [name for part in (cell.split(self.sep) if self.sep else [cell]) if (name := part.strip())]


@dataclass(frozen=True)
class FlagLabels:
    """One column of 0 and 1 per label (-1: unknown), whose name is the name of the label."""

    columns: tuple[str, ...]

    def read(self, table: Table) -> Candidates:
        """The candidates of every row, over the columns."""
        flags = [sp.csc_array(_states(table, column).reshape(-1, 1)) for column in self.columns]
        return Candidates.from_matrix(sp.csr_array(sp.hstack(flags, format="csr")), self.columns, empty="ignore")

    def edits(self, changes: Mapping[int, States]) -> Mapping[str, Edit]:
        """What to write instead, in the words of the column: 0 and 1, 0.0 and 1.0, or true and false."""
        by_column: dict[str, dict[int, int]] = {}
        for row, states in changes.items():
            for name, state in states.items():
                by_column.setdefault(name, {})[row] = state

        def edit(mine: Mapping[int, int], start: int, cells: Sequence[Any]) -> Sequence[Any]:
            return [_flag_like(cell, mine[row]) if row in mine else cell for row, cell in enumerate(cells, start)]

        return {name: partial(edit, mine) for name, mine in by_column.items()}


def labels_in(
    table: Table,
    candidates: str | None,
    sep: str,
    label_columns: str | Sequence[str] | None,
    xml: str | Path | None = None,
    *,
    what: str = "candidate",
    needed: bool = True,
) -> TextLabels | FlagLabels | None:
    """Where in a table the labels stand; ``what`` says what they are called in a message."""
    in_one = argument("candidates" if what == "candidate" else "truth")
    if xml is not None and not isinstance(table, ArffTable):
        raise ValueError(f"{table.path} is no ARFF file, and an XML header belongs to one; leave it out")
    places = {in_one: candidates, argument("label_columns"): label_columns, argument("xml"): xml}
    if len(given := [name for name, value in places.items() if value is not None]) > 1:
        raise ValueError(f"{table.path}: labels stand in one place; name one of {' and '.join(given)}")
    if candidates is not None:
        return TextLabels.of(table, checked_column(table, candidates), sep)
    if label_columns is not None:
        columns = choose_columns(table, label_columns)
        if not columns:
            raise ValueError(f"{table.path}: the label columns name nothing; it has {quoted_names(table.names)}")
        return FlagLabels(tuple(columns))
    if isinstance(table, ArffTable):
        header = table.path.with_name(table.path.name.partition(".")[0] + ".xml") if xml is None else Path(xml)
        if xml is not None and not header.is_file():
            raise FileNotFoundError(f"{xml} does not exist or is not a file; give the XML header that names the labels")
        if header.is_file():
            names = read_label_header(header)
            if absent := [name for name in names if name not in table.names]:
                raise ValueError(f"{header} names the label {absent[0]!r}, which is no attribute of {table.path}")
            return FlagLabels(names)
    if needed:
        ways = [f"one delimited column ({in_one})", f"columns of 0 and 1 ({argument('label_columns')})"]
        ways += [f"an annotator table ({argument('votes')})"] if what == "candidate" else []
        ways += [f"the XML header that names them ({argument('xml')})"] if isinstance(table, ArffTable) else []
        raise ValueError(
            f"{table.path}: say where the {what} labels are: {', '.join(ways[:-1])} or {ways[-1]}; "
            f"it has {quoted_names(table.names)}"
        )
    return None


def _check_separator(table: Table, column: str, sep: str, texts: Sequence[str]) -> None:
    """Refuse a separator that occurs nowhere, where another one does."""
    if not texts or any(sep in cell for cell in texts):
        return
    if sum(cell.strip()[0] in "[{" for cell in texts) > len(texts) / 2 and any("," in cell for cell in texts):
        raise ValueError(
            f"{table.path}: column {column!r} holds lists that cannot be read, such as {shown(texts[0])}; write "
            f"['a', 'b'] or a{sep}b"
        )
    for sign in OTHER_SEPARATORS:
        share = sum(sign in cell.strip() for cell in texts) / len(texts)
        if share >= OFTEN:
            raise ValueError(
                f"{table.path}: the separator {sep!r} occurs in no cell of column {column!r}, and {sign!r} in "
                f"{share:.0%} of them; choose {argument('sep', sign)} "
                f"(or {argument('sep', '')}, if every cell is one label)"
            )


def _edited_list(cell: Sequence[Any] | None, states: Mapping[str, int], cells: Sequence[Any]) -> list[Any]:
    # Numbers stay numbers: an added label takes the type that the column's labels have.
    kind = next((type(value) for other in cells for value in other or ()), str)
    kept = [value for value in cell or () if states.get(identifier(value), CANDIDATE) == CANDIDATE]
    return kept + [kind(name) for name, state in states.items() if state == CANDIDATE]


def _states(table: Table, column: str) -> np.ndarray:
    """A column of 0, 1 and -1, or of true and false."""
    cells = table.cells(column)
    are_numbers = isinstance(cells, np.ndarray) and cells.ndim == 1 and cells.dtype.kind in "biuf"
    states = np.asarray(cells) if are_numbers else np.array([_state_in(cell) for cell in cells])
    if (bad := np.flatnonzero(~np.isin(states, STATES))).size:
        choices = " or ".join(map(str, STATES))
        raise ValueError(f"{table.where(int(bad[0]), column)} is {shown(cells[bad[0]])}, expected {choices}")
    return states.astype(np.int8)


def _state_in(cell: Any) -> float:
    try:
        return float(cell)
    except (ValueError, TypeError):
        return {"true": 1.0, "false": 0.0}.get(str(cell).strip().lower(), math.nan)


def _flag_like(cell: Any, state: int) -> Any:
    """A state written as the cell that it replaces was written."""
    if isinstance(cell, bool):
        return state == CANDIDATE
    if isinstance(cell, int | float | np.number):
        return type(cell)(state)
    text = str(cell).strip()
    for words in (("false", "true"), ("False", "True"), ("FALSE", "TRUE")):
        if text in words:
            return words[state == CANDIDATE]
    return f"{state}.0" if text.endswith(".0") else str(state)


# -- labels that differ in case or blanks only -------------------------------------------------------------------------


def same_spelling(name: Hashable) -> str:
    """What two spellings of one label have in common.

    >>> same_spelling("New  York ") == same_spelling("new york")
    True
    """
    return " ".join(str(name).split()).casefold()


def alike(names: Iterable[Hashable]) -> list[list[str]]:
    """The names that differ in case or blanks only, in groups.

    >>> alike(["cat", "Cat", "dog"])
    [['Cat', 'cat']]
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(map(str, names)):
        groups.setdefault(same_spelling(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def told_alike(groups: list[list[str]], *, merge: bool) -> str:
    """The sentence on such groups, of many the first, where they are merged or left as they are."""
    each = [f"{', '.join(map(repr, group[:-1]))} and {group[-1]!r}" for group in groups[:_MOST_TOLD]]
    told = "; ".join(each) + (f"; and {len(groups) - _MOST_TOLD} more" if len(groups) > _MOST_TOLD else "")
    if merge:
        return f"labels that differ only in case or blanks were merged: {told}"
    way = argument("merge_labels", True)
    return f"labels differ only in case or blanks: {told}; if each means one label, give {way}"


def merged(given: Candidates, min_votes: int = 1) -> Candidates:
    """Every label in its most frequent spelling; where votes tell the candidates, ``given`` has all with one vote."""
    counts = np.asarray((given.states > 0).sum(axis=0)).ravel()
    best: dict[str, int] = {}
    for j in sorted(range(len(counts)), key=lambda j: (-counts[j], str(given.labels[j]))):
        best.setdefault(same_spelling(given.labels[j]), j)
    labels = tuple(given.labels[j] for j in sorted(best.values()))
    column = _places(given, labels, same_spelling)
    made = replace(
        given,
        states=_together(given.states, column, len(labels)),
        labels=labels,
        annotations=_merged_votes(given.annotations, column),
    )
    if min_votes > 1 and made.votes is not None:
        made = replace(made, states=sp.csr_array(made.votes >= min_votes).astype(np.int8))
    return made


def over_labels(
    given: Candidates,
    labels: Sequence[Hashable],
    told: Callable[[int, str], str],
    *,
    matched_by: Callable[[Hashable], str] = str,
    ignore_unseen: bool = False,
) -> Candidates:
    """The same labels as columns of others, such as those of a model; what ``given`` lacks is excluded in every row.

    Names of which ``matched_by`` says the same are one label. ``told`` makes a sentence of a row and of the name of a
    candidate that is none of ``labels``, unless such candidates are to be left out.
    """
    column = _places(given, labels, matched_by)
    unseen = np.flatnonzero(column < 0)
    row, label = (given.states[:, unseen] == CANDIDATE).nonzero()
    if len(row) and not ignore_unseen:
        raise ValueError(told(int(row[0]), str(given.labels[unseen[label[0]]])))
    known = np.flatnonzero(column >= 0)
    states = _together(given.states[:, known], column[known], len(labels))
    return Candidates.from_matrix(states, labels, empty="ignore")


def _places(given: Candidates, labels: Sequence[Hashable], matched_by: Callable[[Hashable], str]) -> np.ndarray:
    """For each label its place among others, -1 where it is none of them."""
    place = {matched_by(name): j for j, name in enumerate(labels)}
    return np.array([place.get(matched_by(name), -1) for name in given.labels], dtype=np.int64)


def _together(states: sp.csr_array, column: np.ndarray, n_labels: int) -> sp.csr_array:
    """Columns that become one: a candidate in any of them is one, and otherwise what is unknown in any is unknown."""
    ones = np.ones(len(column), np.int32)
    goes = sp.csr_array((ones, (np.arange(len(column)), column)), shape=(len(column), n_labels))
    candidate, unknown = (sign.astype(np.int32) @ goes > 0 for sign in (states > 0, states < 0))
    return sp.csr_array(2 * candidate.astype(np.int8) - unknown.astype(np.int8)).sign().astype(np.int8)


def _merged_votes(votes: Annotations | None, column: np.ndarray) -> Annotations | None:
    if votes is None:
        return None
    if votes.confidence is not None:
        votes = votes.entries(np.argsort(-votes.confidence, kind="stable"))
    label = np.where(votes.label < 0, -1, column[votes.label])
    # Somebody who gave a label in two spellings gave it once, as sure as the surer of the two.
    (_, _, label), first = np.unique(np.stack([votes.row, votes.annotator, label]), axis=1, return_index=True)
    return replace(votes.entries(first), label=label)
