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

Annotators are taken to err independently of each other: where they share a confusion, the ranking stays good but too
little is dropped.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from propml.jsonable import unboxed
from propml.messages import did_you_mean
from propml.target_checks import is_missing
from propml.targets import Annotations, Candidates

ROUNDS = 100
TOLERANCE = 1e-4
# Rows that rates are learned from: more would not move them.
MOST_ROWS = 20_000
# Made-up votes, and the rates they speak for, before anybody has voted.
PRIOR_VOTES, SENSITIVITY, FALSE_POSITIVE_RATE = 4.0, 0.8, 0.1
STEEPEST = 3.0
# Levels of confidence; two and three find fewer errors (python paper/confidence.py).
LEVELS = 4
# Of a table of votes.
COLUMNS = ("item", "annotator", "label")
CONFIDENCE = "confidence"


def annotations_of(votes: Any, candidates: Candidates) -> Annotations | None:
    """The votes on these candidates: those given, or those that the candidates hold.

    A table has the columns item (as in ``candidates.index``), annotator, label and maybe confidence, by default 1.
    """
    if votes is None:
        return candidates.annotations
    if isinstance(votes, Annotations):
        for name, limit in (("row", len(candidates)), ("annotator", len(votes.names)), ("label", candidates.shape[1])):
            if (most := getattr(votes, name).max(initial=-1)) >= limit:
                raise ValueError(f"votes name {name} {most}, and there are {limit}, counted from 0")
        return votes
    present = list(getattr(votes, "columns", votes if isinstance(votes, Mapping) else ()))
    if lacking := [name for name in COLUMNS if name not in present]:
        needed = ", ".join(COLUMNS)
        raise ValueError(f"votes has no column {lacking[0]!r}; give a DataFrame or mapping with the columns {needed}")
    items, people, labels = ([unboxed(cell) for cell in votes[name]] for name in COLUMNS)
    sure = votes[CONFIDENCE] if CONFIDENCE in present else [1.0] * len(items)
    confidence = [1.0 if is_missing(cell) else float(cell) for cell in sure]
    if not len(items) == len(people) == len(labels) == len(confidence):
        raise ValueError(f"votes has {len(items)} items, {len(people)} annotators and {len(labels)} labels")
    row_of, label_of = finder(candidates.index, "item"), finder(candidates.labels, "label")
    names = {who: number for number, who in enumerate(dict.fromkeys(people))}
    surest: dict[tuple[int, int, int], float] = {}
    for line, (item, who, label) in enumerate(zip(items, people, labels, strict=True)):
        where = f"row {line} of votes: "
        vote = (row_of(item, where), names[who], -1 if is_missing(label) else label_of(label, where))
        surest[vote] = max(confidence[line], surest.get(vote, confidence[line]))
    table = np.array(sorted(surest), dtype=np.int64).reshape(-1, 3)
    told = np.array([surest[vote] for vote in sorted(surest)]) if CONFIDENCE in present else None
    return Annotations(table[:, 0], table[:, 1], table[:, 2], tuple(names), told)


def finder(names: Iterable[Hashable], what: str) -> Callable[[Hashable, str], int]:
    """A function that tells where a name stands, by itself or by its text: files hand numbers over as text."""
    places: dict[Hashable, int | None] = {}
    for place, name in enumerate(map(unboxed, names)):
        for key in {name, str(name)}:
            places[key] = None if key in places else place

    def find(name: Hashable, where: str) -> int:
        key = name if name in places else str(name)
        if key not in places:
            meant = did_you_mean(name, places, "are these the decisions or votes of another audit?")
            raise ValueError(f"{where}there is no {what} {name!r} in what was audited; {meant}")
        if (place := places[key]) is None:
            raise ValueError(f"{where}several {what}s are called {name!r}; audit again with a name of its own for each")
        return place

    return find


