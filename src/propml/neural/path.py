"""The λ path: what every λ is worth on held-out candidates, for the price of one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from propml.devices import choose_device
from propml.extras import require
from propml.folds import make_folds
from propml.neural.criteria import Criterion, Loss, get_criterion, get_loss, lam_grid
from propml.neural.fitting import fit_bins, fit_scaler
from propml.neural.fleet import train_fleet
from propml.neural.network import Recipe
from propml.neural.rows import make_rows
from propml.targets import as_candidates

WIDE = tuple(float(factor) for factor in np.geomspace(1 / 30, 30, 9))


@dataclass(frozen=True)
class LambdaPath:
    """The criterion for every λ and fold.

    Attributes
    ----------
    lams : ndarray, shape (n_lams,)
    values : ndarray, shape (n_lams, n_folds)
        The criterion on held-out candidates at each network's best epoch; smaller is better.
    epochs : ndarray of int, shape (n_lams, n_folds)
        The best epochs.
    """

    lams: np.ndarray
    values: np.ndarray
    epochs: np.ndarray
    criterion: str

    @property
    def best(self) -> float:
        """The λ with the least mean."""
        return float(self.lams[self.values.mean(axis=1).argmin()])

    @property
    def simplest(self) -> float:
        """The largest λ within one standard error of the best: the strictest on excluded labels."""
        mean = self.values.mean(axis=1)
        error = self.values.std(axis=1, ddof=1) / np.sqrt(self.values.shape[1])
        within = mean <= mean.min() + error[mean.argmin()]
        return float(self.lams[within].max())

    def plot(self, axis: Any = None) -> tuple[Any, Any]:
        """Mean and standard error against λ; returns the figure and its axis."""
        if axis is None:
            figure = require("matplotlib.figure", "report").Figure(figsize=(5, 3.2), layout="constrained")
            axis = figure.subplots()
        mean = self.values.mean(axis=1)
        error = self.values.std(axis=1, ddof=1) / np.sqrt(self.values.shape[1])
        axis.errorbar(self.lams, mean, error, marker="o", markersize=4, capsize=2, color="#1f3a5f")
        axis.axvline(self.best, color="#c2410c", linestyle="--", linewidth=1, label=f"best λ = {self.best:.3g}")
        axis.set(xscale="log", xlabel="λ", ylabel=f"{self.criterion} on held-out candidates")
        axis.legend(frameon=False)
        return axis.figure, axis


def lambda_path(
    X: Any,
    candidates: Any,
    lams: Sequence[float] | None = None,
    cv: int = 5,
    *,
    loss: str | Loss = "propml",
    criterion: str | Criterion = "average_precision",
    hidden: tuple[int, ...] = (256, 256),
    bins: int = 8,
    dropout: float = 0.5,
    epochs: int = 50,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    device: str = "auto",
    random_state: int = 0,
    verbose: bool = False,
) -> LambdaPath:
    """Train ``cv × len(lams)`` networks at once and judge every λ on held-out candidates, as glmnet does for its path.

    Parameters
    ----------
    X : array-like or sparse, shape (n_samples, n_features)
        Raw features; scaled here.
    candidates : candidate labels
        Anything that :func:`propml.as_candidates` takes.
    lams : sequence of float, optional
        By default nine values from 1/30 to 30 times the one where the best is expected.

    Examples
    --------
    >>> from propml.datasets import digits_mosaic
    >>> data = digits_mosaic(150)
    >>> path = lambda_path(data.X, data.candidates, [0.01, 0.1, 1.0], cv=3, hidden=(32,), epochs=5)
    >>> path.values.shape
    (3, 3)
    """
    target = as_candidates(candidates, empty="ignore")
    function, order = get_loss(loss)
    chosen = np.sort(lam_grid(target, order, WIDE) if lams is None else np.asarray(lams, dtype=float))
    if chosen.ndim != 1 or len(chosen) == 0 or not (chosen >= 0).all():
        raise ValueError(f"lams is {lams!r}; give one or more numbers of at least 0")
    features = sp.csr_array(X) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    if features.shape[0] != len(target):
        raise ValueError(f"X has {features.shape[0]} rows and the candidates {len(target)}; give one row each")
    if not 2 <= cv <= len(target):
        raise ValueError(f"cv is {cv} and there are {len(target)} rows; give between 2 and {len(target)} folds")
    judge = get_criterion(criterion)
    folds = make_folds(len(target), cv, random_state)
    states = target.to_matrix()
    place = choose_device(device)
    scaler = fit_scaler(features, states, folds, judge)
    scaled = scaler.transform(features)
    marks = torch.as_tensor(states, device=place)
    fleet = train_fleet(
        make_rows(scaled, place, fit_bins(scaler, scaled, bins)),
        marks,
        folds,
        Recipe(hidden, dropout=dropout, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate),
        [{"lam": float(lam)} for lam in chosen],
        loss=function,
        criterion=judge,
        from_odds=True,
        show=verbose,
    )
    name = criterion if isinstance(criterion, str) else getattr(criterion, "__name__", "criterion")
    title = {"average_precision": "1 − average precision"}.get(name, name)
    return LambdaPath(chosen, fleet.best[:, 0].T, fleet.best_epoch[:, 0].T, title)
