"""How reliable labels and annotators are, by the truth that the audit itself estimates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from propml.auditing.annotator_model import Votes

__all__ = ["Reliability", "ReliabilityCounts"]


@dataclass(frozen=True)
class Reliability:
    """Rates per annotator and per label; NaN where nothing can be said.

    Attributes
    ----------
    annotators : tuple
        Names.
    items : ndarray, shape (n_annotators,)
        Rows that each one looked at.
    votes : ndarray, shape (n_annotators,)
        Labels that each one proposed.
    sensitivity, false_positive_rate : ndarray, shape (n_annotators,)
        Share of the true, and of the false, labels of those rows that each one proposed.
    precision : ndarray, shape (n_annotators,)
        Share of the proposed labels that are true.
    agreement : ndarray, shape (n_annotators,)
        Overlap with the proposals of others on rows that both saw: twice the common ones by all of both (Dice).
    label_sensitivity, label_false_positive_rate : ndarray, shape (n_labels,)
        The same two rates per label, over all who looked.
    """

    annotators: tuple
    items: np.ndarray
    votes: np.ndarray
    sensitivity: np.ndarray
    false_positive_rate: np.ndarray
    precision: np.ndarray
    agreement: np.ndarray
    label_sensitivity: np.ndarray
    label_false_positive_rate: np.ndarray


class ReliabilityCounts:
    """Sums over blocks of rows, from which the rates are made.

    Examples
    --------
    >>> from propml.targets import Candidates
    >>> seen = Candidates.from_votes(["a", "a", "b", "b"], ["eve", "tom", "eve", "tom"], ["cat", "cat", "dog", "cat"])
    >>> counts = ReliabilityCounts(Votes(seen.annotations, seen))
    >>> counts.add(slice(0, 2), np.array([[1.0, 0.0], [1.0, 0.0]]))
    >>> reliability = counts.reliability()
    >>> reliability.sensitivity, reliability.false_positive_rate, reliability.agreement
    (array([0.5, 1. ]), array([0.5, 0. ]), array([0.5, 0.5]))
    """

    def __init__(self, votes: Votes) -> None:
        self.votes = votes
        n_annotators, n_labels = len(votes.names), votes.shape[1]
        # Annotators first, then labels: both are counted alike.
        self.true, self.false, self.hits, self.slips = np.zeros((4, n_annotators + n_labels))
        self._cast, self._shared, self._both = np.zeros((3, n_annotators))

    def add(self, rows: slice, truth: np.ndarray) -> None:
        """Count a block of rows with the estimated P(true) of their labels ``(n, n_labels)``."""
        n_annotators = len(self.votes.names)
        looked, known = self.votes.looked[rows], self.votes.known(rows)
        row, who, label = self.votes.cast(rows)
        for weight, chances, proposed in ((truth, self.true, self.hits), (1 - truth, self.false, self.slips)):
            counted = np.where(known, weight, 0.0)
            chances[:n_annotators] += counted.sum(axis=1) @ looked
            chances[n_annotators:] += self.votes.voters[rows] @ counted
            np.add.at(proposed, who, counted[row, label])
            np.add.at(proposed, n_annotators + label, counted[row, label])
        # Agreement: proposals shared with each other annotator of the row, and the proposals of both.
        supporters = np.zeros(truth.shape)
        np.add.at(supporters, (row, label), 1.0)
        np.add.at(self._shared, who, 2 * (supporters[row, label] - 1))
        cast = np.zeros((len(truth), n_annotators))
        np.add.at(cast, (row, who), 1.0)
        self._cast += cast.sum(axis=0)
        block, seen_by = looked.tocoo().coords
        mine, everybody = cast[block, seen_by], cast.sum(axis=1)[block]
        np.add.at(self._both, seen_by, (self.votes.voters[rows] - 1)[block] * mine + (everybody - mine))

    def reliability(self) -> Reliability:
        """The rates of everything that was counted."""
        n_annotators = len(self.votes.names)
        sensitivity, rate = _share(self.hits, self.true), _share(self.slips, self.false)
        return Reliability(
            annotators=tuple(self.votes.names),
            items=np.asarray(self.votes.looked.sum(axis=0)).ravel().astype(np.int64),
            votes=self._cast.astype(np.int64),
            sensitivity=sensitivity[:n_annotators],
            false_positive_rate=rate[:n_annotators],
            precision=_share(self.hits[:n_annotators], self._cast),
            agreement=_share(self._shared, self._both),
            label_sensitivity=sensitivity[n_annotators:],
            label_false_positive_rate=rate[n_annotators:],
        )


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 1e-9)