class Votes:
    """The votes on candidates, in a form that blocks of rows can be taken from."""

    def __init__(self, candidates: Candidates) -> None:
        votes = candidates.annotations
        assert votes is not None
        self.shape, self.states, self.names = candidates.shape, candidates.states, votes.names
        self._votes = votes.entries(np.argsort(votes.row, kind="stable"))
        self._level = _levels(self._votes)
        seen = np.ones(len(votes.row), dtype=np.int8)
        looked = sp.csr_array(sp.coo_array((seen, (votes.row, votes.annotator)), (len(candidates), len(votes.names))))
        self.looked = (looked > 0).astype(np.float64)
        self.voters = np.asarray(self.looked.sum(axis=1)).ravel()

    def cast(self, rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Row (counted from the block's first), annotator, label and level of confidence of each vote in a block."""
        first, end = np.searchsorted(self._votes.row, (rows.start, rows.stop))
        given = first + np.flatnonzero(self._votes.label[first:end] >= 0)
        votes = self._votes.entries(given)
        return votes.row - rows.start, votes.annotator, votes.label, self._level[given]

    def known(self, rows: slice) -> np.ndarray:
        """Where somebody looked, ``(n, n_labels)``; nobody did where an entry is unknown."""
        return (self.states[rows].toarray() >= 0) & (self.voters[rows, None] > 0)


@dataclass
class AnnotatorModel:
    """α of each label, β, and of each annotator both rates and what each of the LEVELS adds to the log odds."""

    alpha: np.ndarray
    beta: float
    sensitivity: np.ndarray
    false_positive_rate: np.ndarray
    surer: np.ndarray

    def posterior(self, evidence: np.ndarray, votes: Votes, rows: slice) -> np.ndarray:
        """P(true) of every label of a block ``(n, n_labels)``, given the model's opinion u of it and the votes."""
        silent = np.log1p(-self.sensitivity) - np.log1p(-self.false_positive_rate)
        proposing = np.log(self.sensitivity / self.false_positive_rate) - silent
        row, who, label, level = votes.cast(rows)
        voted = np.zeros(evidence.shape)
        np.add.at(voted, (row, label), proposing[who] + self.surer[who, level])
        voted += (votes.looked[rows] @ silent)[:, None]
        return expit(self.alpha + self.beta * evidence + np.where(votes.known(rows), voted, 0.0))


def fit_annotators(
    evidence: np.ndarray, votes: Votes, at: np.ndarray | None = None, told: np.ndarray | None = None
) -> AnnotatorModel:
    """Learn rates, α and β by expectation maximisation.

    ``evidence`` is the model's opinion u of the rows that the votes are about, ``(n, n_labels)``, constant where it has
    none. ``at`` has rows and labels of which the truth is told, ``(n_told, 2)``, and ``told`` that truth.
    """
    rows = slice(0, votes.shape[0])
    known = votes.known(rows)
    row, who, label, level = votes.cast(rows)
    # A first guess at the truth: the share of those who looked that proposed a label.
    truth = np.full(votes.shape, 0.2)
    np.add.at(truth, (row, label), 1.0)
    truth /= votes.voters[:, None] + 1.0
    last = np.zeros(0)
    model = AnnotatorModel(np.full(votes.shape[1], -2.0), 0.0, last, last, last)
    for _ in range(ROUNDS):
        if at is not None:
            truth[at[:, 0], at[:, 1]] = told
        rates = []
        for weight, prior in ((truth, SENSITIVITY), (1 - truth, FALSE_POSITIVE_RATE)):
            counted = np.where(known, weight, 0.0)
            chances = counted.sum(axis=1) @ votes.looked
            proposed = np.bincount(who, counted[row, label], len(votes.names))
            rates.append((proposed + PRIOR_VOTES * prior) / (chances + PRIOR_VOTES))
        # Whoever proposes false labels as often as true ones tells nothing; nobody is taken to tell the opposite.
        model.sensitivity, model.false_positive_rate = rates[0], np.minimum(rates[1], 0.95 * rates[0])
        model.surer = _surer(truth[row, label], known[row, label], who, level, len(votes.names))
        _newton(model, truth, known, evidence)
        truth = model.posterior(evidence, votes, rows)
        now = np.concatenate([model.sensitivity, model.false_positive_rate])
        if len(last) and np.abs(now - last).max() < TOLERANCE:
            break
        last = now
    return model


def _levels(votes: Annotations) -> np.ndarray:
    """For each vote, how many quartiles of its annotator's confidences lie below it."""
    levels = np.zeros(len(votes.row), dtype=np.int64)
    if votes.confidence is None:
        return levels
    cast = np.flatnonzero(votes.label >= 0)
    cast = cast[np.argsort(votes.annotator[cast], kind="stable")]
    for own in np.split(cast, np.flatnonzero(np.diff(votes.annotator[cast])) + 1):
        if len(own):
            cuts = np.quantile(votes.confidence[own], np.arange(1, LEVELS) / LEVELS)
            levels[own] = np.searchsorted(cuts, votes.confidence[own])
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


def _newton(model: AnnotatorModel, truth: np.ndarray, known: np.ndarray, evidence: np.ndarray) -> None:
    """A few damped Newton steps for α and β; labels of few rows are pulled to the mean α."""

    def slopes() -> tuple[np.ndarray, np.ndarray]:
        prior = expit(model.alpha + model.beta * evidence)
        return np.where(known, truth - prior, 0.0), np.where(known, prior * (1 - prior), 0.0)

    for _ in range(3):
        error, curvature = slopes()
        pull = model.alpha - model.alpha.mean()
        model.alpha = model.alpha + np.clip((error.sum(axis=0) - pull) / (curvature.sum(axis=0) + 1), -2, 2)
        error, curvature = slopes()
        step = float((error * evidence).sum() / ((curvature * evidence**2).sum() + 1))
        model.beta = float(np.clip(model.beta + np.clip(step, -1, 1), 0.0, STEEPEST))


@dataclass(frozen=True)
class Reliability:
    """Rates per annotator and per label, by the truth that the audit itself estimates; NaN where nothing can be said.

    ``items`` are the rows that each annotator looked at, ``votes`` the labels that each proposed. ``sensitivity`` and
    ``false_positive_rate`` are the shares of the true, and of the false, labels of those rows that each proposed,
    ``precision`` that of the proposed labels that are true. ``agreement`` is the overlap with the proposals of others
    on rows that both saw: twice the common ones by all of both (Dice). The rates of a label are over all who looked.
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


def reliability_of(votes: Votes, blocks: Iterable[tuple[slice, np.ndarray]]) -> Reliability:
    """Count all blocks of rows, each with the estimated P(true) of its labels ``(n, n_labels)``."""
    n = len(votes.names)
    # Annotators first, then labels: both are counted alike.
    true, false, hits, slips = np.zeros((4, n + votes.shape[1]))
    n_cast, shared, both = np.zeros((3, n))
    for rows, truth in blocks:
        looked, known = votes.looked[rows], votes.known(rows)
        row, who, label, _ = votes.cast(rows)
        for weight, chances, proposed in ((truth, true, hits), (1 - truth, false, slips)):
            counted = np.where(known, weight, 0.0)
            chances[:n] += counted.sum(axis=1) @ looked
            chances[n:] += votes.voters[rows] @ counted
            np.add.at(proposed, who, counted[row, label])
            np.add.at(proposed, n + label, counted[row, label])
        # Agreement: proposals shared with each other annotator of the row, and the proposals of both.
        supporters = np.zeros(truth.shape)
        np.add.at(supporters, (row, label), 1.0)
        np.add.at(shared, who, 2 * (supporters[row, label] - 1))
        cast = np.zeros((len(truth), n))
        np.add.at(cast, (row, who), 1.0)
        n_cast += cast.sum(axis=0)
        block, seen_by = looked.tocoo().coords
        mine, everybody = cast[block, seen_by], cast.sum(axis=1)[block]
        np.add.at(both, seen_by, (votes.voters[rows] - 1)[block] * mine + (everybody - mine))
    items = np.asarray(votes.looked.sum(axis=0)).ravel().astype(np.int64)
    sensitivity, rate = _share(hits, true), _share(slips, false)
    of_people = (sensitivity[:n], rate[:n], _share(hits[:n], n_cast), _share(shared, both))
    return Reliability(votes.names, items, n_cast.astype(np.int64), *of_people, sensitivity[n:], rate[n:])


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 1e-9)
