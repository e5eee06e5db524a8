"""What the arguments of :class:`~propml.methods.propml.ProPMLClassifier` mean, and which of them mean nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propml.losses import propml_loss, rank_loss
from propml.neural.criteria import LOSSES, SPREAD, get_loss, lam_grid
from propml.neural.members import Choice
from propml.neural.network import Recipe
from propml.targets import Candidates

if TYPE_CHECKING:
    from propml.methods.propml import ProPMLClassifier


class Effort(NamedTuple):
    """What ``effort`` stands for.

    Training steps at most and without progress, networks per fold, trees of a forest, and members that learn with the
    paper's loss, each with its multiple of the balanced λ.
    """

    steps: int
    patience: int
    n_models: int
    trees: int
    lams: dict[str, float]


EFFORTS = {
    "fast": Effort(100, 30, 1, 50, {"ProPML": 3.0}),
    "auto": Effort(1000, 40, 1, 100, {"ProPML": 3.0}),
    "best": Effort(2000, 200, 4, 400, {"ProPML": 3.0, "ProPML λ/3": 1.0, "ProPML λ/9": 1 / 3}),
}
# Below so many rows nothing is held out: there is too little to judge by.
FEWEST_ROWS = 10

Pairs = list[tuple[np.ndarray, np.ndarray]]


def positive_int(name: str, value: Any) -> int:
    """The number, if it is a whole one of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} is {value!r}; give a whole number of at least 1")
    return int(value)


def number_or_auto(name: str, value: Any, lowest: float, below: float, told: str) -> Any:
    """``"auto"``, or the number, if it lies in [lowest, below)."""
    if isinstance(value, str) and value == "auto":
        return value
    known = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    if not known or not lowest <= value < below:
        raise ValueError(f'{name} is {value!r}; give {told}, or "auto"')
    return float(value)


def choice_of(name: str, value: Any, known: Iterable[str]) -> str:
    """The value, if it is one of those that are known."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(known)}")
    return value


def flag_or_auto(name: str, value: Any) -> Any:
    """``"auto"``, or whether it is so."""
    if (isinstance(value, str) and value == "auto") or isinstance(value, bool | np.bool_):
        return value
    raise ValueError(f'{name} is {value!r}; give True, False, or "auto"')


def batch_size_of(model: ProPMLClassifier, n_rows: int) -> int:
    """Rows of a training step."""
    if model.batch_size == "auto":
        return 128 if n_rows < 20_000 else min(1024, n_rows // 160)
    return positive_int("batch_size", model.batch_size)


def epochs_of(model: ProPMLClassifier, n_rows: int) -> int:
    """How often a network sees all rows, at most."""
    if model.epochs == "auto":
        return int(np.clip(EFFORTS[model.effort].steps / max(n_rows * 0.8 / batch_size_of(model, n_rows), 1), 10, 250))
    return positive_int("epochs", model.epochs)


def epochs_of_steps(model: ProPMLClassifier, n_rows: int, steps: int) -> int:
    """Epochs that make so many training steps, at least one."""
    return max(1, round(steps / max(n_rows * 0.8 / batch_size_of(model, n_rows), 1)))


def hidden_of(model: ProPMLClassifier) -> tuple[int, ...]:
    """The widths of the hidden layers."""
    hidden = model.hidden
    if isinstance(hidden, str) or not isinstance(hidden, Iterable):
        raise ValueError(f"hidden is {hidden!r}; give the widths of the layers, such as (256, 256), or () for none")
    return tuple(positive_int("a width in hidden", width) for width in hidden)


def recipe_of(model: ProPMLClassifier, n_rows: int, epochs: int | None = None) -> Recipe:
    """How the described network is trained on so many rows."""
    return Recipe(
        hidden_of(model),
        dropout=model.dropout,
        input_dropout=model.input_dropout,
        epochs=epochs_of(model, n_rows) if epochs is None else epochs,
        batch_size=batch_size_of(model, n_rows),
        learning_rate=model.learning_rate,
        weight_decay=model.weight_decay,
        ema=model.ema,
    )


def network_choices(model: ProPMLClassifier, candidates: Candidates, cv: Any) -> list[Choice]:
    """The kinds of networks that are trained, each with its λ."""
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
        choices = [_named_choice(model, candidates, cv, recipe)]
    return _gone_on(model, choices) if goes_on(model) else choices


def goes_on(model: ProPMLClassifier) -> bool:
    """Whether a warm start has networks to go on from."""
    return bool(model.warm_start and getattr(model, "_networks", None))


def _named_choice(model: ProPMLClassifier, candidates: Candidates, cv: Any, recipe: Recipe) -> Choice:
    """The network of a named loss, or of a function."""
    loss, order = get_loss(model.loss)
    extra = {}
    if model.loss == "power":
        order = number_or_auto("order", model.order, 0, np.inf, "a number of at least 0")
        order = LOSSES["power"][1] if order == "auto" else order
        extra = {"order": order}
    lams = _lams(model, candidates, order, cv)
    return Choice(("network",), recipe, loss, [{"lam": lam, **extra} for lam in lams])


def _gone_on(model: ProPMLClassifier, choices: list[Choice]) -> list[Choice]:
    """The choices with the λ that they had, where none is given now."""
    for name in (name for choice in choices for name in choice.names):
        if name not in model._networks:
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
    lam = number_or_auto("lam", model.lam, 0, np.inf, "a number of at least 0")
    if lam != "auto":
        return [lam]
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
    if isinstance(cv, str) or not (cv is None or isinstance(cv, int | np.integer | Iterable)) or isinstance(cv, bool):
        raise ValueError(f"cv is {cv!r}; give at least 2 folds, (train, held-out) pairs, or None")
    if cv is None:
        return None
    if isinstance(cv, int | np.integer):
        if cv < 2:
            raise ValueError(f"cv is {cv!r}; give at least 2 folds, (train, held-out) pairs, or None")
        return None if _n_kept(n_rows, kept) < FEWEST_ROWS else int(cv)
    pairs = [_checked_pair(number, pair, n_rows) for number, pair in enumerate(cv)]
    if not pairs:
        raise ValueError("cv holds no (train, held-out) pair; give at least one, a number of folds, or None")
    if kept is not None:
        place = np.full(n_rows, -1)
        place[kept] = np.arange(len(kept))
        pairs = [(place[train][place[train] >= 0], place[held][place[held] >= 0]) for train, held in pairs]
        for number, (train, _) in enumerate(pairs):
            if not len(train):
                raise ValueError(f"all train rows of entry {number} of cv have sample_weight 0; leave that pair out")
    return None if _n_kept(n_rows, kept) < FEWEST_ROWS else pairs


def _n_kept(n_rows: int, kept: np.ndarray | None) -> int:
    return n_rows if kept is None else len(kept)


def _checked_pair(number: int, pair: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        raise ValueError(f"entry {number} of cv is {pair!r}; give pairs of row numbers, (train, held-out)")
    train, held = (np.asarray(rows) for rows in pair)
    for name, rows in (("train", train), ("held-out", held)):
        if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "iu":
            raise ValueError(f"the {name} rows of entry {number} of cv are {rows!r}; give one or more row numbers")
        if rows.min() < 0 or rows.max() >= n_rows:
            raise ValueError(
                f"the {name} rows of entry {number} of cv reach from {rows.min()} to {rows.max()}, "
                f"and there are rows 0 to {n_rows - 1}"
            )
    if len(both := np.intersect1d(train, held)):
        raise ValueError(f"entry {number} of cv trains on rows that it holds out, such as {both[0]}; take them apart")
    return train, held
