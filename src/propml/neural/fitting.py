"""From features and candidates to an ensemble: scaling, folds, networks, the linear partner, shares and threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from propml.neural.criteria import Criterion
from propml.neural.ensemble import Ensemble
from propml.neural.experts import Choice, Expert, choose_shares, linear_expert, train_networks
from propml.neural.features import FeatureScaler
from propml.neural.fleet import Fleet
from propml.neural.linear import LARGEST_SYSTEM, fit_linear
from propml.neural.refinement import fold_targets, pair_opinions
from propml.neural.rows import make_rows
from propml.neural.thresholds import candidate_sigmoid, middle_threshold
from propml.neural.training import Fold

# How loud rare columns of mostly-zero features may be made; the one under which a linear model predicts held-out
# candidates best is taken.
RARITIES = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Plan:
    """Everything that a fit needs to know besides the data.

    Attributes
    ----------
    choices : sequence of Choice
        The kinds of networks, each with the settings of the loss to choose from.
    first : sequence of Choice
        Networks that say how plausible each candidate is; then the losses of the others are given that, otherwise
        the candidates.
    linear : bool
        Whether a linear partner is heard too.
    may_stay_linear : bool
        Whether it is heard alone where no network beats it.
    start : mapping, optional
        Networks to go on from, by the name of their choice.
    """

    choices: Sequence[Choice]
    criterion: Criterion
    seeds: Sequence[int]
    linear: bool
    may_stay_linear: bool
    device: torch.device
    start: Mapping[str, nn.Module] | None = None
    first: Sequence[Choice] = ()
    training: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """An ensemble, and what was learned on the way.

    Attributes
    ----------
    held : ndarray, shape (n, C)
        Logits on rows that the models behind them never saw; NaN where no fold held the row out.
    """

    ensemble: Ensemble
    experts: list[Expert]
    shares: list[float]
    fleets: list[Fleet]
    held: np.ndarray


def make_folds(n: int, cv: int | Sequence[tuple[np.ndarray, np.ndarray]] | None, seed: int) -> list[Fold]:
    """Shuffled folds, or the given (train, held-out) pairs; one without held-out rows where ``cv`` is ``None``."""
    if cv is None:
        return [Fold(np.arange(n), np.arange(0), name=seed)]
    if not isinstance(cv, int):
        return [Fold(np.asarray(a), np.asarray(b), name=seed * 1000 + f) for f, (a, b) in enumerate(cv)]
    order = np.random.default_rng([seed, 5]).permutation(n)
    parts = [np.sort(part) for part in np.array_split(order, min(cv, n))]
    return [
        Fold(np.sort(np.concatenate(parts[:f] + parts[f + 1 :])), part, name=seed * 1000 + f)
        for f, part in enumerate(parts)
    ]


def make_seeds(seed: int, n_models: int) -> list[int]:
    """The seeds of the networks of a fold, none of which another seed gives."""
    return [1 + seed * 97 + i for i in range(n_models)]


def fit_scaler(X: Any, states: np.ndarray, folds: Sequence[Fold], criterion: Criterion) -> FeatureScaler:
    """The scaling; for mostly-zero features how loud rare columns are is chosen by a linear model on held-out rows."""
    plain = FeatureScaler(X.shape[1]).fit(X)
    if not plain.keeps_zeros or min(X.shape) > LARGEST_SYSTEM or len(folds) < 2:
        return plain
    candidates = torch.from_numpy(states)
    values, scalers = [], [FeatureScaler(X.shape[1]).fit(X, rarity) for rarity in RARITIES]
    fold = folds[0]
    for scaler in scalers:
        scaled = scaler.transform(X)
        coefficients, bias = fit_linear(scaled[fold.train], states[fold.train], refine=False)
        scores = torch.from_numpy(np.asarray(scaled[fold.held] @ coefficients) + bias)
        values.append(float(criterion(scores, candidates[fold.held]).mean()))
    return scalers[int(np.argmin(values))]


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
    features = sp.csr_array(scaled) if sp.issparse(scaled) else scaled
    has_partner = plan.linear and min(X.shape) <= LARGEST_SYSTEM
    linear = linear_expert(features, states, folds, weight) if has_partner else None
    rows, candidates = make_rows(scaled, plan.device), torch.as_tensor(states, device=plan.device)
    training: dict[str, Any] = {
        "seeds": plan.seeds,
        "criterion": plan.criterion,
        "example_weight": None if weight is None else torch.as_tensor(weight, dtype=torch.float32, device=plan.device),
        **plan.training,
    }
    targets = None
    if plan.first:
        opinions = pair_opinions(
            plan.first,
            rows,
            candidates,
            folds,
            linear=features if has_partner else None,
            weight=weight,
            **training,
        )
        targets = torch.as_tensor(fold_targets(opinions, states, folds), device=plan.device)
    networks, fleets = train_networks(
        plan.choices, rows, candidates, folds, targets=targets, start=plan.start, **training
    )
    shares = choose_shares(networks, linear, states, plan.criterion, weight, may_stay_linear=plan.may_stay_linear)
    experts = networks if linear is None else [*networks, linear]
    heard = [(expert, share) for expert, share in zip(experts, shares, strict=True) if share > 0]
    opinion = sum(share * expert.held for expert, share in heard)
    assert isinstance(opinion, np.ndarray)
    seen = np.isfinite(opinion[:, 0])
    slope, threshold = 1.0, 0.0
    if seen.any():
        counted = None if weight is None else weight[seen]
        slope, _ = candidate_sigmoid(opinion[seen], states[seen], counted)
        threshold = middle_threshold(opinion[seen], states[seen], counted)
    modules: list[nn.Module] = [expert.module for expert, _ in heard]
    ensemble = Ensemble(scaler, modules, [share for _, share in heard], slope, threshold)
    return Fitted(ensemble, experts, shares, fleets, slope * (opinion - threshold))
