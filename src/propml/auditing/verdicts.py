"""From probabilities to verdicts: keep, doubtful, drop, and labels that are probably missing.

A candidate is dropped below P(true) = 0.5, kept above 0.75, doubtful in between. The best candidate of a row is never
dropped, since a row has at least one true label; it is doubtful when it is improbable. Where candidates may be
incomplete, an excluded label with P(true) above 0.75 is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.targets import CANDIDATE, Candidates

__all__ = [
    "DROP_BELOW",
    "KEEP_ABOVE",
    "VERDICTS",
    "Verdicts",
    "best_of_row",
    "candidate_cells",
    "cleaned_candidates",
    "give_verdicts",
    "with_cells",
]

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
    """A verdict on every candidate by its P(true), and on labels that are probably missing where others may be true.

    >>> candidates = Candidates.from_matrix([[1, 1, 1], [1, 1, 0]])
    >>> verdicts = give_verdicts(np.array([[0.9, 0.1, 0.5], [0.2, 0.1, 0.0]]), candidates)
    >>> verdicts.verdict.tolist()
    ['keep', 'drop', 'doubtful', 'doubtful', 'drop']
    """
    if not 0 <= drop_below <= keep_above <= 1:
        raise ValueError(
            f"drop_below is {drop_below} and keep_above {keep_above}; give probabilities, the first not above the other"
        )
    there = candidate_cells(candidates)
    cells = np.union1d(there, np.flatnonzero(probabilities > keep_above)) if incomplete else there
    row, label = np.divmod(cells, candidates.shape[1])
    probability = probabilities[row, label].astype(np.float64)
    missing = ~np.isin(cells, there)
    verdict = np.full(len(row), "doubtful", dtype="<U8")
    verdict[probability > keep_above] = "keep"
    # A label that is missing is no candidate, and saves none from being the best of its row.
    best = best_of_row(row, np.where(missing, -1.0, probability))
    verdict[(probability < drop_below) & ~best] = "drop"
    verdict[missing] = "missing"
    improbable = (verdict == "drop") | ((verdict == "doubtful") & (probability < 0.5))
    return Verdicts(row, label, verdict, np.where(improbable, 1 - probability, probability), probability)


def candidate_cells(candidates: Candidates) -> np.ndarray:
    """Where the candidates are, as row · n_labels + label, rising."""
    cells, states = _stored(candidates)
    return np.sort(cells[states > 0])


def with_cells(candidates: Candidates, cells: np.ndarray, belongs: np.ndarray) -> Candidates:
    """The candidates with some cells, as :func:`candidate_cells` names them, made candidates or excluded."""
    old, states = _stored(candidates)
    other, chosen = ~np.isin(old, cells), cells[belongs]
    data = np.concatenate([states[other], np.full(len(chosen), CANDIDATE, dtype=np.int8)])
    at = np.divmod(np.concatenate([old[other], chosen]), candidates.shape[1])
    return replace(candidates, states=sp.coo_array((data, at), shape=candidates.shape).tocsr())


def _stored(candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
    stored = candidates.states.tocoo()
    row, label = (np.asarray(axis, dtype=np.int64) for axis in stored.coords)
    return row * candidates.shape[1] + label, stored.data


def best_of_row(row: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Where the most probable candidate of each row stands; the first one of equals."""
    order = np.lexsort((-probability, row))  # stable, so that equals stay in their order
    first = np.ones(len(row), dtype=bool)
    first[1:] = row[order][1:] != row[order][:-1]
    best = np.zeros(len(row), dtype=bool)
    best[order[first]] = True
    return best


def cleaned_candidates(candidates: Candidates, verdicts: Verdicts) -> Candidates:
    """The candidates without those that are dropped and with those that are missing.

    >>> candidates = Candidates.from_matrix([[1, 1, 1], [1, 1, 0]])
    >>> told = give_verdicts(np.array([[0.9, 0.1, 0.5], [0.2, 0.1, 0.0]]), candidates)
    >>> cleaned_candidates(candidates, told).to_matrix()
    array([[1, 0, 1],
           [1, 0, 0]], dtype=int8)
    """
    changed = verdicts[np.isin(verdicts.verdict, ("drop", "missing"))]
    return with_cells(candidates, changed.row * candidates.shape[1] + changed.label, changed.verdict == "missing")
