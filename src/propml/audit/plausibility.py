"""How probable it is that a candidate label is true, from cross-fitted scores and candidates alone.

There is no clean label to calibrate on, but two things are known: an excluded label is false, and a row has at least
one true label among its candidates. With z the score of label j in row i, from a model that did not see the row:

1. Scores of different labels become comparable. A popular label scores high everywhere, also where it is surely
   false; s_ij = z_ij − q_j counts a score from the 90th percentile q_j that the label reaches in rows that exclude it.
2. u_ij = (s_ij − m₀) / (m₁ − m₀): where the score lies between that of false labels (m₀, the mean over excluded ones)
   and that of true ones (m₁, the median over rows of their best candidate).
3. p_ij = σ(4 w t_j (u_ij − ½)). How far scores are believed: w = d² / (d² + 1), with d the distance between candidates
   and excluded labels in standard deviations; where features tell nothing, candidates are alike. A label of its own
   distance d_j is believed by t_j = 4 d_j / d, between 0 and 1: not at all where its scores say the opposite.
4. At least one candidate is true: P(true) = p_ij / (1 − Π_{k∈S_i} (1 − p_ik)). A single candidate is true by
   assumption; of several improbable ones the least improbable gains.

``paper/audit.csv`` has the calibration error and the ranking that this gives on datasets whose truth is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from propml.targets import Candidates

__all__ = ["Standing", "at_least_one", "candidate_probabilities", "row_blocks", "score_standing"]

QUANTILE = 0.9
STEEPNESS = 4.0
# Excluded rows that a label's own percentile needs before it outweighs the label's mean.
FEW_EXCLUDED = 5
# Rows that percentiles are taken over: more would not move them.
MOST_ROWS = 50_000
# No score makes a label certain.
CERTAIN = 0.999


@dataclass(frozen=True)
class Standing:
    """How scores of different labels are put on one scale, on which false labels lie around 0 and true ones around 1.

    Attributes
    ----------
    offset : ndarray, shape (n_labels,)
        What each label reaches where it is surely false.
    false, true : float
        Mean of excluded labels and median of the best candidates, after the offset.
    weight : float
        How far the scores are believed, from 0 (they tell candidates from excluded labels by nothing) to 1.
    trust : ndarray, shape (n_labels,)
        How far those of each label are, beside the others.
    """

    offset: np.ndarray
    false: float
    true: float
    weight: float
    trust: np.ndarray

    def of(self, scores: np.ndarray) -> np.ndarray:
        """The standing ½ + t_j (u − ½) ``(n, n_labels)`` of scores; ½, which says nothing, where a score is NaN."""
        if self.true <= self.false:
            return np.full(scores.shape, 0.5)
        standing = (scores.astype(np.float64) - self.offset - self.false) / (self.true - self.false)
        return np.where(np.isfinite(standing), 0.5 + self.trust * (standing - 0.5), 0.5)

    def plausible(self, scores: np.ndarray) -> np.ndarray:
        """The probability p ``(n, n_labels)`` that a candidate with this score is true, whatever else the row holds."""
        return expit(self.weight * STEEPNESS * (self.of(scores) - 0.5))


def row_blocks(n_rows: int, n_labels: int, cells: int = 2**22) -> Iterator[slice]:
    """Rows in blocks of a few million cells, so that a large audit fits into memory."""
    step = max(1, cells // max(n_labels, 1))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def score_standing(scores: np.ndarray, candidates: Candidates) -> Standing:
    """Learn the common scale from cross-fitted scores.

    Parameters
    ----------
    scores : ndarray, shape (n_samples, n_labels)
        NaN for rows that were not judged.
    """
    offset = _offsets(scores, candidates)
    excluded, proposed, best = _Moments(len(offset)), _Moments(len(offset)), []
    for rows in row_blocks(*scores.shape):
        states = candidates.states[rows].toarray()
        above = scores[rows].astype(np.float64) - offset
        judged = np.isfinite(above)
        excluded.add(above, judged & (states == 0))
        proposed.add(above, judged & (states > 0))
        highest = np.where(judged & (states > 0), above, -np.inf).max(axis=1)
        best.append(highest[np.isfinite(highest)])
    if not excluded.count.any() or not proposed.count.any():
        return Standing(offset, 0.0, 0.0, 0.0, np.ones(len(offset)))
    false, distance = excluded.whole().mean[0], _distance(proposed.whole(), excluded.whole())[0]
    weight = max(distance, 0.0) ** 2 / (max(distance, 0.0) ** 2 + 1)
    true = float(np.median(np.concatenate(best)))
    return Standing(offset, float(false), true, float(weight), _trust(proposed, excluded, distance))


def _trust(proposed: _Moments, excluded: _Moments, distance: float) -> np.ndarray:
    """A label whose own distance is a quarter of the whole one is believed in full: false candidates lessen it, too."""
    if distance <= 0:
        return np.ones(len(proposed.count))
    own = np.where(excluded.count > 0, _distance(proposed, excluded), distance)
    # One made-up candidate at the whole distance, so that a label of few candidates is not condemned by them.
    shrunk = (proposed.count * own + distance) / (proposed.count + 1)
    return np.clip(4 * shrunk / distance, 0.0, 1.0)


def _distance(proposed: _Moments, excluded: _Moments) -> np.ndarray:
    return (proposed.mean - excluded.mean) / np.sqrt(np.maximum(excluded.variance, 1e-12))


def _offsets(scores: np.ndarray, candidates: Candidates) -> np.ndarray:
    rows = np.flatnonzero(np.isfinite(scores[:, 0]))  # a row is judged in all its labels or in none
    if not len(rows):
        return np.zeros(scores.shape[1])
    rows = rows[:: len(rows) // MOST_ROWS + 1]
    offset = np.empty(scores.shape[1])
    states = candidates.states[rows].tocsc()
    for j in range(scores.shape[1]):
        column = scores[rows, j].astype(np.float64)
        state = states[:, [j]].toarray().ravel()
        mean = column[state >= 0].mean() if (state >= 0).any() else column.mean()
        false = column[state == 0]
        reached = np.quantile(false, QUANTILE) if len(false) else mean
        offset[j] = (len(false) * reached + FEW_EXCLUDED * mean) / (len(false) + FEW_EXCLUDED)
    return offset


class _Moments:
    """Count, mean and variance of each column's marked values, which come in blocks."""

    def __init__(self, n_columns: int) -> None:
        self.count, self.total, self.squares = np.zeros((3, n_columns))

    def add(self, values: np.ndarray, marked: np.ndarray) -> None:
        picked = np.where(marked, values, 0.0)
        self.count += marked.sum(axis=0)
        self.total += picked.sum(axis=0)
        self.squares += (picked**2).sum(axis=0)

    def whole(self) -> _Moments:
        """All columns as one."""
        made = _Moments(1)
        made.count, made.total, made.squares = (
            np.array([part.sum()]) for part in (self.count, self.total, self.squares)
        )
        return made

    @property
    def mean(self) -> np.ndarray:
        return self.total / np.maximum(self.count, 1)

    @property
    def variance(self) -> np.ndarray:
        return np.maximum(self.squares / np.maximum(self.count, 1) - self.mean**2, 0.0)


def at_least_one(plausible: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Probabilities given that each row has at least one true label among those that are marked.

    >>> at_least_one(np.array([[0.5, 0.5, 0.9]]), np.array([[True, True, False]])).round(3)
    array([[0.667, 0.667, 0.9  ]])
    """
    none = np.where(among, 1 - plausible, 1.0).prod(axis=1, keepdims=True)
    return np.where(among, plausible / np.maximum(1 - none, 1e-12), plausible)


def candidate_probabilities(scores: np.ndarray, candidates: Candidates, standing: Standing) -> np.ndarray:
    """P(true) of every candidate where the candidates are complete: 0 for excluded labels, NaN for unknown ones.

    Returns
    -------
    ndarray of float32, shape (n_samples, n_labels)
    """
    made = np.zeros(scores.shape, dtype=np.float32)
    for rows in row_blocks(*scores.shape):
        states = candidates.states[rows].toarray()
        probable = np.clip(at_least_one(standing.plausible(scores[rows]), states > 0), 1 - CERTAIN, CERTAIN)
        made[rows] = np.where(states > 0, probable, np.where(states < 0, np.nan, 0.0))
    return made
