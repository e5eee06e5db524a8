"""From probabilities to verdicts: keep, doubtful, drop, and labels that are probably missing.

A candidate is dropped below P(true) = 0.5, kept above 0.75, doubtful in between. The best candidate of a row is never
dropped, since a row has at least one true label; it is doubtful when it is improbable. Where candidates may be
incomplete, an excluded label with P(true) above 0.75 is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.folds import row_blocks
from propml.targets import CANDIDATE, Candidates

__all__ = ["DROP_BELOW", "KEEP_ABOVE", "VERDICTS", "Verdicts", "best_of_row", "cleaned_candidates", "give_verdicts"]

VERDICTS = ("keep", "doubtful", "drop", "missing")
DROP_BELOW, KEEP_ABOVE = 0.5, 0.75


@dataclass(frozen=True)
class Verdicts:
    """Verdicts column by column, sorted by row and label.

    Attributes
    ----------
    row, label : ndarray of int
        Positions in the candidate matrix.
    verdict : ndarray of str
        ``"keep"``, ``"doubtful"``, ``"drop"`` or ``"missing"``.
    confidence : ndarray of float
        How probable it is that the verdict is right: P(true) for keep and missing, 1 − P(true) for drop, and the larger
        of the two for doubtful.
    probability : ndarray of float
        P(true).
    """

    row: np.ndarray
    label: np.ndarray
    verdict: np.ndarray
    confidence: np.ndarray
    probability: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, which: Any) -> Verdicts:
        """Some of them: a boolean mask, positions or a slice."""
        return Verdicts(*(getattr(self, column.name)[which] for column in fields(self)))

    def __iter__(self) -> Iterator[tuple[int, int, str, float, float]]:
        columns = (getattr(self, column.name).tolist() for column in fields(self))
        return zip(*columns, strict=True)

    def counts(self) -> dict[str, int]:
        """How many verdicts of each kind there are."""
        return {name: int((self.verdict == name).sum()) for name in VERDICTS}


def give_verdicts(
    probabilities: np.ndarray,
    candidates: Candidates,
    *,
    incomplete: bool = False,
    drop_below: float = DROP_BELOW,
    keep_above: float = KEEP_ABOVE,
) -> Verdicts:
    """A verdict on every candidate and, where candidates may be incomplete, on labels that are probably missing.

    Parameters
    ----------
    probabilities : ndarray, shape (n_samples, n_labels)
        P(true).
    candidates : Candidates
    incomplete : bool
        Whether excluded (and unknown) labels may be true.
    drop_below, keep_above : float
        The cuts; see above.

    Examples
    --------
    >>> candidates = Candidates.from_matrix([[1, 1, 1], [1, 1, 0]])
    >>> verdicts = give_verdicts(np.array([[0.9, 0.1, 0.5], [0.2, 0.1, 0.0]]), candidates)
    >>> verdicts.verdict.tolist()
    ['keep', 'drop', 'doubtful', 'doubtful', 'drop']
    """
    if not 0 <= drop_below <= keep_above <= 1:
        raise ValueError(
            f"drop_below is {drop_below} and keep_above {keep_above}; give probabilities, the first not above the other"
        )
    row, label = _candidate_cells(candidates)
    probability = probabilities[row, label].astype(np.float64)
    verdict = np.full(len(row), "doubtful", dtype="<U8")
    verdict[probability > keep_above] = "keep"
    verdict[(probability < drop_below) & ~best_of_row(row, probability)] = "drop"
    confidence = np.select([verdict == "keep", verdict == "drop"], [probability, 1 - probability])
    confidence = np.where(verdict == "doubtful", np.maximum(probability, 1 - probability), confidence)
    verdicts = Verdicts(row, label, verdict, confidence, probability)
    return _joined(verdicts, _missing(probabilities, candidates, keep_above)) if incomplete else verdicts


def _candidate_cells(candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
    marked = sp.csr_array(candidates.states > 0)
    marked.sort_indices()
    row = np.repeat(np.arange(len(candidates)), np.diff(marked.indptr))
    return row, marked.indices.astype(np.int64)


def best_of_row(row: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Where the most probable candidate of each row stands; the first one of equals."""
    order = np.lexsort((-probability, row))  # stable, so that equals stay in their order
    first = np.ones(len(row), dtype=bool)
    first[1:] = row[order][1:] != row[order][:-1]
    best = np.zeros(len(row), dtype=bool)
    best[order[first]] = True
    return best


def _missing(probabilities: np.ndarray, candidates: Candidates, keep_above: float) -> Verdicts:
    rows, labels = [], []
    for block in row_blocks(*candidates.shape):
        states = candidates.states[block].toarray()
        row, label = np.nonzero((states <= 0) & (probabilities[block] > keep_above))
        rows.append(row + block.start)
        labels.append(label)
    row, label = np.concatenate(rows), np.concatenate(labels)
    probability = probabilities[row, label].astype(np.float64)
    return Verdicts(row, label, np.full(len(row), "missing", dtype="<U8"), probability, probability)


def _joined(one: Verdicts, other: Verdicts) -> Verdicts:
    both = Verdicts(*(np.concatenate([getattr(one, c.name), getattr(other, c.name)]) for c in fields(one)))
    return both[np.lexsort((both.label, both.row))]


def cleaned_candidates(
    candidates: Candidates, verdicts: Verdicts, *, may_empty: bool = False, drop_below: float = DROP_BELOW
) -> Candidates:
    """The candidates without those that are dropped and with those that are missing.

    Parameters
    ----------
    may_empty : bool
        Also remove the best candidate of a row where it lies below ``drop_below``.

    Examples
    --------
    >>> candidates = Candidates.from_matrix([[1, 1, 1], [1, 1, 0]])
    >>> told = give_verdicts(np.array([[0.9, 0.1, 0.5], [0.2, 0.1, 0.0]]), candidates)
    >>> cleaned_candidates(candidates, told).to_matrix()
    array([[1, 0, 1],
           [1, 0, 0]], dtype=int8)
    """
    gone = verdicts.verdict == "drop"
    if may_empty:
        gone = gone | ((verdicts.verdict == "doubtful") & (verdicts.probability < drop_below))
    new = verdicts.verdict == "missing"
    n_labels = candidates.shape[1]
    stored = candidates.states.tocoo()
    row, label = (part.astype(np.int64) for part in stored.coords)
    changed = verdicts.row * n_labels + verdicts.label
    stays = ~np.isin(row * n_labels + label, changed[gone | new])
    cleaned = sp.coo_array(
        (
            np.concatenate([stored.data[stays], np.full(int(new.sum()), CANDIDATE, dtype=np.int8)]),
            (np.concatenate([row[stays], verdicts.row[new]]), np.concatenate([label[stays], verdicts.label[new]])),
        ),
        shape=candidates.shape,
    )
    return Candidates(cleaned.tocsr(), candidates.labels, candidates.index, candidates.annotations)
