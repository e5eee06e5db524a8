"""From cross-fitted scores to P(true): how probable a label is given that it is, or is not, a candidate.

**The model.** A false label is proposed all the same with the rate ρ; a true one is lost with the rate β (0 where
candidates are complete). With t the probability that the label is true in row x, it is a candidate with

    c = (1 − β) t + ρ (1 − t)

so P(false | candidate) = ρ (1 − β − c) / ((1 − ρ − β) c), and P(true | excluded) = β (c − ρ) / ((1 − ρ − β) (1 − c)).

**What data tell.** c is the calibrated score: a logistic regression of "is a candidate" on the score and on the
label's log odds, fitted on all rows and labels together. ρ is not known, but bounded from above: in the quarter of
rows with a label's lowest scores, the label is a candidate in a share ρ + (1 − ρ) t ≥ ρ of them. A label that is
frequent and hard to predict has a high share without any noise, so the bound says little about it. Rare labels pin ρ:
if one rate holds for all labels, it is at most the lowest bound. The same holds for β, in the rows with the highest
scores.

**What is assumed** (``noise=``):

* ``"auto"``: the cautious end. One rate for all labels, the tenth percentile of their bounds, less five points; above
  0.2 only where scores tell rows apart well: for a quarter of the labels, odds of being a candidate that are e² times
  higher at the top than at the bottom. Labels with a higher bound than others get more, by the 0.3rd power of its
  odds, and no label more than its own bound less five points; of fewer than five candidates none is called false.
* ``"uniform"``: one rate for all labels, the lower quartile of the bounds.
* ``"by-label"``: each label's bound is its rate. Right where every label is surely false in many rows.
* ``"confusions"``: false labels look like true ones, so no row tells them apart; P(true) is c, the score itself.
* a number, or one for each label: the share of the candidates that is false.

``paper/audit.py choice`` judges the constants, leaving datasets out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import expit, logit

from propml.messages import argument
from propml.targets import Candidates

AssumedNoise = Literal["auto", "uniform", "by-label", "confusions"] | float | Mapping[Any, float]
NOISES = ("auto", "uniform", "by-label", "confusions")
# In how many of the rows with a label's lowest scores it is marked, and how many rows that are.
Extremes = tuple[np.ndarray, np.ndarray]

# The shares of rows with a label's lowest and with its highest scores, and how few they may be.
LOWEST, HIGHEST = (0.25, 30), (0.02, 10)
# Which of the labels' bounds is taken for the one rate, what is taken off, and how far a label's own bound moves it.
AUTO_QUANTILE, AUTO_MARGIN, AUTO_POWER = 0.1, 0.05, 0.3
# The log odds ratio of top and bottom, in the upper quartile of the labels, from which higher rates are believed.
CONTRAST, UNCONTRASTED_RATE = 2.0, 0.2
UNIFORM_QUANTILE = 0.25
# Labels with fewer candidates say nothing about the rate of all labels, nor about their own.
FEW_CANDIDATES = 5
# Rows and cells that calibration and bounds are computed from: more would not move them.
MOST_ROWS, MOST_CELLS = 50_000, 300_000
# Rates and probabilities stay within these.
SMALLEST_RATE, LARGEST_RATE, CERTAIN = 1e-6, 0.95, 0.999
# Where no noise shows, so few false labels are taken to be proposed: candidates are ranked, and none is dropped.
UNNOTICED_RATE = 1e-4
# Shifts of the log odds of ρ that reviewed labels may choose, and how widely the shift of all labels, and a label's own
# one around it, is expected to vary (standard deviations).
SHIFTS, SHARED_SHIFT, OWN_SHIFT = np.linspace(-4, 8, 49), 2.0, 0.7
# From here on P(false) goes to 1 only slowly, so that it still orders what the model calls certainly false.
SURE = 0.9


@dataclass(frozen=True)
class NoiseModel:
    """What :func:`fit_noise` learned; arrays have an entry for each label.

    logit c = ``slope`` · score + ``offset`` + ``level``. ``share`` says in how many of the known rows a label is a
    candidate; ``rate`` is ρ, ``most`` the largest one that data allow, ``lost`` is β. ``noticed`` says whether there is
    noise by what data tell or the user states (elsewhere P(true) stays above ½), ``confusions`` whether P(true) is c.
    """

    slope: float
    offset: float
    level: np.ndarray
    share: np.ndarray
    rate: np.ndarray
    most: np.ndarray
    lost: np.ndarray
    noticed: np.ndarray
    confusions: bool = False

    def logits(self, scores: np.ndarray) -> np.ndarray:
        """Logit of P(candidate); where a score is NaN, that of the label's share of candidates."""
        scores = scores.astype(np.float64)
        logits = self.slope * scores + self.offset + self.level
        return np.where(np.isfinite(scores), np.clip(logits, -12, 12), logit(self.share))

    def of_candidates(self, scores: np.ndarray) -> np.ndarray:
        """P(true | candidate), ``(n, n_labels)``, whatever else the row holds."""
        candidate = expit(self.logits(scores))
        if self.confusions:
            return candidate
        return _p_true(candidate, self.rate, self.lost, self.noticed)

    def of_others(self, scores: np.ndarray) -> np.ndarray:
        """P(true | excluded), ``(n, n_labels)``."""
        candidate = expit(self.logits(scores))
        odds = self.lost / (1 - self.rate - self.lost)
        return np.clip(odds * np.maximum(candidate - self.rate, 0) / (1 - candidate), 0, SURE)

    def false_shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest share of each label's candidates that is false, ``(n_labels,)`` each."""
        if self.confusions:
            return np.zeros(len(self.share)), np.ones(len(self.share))
        odds = (1 - self.share) / self.share
        low, high = (np.clip(rate / (1 - rate) * odds, 0, 1) for rate in (self.rate, self.most))
        return low, high


