"""Columns that hold the answers: a copy of the labels, or of the truth, that was left among the features.

Four cheap checks of every feature column (``docs/audit_files.md``); the first that finds something is reported.
``tests/tables/test_tables_leaks.py`` counts the columns that they find in ten tables of the literature.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from propml.messages import argument
from propml.tables.arrays import ArrayFile
from propml.tables.cell_lists import list_in
from propml.tables.files import UserTable
from propml.tables.labels import same_spelling
from propml.tables.table import quoted_names
from propml.tables.treatments import MISSING, Category, Number, Text, Treatment
from propml.tables.values import as_numbers, as_texts
from propml.targets import Candidates

SURE, NEARLY_ALL, HALF = 0.995, 0.95, 0.5
FEWEST_ROWS, MOST_ROWS, MOST_NOTES = 30, 20_000, 5
# Words in the name of a column that say nothing about which label is meant.
PLAIN = re.compile("y|labels?|true|truth|is|has|gold|gt|target|tag|class|correct|checked")


def leaks(table: UserTable, treatments: Sequence[Treatment], X: Any) -> list[str]:
    """A sentence on each column behind the features ``X`` that seems to hold the answers."""
    if isinstance(table.source, ArrayFile):
        return []
    rows = np.unique(np.linspace(0, len(table.rows) - 1, MOST_ROWS).astype(np.int64))
    X = X[rows].tocsc() if sp.issparse(X) else X[rows]
    labels = _Labels(table.candidates[rows])
    sentences: dict[str, str] = {}
    start = 0
    for treatment in treatments:
        own = [j for j, name in enumerate(treatment.features, start) if not name.endswith(MISSING)]
        start += len(treatment.features)
        sentence = None
        if isinstance(treatment, Category | Text) or (labels.are_numbers and isinstance(treatment, Number)):
            cells = table.source.cells(treatment.name)
            sentence = labels.named_by([cells[row] for row in table.rows[rows]])
        if sentence is None and isinstance(treatment, Category | Number):
            columns = (X[:, [j]].toarray().ravel() if sp.issparse(X) else X[:, j] for j in own)
            sentence = next(filter(None, (labels.told_by(column, treatment) for column in columns)), None)
        if sentence is not None:
            sentences[treatment.name] = sentence
    notes = []
    for name in list(sentences)[:MOST_NOTES]:
        way = f"if it holds the answers, leave it out with {argument('ignore', [name])}"
        notes.append(f"column {name!r} {sentences[name]}, and is used as a feature; {way}")
    if more := list(sentences)[MOST_NOTES:]:
        notes.append(f"{len(more)} more columns seem to hold the answers: {quoted_names(more)}")
    return notes


class _Labels:
    """The labels of the rows that are looked at."""

    def __init__(self, candidates: Candidates) -> None:
        self.names = [str(name) for name in candidates.labels]
        self.are_numbers = as_numbers(self.names) is not None
        self._spelled = {same_spelling(name) for name in self.names}
        self._core = {_core(name): name for name in self.names}
        self._given = sp.csr_array(candidates.states > 0).astype(np.float64)
        self._counts = np.asarray(self._given.sum(axis=0)).ravel()

    def named_by(self, cells: Sequence[Any]) -> str | None:
        """Whether cells name labels or, where labels are numbers, candidates of their row."""
        if self.are_numbers:
            return "names a candidate of nearly every row" if self._are_candidates(as_numbers(cells)) else None
        texts = [text for text in as_texts(cells) if text is not None]
        in_lists = ((list_in(text), text) for text in texts)
        names = (re.split("[;,|/]", text.strip(" ;,|/")) if own is None else own for own, text in in_lists)
        named = sum(all(same_spelling(name) in self._spelled for name in own) for own in names)
        return "names labels" if named > len(texts) / 2 else None

    def told_by(self, column: np.ndarray, treatment: Treatment) -> str | None:
        """Whether a feature is called as a label is and says yes or no, or tells a label from the others."""
        label = self._core.get(_core(treatment.name))
        if label is not None and isinstance(treatment, Number) and len(np.unique(column)) == 2:
            yes = np.flatnonzero(column == column.max())
            if len(yes) >= FEWEST_ROWS and self._given[yes, [self.names.index(label)]].mean() >= NEARLY_ALL:
                return f"has the name of the label {label!r}, and says yes in rows that have it"
        n_others = len(column) - self._counts
        enough = np.minimum(self._counts, n_others) >= FEWEST_ROWS
        if not enough.any():
            return None
        ranks = self._given.T @ rankdata(column)
        area = (ranks - self._counts * (self._counts + 1) / 2) / np.maximum(self._counts * n_others, 1)
        surest = int(np.argmax(np.where(enough, np.abs(area - 0.5), 0.0)))
        if abs(area[surest] - 0.5) < SURE - 0.5:
            return None
        return f"alone predicts almost perfectly which rows have the label {self.names[surest]!r}"

    def _are_candidates(self, values: np.ndarray | None) -> bool:
        numbers = np.array([float(name) for name in self.names])
        if values is None or len(values) < FEWEST_ROWS or not np.isin(values, numbers).all():
            return False
        order = np.argsort(numbers)
        label = order[np.searchsorted(numbers, values, sorter=order)]
        named = np.asarray(self._given[np.arange(len(label)), label]).mean()
        by_chance = self._counts[label].mean() / len(label)
        return bool(named >= NEARLY_ALL and by_chance < HALF)


def _core(name: str) -> tuple[str, ...]:
    words = re.findall(r"[^\W_]+", name.casefold())
    return tuple(word for word in words if not PLAIN.fullmatch(word)) or tuple(words)
