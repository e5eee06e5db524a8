"""From features and candidates to an ensemble: scaling, bins, members, noise rates and threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from propml.folds import Fold
from propml.neural.criteria import Criterion
from propml.neural.encoding import FeatureScaler, QuantileBins
from propml.neural.ensemble import Ensemble, Networks
from propml.neural.fleet import Fleet
from propml.neural.forest import Trees, fit_forest
from propml.neural.judgement import (
    SHARE,
    balanced_threshold,
    candidate_sigmoid,
    f1_threshold,
    middle_threshold,
    noise_floor,
    true_logits,
)
from propml.neural.linear import fit_linear, is_solvable, linear_models
from propml.neural.members import Choice, Member, average_opinion, chosen_weights, train_networks
from propml.neural.rows import make_rows

# How loud rare columns of mostly-zero features may be made; the one under which a linear model predicts held-out
# candidates best is taken.
RARITIES = (0.0, 0.5, 1.0)

Cut = Literal["auto", "f1", "hamming"]


@dataclass(frozen=True)
class Plan:
    """Everything that a fit needs to know besides the data.

    Attributes
    ----------
    choices : sequence of Choice
        The kinds of networks, each with the settings of its loss.
    trees : Trees or None
        Of the forest, whose splits look at more columns where features are mostly zero; None for no forest.
    linear : bool
        Whether ridge regression is averaged in; it is left out where it would take long.
    bins : int
        Quantile bins of each numeric column; 0 for none.
    noise : bool
        Whether each label's noise rate is estimated and taken away.
    cut : {"auto", "f1", "hamming"}
        What the threshold is good for.
    start : mapping
        Networks to go on from, by the names of their members.
    training : mapping
        Further arguments of :func:`propml.neural.fleet.train_fleet`.
    """

    choices: Sequence[Choice]
    criterion: Criterion
    seeds: Sequence[int]
    trees: Trees | None
    linear: bool
    bins: int
    noise: bool
    cut: Cut
    device: torch.device
    start: Mapping[str, Networks]
    training: Mapping[str, Any]


@dataclass(frozen=True)
class Fitted:
    """An ensemble, and what was learned on the way.

    Attributes
    ----------
    weights : dict
        The weight of each member; those of weight 0 are not part of the ensemble.
    held : ndarray, shape (n, C)
        Logits on rows that the models behind them never saw; NaN where no fold held the row out.
    """

    ensemble: Ensemble
    members: list[Member]
    weights: dict[str, float]
    fleets: list[Fleet]
    held: np.ndarray


def make_seeds(seed: int, n_models: int) -> list[int]:
    """The seeds of the networks of a fold, none of which another seed gives."""
    return [1 + seed * 97 + i for i in range(n_models)]


def fit_scaler(X: Any, states: np.ndarray, folds: Sequence[Fold], criterion: Criterion) -> FeatureScaler:
    """The scaling; for mostly-zero features how loud rare columns are is chosen by a linear model on held-out rows."""
    plain = FeatureScaler(X.shape[1]).fit(X)
    if not plain.keeps_zeros or len(folds) < 2 or not is_solvable(X, states.shape[1], len(RARITIES)):
        return plain
    candidates = torch.from_numpy(states)
    values, scalers = [], [FeatureScaler(X.shape[1]).fit(X, rarity) for rarity in RARITIES]
    fold = folds[0]
    for scaler in scalers:
        scaled = scaler.transform(X)
        coefficients, bias = fit_linear(scaled[fold.train], states[fold.train])
        scores = torch.from_numpy(np.asarray(scaled[fold.held] @ coefficients) + bias)
        values.append(float(criterion(scores, candidates[fold.held]).mean()))
    return scalers[int(np.argmin(values))]


def fit_bins(scaler: FeatureScaler, scaled: Any, bins: int) -> QuantileBins | None:
    """Quantile bins of the scaled training rows; none for mostly-zero features, whose zeros stay zeros."""
    return None if scaler.keeps_zeros or not bins else QuantileBins.of(scaled, bins)


def fit_ensemble(
    X: Any, states: np.ndarray, folds: Sequence[Fold], plan: Plan, weight: np.ndarray | None = None
) -> Fitted:
    """Train everything the plan names and put it together.

    Parameters
    ----------
    X : ndarray or csr_array, shape (n, D)
        Raw features.
    states : ndarray of int8, shape (n, C)
        1 candidate, 0 excluded, -1 unknown.
    weight : ndarray, shape (n,), optional
        How much each row counts, 1 on average.
    """
    scaler = fit_scaler(X, states, folds, plan.criterion)
    scaled = scaler.transform(X)
    bins = fit_bins(scaler, scaled, plan.bins)
    rows, candidates = make_rows(scaled, plan.device, bins), torch.as_tensor(states, device=plan.device)
    row_weight = None if weight is None else torch.as_tensor(weight, dtype=torch.float32, device=plan.device)
    others: list[Member] = []
    plausible = None
    if plan.linear and is_solvable(X, states.shape[1], 4 * len(folds)):  # two models, one of them by halves too
        linear, held, judged = linear_models(scaled, states, folds, weight)
        others.append(Member.of("linear", linear, held))
        plausible = None if judged is None else torch.as_tensor(judged, device=plan.device)
    if plan.trees is not None:
        # Of mostly-zero columns few say anything about the rows of a node, so a split looks at more of them.
        trees = plan.trees if scaler.keeps_zeros else plan.trees._replace(columns=1.0)
        forest, held = fit_forest(scaled, states, weight, trees=trees, seed=plan.seeds[0])
        others.append(Member.of("forest", forest, held))
    members: list[Member] = []
    fleets = []
    for choice in plan.choices:
        own, fleet = train_networks(
            choice,
            rows,
            candidates,
            folds,
            seeds=plan.seeds,
            criterion=plan.criterion,
            start=plan.start,
            plausible=plausible,
            example_weight=row_weight,
            **plan.training,
        )
        members += own
        fleets.append(fleet)
    members += others
    weights = chosen_weights(
        members, states, plan.criterion, weight, plausibility_of(members, states, weight) if plan.noise else None
    )
    heard = [(member, share) for member, share in zip(members, weights, strict=True) if share]
    opinion = average_opinion(heard)
    ensemble = Ensemble(
        scaler,
        bins,
        [member.module for member, _ in heard],
        [member.standard for member, _ in heard],
        [share for _, share in heard],
        *_judgement(opinion, states, plan, weight),
    )
    with torch.no_grad():
        held = ensemble.judged(torch.from_numpy(opinion).double()).numpy() - ensemble.threshold
    return Fitted(
        ensemble, members, dict(zip([m.name for m in members], weights, strict=True)), fleets, held.astype(np.float32)
    )


def plausibility_of(members: Sequence[Member], states: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
    """How likely each candidate is true, in the members' equal opinion; NaN for rows that no fold held out."""
    opinion = average_opinion([(member, 1 / len(members)) for member in members])
    seen = np.isfinite(opinion[:, 0])
    if not seen.any():
        return None
    _, _, logits, floor = _calibrated(opinion[seen], states[seen], None if weight is None else weight[seen])
    plausible = np.full(states.shape, np.nan)
    plausible[seen] = (true_logits(logits, SHARE * floor).sigmoid() / logits.sigmoid()).numpy()
    return plausible


