"""Experts: models that are trained fold by fold, chosen on held-out candidates, and heard together.

An expert comes with its opinion on every row from a model that never saw that row. These held-out opinions choose λ,
the share of each expert and the threshold; and they are what an audit of the labels looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from propml.neural.criteria import Criterion
from propml.neural.ensemble import Linear, Networks, Standard
from propml.neural.fleet import Fleet, Layers, Start, train_fleet
from propml.neural.linear import fit_linear
from propml.neural.recipe import Recipe
from propml.neural.rows import Rows
from propml.neural.training import Fold, Loss

SURE = 2.0  # standard errors of a difference that is taken for one


@dataclass(frozen=True)
class Expert:
    """A part of the ensemble.

    Attributes
    ----------
    name : str
    module : nn.Module
        Scaled features → standardised logits.
    held : ndarray, shape (n, C)
        Standardised logits on rows that the model behind them never saw; NaN for rows that no fold held out.
    setting : dict
        What was chosen for it, such as its λ.
    """

    name: str
    module: nn.Module
    held: np.ndarray
    setting: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """One kind of network and its loss, with the settings among which the held-out candidates choose."""

    name: str
    recipe: Recipe
    loss: Loss
    settings: Sequence[dict[str, float]]


def network_expert(
    choice: Choice, fleet: Fleet, rows: Rows, folds: Sequence[Fold], n_rows: int, offset: int = 0
) -> Expert:
    """The networks of the setting that does best on held-out candidates, one per fold and seed, as one expert.

    ``offset`` is the place of the choice's first setting among those of the fleet.
    """
    chosen = best_setting(choice, fleet, offset)
    n_folds, n_seeds, _ = fleet.best.shape
    held = np.full((n_rows, fleet.n_labels), np.nan, dtype=np.float32)
    for fold, values in zip(folds, fleet.held_logits(rows, folds, [chosen]), strict=True):
        held[fold.held] = values.mean(axis=(0, 1))
    standard = _standard(held)
    members = [fleet.layers(f, seed, chosen) for f in range(n_folds) for seed in range(n_seeds)]
    module = Networks(members, standard)
    return Expert(choice.name, module, standard.apply(held), dict(choice.settings[chosen - offset]))


def best_setting(choice: Choice, fleet: Fleet, offset: int = 0) -> int:
    """The number in the fleet of the choice's setting that does best on held-out candidates, on average."""
    numbers = range(offset, offset + len(choice.settings))
    score = np.nan_to_num(fleet.best[:, :, numbers].mean(axis=(0, 1)), nan=0.0)
    return numbers[int(score.argmin())]


def train_networks(
    choices: Sequence[Choice],
    rows: Rows,
    candidates: Tensor,
    folds: Sequence[Fold],
    *,
    seeds: Sequence[int],
    criterion: Criterion,
    start: Mapping[str, nn.Module] | None = None,
    **training: Any,
) -> tuple[list[Expert], list[Fleet]]:
    """One expert per choice; choices with the same recipe and loss are trained in one fleet.

    ``start`` holds, by the name of a choice, networks (one per fold and seed) to go on from.
    """
    experts: list[Expert] = []
    fleets: list[Fleet] = []
    for recipe, loss in dict.fromkeys((choice.recipe, choice.loss) for choice in choices):
        alike = [choice for choice in choices if (choice.recipe, choice.loss) == (recipe, loss)]
        settings = [setting for choice in alike for setting in choice.settings]
        fleet = train_fleet(
            rows,
            candidates,
            folds,
            recipe,
            settings,
            seeds=seeds,
            loss=loss,
            criterion=criterion,
            start=_starts(alike, start, len(seeds)) if start else None,
            **training,
        )
        fleets.append(fleet)
        offset = 0
        for choice in alike:
            experts.append(network_expert(choice, fleet, rows, folds, len(candidates), offset))
            offset += len(choice.settings)
    return experts, fleets


