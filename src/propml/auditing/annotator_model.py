"""Who proposes what, and how reliably: annotators, the model's scores and the truth in one estimate.

The truth of label j in row i is estimated together with every annotator's two rates (Dawid and Skene, *Applied
Statistics* 28, 1979), and the cross-fitted score says how probable a label is before anybody is asked (Raykar et al.,
*JMLR* 11, 2010):

    logit P(t_ij = 1) = α_j + β u_ij,    P(vote | true) = sensitivity_a,    P(vote | false) = false-positive rate_a

Expectation: the log odds of t_ij are α_j + β u_ij, plus log(sensitivity / rate) for each annotator who proposed the
label, plus log((1 − sensitivity) / (1 − rate)) for each who looked at the row and did not. Maximisation: the rates are
weighted shares, with four made-up votes each (80 % and 10 %) so that an annotator of few votes is judged mildly;
α and β are Newton steps of a logistic regression.

Confidences are not believed but learned from: each annotator's votes fall into four levels, by quartiles of their own
confidences, and a vote of level k adds log(share of level k among votes for true labels / among votes for false ones).
Four made-up votes, spread as the levels are, make an untold level say nothing. Where all votes of an annotator are
equally sure, there is one level, and it adds zero.

Annotators are taken to err independently of each other: where they
share a confusion, the ranking stays good but too little is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from propml.targets import Annotations, Candidates

__all__ = ["AnnotatorModel", "Votes", "fit_annotators"]

ROUNDS = 100
TOLERANCE = 1e-4
# Rows that rates are learned from: more would not move them.
MOST_ROWS = 20_000
# Made-up votes, and the rates they speak for, before anybody has voted.
PRIOR_VOTES, SENSITIVITY, FALSE_POSITIVE_RATE = 4.0, 0.8, 0.1
STEEPEST = 3.0
# Levels of confidence; two and three find fewer errors (python paper/confidence.py).
LEVELS = 4


class Votes:
    """Votes in a form that blocks of rows can be taken from.

    Parameters
    ----------
    annotations : Annotations
    candidates : Candidates
        Says which entries are unknown: nobody looked at those.
    """

    def __init__(self, annotations: Annotations, candidates: Candidates) -> None:
        self.shape = candidates.shape
        self.names = annotations.names
        self.states = candidates.states
        order = np.argsort(annotations.row, kind="stable")
        self._row, self._who = annotations.row[order], annotations.annotator[order]
        self._label = annotations.label[order]
        sure = annotations.confidence
        self._level = None if sure is None else _levels(sure[order], self._who, self._label >= 0)
        seen = np.ones(len(order), dtype=np.int8)
        looked = sp.csr_array(sp.coo_array((seen, (self._row, self._who)), shape=(len(candidates), len(self.names))))
        self.looked = (looked > 0).astype(np.float64)
        self.voters = np.asarray(self.looked.sum(axis=1)).ravel()

    def cast(self, rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row (counted from the block's first), annotator and label of each vote in a block."""
        part = slice(*np.searchsorted(self._row, (rows.start, rows.stop)))
        given = self._label[part] >= 0
        return self._row[part][given] - rows.start, self._who[part][given], self._label[part][given]

    def levels(self, rows: slice) -> np.ndarray | None:
        """The level of confidence of each such vote; None where no confidence is told."""
        if self._level is None:
            return None
        part = slice(*np.searchsorted(self._row, (rows.start, rows.stop)))
        return self._level[part][self._label[part] >= 0]

    def take(self, rows: np.ndarray) -> Votes:
        """The votes on some rows, which are in rising order."""
        kept = np.isin(self._row, rows)
        annotations = Annotations(
            np.searchsorted(rows, self._row[kept]), self._who[kept], self._label[kept], self.names
        )
        taken = Votes(annotations, Candidates(self.states[rows], tuple(range(self.shape[1])), rows))
        taken._level = None if self._level is None else self._level[kept]  # quartiles are those of all votes
        return taken

    def known(self, rows: slice) -> np.ndarray:
        """Where somebody looked, ``(n, n_labels)``."""
        return (self.states[rows].toarray() >= 0) & (self.voters[rows, None] > 0)


@dataclass
class AnnotatorModel:
    """Learned rates, and the log odds of a label before anybody is asked.

    Attributes
    ----------
    alpha : ndarray, shape (n_labels,)
    beta : float
    sensitivity, false_positive_rate : ndarray, shape (n_annotators,)
    surer : ndarray, shape (n_annotators, LEVELS)
        What the level of confidence of a vote adds to the log odds.
    """

    alpha: np.ndarray
    beta: float
    sensitivity: np.ndarray
    false_positive_rate: np.ndarray
    surer: np.ndarray | None = None

    def posterior(self, evidence: np.ndarray, votes: Votes, rows: slice) -> np.ndarray:
        """P(true) of every label of a block of rows ``(n, n_labels)``, given the votes.

        Parameters
        ----------
        evidence : ndarray, shape (n, n_labels)
            The model's opinion u of these rows, as a logit.
        """
        silent = np.log1p(-self.sensitivity) - np.log1p(-self.false_positive_rate)
        proposing = np.log(self.sensitivity / self.false_positive_rate) - silent
        row, who, label = votes.cast(rows)
        voted = np.zeros(evidence.shape)
        levels = votes.levels(rows)
        sure = 0.0 if levels is None or self.surer is None else self.surer[who, levels]
        np.add.at(voted, (row, label), proposing[who] + sure)
        voted += (votes.looked[rows] @ silent)[:, None]
        return expit(self.alpha + self.beta * evidence + np.where(votes.known(rows), voted, 0.0))


