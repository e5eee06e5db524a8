"""Candidate labels in a table: one delimited column, or columns of 0 and 1; read from it and written back."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp

from propml.datasets.mulan import read_label_header
from propml.messages import argument
from propml.tables.arrays import ArffTable
from propml.tables.cell_lists import holds_lists, identifier, is_quoted_list, list_in, list_like, shown
from propml.tables.table import Edit, Table, checked_column, choose_columns, quoted_names
from propml.targets import CANDIDATE, EXCLUDED, UNKNOWN, Annotations, Candidates

OTHER_SEPARATORS = (";", ",", "|", "/", "\t", " ")
OFTEN = 0.2  # from this share of the cells on, another separator is what was meant
MOST_TOLD = 5
#: By label what is to be written: 1 candidate, 0 excluded, -1 unknown.
States: TypeAlias = dict[str, int]


def changes_between(before: Candidates, after: Candidates, rows: Sequence[Any] | np.ndarray) -> dict[Any, States]:
    """The new states where two sets of labels of the same rows differ; ``rows`` is what each row is called."""
    if before.shape != after.shape or before.labels != after.labels:
        told = f"the cleaned labels have shape {after.shape} and those of the file {before.shape}, or other names"
        raise ValueError(f"{told}; they do not belong together")
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
    def of(cls, table: Table, column: str, sep: str) -> Self:
        """Look at the column: do its cells spell lists, and does the separator occur in them?"""
        if not sep:
            return cls(column, sep)
        texts = {row: cell for row, cell in enumerate(table.cells(column)) if isinstance(cell, str) and cell.strip()}
        if holds_lists(texts.values()):
            return cls(column, sep, spelled=True)
        lists = [row for row, cell in texts.items() if is_quoted_list(cell)]
        if not lists and any(sep in cell for cell in texts.values()):
            return cls(column, sep)
        bracketed = [row for row, cell in texts.items() if cell.strip()[0] in "[{" and "," in cell]
        if lists or len(bracketed) > len(texts) / 2:
            row = (lists or bracketed)[0]
            told = f"{table.where(row, column)} is {shown(texts[row])}, a list"
            raise ValueError(f"{told}, and most cells are none that can be read; write all as ['a', 'b'] or as a{sep}b")
        for sign in OTHER_SEPARATORS:
            share = sum(sign in cell.strip() for cell in texts.values()) / max(1, len(texts))
            if share >= OFTEN:
                told = f"{sep!r} occurs in no cell of column {column!r}, and {sign!r} in {share:.0%} of them"
                ways = f"choose {argument('sep', sign)} (or {argument('sep', '')}, if every cell is one label)"
                raise ValueError(f"{table.path}: the separator {told}; {ways}")
        return cls(column, sep)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def read(self, table: Table) -> Candidates:
        """The candidates of every row; the labels are all that occur, sorted."""
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
        values = list_in(cell) if self.spelled and isinstance(cell, str) else cell
        if isinstance(cell, str) and (not self.spelled or not cell.strip()):
            return self._split(cell)
        if not self.sep and isinstance(cell, int | float) and not isinstance(cell, bool) and float(cell).is_integer():
            return [identifier(cell)]
        if isinstance(values, Iterable) and not any(isinstance(value, dict | list) for value in values):
            return [name for value in values if (name := identifier(value))]
        told = f"{table.where(row, self.column)} is {shown(cell)}, expected"
        if isinstance(cell, Iterable):
            raise ValueError(f"{told} a list of label names; correct it")
        ways = f"name all of them ({argument('label_columns')}), for whole numbers give {argument('sep', '')}"
        raise ValueError(f"{told} label names; for columns of 0 and 1 {ways}")

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

    def _edited_text(self, cell: str, states: States) -> str:
        added = [name for name, state in states.items() if state == CANDIDATE]
        if clash := next((name for name in added if self.sep and self.sep in name), None):
            raise ValueError(f"label {clash!r} contains the separator; choose another than {argument('sep', self.sep)}")
        between = self.sep + " " if self.sep.strip() and self.sep + " " in cell else self.sep
        names = [name for name in self._split(cell) if states.get(name, CANDIDATE) == CANDIDATE] + added
        if not self.sep and len(names) > 1:
            told = f"column {self.column!r} holds one label in a cell, and {names} are two"
            raise ValueError(f"{told}; choose a {argument('sep')}")
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

        def edit(name: str, start: int, cells: Sequence[Any]) -> Sequence[Any]:
            states = (changes.get(row, {}).get(name) for row in range(start, start + len(cells)))
            return [
                cell if state is None else _flag_like(cell, state) for cell, state in zip(cells, states, strict=True)
            ]

        return {name: partial(edit, name) for states in changes.values() for name in states}


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
    if columns := choose_columns(table, label_columns or ()):
        return FlagLabels(tuple(columns))
    if isinstance(table, ArffTable):
        header = table.path.with_name(table.path.name.partition(".")[0] + ".xml") if xml is None else Path(xml)
        if xml is not None or header.is_file():
            names = read_label_header(header)
            if absent := [name for name in names if name not in table.names]:
                raise ValueError(f"{header} names the label {absent[0]!r}, which is no attribute of {table.path}")
            return FlagLabels(names)
    if not needed:
        return None
    ways = [f"one delimited column ({in_one})", f"columns of 0 and 1 ({argument('label_columns')})"]
    ways += [f"an annotator table ({argument('votes')})"] if what == "candidate" else []
    ways += [f"the XML header that names them ({argument('xml')})"] if isinstance(table, ArffTable) else []
    told = f"{table.path}: say where the {what} labels are: {', '.join(ways[:-1])} or {ways[-1]}"
    raise ValueError(f"{told}; it has {quoted_names(table.names)}")


def _edited_list(cell: Sequence[Any] | None, states: States, cells: Sequence[Any]) -> list[Any]:
    # Numbers stay numbers: an added label takes the type that the column's labels have.
    kind = next((type(value) for other in cells for value in other or ()), str)
    kept = [value for value in cell or () if states.get(identifier(value), CANDIDATE) == CANDIDATE]
    return kept + [kind(name) for name, state in states.items() if state == CANDIDATE]


def _states(table: Table, column: str) -> np.ndarray:
    """A column of 0, 1 and -1, or of true and false."""
    cells = table.cells(column)
    are_numbers = isinstance(cells, np.ndarray) and cells.ndim == 1 and cells.dtype.kind in "biuf"
    states = np.asarray(cells) if are_numbers else np.array([_state_in(cell) for cell in cells])
    if (bad := np.flatnonzero(~np.isin(states, (EXCLUDED, CANDIDATE, UNKNOWN)))).size:
        raise ValueError(f"{table.where(int(bad[0]), column)} is {shown(cells[bad[0]])}, expected 0 or 1 or -1")
    return states.astype(np.int8)


def _state_in(cell: Any) -> float:
    try:
        return float(cell)
    except (ValueError, TypeError, OverflowError):
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
    """What two spellings of one label have in common."""
    return " ".join(str(name).split()).casefold()


def alike(names: Iterable[Hashable]) -> list[list[str]]:
    """The names that differ in case or blanks only, in groups.

    >>> alike(["cat", "Cat", "dog"])
    [['Cat', 'cat']]
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(map(str, names)):
        groups[same_spelling(name)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def told_alike(names: Iterable[Hashable], *, merge: bool = False) -> list[str]:
    """A sentence on such groups, of many the first, where there are some: they are merged, or left as they are."""
    groups = alike(names)
    if not groups:
        return []
    each = [f"{', '.join(map(repr, group[:-1]))} and {group[-1]!r}" for group in groups[:MOST_TOLD]]
    told = "; ".join(each) + (f"; and {len(groups) - MOST_TOLD} more" if len(groups) > MOST_TOLD else "")
    if merge:
        return [f"labels that differ only in case or blanks were merged: {told}"]
    way = argument("merge_labels", True)
    return [f"labels differ only in case or blanks: {told}; if each means one label, give {way}"]


def merged(given: Candidates, min_votes: int = 1) -> Candidates:
    """Every label in its most frequent spelling; where votes tell the candidates, ``given`` has all with one vote."""
    counts = np.asarray((given.states > 0).sum(axis=0)).ravel()
    best: dict[str, int] = {}
    for j in sorted(range(len(counts)), key=lambda j: (-counts[j], str(given.labels[j]))):
        best.setdefault(same_spelling(given.labels[j]), j)
    labels = tuple(given.labels[j] for j in sorted(best.values()))
    place = _places(given, labels, same_spelling)
    votes = given.annotations
    if votes is not None:
        if votes.confidence is not None:
            votes = votes.entries(np.argsort(-votes.confidence, kind="stable"))
        votes = _votes_over(votes, place)
        # Somebody who gave a label in two spellings gave it once, as sure as the surer of the two.
        _, first = np.unique(np.stack([votes.row, votes.annotator, votes.label]), axis=1, return_index=True)
        votes = votes.entries(first)
    made = replace(given, states=_together(given.states, place, len(labels)), labels=labels, annotations=votes)
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
    place = _places(given, labels, matched_by)
    unseen = np.flatnonzero(place < 0)
    row, label = (given.states[:, unseen] == CANDIDATE).nonzero()
    if len(row) and not ignore_unseen:
        raise ValueError(told(int(row[0]), str(given.labels[unseen[label[0]]])))
    known = np.flatnonzero(place >= 0)
    states = _together(given.states[:, known], place[known], len(labels))
    return Candidates.from_matrix(states, labels, empty="ignore")


def with_votes(
    given: Candidates, voted: Candidates, rows: np.ndarray, matched_by: Callable[[Hashable], str]
) -> Candidates:
    """The candidates with the votes on their labels that others have, which stand in these rows of them."""
    assert voted.annotations is not None
    votes = _votes_over(voted.annotations, _places(voted, given.labels, matched_by))
    return replace(given, annotations=replace(votes, row=rows[votes.row]))


def _places(given: Candidates, labels: Sequence[Hashable], matched_by: Callable[[Hashable], str]) -> np.ndarray:
    """For each label its place among others, -1 where it is none of them."""
    place = {matched_by(name): j for j, name in enumerate(labels)}
    return np.array([place.get(matched_by(name), -1) for name in given.labels], dtype=np.int64)


def _votes_over(votes: Annotations, place: np.ndarray) -> Annotations:
    """The votes on labels that have a place among others; those of somebody who saw nothing (-1) stay."""
    label = np.where(votes.label < 0, -1, place[votes.label])
    known = (label >= 0) | (votes.label < 0)
    return replace(votes.entries(known), label=label[known])


def _together(states: sp.csr_array, place: np.ndarray, n_labels: int) -> sp.csr_array:
    """Columns that become one: a candidate in any of them is one, and otherwise what is unknown in any is unknown."""
    ones = np.ones(len(place), np.int32)
    goes = sp.csr_array((ones, (np.arange(len(place)), place)), shape=(len(place), n_labels))
    candidate, unknown = (sign.astype(np.int32) @ goes > 0 for sign in (states > 0, states < 0))
    return sp.csr_array(2 * candidate.astype(np.int8) - unknown.astype(np.int8)).sign().astype(np.int8)
