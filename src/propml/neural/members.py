"""Members of the ensemble: models with held-out opinions, which choose λ, the noise rates and the threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from propml.folds import Fold
from propml.losses import rank_loss
from propml.neural.criteria import Criterion, Loss, average_precision_loss
from propml.neural.ensemble import Networks, Standard
from propml.neural.fleet import Fleet, Layers, Start, train_fleet
from propml.neural.network import Recipe
from propml.neural.rows import Rows

# Rounds of the choice of weights, and held-out rows that it looks at, at most. Ten rounds choose as well as twenty.
ROUNDS = 20
WEIGHING_ROWS = 1000
# A candidate counts its label's share of rows to minus this power, so that every label counts alike: those that are
# proposed everywhere, rightly or falsely, would otherwise decide which members are heard. ``paper/ground_choice.py``
# judges it, leaving datasets out. Where nothing says how plausible candidates are, rare ones count half-way more.
RARITY, RARITY_ALONE = 1.0, 0.5


@dataclass(frozen=True)
class Member:
    """A part of the ensemble.

    Attributes
    ----------
    name : str
    module : nn.Module
        Features → logits.
    standard : Standard
        Of the held-out logits.
    held : ndarray, shape (n, C)
        Standardised logits on rows that the model behind them never saw; NaN for rows that no fold held out.
    setting : dict
        What was chosen for it, such as its λ.
    """

    name: str
    module: nn.Module
    standard: Standard
    held: np.ndarray
    setting: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, module: nn.Module, held: np.ndarray, setting: dict[str, float] | None = None) -> Member:
        """A member from its held-out logits."""
        standard = Standard.of(held)
        return cls(name, module, standard, standard.apply(held), setting or {})


@dataclass(frozen=True)
class Choice:
    """One kind of network and its loss, with the settings of the loss.

    Attributes
    ----------
    names : tuple of str
        Members: one for each setting, or a single one, of the setting that does best on held-out candidates.
    """

    names: tuple[str, ...]
    recipe: Recipe
    loss: Loss
    settings: Sequence[dict[str, float]]


def train_networks(
    choice: Choice,
    rows: Rows,
    candidates: Tensor,
    folds: Sequence[Fold],
    *,
    seeds: Sequence[int],
    criterion: Criterion,
    start: Mapping[str, Networks],
    plausible: Tensor | None = None,
    **training: Any,
) -> tuple[list[Member], Fleet]:
    """Networks, one per fold and seed of each member; all settings are trained at once.

    ``start`` holds networks of members to go on from. ``plausible`` (folds, n, C) says how much each candidate counts
    where candidates are compared with excluded labels pair by pair.
    """
    widths = [rows.n_features, *choice.recipe.hidden, candidates.shape[1]]
    before = [start[name] for name in choice.names if name in start]
    for networks in before:
        if networks.widths() != widths:
            raise ValueError(
                f"warm_start goes on from the networks of the last fit, which had layers of {networks.widths()} units, "
                f"and now they would have {widths}; give the same layers, features and labels, or fit a new model"
            )
    fleet = train_fleet(
        rows,
        candidates,
        folds,
        choice.recipe,
        choice.settings,
        seeds=seeds,
        loss=choice.loss,
        criterion=criterion,
        targets=plausible if choice.loss is rank_loss else None,
        # A ranking does not care where labels start, and learns their order better by itself.
        from_odds=choice.loss is not rank_loss,
        start=_starts(before, len(seeds)) if before else None,
        **training,
    )
    chosen = list(range(len(choice.settings)))
    if len(choice.names) == 1:
        chosen = [int(np.nan_to_num(fleet.best.mean(axis=(0, 1)), nan=0.0).argmin())]
    held = np.full((len(chosen), *candidates.shape), np.nan, dtype=np.float32)
    for fold, values in zip(folds, fleet.held_logits(rows, folds, chosen), strict=True):
        held[:, fold.held] = values.mean(axis=0)
    places = [(f, seed) for f in range(len(folds)) for seed in range(len(seeds))]
    members = [
        Member.of(name, Networks([fleet.layers(*place, k) for place in places]), own, dict(choice.settings[k]))
        for name, k, own in zip(choice.names, chosen, held, strict=True)
    ]
    return members, fleet


def _starts(before: Sequence[Networks], n_seeds: int) -> Start:
    """Where the network of (fold, seed, setting) starts: the last one of its place."""

    def layers(fold: int, seed: int, setting: int) -> Layers | None:
        networks, number = before[setting], fold * n_seeds + seed
        if number >= len(networks.weights[0]):
            return None
        pairs = zip(networks.weights, networks.biases, strict=True)
        return [(w[number].numpy(), b[number, 0].numpy()) for w, b in pairs]

    return layers


def chosen_weights(
    members: Sequence[Member],
    states: np.ndarray,
    criterion: Criterion,
    weight: np.ndarray | None = None,
    plausible: np.ndarray | None = None,
    rarity: float | None = None,
) -> list[float]:
    """The members' weights, which sum to 1, chosen on held-out candidates by greedy selection with replacement.

    In each of 20 rounds the member is added that makes the average best by the criterion; its weight is how often that
    happened (Caruana et al.: *Ensemble selection from libraries of models*, ICML 2004). By average precision,
    candidates of rare labels count more (``rarity``; by default :data:`RARITY` or :data:`RARITY_ALONE`), and each as
    much as it is ``plausible`` (n, C), if that is given. Where nothing was held out, members weigh the same.
    """
    held = [member.held for member in members]
    seen = np.flatnonzero(np.isfinite([opinion[:, 0] for opinion in held]).all(axis=0))
    if len(members) == 1 or not len(seen):
        return [1 / len(members)] * len(members)
    if len(seen) > WEIGHING_ROWS:
        seen = np.sort(np.random.default_rng(0).choice(seen, WEIGHING_ROWS, replace=False))
    opinions = torch.from_numpy(np.stack([opinion[seen] for opinion in held]))
    candidates = torch.from_numpy(states[seen]).expand(len(members), -1, -1)
    if criterion is average_precision_loss:
        share = np.maximum((states[seen] > 0).mean(axis=0), 1 / len(seen))
        if rarity is None:
            rarity = RARITY_ALONE if plausible is None else RARITY
        counts = share**-rarity if plausible is None else share**-rarity * plausible[seen]
        criterion = partial(criterion, counts=torch.as_tensor(counts, dtype=opinions.dtype))
    counted = torch.ones(len(seen)) if weight is None else torch.as_tensor(weight[seen], dtype=torch.float32)
    alone = (criterion(opinions, candidates) * counted).sum(dim=1)
    added, total = np.zeros(len(members)), torch.zeros_like(opinions[0])
    for count in range(1, ROUNDS + 1):
        values = (criterion((total + opinions) / count, candidates) * counted).sum(dim=1)
        best = int((values + 1e-6 * alone).argmin())  # of equals the one that is better alone
        added[best] += 1
        total = total + opinions[best]
    return (added / ROUNDS).tolist()


def average_opinion(heard: Sequence[tuple[Member, float]]) -> np.ndarray:
    """The members' average held-out opinion, ``(n, C)``."""
    return np.sum([weight * member.held for member, weight in heard], axis=0)