def fit_annotators(
    evidence: np.ndarray, votes: Votes, at: np.ndarray | None = None, told: np.ndarray | None = None
) -> AnnotatorModel:
    """Learn rates, α and β by expectation maximisation.

    Parameters
    ----------
    evidence : ndarray, shape (n, n_labels)
        The model's opinion u of the rows that the votes are about, as a logit; constant where it has none.
    at : ndarray of int, shape (n_told, 2), optional
        Rows and labels of which the truth is told.
    told : ndarray of bool, shape (n_told,)
        That truth.
    """
    rows = slice(0, votes.shape[0])
    known = votes.known(rows)
    row, who, label = votes.cast(rows)
    truth = _vote_shares(votes, row, label)
    model = AnnotatorModel(np.full(votes.shape[1], -2.0), 0.0, np.zeros(0), np.zeros(0))
    last = np.zeros(0)
    for _ in range(ROUNDS):
        if at is not None:
            truth[at[:, 0], at[:, 1]] = told
        model.sensitivity, model.false_positive_rate = _rates(truth, known, votes, row, who, label)
        if (levels := votes.levels(rows)) is not None:
            model.surer = _surer(truth[row, label], known[row, label], who, levels, len(votes.names))
        _newton(model, truth, known, evidence)
        truth = model.posterior(evidence, votes, rows)
        now = np.concatenate([model.sensitivity, model.false_positive_rate])
        if len(last) and np.abs(now - last).max() < TOLERANCE:
            break
        last = now
    return model


def _vote_shares(votes: Votes, row: np.ndarray, label: np.ndarray) -> np.ndarray:
    """A first guess at the truth: the share of those who looked that proposed a label."""
    counts = np.zeros(votes.shape)
    np.add.at(counts, (row, label), 1.0)
    return (counts + 0.2) / (votes.voters[:, None] + 1.0)


def _rates(
    truth: np.ndarray, known: np.ndarray, votes: Votes, row: np.ndarray, who: np.ndarray, label: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    n_annotators = len(votes.names)
    rates = []
    for weight, prior in ((truth, SENSITIVITY), (1 - truth, FALSE_POSITIVE_RATE)):
        counted = np.where(known, weight, 0.0)
        chances = counted.sum(axis=1) @ votes.looked
        proposed = np.bincount(who, counted[row, label], n_annotators)
        rates.append((proposed + PRIOR_VOTES * prior) / (chances + PRIOR_VOTES))
    # Whoever proposes false labels as often as true ones tells nothing; nobody is taken to tell the opposite.
    return rates[0], np.minimum(rates[1], 0.95 * rates[0])


def _levels(confidence: np.ndarray, who: np.ndarray, given: np.ndarray) -> np.ndarray:
    """For each vote, how many quartiles of its annotator's confidences lie below it."""
    levels = np.zeros(len(who), dtype=np.int64)
    cast = np.flatnonzero(given)
    cast = cast[np.argsort(who[cast], kind="stable")]
    for own in np.split(cast, np.flatnonzero(np.diff(who[cast])) + 1):
        if len(own):
            cuts = np.quantile(confidence[own], np.arange(1, LEVELS) / LEVELS)
            levels[own] = np.searchsorted(cuts, confidence[own])
    return levels


def _surer(truth: np.ndarray, known: np.ndarray, who: np.ndarray, levels: np.ndarray, n_annotators: int) -> np.ndarray:
    """log P(level | vote for a true label) − log P(level | vote for a false one), zero for levels without votes."""
    at, size = who * LEVELS + levels, n_annotators * LEVELS
    everybody = np.bincount(at, minlength=size).reshape(-1, LEVELS)
    made_up = PRIOR_VOTES * everybody / np.maximum(everybody.sum(axis=1, keepdims=True), 1)
    shares = []
    for weight in (truth, 1 - truth):
        cast = np.bincount(at, np.where(known, weight, 0.0), size).reshape(-1, LEVELS) + made_up
        shares.append(cast / np.maximum(cast.sum(axis=1, keepdims=True), PRIOR_VOTES))
    of_true, of_false = (np.where(everybody > 0, share, 1.0) for share in shares)
    return np.log(of_true / of_false)


def _newton(model: AnnotatorModel, truth: np.ndarray, known: np.ndarray, evidence: np.ndarray, steps: int = 3) -> None:
    """A few damped Newton steps for α and β; labels of few rows are pulled to the mean α."""
    for _ in range(steps):
        prior = expit(model.alpha + model.beta * evidence)
        error, curvature = np.where(known, truth - prior, 0.0), np.where(known, prior * (1 - prior), 0.0)
        pull = model.alpha - model.alpha.mean()
        model.alpha = model.alpha + np.clip((error.sum(axis=0) - pull) / (curvature.sum(axis=0) + 1), -2, 2)
        prior = expit(model.alpha + model.beta * evidence)
        error, curvature = np.where(known, truth - prior, 0.0), np.where(known, prior * (1 - prior), 0.0)
        step = float((error * evidence).sum() / ((curvature * evidence**2).sum() + 1))
        model.beta = float(np.clip(model.beta + np.clip(step, -1, 1), 0.0, STEEPEST))