def fit_noise(
    scores: np.ndarray, candidates: Candidates, noise: AssumedNoise = "auto", *, incomplete: bool = False
) -> NoiseModel:
    """Calibrate scores and find the rates.

    Scores ``(n_samples, n_labels)`` are of models that did not see the row; NaN for rows that were not judged.
    ``noise`` is what is assumed about false candidates, ``incomplete`` whether true labels may be missing from them.
    """
    shares = given_shares(noise, candidates.labels)
    rows = np.flatnonzero(np.isfinite(scores[:, 0]))  # a row is judged in all its labels or in none
    rows = rows[:: len(rows) // MOST_ROWS + 1]
    states = candidates.states[rows].toarray()
    known, proposed = states >= 0, states > 0
    counts, chances = proposed.sum(axis=0), known.sum(axis=0)
    share = np.clip((counts + 0.5) / (chances + 1), 1e-6, 1 - 1e-6)
    stated = ~np.isnan(shares)
    if not len(rows):
        share = np.clip(((candidates.states > 0).sum(axis=0) + 0.5) / (len(candidates) + 1), 1e-6, 1 - 1e-6)
        rate = np.where(stated, _rate_of_share(shares, share), UNNOTICED_RATE)
        return NoiseModel(0.0, 0.0, logit(share), share, rate, np.full_like(share, LARGEST_RATE), 0 * share, stated)
    judged = scores[rows].astype(np.float64)
    slope, offset, weight = _calibrated(judged, states, logit(share))
    enough = counts >= FEW_CANDIDATES
    bottom = _extremes(judged, proposed, known, np.full(len(share), LOWEST[0]), LOWEST[1])
    top = _extremes(-judged, proposed, known, np.full(len(share), HIGHEST[0]), HIGHEST[1])
    highest = LARGEST_RATE if _contrast(top, bottom, enough) >= CONTRAST else UNCONTRASTED_RATE
    rate, noticed = _rates(noise if isinstance(noise, str) else "auto", bottom, highest, enough)
    rate, most = (np.where(stated, _rate_of_share(shares, share), each) for each in (rate, _most(bottom)))
    lost = np.zeros_like(rate)
    if incomplete:
        # Upside down: where a label's scores are highest, the share of rows without it bounds how often it is lost.
        without = _extremes(-judged, known & ~proposed, known, share / 2, FEW_CANDIDATES)
        missed, shows = _rates("auto", without, highest, enough)
        lost = np.minimum(missed, 0.9 - rate) if shows else lost
    level = weight * logit(share)
    return NoiseModel(slope, offset, level, share, rate, most, lost, stated | noticed, noise == "confusions")


def given_shares(noise: AssumedNoise, labels: Sequence[Any]) -> np.ndarray:
    """The shares that the user states, ``(n_labels,)``, NaN where they are to be estimated."""
    shares, told = np.full(len(labels), np.nan), argument("noise")
    if isinstance(noise, str):
        if noise not in NOISES:
            names = ", ".join(NOISES)
            raise ValueError(f"{told} is {noise!r}; choose one of {names}, or give the share that is false")
        return shares
    place = {str(label): j for j, label in enumerate(labels)} | {label: j for j, label in enumerate(labels)}
    for label, value in noise.items() if isinstance(noise, Mapping) else [(label, noise) for label in labels]:
        if label not in place:
            some = ", ".join(map(str, labels[:8]))
            raise ValueError(f"{told} names the label {label!r}, which no row has; there are {some}")
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < 1:
            own = f"{told} of {label!r}" if isinstance(noise, Mapping) else told
            raise ValueError(f"{own} is {value!r}; give the share of candidates that is false, at least 0 and below 1")
        shares[place[label]] = value
    return shares


def _rate_of_share(false: np.ndarray, share: np.ndarray) -> np.ndarray:
    """ρ of labels of whose candidates a given share is false; NaN where none is given."""
    odds = false * share / (1 - share)
    return np.clip(odds / (1 + odds), SMALLEST_RATE, LARGEST_RATE)


def _calibrated(scores: np.ndarray, states: np.ndarray, log_odds: np.ndarray) -> tuple[float, float, float]:
    """Slope, offset, and weight of the labels' log odds."""
    from sklearn.linear_model import LogisticRegression

    # Whole rows: every so-manyth cell might always be of the same label.
    step = scores.size // MOST_CELLS + 1
    inside = states[::step] >= 0
    target = states[::step][inside] > 0
    level = np.broadcast_to(log_odds, scores.shape)[::step][inside]
    own = scores[::step][inside]
    centre, scale = float(own.mean()), float(own.std())
    if not target.any() or target.all() or scale < 1e-12:
        return 0.0, 0.0, 1.0
    model = LogisticRegression(C=1e3).fit(np.column_stack([(own - centre) / scale, level]), target)
    slope, weight = model.coef_[0]
    if slope <= 0:  # the model tells nothing: a label's share of candidates is all there is
        return 0.0, 0.0, 1.0
    return float(slope / scale), float(model.intercept_[0] - slope * centre / scale), float(weight)


def _extremes(scores: np.ndarray, marked: np.ndarray, known: np.ndarray, part: np.ndarray, fewest: int) -> Extremes:
    counts, sizes = np.zeros((2, scores.shape[1]))
    for j in range(scores.shape[1]):
        if len(own := np.flatnonzero(known[:, j])):
            size = min(len(own), max(round(part[j] * len(own)), fewest))
            lowest = own[np.argpartition(scores[own, j], size - 1)[:size]]
            counts[j], sizes[j] = marked[lowest, j].sum(), size
    return counts, sizes


def _most(bottom: Extremes) -> np.ndarray:
    """The largest rates that counts allow: one standard error more than their share."""
    counts, sizes = bottom
    return np.clip((counts + 1 + np.sqrt(counts + 1)) / (sizes + 2), SMALLEST_RATE, LARGEST_RATE)


def _contrast(top: Extremes, bottom: Extremes, enough: np.ndarray) -> float:
    """How much more often labels are candidates at the top than at the bottom: a log odds ratio."""
    if not enough.any():
        return 0.0
    high, low = (logit((counts + 0.5) / (sizes + 1)) for counts, sizes in (top, bottom))
    return float(np.quantile((high - low)[enough], 0.75))


def _rates(noise: str, bottom: Extremes, highest: float, enough: np.ndarray) -> tuple[np.ndarray, bool]:
    """The rate of each label, and whether there is noise at all; ``highest`` is the most that "auto" believes."""
    counts, sizes = bottom
    bounds, most = counts / np.maximum(sizes, 1), _most(bottom)
    if noise == "by-label":
        return np.clip(bounds, SMALLEST_RATE, LARGEST_RATE), True
    telling = bounds[enough] if enough.any() else np.zeros(1)
    if noise == "uniform":
        return np.minimum(np.clip(np.quantile(telling, UNIFORM_QUANTILE), SMALLEST_RATE, LARGEST_RATE), most), True
    shared = np.quantile(telling, AUTO_QUANTILE) - AUTO_MARGIN
    own = logit(np.clip((counts + 0.5) / (sizes + 1), 1e-4, 0.98))
    moved = AUTO_POWER * (own - np.median(own[enough] if enough.any() else own))
    # The margin holds for each label too: scores that tell its rows apart badly leave a bound as high as its share of
    # candidates, and all of them would seem false.
    own_most = np.where(enough, np.maximum(bounds - AUTO_MARGIN, UNNOTICED_RATE), UNNOTICED_RATE)
    rate = np.minimum(expit(logit(np.clip(shared, UNNOTICED_RATE, highest)) + moved), own_most)
    return np.clip(rate, SMALLEST_RATE, LARGEST_RATE), bool(shared > UNNOTICED_RATE)


def reviewed_rates(model: NoiseModel, scores: np.ndarray, at: np.ndarray, truth: np.ndarray) -> NoiseModel:
    """The model with rates by which the truth of reviewed candidates is most probable.

    ``at`` has the row and label of each, ``(n_reviewed, 2)``. People look at suspicious candidates first. That does no
    harm: their scores, by which they were chosen, are given.
    """
    if not len(at) or model.confusions:
        return model
    own = at[:, 1]
    candidate = expit(np.array([model.logits(scores[row])[label] for row, label in at.tolist()]))
    noticed = model.noticed | bool((~truth).any())
    shifted = np.minimum(expit(logit(model.rate) + SHIFTS[:, None]), model.most)  # (n_shifts, n_labels)
    true = np.clip(_p_true(candidate, shifted[:, own], model.lost[own], noticed[own]), 1e-3, 1 - 1e-3)
    likelihood = np.log(np.where(truth, true, 1 - true))
    shared = SHIFTS[np.argmax(likelihood.sum(axis=1) - (SHIFTS / SHARED_SHIFT) ** 2 / 2)]
    of_label = np.zeros((len(SHIFTS), len(model.rate)))
    np.add.at(of_label.T, own, likelihood.T)
    best = np.argmax(of_label - (((SHIFTS - shared) / OWN_SHIFT) ** 2 / 2)[:, None], axis=0)
    return replace(model, rate=shifted[best, np.arange(len(best))], noticed=noticed)


def _p_true(candidate: np.ndarray, rate: np.ndarray, lost: np.ndarray, noticed: np.ndarray) -> np.ndarray:
    """P(true | candidate)."""
    false = rate / (1 - rate - lost) * np.maximum(1 - lost - candidate, 1e-6) / candidate
    slow = np.where(false < SURE, false, 1 - (1 - SURE) * SURE / np.maximum(false, SURE))
    return 1 - np.where(noticed, slow, false / (1 + 2 * false))
