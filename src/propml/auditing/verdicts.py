"""From probabilities to verdicts: keep, doubtful, drop, and labels that are probably missing.

A candidate is dropped below P(true) = 0.5, kept above 0.75, doubtful in between. The best candidate of a row is never
dropped, since a row has at least one true label; it is doubtful when it is improbable. Where candidates may be
incomplete, an excluded label with P(true) above 0.75 is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from propml.targets import Candidates

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

    def __getitem__(self, which: Any) -> Self:
        """Some of them: a boolean mask, positions or a slice."""
        return type(self)(*(getattr(self, column.name)[which] for column in fields(self)))

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
    """A verdict on every candidate by its P(true), and on labels that are probably missing where others may be true."""
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
    row, label = (candidates.states > 0).nonzero()
    return np.sort(row.astype(np.int64) * candidates.shape[1] + label)


def with_cells(candidates: Candidates, cells: np.ndarray, belongs: np.ndarray) -> Candidates:
    """The candidates with some cells, as :func:`candidate_cells` names them, made candidates or excluded."""
    at = np.divmod(cells, candidates.shape[1])
    named = sp.csr_array((np.ones(len(cells), dtype=np.int8), at), shape=candidates.shape)
    chosen = sp.csr_array((belongs.astype(np.int8), at), shape=candidates.shape)
    states = candidates.states - candidates.states.multiply(named) + chosen
    states.eliminate_zeros()
    return replace(candidates, states=states)


def best_of_row(row: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Where the most probable candidate of each row stands; the first one of equals."""
    order = np.lexsort((-probability, row))  # stable, so that equals stay in their order
    best = np.zeros(len(row), dtype=bool)
    best[order[np.unique(row[order], return_index=True)[1]]] = True
    return best


def cleaned_candidates(candidates: Candidates, verdicts: Verdicts) -> Candidates:
    """The candidates without those that are dropped and with those that are missing."""
    changed = verdicts[np.isin(verdicts.verdict, ("drop", "missing"))]
    return with_cells(candidates, changed.row * candidates.shape[1] + changed.label, changed.verdict == "missing")
