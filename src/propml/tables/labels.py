"""Candidate labels in a table: one delimited column, or columns of 0 and 1; read from it and written back."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.argument_names import argument
from propml.datasets.columns import Columns
from propml.sparse_checks import checked_csr
from propml.tables.table import Cells, Edit, Table
from propml.targets import CANDIDATE, EXCLUDED, UNKNOWN, Candidates

__all__ = ["Changes", "FlagLabels", "TextLabels", "never_seen"]

OTHER_SEPARATORS = (";", ",", "|", "/", "\t", " ")
# From this share of the cells on, another separator is what was meant.
OFTEN = 0.2


@dataclass(frozen=True)
class Changes:
    """The entries in which cleaned labels differ from those of the file, by rows of the file, sorted.

    Attributes
    ----------
    row, label, state : ndarray, shape (n_changes,)
        ``state`` is what is to be written: 1 candidate, 0 excluded, -1 unknown.
    names : tuple
        The label names.
    """

    row: np.ndarray
    label: np.ndarray
    state: np.ndarray
    names: tuple[Hashable, ...]

    @classmethod
    def between(cls, before: Candidates, after: Candidates, rows: np.ndarray) -> Changes:
        """From two sets of labels of the same rows; ``rows`` are their ascending positions in the file."""
        if before.shape != after.shape or before.labels != after.labels:
            raise ValueError(
                f"the cleaned labels are {after.shape[0]} rows by {after.shape[1]} labels and those of the file "
                f"{before.shape[0]} by {before.shape[1]}; they do not belong together"
            )
        was, now = before.states.astype(np.int16), after.states.astype(np.int16)
        # Difference and new state in one number, because an excluded state is not stored.
        packed = sp.csr_array((now - was) * 4 + now)
        packed.sort_indices()
        state = (packed.data + 1) % 4 - 1
        changed = packed.data != state
        at = np.repeat(np.arange(len(before)), np.diff(packed.indptr))
        return cls(rows[at[changed]], packed.indices[changed], state[changed], after.labels)

    def within(self, start: int, n_rows: int) -> Changes:
        """Those of some rows of the file, counted from the first of them."""
        part = slice(*np.searchsorted(self.row, [start, start + n_rows]))
        return Changes(self.row[part] - start, self.label[part], self.state[part], self.names)

    def of_label(self, label: int) -> Changes:
        """Those of one label."""
        own = self.label == label
        return Changes(self.row[own], self.label[own], self.state[own], self.names)

    def by_row(self) -> Iterable[tuple[int, dict[str, int]]]:
        """Row by row the new states by name."""
        rows, first = np.unique(self.row, return_index=True)
        ends = [*first[1:].tolist(), len(self.row)]
        for row, own in zip(rows.tolist(), map(range, first.tolist(), ends), strict=False):
            yield row, {str(self.names[self.label[i]]): int(self.state[i]) for i in own}


@dataclass(frozen=True)
class TextLabels:
    """One column of delimited text (``"beach;sunset"``) or, in Parquet, of lists.

    An empty ``sep`` means that every cell is one label, a text or a whole number.
    """

    column: str
    sep: str = ";"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def read(
        self, table: Table, labels: Sequence[Hashable] | None = None, *, ignore_unseen: bool = False
    ) -> Candidates:
        """The candidates of every row; without ``labels`` the names that occur, sorted."""
        cells = table.cells(self.column)
        self._check_separator(table, cells)
        known = {str(name): j for j, name in enumerate(labels or ())}
        codes, ends = array("i"), array("q", [0])
        for row, cell in enumerate(cells.tolist() if isinstance(cells, np.ndarray) else cells):
            for name in self._names(cell, table, row):
                if name not in known and labels is None:
                    known[name] = len(known)
                if name in known:
                    codes.append(known[name])
                elif not ignore_unseen:
                    raise ValueError(never_seen(table.where(row, self.column), name))
            ends.append(len(codes))
        if not known:
            raise ValueError(f"{table.path}: column {self.column!r} names no label; is it the right column?")
        names: tuple[Hashable, ...] = tuple(sorted(known)) if labels is None else tuple(labels)
        place = np.argsort(np.argsort(list(known))) if labels is None else np.arange(len(names))
        codes_of_names = np.frombuffer(codes, dtype=np.intc) if codes else np.empty(0, dtype=np.intc)
        ones = np.ones(len(codes), dtype=np.int8)
        states = checked_csr(ones, place[codes_of_names], np.asarray(ends), (table.n_rows, len(names)))
        states.sum_duplicates()
        states.data[:] = CANDIDATE  # a name given twice in a cell is one candidate
        return Candidates.from_matrix(states, names, empty="ignore")

    def edits(self, changes: Changes) -> Mapping[str, Edit]:
        """What to write instead; a cell whose labels stay is left as it is, to the character."""

        def edit(start: int, cells: Sequence[Any]) -> Sequence[Any]:
            made = list(cells)
            for row, states in changes.within(start, len(cells)).by_row():
                cell = made[row]
                if isinstance(cell, str) or (cell is None and not any(isinstance(c, list) for c in cells)):
                    made[row] = self._edited_text(cell or "", states)
                elif isinstance(cell, int | float):
                    name = self._edited_text(_name_of(cell), states)
                    made[row] = type(cell)(name) if name else None
                else:
                    made[row] = _edited_list(cell, states, cells)
            return made

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

    def _names(self, cell: Any, table: Table, row: int) -> Iterable[str]:
        if isinstance(cell, str):
            return self._split(cell)
        if cell is None or (isinstance(cell, float) and cell != cell):
            return ()
        if isinstance(cell, Iterable):
            return [_name_of(value) for value in cell]
        if not self.sep and isinstance(cell, int | float) and not isinstance(cell, bool) and float(cell).is_integer():
            return [_name_of(cell)]
        raise ValueError(
            f"{table.where(row, self.column)} is {cell!r}, expected label names; columns of 0 and 1 are given as "
            f"{argument('label_columns')}, and whole numbers are labels with {argument('sep', '')}"
        )

    def _check_separator(self, table: Table, cells: Cells) -> None:
        texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
        if not texts or not self.sep or any(self.sep in cell for cell in texts):
            return
        for sign in OTHER_SEPARATORS:
            share = sum(sign in cell.strip() for cell in texts) / len(texts)
            if share >= OFTEN:
                raise ValueError(
                    f"{table.path}: the separator {self.sep!r} occurs in no cell of column {self.column!r}, and "
                    f"{sign!r} in {share:.0%} of them; choose {argument('sep', sign)} "
                    f"(or {argument('sep', '')}, if every cell is one label)"
                )


@dataclass(frozen=True)
class FlagLabels:
    """One column of 0 and 1 per label (-1: unknown), whose name is the name of the label."""

    columns: tuple[str, ...]

    def read(
        self, table: Table, labels: Sequence[Hashable] | None = None, *, ignore_unseen: bool = False
    ) -> Candidates:
        """The candidates of every row; ``labels`` says which columns are meant, in which order."""
        names = self.columns if labels is None else tuple(map(str, labels))
        for column in () if ignore_unseen else sorted(set(self.columns) - set(names)):
            if (bad := np.flatnonzero(_states(table, column) == CANDIDATE)).size:
                raise ValueError(never_seen(table.where(int(bad[0]), column), column))
        flags = [sp.csc_array(_states(table, column).reshape(-1, 1)) for column in names]
        return Candidates.from_matrix(sp.csr_array(sp.hstack(flags, format="csr")), names, empty="ignore")

    def edits(self, changes: Changes) -> Mapping[str, Edit]:
        """What to write instead, in the words of the column: 0 and 1, 0.0 and 1.0, or true and false."""

        def edit_of(mine: Changes) -> Edit:
            def edit(start: int, cells: Sequence[Any]) -> Sequence[Any]:
                part, made = mine.within(start, len(cells)), list(cells)
                for row, state in zip(part.row.tolist(), part.state.tolist(), strict=True):
                    made[row] = _flag_like(made[row], state)
                return made

            return edit

        return {str(changes.names[j]): edit_of(changes.of_label(j)) for j in np.unique(changes.label)}


def never_seen(where: str, name: str) -> str:
    """The sentence on a label that a model cannot know."""
    return (
        f"{where} has the label {name!r}, which the model never saw in training; "
        f"remove it from the file, or give {argument('ignore_unseen', True)}"
    )


def _name_of(value: Any) -> str:
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value)


def _edited_list(cell: Sequence[Any] | None, states: Mapping[str, int], cells: Sequence[Any]) -> list[Any]:
    # Numbers stay numbers: an added label takes the type that the column's labels have.
    kind = next((type(value) for other in cells for value in other or ()), str)
    kept = [value for value in cell or () if states.get(_name_of(value), CANDIDATE) == CANDIDATE]
    return kept + [kind(name) for name, state in states.items() if state == CANDIDATE]


def _states(table: Table, column: str) -> np.ndarray:
    cells = table.cells(column)
    allowed = (EXCLUDED, CANDIDATE, UNKNOWN)
    if isinstance(cells, np.ndarray) and cells.ndim == 1 and np.isin(cells, allowed).all():
        return cells.astype(np.int8)
    return Columns(table.path, {column: cells}, table.lines).states(column, allowed)


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
