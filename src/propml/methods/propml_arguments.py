"""What the arguments of :class:`~propml.methods.propml.ProPMLClassifier` mean, and which of them mean nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from propml.losses import propml_loss, rank_loss
from propml.methods.base import number_within, positive_int
from propml.neural.criteria import SPREAD, get_loss, lam_grid
from propml.neural.ensemble import Networks
from propml.neural.forest import Trees
from propml.neural.members import Choice
from propml.neural.network import Recipe
from propml.targets import Candidates

if TYPE_CHECKING:
    from propml.methods.propml import ProPMLClassifier


class Effort(NamedTuple):
    """What ``effort`` stands for."""

    steps: int  # at most
    patience: int  # steps without progress
    n_models: int  # networks per fold
    trees: Trees
    lams: dict[str, float]  # members that learn with the paper's loss, each with its multiple of the balanced λ


EFFORTS = {
    "fast": Effort(100, 20, 1, Trees(50), {"ProPML": 3.0}),
    "auto": Effort(1000, 20, 1, Trees(100, leaf=2, columns=4.0), {"ProPML": 3.0}),
    "best": Effort(
        2000, 200, 4, Trees(400, leaf=2, columns=4.0), {"ProPML": 3.0, "ProPML λ/3": 1.0, "ProPML λ/9": 1 / 3}
    ),
}
# Below so many rows nothing is held out: there is too little to judge by.
FEWEST_ROWS = 10

Pairs = list[tuple[np.ndarray, np.ndarray]]


def batch_size_of(given: int | Literal["auto"], n_rows: int) -> int:
    """Rows of a training step."""
    if given == "auto":
        return 128 if n_rows < 20_000 else min(1024, n_rows // 160)
    return positive_int("batch_size", given)


def epochs_of_steps(model: ProPMLClassifier, n_rows: int, steps: int) -> float:
    """Epochs that make so many training steps."""
    return steps / max(n_rows * 0.8 / batch_size_of(model.batch_size, n_rows), 1)


def epochs_of(model: ProPMLClassifier, n_rows: int) -> int:
    """How often a network sees all rows, at most."""
    if model.epochs == "auto":
        return int(np.clip(epochs_of_steps(model, n_rows, EFFORTS[model.effort].steps), 10, 250))
    return positive_int("epochs", model.epochs)


def widths_of(hidden: Any) -> tuple[int, ...]:
    """The widths of the hidden layers."""
    if isinstance(hidden, str) or not isinstance(hidden, Iterable):
        raise ValueError(f"hidden is {hidden!r}; give the widths of the layers, such as (256, 256), or () for none")
    return tuple(positive_int("a width in hidden", width) for width in hidden)


def recipe_of(model: ProPMLClassifier, n_rows: int, epochs: int | None = None) -> Recipe:
    """How the described network is trained on so many rows."""
    return Recipe(
        widths_of(model.hidden),
        dropout=model.dropout,
        input_dropout=model.input_dropout,
        epochs=epochs_of(model, n_rows) if epochs is None else epochs,
        batch_size=batch_size_of(model.batch_size, n_rows),
        learning_rate=model.learning_rate,
        weight_decay=model.weight_decay,
        ema=model.ema,
    )


def network_choices(
    model: ProPMLClassifier, candidates: Candidates, cv: Any, networks: dict[str, Networks]
) -> list[Choice]:
    """The kinds of networks that are trained, each with its λ; a warm start goes on from ``networks``."""
    recipe = recipe_of(model, len(candidates))
    if model.loss == "auto":
        multiples = EFFORTS[model.effort].lams
        settings = [{"lam": lam} for lam in _lams(model, candidates, 1.0, cv, tuple(multiples.values()))]
        names = tuple(multiples) if len(settings) == len(multiples) else ("ProPML",)
        choices = [
            Choice(names, recipe, propml_loss, settings),
            Choice(("ranking",), recipe, rank_loss, [{"lam": 1.0}]),
        ]
    else:
        loss, order = get_loss(model.loss)
        extra = {}
        if model.loss == "power":
            order = number_within("order", model.order, 0, np.inf, "a number of at least 0")
            extra = {"order": order}
        lams = _lams(model, candidates, order, cv)
        choices = [Choice(("network",), recipe, loss, [{"lam": lam, **extra} for lam in lams])]
    if not networks:
        return choices
    for name in (name for choice in choices for name in choice.names):
        if name not in networks:
            raise ValueError(
                f"warm_start goes on from the networks of the last fit, and {name!r} was not among them; "
                f"give the same loss, or fit a new model"
            )
    if model.lam != "auto":
        return choices
    return [
        replace(choice, settings=[{**choice.settings[0], "lam": model.lam_[name]} for name in choice.names])
        for choice in choices
    ]


def _lams(
    model: ProPMLClassifier, candidates: Candidates, order: float, cv: Any, spread: tuple[float, ...] = SPREAD
) -> list[float]:
    if model.lam != "auto":
        return [number_within("lam", model.lam, 0, np.inf, 'a number of at least 0, or "auto"')]
    if model.loss == "rank":
        return [1.0]
    if model.cv is None and len(spread) > 1:
        raise ValueError('lam="auto" needs held-out rows to choose by; give cv=5 (folds), or a number for lam')
    return lam_grid(candidates, order, (1.0,) if cv is None else spread)


def folds_of(cv: Any, n_rows: int, kept: np.ndarray | None = None) -> int | Pairs | None:
    """A number of folds, (train, held-out) pairs of row numbers, or ``None`` where nothing is held out.

    ``kept`` are the rows that are learned from, where not all are; pairs are given in numbers of all rows, and returned
    in numbers of these.
    """
    if cv is None:
        return None
    is_number = isinstance(cv, int | np.integer)
    makes_sense = cv >= 2 if is_number else isinstance(cv, Iterable) and not isinstance(cv, str)
    if not makes_sense:
        raise ValueError(f"cv is {cv!r}; give at least 2 folds, (train, held-out) pairs, or None")
    folds = int(cv) if is_number else [_checked_pair(number, pair, n_rows, kept) for number, pair in enumerate(cv)]
    if not folds:
        raise ValueError("cv holds no (train, held-out) pair; give at least one, a number of folds, or None")
    return None if (n_rows if kept is None else len(kept)) < FEWEST_ROWS else folds


def _checked_pair(number: int, pair: Any, n_rows: int, kept: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        raise ValueError(f"entry {number} of cv is {pair!r}; give pairs of row numbers, (train, held-out)")
    train, held = (np.asarray(rows) for rows in pair)
    for name, rows in (("train", train), ("held-out", held)):
        is_list = rows.ndim == 1 and len(rows) and rows.dtype.kind in "iu"
        if not is_list or rows.min() < 0 or rows.max() >= n_rows:
            raise ValueError(
                f"the {name} rows of entry {number} of cv are {rows!r}; give row numbers from 0 to {n_rows - 1}"
            )
    if len(both := np.intersect1d(train, held)):
        raise ValueError(f"entry {number} of cv trains on rows that it holds out, such as {both[0]}; take them apart")
    if kept is None:
        return train, held
    place = np.full(n_rows, -1)
    place[kept] = np.arange(len(kept))
    train, held = (place[rows][place[rows] >= 0] for rows in (train, held))
    if not len(train):
        raise ValueError(f"all train rows of entry {number} of cv have sample_weight 0; leave that pair out")
    return train, held