def _calibrated(
    scores: np.ndarray, states: np.ndarray, weight: np.ndarray | None
) -> tuple[float, float, torch.Tensor, torch.Tensor]:
    """Slope and offset of the sigmoid, the logits of P(candidate) that they give, and each label's noise floor."""
    slope, offset = candidate_sigmoid(scores, states, weight)
    logits = torch.from_numpy(slope * scores + offset).double()
    return slope, offset, logits, torch.from_numpy(noise_floor(logits.numpy()))


def _judgement(
    opinion: np.ndarray, states: np.ndarray, plan: Plan, weight: np.ndarray | None
) -> tuple[float, float, np.ndarray, float]:
    """Slope and offset of the sigmoid, noise rates and threshold, from held-out opinions."""
    seen = np.isfinite(opinion[:, 0])
    if not seen.any():
        return 1.0, 0.0, np.zeros(states.shape[1]), 0.0
    marks, counted = states[seen], None if weight is None else weight[seen]
    slope, offset, logits, floor = _calibrated(opinion[seen], marks, counted)
    rate = SHARE * floor if plan.noise else torch.zeros_like(floor)
    judged = true_logits(logits, rate).numpy()
    threshold = _threshold(judged, logits, floor, marks, plan.cut, counted)
    return slope, offset, rate.numpy(), threshold


def _threshold(
    judged: np.ndarray,
    logits: torch.Tensor,
    floor: torch.Tensor,
    states: np.ndarray,
    cut: Cut,
    weight: np.ndarray | None,
) -> float:
    """The cut on the logits of P(true)."""
    middle = middle_threshold(judged, states, weight)
    if cut == "hamming":
        return middle
    # An excluded label is false; a candidate is true with P(true) / P(candidate), by the full floor: the cautious end.
    true = true_logits(logits, floor).sigmoid().numpy()
    plausible = np.where(states > 0, true / torch.sigmoid(logits).numpy(), np.where(states < 0, true, 0.0))
    best = f1_threshold(judged, np.clip(plausible, 0, 1), weight)
    return best if cut == "f1" else balanced_threshold(judged, best, middle, weight)
