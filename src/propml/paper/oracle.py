"""λ and epochs of ProPML picked on the true labels of the test rows, as the paper picked them.

For comparison with published numbers only: what this returns has seen the answers.

One network per (fold, λ), all of them trained at once as one fleet on the candidates of their training rows; the λ and
the number of epochs at which the mean average precision on the test rows is best are then trained once more by
themselves. With ``early_stopping=False`` the epoch is the last one, as in the paper, and λ alone is picked.
Thresholds are not picked on truth: the one of a fold lies half-way between best candidates and best
excluded labels of its training rows, in the eyes of the networks of the other folds, which never saw those rows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import logit

from propml.devices import choose_device
from propml.folds import Fold, make_folds
from propml.jsonable import jsonable
from propml.methods.propml import ProPMLClassifier
from propml.methods.propml_arguments import recipe_of
from propml.neural.criteria import average_precision_loss, balanced_lam, get_criterion, get_loss
from propml.neural.fitting import fit_bins, fit_scaler, make_seeds
from propml.neural.fleet import Fleet, train_fleet
from propml.neural.judgement import middle_threshold
from propml.neural.network import Recipe
from propml.neural.rows import make_rows
from propml.targets import Candidates

__all__ = ["OracleScores", "best_networks", "default_lams"]

# The paper's grid ends at 0.02, which is too early; with many labels the best λ is smaller still.
LEAST_LAM, MOST_LAM, N_LAMS = 0.002, 1.0, 20
# Judged so often at most in one training.
LOOKS = 50


class OracleScores(NamedTuple):
    """The test rows of one fold: logits, predictions, seconds, and what was picked."""

    scores: np.ndarray
    predicted: np.ndarray
    seconds_fit: float
    seconds_predict: float
    chosen: dict[str, Any]


def default_lams(candidates: Candidates) -> tuple[float, ...]:
    """Twenty λ from 0.002 to 1, from further down where labels are many; logarithmic.

    >>> few, many = (default_lams(Candidates.from_matrix(np.eye(n, dtype=int))) for n in (6, 201))
    >>> few[0], round(many[0], 5), many[-1], len(many)
    (0.002, 0.0005, 1.0, 20)
    """
    least = min(LEAST_LAM, 0.1 * balanced_lam(candidates))
    return tuple(float(lam) for lam in np.geomspace(least, MOST_LAM, N_LAMS))


def best_networks(
    model: ProPMLClassifier,
    X: Any,
    candidates: Candidates,
    truth: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    lams: Sequence[float] | None = None,
    seed: int,
    verbose: bool = False,
) -> list[OracleScores]:
    """The scores of every fold's test rows, by the λ and epoch that do best on their true labels.

    Parameters
    ----------
    model : ProPMLClassifier
        Describes the network; it is not fitted.
    X, candidates, truth
        Features ``(n_samples, n_features)`` and labels ``(n_samples, n_labels)`` of all rows.
    splits : sequence of (training rows, test rows)
    lams : sequence of float, optional
        The λ to try; by default :func:`default_lams`.
    """
    start = time.perf_counter()
    states, device = candidates.to_matrix(), choose_device(model.device)
    folds = make_folds(len(candidates), list(splits), seed)
    scaler = fit_scaler(X, states, folds, get_criterion(model.criterion))
    scaled = scaler.transform(X)
    rows = make_rows(scaled, device, fit_bins(scaler, scaled, model.bins))
    learned_from = torch.as_tensor(states, device=device)
    recipe = recipe_of(model, max(len(fold.train) for fold in folds))
    settings = _settings(model, lams or default_lams(candidates))

    def train(recipe: Recipe, settings: Sequence[Mapping[str, float]], looks: int) -> Fleet:
        return train_fleet(
            rows,
            torch.as_tensor(truth, device=device),  # what networks are judged by
            folds,
            recipe,
            settings,
            seeds=make_seeds(seed, 1 if model.n_models == "auto" else model.n_models),
            loss=get_loss("propml" if model.loss == "auto" else model.loss)[0],
            criterion=average_precision_loss,
            targets=learned_from,  # what they learn from
            from_odds=model.loss != "rank",
            judge_every=max(1, recipe.epochs // looks),
            bfloat16=model.bfloat16,
            show=verbose,
        )

    curves = 1 - train(recipe, settings, LOOKS).criterion.mean(axis=2)  # (epochs, folds, settings)
    mean = np.nan_to_num(curves.mean(axis=1), nan=-np.inf)
    if not model.early_stopping:
        mean[:-1] = -np.inf
    epoch, best = (int(place) for place in np.unravel_index(mean.argmax(), mean.shape))
    fleet = train(replace(recipe, epochs=epoch + 1), [settings[best]], 1)
    fitted = time.perf_counter()
    logits = [values.mean(axis=(0, 1)) for values in fleet.held_logits(rows, folds, [0])]
    scored = time.perf_counter()
    cuts = _cuts(model, logits, states, folds)
    picked = {**settings[best], "epoch": epoch + 1}
    paths = [_path(settings, mean, curves[:, fold]) for fold in range(len(folds))]
    each = 1 / len(folds)
    return [
        OracleScores(
            values,
            (values > cut).astype(np.uint8),
            each * (fitted - start),
            each * (scored - fitted),
            jsonable({**picked, "threshold": cut, "path": path}),
        )
        for values, cut, path in zip(logits, cuts, paths, strict=True)
    ]


def _settings(model: ProPMLClassifier, lams: Sequence[float]) -> list[dict[str, float]]:
    if model.loss != "power":
        return [{"lam": lam} for lam in lams]
    return [{"lam": lam, "order": float(model.order)} for lam in lams]


def _cuts(
    model: ProPMLClassifier, logits: Sequence[np.ndarray], states: np.ndarray, folds: Sequence[Fold]
) -> list[float]:
    """For each fold the logit above which a label is predicted."""
    if not isinstance(model.threshold, str):
        return [float(logit(model.threshold))] * len(folds)
    held = np.full(states.shape, np.nan, dtype=np.float32)
    for fold, values in zip(folds, logits, strict=True):
        held[fold.held] = values
    scored = [fold.train[np.isfinite(held[fold.train, 0])] for fold in folds]
    if not all(map(len, scored)):
        raise ValueError("a threshold is chosen on rows that other folds hold out; give at least two, or a number")
    return [middle_threshold(held[rows], states[rows]) for rows in scored]


def _path(settings: Sequence[dict[str, float]], mean: np.ndarray, curve: np.ndarray) -> list[dict[str, float]]:
    """Every setting at its best epoch, with its average precision on this fold: what curves over λ are drawn from."""
    epochs = mean.argmax(axis=0)
    return [
        {**setting, "epoch": epoch + 1, "average_precision": curve[epoch, number]}
        for number, (setting, epoch) in enumerate(zip(settings, epochs, strict=True))
    ]