def _starts(choices: Sequence[Choice], start: Mapping[str, nn.Module], n_seeds: int) -> Start:
    """Where the network of (fold, seed, setting) starts: the last one of its choice."""
    owner = [choice.name for choice in choices for _ in choice.settings]

    def layers(fold: int, seed: int, setting: int) -> Layers | None:
        networks = start.get(owner[setting])
        number = fold * n_seeds + seed
        if not isinstance(networks, Networks) or number >= len(networks.weights[0]):
            return None
        pairs = zip(networks.weights, networks.biases, strict=True)
        return [(w[number].numpy(), b[number, 0].numpy()) for w, b in pairs]

    return layers


def linear_expert(X: Any, states: np.ndarray, folds: Sequence[Fold], weight: np.ndarray | None) -> Expert:
    """Ridge regression on candidates: fitted fold by fold for its held-out opinions, then on all rows."""
    held = np.full(states.shape, np.nan, dtype=np.float32)
    for fold in folds:
        if len(fold.held):
            held[fold.held] = linear_held(X, states, fold, weight)
    everything = np.unique(np.concatenate([np.concatenate([fold.train, fold.held]) for fold in folds]))
    coefficients, bias = fit_linear(X[everything], states[everything], None if weight is None else weight[everything])
    standard = _standard(held)
    return Expert("linear", Linear(coefficients, bias, standard), standard.apply(held))


def linear_held(X: Any, states: np.ndarray, fold: Fold, weight: np.ndarray | None) -> np.ndarray:
    """What a ridge regression on the fold's training rows says of its held-out rows, as logits."""
    part = None if weight is None else weight[fold.train]
    coefficients, bias = fit_linear(X[fold.train], states[fold.train], part)
    return _logit(np.clip(np.asarray(X[fold.held] @ coefficients) + bias, 0.01, 0.99))


def choose_shares(
    networks: Sequence[Expert],
    linear: Expert | None,
    states: np.ndarray,
    criterion: Criterion,
    weight: np.ndarray | None = None,
    *,
    may_stay_linear: bool = True,
    rounds: int = 20,
    most_rows: int = 5000,
) -> list[float]:
    """How much each expert is heard, the linear one last: shares that sum to one.

    An average predicts candidates better than each of its parts, and the false ones among them too. So what speaks for
    networks is one that wins alone: where none is better than the linear model on held-out candidates, by two standard
    errors, that stays alone (with ``may_stay_linear``). Otherwise the shares are those with which held-out candidates
    are predicted best, found by greedy selection with replacement (Caruana et al., ICML 2004): in each round the expert
    joins whose opinion, added to the sum so far, does best.
    """
    experts = [*networks, *([] if linear is None else [linear])]
    seen = np.flatnonzero(np.isfinite(experts[0].held[:, 0]))
    if len(experts) == 1 or len(seen) == 0:
        return [1 / len(experts)] * len(experts)
    rows = seen[:: len(seen) // most_rows + 1]
    opinions = torch.stack([torch.from_numpy(expert.held[rows]) for expert in experts])
    candidates = torch.from_numpy(states[rows])
    counted = torch.ones(len(rows)) if weight is None else torch.from_numpy(weight[rows]).float()
    counted = counted / counted.sum().clamp(min=1e-12)
    if linear is not None and may_stay_linear:
        *alone, by_linear = [criterion(opinion, candidates).float() for opinion in opinions]
        if not any(_is_surely_less(values, by_linear, counted) for values in alone):
            return [0.0] * len(networks) + [1.0]
    picked = np.zeros(len(experts))
    total = torch.zeros_like(opinions[0])
    for _ in range(rounds):
        values = [float(criterion(total + opinion, candidates) @ counted) for opinion in opinions]
        best = int(np.argmin(values))
        picked[best] += 1
        total = total + opinions[best]
    return [float(share) for share in picked / rounds]


def _is_surely_less(values: Tensor, others: Tensor, counted: Tensor) -> bool:
    """Whether the mean of the first is less than that of the others, row by row, by more than chance explains."""
    gain = others - values
    mean = gain @ counted
    error = ((gain - mean) ** 2 @ counted**2).sqrt()
    return bool(mean > SURE * error)


def _standard(held: np.ndarray) -> Standard:
    """Mean and deviation over the rows that were held out."""
    seen = np.isfinite(held[:, 0])
    return Standard.of(held[seen]) if seen.any() else Standard()


def _logit(p: np.ndarray) -> np.ndarray:
    return np.log(p) - np.log1p(-p)
