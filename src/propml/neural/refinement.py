"""The second stage: how plausible each candidate is, judged by models that saw neither its row nor the rows to come.

Networks that learn from soft targets are judged on held-out candidates, so these must not have shaped the targets, not
even by way of a first model. Hence first models are trained for *pairs* of folds: the one that leaves out folds f and g
judges the rows of g for the networks that hold out f, and the rows of f for those that hold out g.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit
from torch import Tensor

from propml.neural.ensemble import Standard
from propml.neural.experts import Choice, best_setting, linear_held
from propml.neural.fleet import train_fleet
from propml.neural.rows import Rows
from propml.neural.thresholds import candidate_sigmoid
from propml.neural.training import Fold

# How far the first opinion is believed: the other half of a target is the candidate label itself.
TRUST = 0.5


def pair_folds(folds: Sequence[Fold]) -> dict[tuple[int, int], Fold]:
    """For every two folds one that leaves out the rows of both."""
    pairs = {}
    for f, g in itertools.combinations(range(len(folds)), 2):
        train = np.intersect1d(folds[f].train, folds[g].train)
        held = np.union1d(folds[f].held, folds[g].held)
        pairs[f, g] = Fold(train, held, name=folds[f].name * 1009 + folds[g].name)
    return pairs


def pair_opinions(
    choices: Sequence[Choice],
    rows: Rows,
    candidates: Tensor,
    folds: Sequence[Fold],
    *,
    linear: Any = None,
    weight: np.ndarray | None = None,
    **training: Any,
) -> dict[tuple[int, int], np.ndarray]:
    """For every pair of folds the scores of first models on the rows of both.

    The mean of the networks' opinions, and with equal weight that of a linear model where there is one: they err in
    different ways.

    Parameters
    ----------
    linear : ndarray or csr_array, shape (n, D), optional
        Scaled features for the linear model; without them only networks are asked.
    """
    pairs = pair_folds(folds)
    parts = list(pairs.values())
    heard: list[list[np.ndarray]] = [[] for _ in parts]
    for choice in choices:
        fleet = train_fleet(rows, candidates, parts, choice.recipe, choice.settings, loss=choice.loss, **training)
        held = fleet.held_logits(rows, parts, [best_setting(choice, fleet)])
        for opinions, logits in zip(heard, held, strict=True):
            opinions.append(_standardised(logits.mean(axis=(0, 1))))
    opinions = [np.mean(each, axis=0) for each in heard]
    if linear is not None:
        states = candidates.cpu().numpy()
        for number, part in enumerate(parts):
            opinions[number] = (opinions[number] + _standardised(linear_held(linear, states, part, weight))) / 2
    return dict(zip(pairs, opinions, strict=True))


def _standardised(logits: np.ndarray) -> np.ndarray:
    return Standard.of(logits).apply(logits)


def fold_targets(opinions: dict[tuple[int, int], np.ndarray], states: np.ndarray, folds: Sequence[Fold]) -> np.ndarray:
    """Soft targets for the networks of every fold, ``(folds, n, C)``, from the opinions of the pairs' models.

    Parameters
    ----------
    opinions : dict
        For each pair the scores on its held-out rows, in their order.
    """
    pairs = pair_folds(folds)
    targets = np.repeat(states.astype(np.float16)[None], len(folds), axis=0)
    for (f, g), opinion in opinions.items():
        held = pairs[f, g].held
        for learner, judged in ((f, g), (g, f)):
            chosen = np.isin(held, folds[judged].held)
            rows = held[chosen]
            targets[learner, rows] = plausibility(opinion[chosen], states[rows])
    return targets


def plausibility(opinion: np.ndarray, states: np.ndarray) -> np.ndarray:
    """How plausible each candidate is beside the best one of its row.

    A sigmoid turns the opinion into the probability r of being a candidate. At least one candidate of a row is true, so
    the most probable one gets 1 and the others come closer to their ratio to it, half-way, as in soft bootstrapping
    (Reed et al., ICLR workshop 2015): :math:`q_i = (1 + r_i / \\max_{k \\in S} r_k) / 2`.

    Parameters
    ----------
    opinion : ndarray, shape (n, C)
    states : ndarray of int8, shape (n, C)
        1 candidate, 0 excluded, -1 unknown.

    Returns
    -------
    ndarray of float32, shape (n, C)
        In (0.5, 1] for candidates, 0 for excluded labels, -1 for unknown ones.
    """
    slope, offset = candidate_sigmoid(opinion, states)
    candidate = states > 0
    probable = np.where(candidate, expit(slope * opinion + offset), 0.0)
    largest = probable.max(axis=1, keepdims=True)
    relative = probable / np.where(largest > 0, largest, 1.0)
    return np.where(candidate, 1 - TRUST * (1 - relative), states).astype(np.float32)
