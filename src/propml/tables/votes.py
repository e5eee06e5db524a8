"""A long annotator table beside the features: one row per item, annotator and proposed label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from propml.messages import argument
from propml.tables.cell_lists import holds_lists, shown
from propml.tables.labels import Changes
from propml.tables.table import Table, found
from propml.targets import CANDIDATE, Candidates

__all__ = ["VoteFile", "Voted", "identifier"]

#: Who proposes the labels that an audit adds.
AUDITOR = "propml audit"


class Voted(NamedTuple):
    """Candidates of the items that were voted on, in the order of the features, and what was left out."""

    candidates: Candidates
    rows: np.ndarray
    notes: list[str]


@dataclass(frozen=True)
class VoteFile:
    """The annotator table, and its columns for item, annotator and label."""

    table: Table
    item: str = "item"
    annotator: str = "annotator"
    label: str = "label"

    def __post_init__(self) -> None:
        for name in (self.item, self.annotator, self.label):
            found(self.table, name)

    def read(self, ids: Sequence[str], min_votes: int = 1) -> Voted:
        """The candidates of those items that have an identifier among ``ids``, and the votes with them."""
        items, annotators, proposed = (self._texts(name) for name in (self.item, self.annotator, self.label))
        if holds_lists(proposed):
            row = next(row for row, cell in enumerate(proposed) if cell)
            raise ValueError(
                f"{self.table.where(row, self.label)} is {shown(proposed[row])}; an annotator table has one row for "
                f"each label that somebody proposed, so give every label of the list a row of its own"
            )
        row_of = {item: row for row, item in enumerate(ids)}
        known = [item in row_of for item in items]
        if not any(known):
            raise ValueError(
                f"no item of {self.table.path} is an identifier of the data: it names {items[0]!r}, the data "
                f"{ids[0]!r}; choose with {argument('id_column')} the column of identifiers that both files share"
            )
        kept = [
            (item, who, label or None)
            for item, who, label, k in zip(items, annotators, proposed, known, strict=True)
            if k
        ]
        if not any(label for _, _, label in kept):
            raise ValueError(f"{self.table.path}: column {self.label!r} names no label for any item of the data")
        made = Candidates.from_votes(*zip(*kept, strict=True), min_votes=min_votes, empty="ignore")
        if not made.sizes().any():
            raise ValueError(
                f"no label has {min_votes} votes on any item, so no candidate is left; "
                f"ask for a smaller {argument('min_votes')}"
            )
        rows = np.array([row_of[str(item)] for item in made.index])
        order = np.argsort(rows)
        notes = []
        if strangers := len(dict.fromkeys(i for i, k in zip(items, known, strict=True) if not k)):
            notes.append(f"{strangers} items of {self.table.path.name} are not in the data and were left out")
        return Voted(made[order], rows[order], notes)

    def write(self, path: Path, changes: Changes, ids: Sequence[str]) -> None:
        """The same table without the votes for labels that went, and with those of the audit for labels that came."""
        went, came = set(), []
        for row, states in changes.by_row():
            for label, state in states.items():
                if state == CANDIDATE:
                    came.append({self.item: ids[row], self.annotator: AUDITOR, self.label: label})
                else:
                    went.add((ids[row], label))
        pairs = zip(self._texts(self.item), self._texts(self.label), strict=True)
        self.table.copy(path, keep=np.array([pair not in went for pair in pairs]), extra=came)

    def _texts(self, name: str) -> list[str]:
        return [identifier(cell) for cell in self.table.cells(name)]


def identifier(cell: Any) -> str:
    """An identifier or a name as text, the same whichever file format it stood in."""
    if cell is None or (isinstance(cell, float | np.floating) and cell != cell):
        return ""
    is_whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if is_whole else str(cell).strip()
