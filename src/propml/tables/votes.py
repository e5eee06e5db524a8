"""Who proposed what, beside the features: a long table, lists of a language model, or the matrix of labelling rules."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from propml.atomic_files import replacing
from propml.datasets.array_files import load_arrays
from propml.file_errors import reading
from propml.messages import argument
from propml.tables.cell_lists import holds_lists, identifier, shown
from propml.tables.labels import States
from propml.tables.table import MemoryTable, Table, checked_column
from propml.targets import CANDIDATE, Candidates

#: Who proposes the labels that an audit adds.
AUDITOR = "propml audit"
#: What the columns of a language model's answers are called.
MODEL_COLUMNS = ("item", "model", "labels")
#: How sure a vote is: a number, a list as long as that of the labels, or (JSON) an object of them.
CONFIDENCE = "confidence"
ABSTAINS = -1
MOST_CLASSES = 100_000
#: Writes votes back to a path: by item what changes, and all labels that are left.
WriteBack: TypeAlias = Callable[[Path, Mapping[str, States], Mapping[str, list[Any]]], None]


@dataclass(frozen=True)
class VoteFile:
    """The annotator table, and its columns for item, annotator and label; a cell of labels may be a list."""

    table: Table
    item: str = "item"
    annotator: str = "annotator"
    label: str = "label"
    write_back: WriteBack | None = None  #: of votes that stand in no annotator table

    def __post_init__(self) -> None:
        for name in (self.item, self.annotator, self.label):
            checked_column(self.table, name)

    def read(
        self, ids: Sequence[str], min_votes: int = 1, min_confidence: float = 0.0
    ) -> tuple[Candidates, np.ndarray, list[str]]:
        """The candidates of those of ``ids`` that were voted on, with votes; their rows; and what was left out.

        A vote that is less sure than ``min_confidence`` only looked.
        """
        proposed = self.table.cells(self.label)
        if holds_lists(proposed):
            row = next(row for row, cell in enumerate(proposed) if cell)
            told = f"{self.table.where(row, self.label)} is {shown(proposed[row])}, a list"
            raise ValueError(f"{told}; give every label of it a row of its own")
        votes: dict[tuple[str, str, str | None], float] = {}
        for vote, share in self._votes(min_confidence):
            votes[vote] = max(share, votes.get(vote, share))  # a proposal made twice counts once
        row_of = {item: row for row, item in enumerate(ids)}
        kept = [vote for vote in votes if vote[0] in row_of]
        if not kept:
            names = f"it names {next(iter(votes))[0]!r}, the data {ids[0]!r}"
            way = f"choose with {argument('id_column')} the column of identifiers that both files share"
            raise ValueError(f"no item of {self.table.path} is an identifier of the data: {names}; {way}")
        if not any(label for _, _, label in kept):
            raise ValueError(f"{self.table.path}: column {self.label!r} names no label for any item of the data")
        candidates = Candidates.from_votes(*zip(*kept, strict=True), min_votes=min_votes, empty="ignore")
        if not candidates.sizes().any():
            raise ValueError(f"no label has {min_votes} votes on any item; ask for a smaller {argument('min_votes')}")
        if (given := candidates.annotations) is not None and set(votes.values()) != {1.0}:
            labels: Any = (*candidates.labels, None)  # -1: nothing
            entries = zip(given.row.tolist(), given.annotator.tolist(), given.label.tolist(), strict=True)
            said = [(str(candidates.index[row]), str(given.names[who]), labels[label]) for row, who, label in entries]
            sure = np.array([votes[vote] for vote in said])
            candidates = replace(candidates, annotations=replace(given, confidence=sure))
        rows = np.array([row_of[str(item)] for item in candidates.index])
        order = np.argsort(rows)
        notes = []
        if strangers := len({item for item, _, _ in votes} - row_of.keys()):
            notes.append(f"{strangers} items of {self.table.path.name} are not in the data and were left out")
        return candidates[order], rows[order], notes

    def write(self, path: Path, changes: Mapping[str, States], left: Mapping[str, list[Any]]) -> None:
        """The same table without votes for labels that went, and with those of the audit for labels that came."""
        if self.write_back is not None:
            self.write_back(path, changes, left)
            return
        went, came = _went_and_came(changes)
        items, proposed = self._texts(self.item), self.table.cells(self.label)
        in_lists = any(isinstance(cell, list) for cell in proposed)
        added = [(item, AUDITOR, [label] if in_lists else label) for item, label in came]
        extra = [dict(zip((self.item, self.annotator, self.label), row, strict=True)) for row in added]
        if not in_lists:
            pairs = zip(items, map(identifier, proposed), strict=True)
            self.table.copy(path, keep=np.array([pair not in went for pair in pairs]), extra=extra)
            return

        def edit(start: int, cells: Sequence[Any]) -> Sequence[Any]:
            edited = list(cells)
            for at, cell in enumerate(cells):
                item, names = items[start + at], proposed[start + at] or ()
                if isinstance(cell, list) and len(cell) == len(names):
                    stays = [(item, identifier(name)) not in went for name in names]
                    edited[at] = list(compress(cell, stays))
            return edited

        # A list of confidences stays as long as that of the labels.
        in_step = [name for name in (self.label, CONFIDENCE) if name in self.table.names]
        self.table.copy(path, dict.fromkeys(in_step, edit), extra=extra)

    def _votes(self, min_confidence: float) -> Iterator[tuple[tuple[str, str, str | None], float]]:
        table = self.table
        confidences = {name: table.cells(name) for name in table.names if name.startswith(CONFIDENCE)}

        def sure(row: int, place: int, name: str) -> float:
            cells = (confidences[own][row] for own in (f"{CONFIDENCE}.{name}", CONFIDENCE) if own in confidences)
            value = next((cell for cell in cells if cell is not None), None)
            if isinstance(value, list | np.ndarray):
                value = value[place] if place < len(value) else None
            try:
                number = 1.0 if value in (None, "") else float(value)
                return 1.0 if number != number else number
            except (TypeError, ValueError):
                raise ValueError(f"{table.where(row, CONFIDENCE)} is {shown(value)}, expected a number") from None

        columns = zip(self._texts(self.item), self._texts(self.annotator), table.cells(self.label), strict=True)
        for row, (item, who, cell) in enumerate(columns):
            names = [identifier(name) for name in (cell if isinstance(cell, list) else [cell])]
            told = [(name, sure(row, j, name)) for j, name in enumerate(names) if name]
            counted: list[Any] = [(name, confidence) for name, confidence in told if confidence >= min_confidence]
            for name, confidence in counted or [(None, 1.0)]:  # looked, and saw nothing
                yield (item, who, name), confidence

    def _texts(self, name: str) -> list[str]:
        return [identifier(cell) for cell in self.table.cells(name)]


def read_rules(path: Path, ids: Sequence[str]) -> VoteFile:
    """The votes of a label matrix as Snorkel makes it: a row per item, a column per rule, the number of a class.

    Rows are those of the data. npz files may also hold ``label_names`` and ``rules``. A rule that abstains (-1) has not
    looked at the item.
    """
    with reading(path, "label matrix"):
        content = load_arrays(path) if path.suffix.lower() == ".npz" else {"L": np.load(path, allow_pickle=False)}
        name = next((name for name, array in content.items() if array.ndim == 2), next(iter(content)))
        matrix = content[name]
        is_matrix = matrix.ndim == 2 and matrix.dtype.kind in "iu" and matrix.size > 0
        if not is_matrix or matrix.min() < ABSTAINS or matrix.max() >= MOST_CLASSES:
            raise ValueError(f"it holds no matrix of whole numbers from -1 to {MOST_CLASSES - 1}, items by rules")
        if len(matrix) != len(ids):
            raise ValueError(f"it has {len(matrix)} rows and the data {len(ids)}; a row of each belongs together")
        labels = list(map(str, content.get("label_names", range(int(matrix.max()) + 1))))
        rules = list(map(str, content.get("rules", [f"rule {j}" for j in range(matrix.shape[1])])))
        if len(labels) <= matrix.max() or len(rules) != matrix.shape[1]:
            raise ValueError(f"it names {len(labels)} labels and {len(rules)} rules, and uses others")
    row, rule = np.nonzero(matrix != ABSTAINS)
    columns = {
        "item": [ids[i] for i in row.tolist()],
        "annotator": [rules[j] for j in rule],
        "label": [labels[number] for number in matrix[row, rule]],
    }

    def write_back(path: Path, changes: Mapping[str, States], left: Mapping[str, list[Any]]) -> None:
        went, came = _went_and_came(changes)
        row_of = {item: row for row, item in enumerate(ids)}
        n_added = Counter(item for item, _ in came)  # a rule names one label, so that two of them need two rules
        n_new = max(n_added.values(), default=0)
        made = np.pad(matrix, [(0, 0), (0, n_new)], constant_values=ABSTAINS)
        for item, label in went:
            own = made[row_of[item]]
            own[own == labels.index(label)] = ABSTAINS
        for item, label in came:
            n_added[item] -= 1
            made[row_of[item], len(rules) + n_added[item]] = labels.index(label)
        with replacing(path) as beside, beside.open("wb") as file:
            if path.suffix.lower() != ".npz":
                np.save(file, made)
                return
            named = {"rules": np.array(rules + [AUDITOR] * n_new)} if "rules" in content else {}
            np.savez_compressed(file, **{**content, name: made, **named})

    return VoteFile(MemoryTable(columns, path), write_back=write_back)


def _went_and_came(changes: Mapping[str, States]) -> tuple[set[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs of item and label."""
    pairs = {(item, label): state for item, states in changes.items() for label, state in states.items()}
    came = [pair for pair, state in pairs.items() if state == CANDIDATE]
    return pairs.keys() - set(came), came
