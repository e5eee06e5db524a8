"""What can be searched: networks on a table, which train together, and any method or images, one trial at a time.

A trial is worth how well it ranks the labels of rows that it did not see. By default these rows are judged by their
*candidate* labels, so that a search needs no clean label. ``"oracle"`` judges them by their true labels, as the paper
did, and must be asked for by name.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch

from propml.benchmark.experiment_file import GIVEN
from propml.folds import Fold, make_folds
from propml.methods.propml import ProPMLClassifier
from propml.methods.propml_arguments import epochs_of
from propml.methods.registry import METHODS, method_class
from propml.neural.criteria import CRITERIA, get_criterion
from propml.range_scaler import RangeScaler
from propml.targets import Candidates, Features, LabelsLike, MatrixLike, as_candidates
from propml.tuning.rungs import Configuration, DeviceTable
from propml.tuning.spaces import VISION, Changes, Space, altered, space_of
from propml.vision.recipe import METHODS as LOSSES
from propml.vision.recipe import VisionRecipe, with_new_names
from propml.vision.sources import ImageSource
from propml.vision.training import train

# Settings of a recipe that the search itself decides.
OWN = ("epochs", "select", "criterion", "seed", "hold_out", "noise", "eval_every", "schedule_epochs")

# report(epoch, value): called after every epoch; whether the trial is to end there.
Report = Callable[[int, float], bool]


class Task(Protocol):
    """What is searched."""

    method: str
    title: str  # as tables print it
    space: Space
    epochs: int  # the whole budget of a trial; 1 for methods that have no epochs
    fixed: dict[str, Any]  # arguments that a configuration does not hold and the result needs
    # Whether a trial may run out of memory so that it takes its process with it, which is then not the caller's.
    is_large: bool

    def facts(self) -> dict[str, Any]:
        """What searches on one study must agree on, as plain values."""
        ...

    def run(self, configuration: Configuration, report: Report, folder: Path) -> None:
        """Train one trial, reporting after every epoch; a checkpoint in its ``folder`` is gone on from."""
        ...


class TableData:
    """Features, what is learned from and what is judged by (the ``answers``: candidates or truth), and the folds.

    The arguments are those of :func:`propml.tuning.search`; ``seed`` is that of the folds.
    """

    def __init__(
        self,
        X: Features,
        candidates: LabelsLike,
        truth: MatrixLike | None = None,
        *,
        objective: str = "candidates",
        criterion: str = "average_precision",
        cv: int = 3,
        seed: int = 0,
    ) -> None:
        if objective not in ("candidates", "oracle"):
            raise ValueError(f'objective is {objective!r}; choose "candidates", or "oracle" to judge by true labels')
        if criterion not in CRITERIA:
            raise ValueError(f"criterion is {criterion!r}; choose one of {', '.join(CRITERIA)}")
        self.objective, self.criterion, self.seed = objective, criterion, seed
        self.candidates = as_candidates(candidates, empty="ignore")
        self.n_rows = n_rows = len(self.candidates)
        self.X: Any = sp.csr_array(X).astype(np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        if self.X.ndim != 2 or self.X.shape[0] != n_rows:
            raise ValueError(f"X has shape {self.X.shape} and there are {n_rows} rows of candidates; give a row each")
        if not np.isfinite(self.X.data if sp.issparse(self.X) else self.X).all():
            raise ValueError("X has values that are not finite numbers; fill or drop them before the search")
        if not 2 <= cv <= n_rows:
            raise ValueError(f"cv is {cv} and there are {n_rows} rows; give between 2 and {n_rows} folds")
        self.folds: list[Fold] = make_folds(n_rows, cv, seed)
        self.answers = self.candidates.to_matrix()
        if objective == "oracle":
            if truth is None:
                raise ValueError('objective="oracle" judges by true labels, and none were given; pass truth')
            matrix = truth.to_matrix() if isinstance(truth, Candidates) else np.asarray(truth)
            if matrix.shape != self.answers.shape:
                raise ValueError(
                    f"truth has shape {matrix.shape} and the candidates {self.answers.shape}; they must be alike"
                )
            self.answers = (matrix > 0).astype(np.int8)

    def value(self, losses: Any) -> Any:
        """What is maximised, from the criterion, of which less is better."""
        return -losses if self.criterion == "bce" else 1 - losses

    def judged(self, probabilities: np.ndarray, fold: Fold) -> float:
        """The value of probabilities ``(len(fold.held), n_labels)``; NaN where they are not all numbers."""
        if not np.isfinite(probabilities).all():
            return float("nan")
        logits = torch.logit(torch.from_numpy(np.asarray(probabilities, dtype=np.float64)))
        losses = get_criterion(self.criterion)(logits, torch.from_numpy(self.answers[fold.held]))
        return float(self.value(losses.mean()))

    def facts(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        parts = (self.X.data, self.X.indices, self.X.indptr) if sp.issparse(self.X) else (self.X,)
        for array in (*parts, self.candidates.to_matrix(), self.answers):
            digest.update(np.ascontiguousarray(array).data)
        return {
            "objective": self.objective,
            "criterion": self.criterion,
            "folds": len(self.folds),
            "seed": self.seed,
            "data": f"{self.n_rows} × {self.X.shape[1]}, {self.answers.shape[1]} labels, {digest.hexdigest()[:16]}",
        }


class MethodTask:
    """A method on a table, fitted once per fold."""

    epochs = 1
    is_large = False

    def __init__(self, method: str, data: TableData, changes: Changes | None = None) -> None:
        self.method, self.title, self.data = method, METHODS[method].title, data
        known = [name for name in method_class(method)().get_params() if name not in GIVEN]
        self.space = altered(space_of(method, data.candidates), changes or {}, known, method)
        self.fixed: dict[str, Any] = {}

    def facts(self) -> dict[str, Any]:
        return {"method": self.method, "epochs": self.epochs, **self.data.facts()}

    @cached_property
    def _features(self) -> np.ndarray:
        """As the paper's protocol scales them, which is what the benchmark will do with the result."""
        return RangeScaler().fit_transform(self.data.X)

    def run(self, configuration: Configuration, report: Report, folder: Path) -> None:
        values = []
        for fold in self.data.folds:
            model = method_class(self.method)(**{**self.fixed, **configuration})
            model.fit(self._features[fold.train], self.data.candidates[fold.train])
            values.append(self.data.judged(model.predict_proba(self._features[fold.held]), fold))
        report(1, float(np.mean(values)))


class NetworkTask(MethodTask):
    """ProPML's networks: a whole rung of trials trains as one stacked model, see :mod:`propml.tuning.rungs`."""

    def __init__(
        self, data: TableData, changes: Changes | None = None, *, epochs: int | None = None, device: str = "auto"
    ) -> None:
        super().__init__("propml", data, changes)
        for name in ("epochs", "cv", "criterion"):
            if name in self.space:
                raise ValueError(f"{name} is the search's own argument and no dimension of the space; give it there")
        if epochs is not None and epochs < 1:
            raise ValueError(f"epochs is {epochs}; give a whole number of at least 1")
        self.epochs = epochs or epochs_of(ProPMLClassifier(), data.n_rows)
        self.device = device
        self.fixed = {"epochs": self.epochs}
        if data.criterion != "average_precision":
            self.fixed["criterion"] = data.criterion

    @cached_property
    def table(self) -> DeviceTable:
        return DeviceTable(self.data, self.device)

    def __getstate__(self) -> dict[str, Any]:
        """Another process puts the table on its own device."""
        return {name: value for name, value in self.__dict__.items() if name != "table"}


class VisionTask:
    """A network on images: every trial is a run of :func:`propml.vision.training.train`.

    The ``source`` has images with candidates, or with true labels that the recipe's noise makes candidates of. Of the
    ``recipe`` stays what is not searched; its ``epochs`` are the whole budget, its ``select`` is the objective, and
    "oracle" needs ``validation`` images with true labels. ``changes`` are those of the space, as in
    :func:`propml.tuning.search`.
    """

    method = "vision"
    is_large = True

    def __init__(
        self,
        source: ImageSource,
        recipe: VisionRecipe,
        changes: Changes | None = None,
        *,
        validation: ImageSource | None = None,
        device: str = "auto",
        cache: str | Path | None = "auto",
    ) -> None:
        if recipe.select == "last":
            raise ValueError('select is "last", which judges nothing; choose "candidates", or "oracle"')
        if recipe.select == "oracle" and validation is None:
            raise ValueError('select is "oracle" and there are no validation images with true labels; give some')
        known = [each.name for each in fields(recipe) if each.name not in OWN]
        self.space = altered(VISION, {"loss": recipe.loss, **with_new_names(changes or {})}, known, "the vision recipe")
        self.source, self.recipe, self.validation = source, recipe, validation
        self.device, self.cache = device, cache
        # The name of the method that is this loss and nothing else, such as "ProPML" for "propml".
        self.title = next(name for name, changed in LOSSES.items() if changed == {"loss": recipe.loss})
        self.epochs = recipe.epochs
        default = type(recipe)()
        self.fixed = {n: v for n, v in asdict(recipe).items() if v != getattr(default, n) and v is not None}

    def facts(self) -> dict[str, Any]:
        settings = json.dumps({n: v for n, v in asdict(self.recipe).items() if n not in self.space}, sort_keys=True)
        return {
            "method": "vision",
            "epochs": self.epochs,
            "objective": self.recipe.select,
            "criterion": "mAP" if self.recipe.select == "oracle" else self.recipe.criterion,
            "data": f"{self.source.name}, {len(self.source.items)} images, {len(self.source.label_names)} labels",
            "recipe": hashlib.sha256(settings.encode()).hexdigest()[:16],
        }

    def run(self, configuration: Configuration, report: Report, folder: Path) -> None:
        """Train one network; it continues from the checkpoint in its folder, if there is one."""
        best, stopped, out = -math.inf, False, folder / "run"

        def on_epoch(record: Mapping[str, Any]) -> bool:
            nonlocal best, stopped
            value = self.value(record)
            best = value if math.isnan(value) else max(best, value)
            stopped = report(record["epoch"], best)
            return stopped

        resume = (out / "recipe.json").exists()
        how: dict[str, Any] = {"device": self.device, "cache": self.cache, "verbose": False, "resume": resume}
        try:
            train(self.source, self.validation, replace(self.recipe, **configuration), out, on_epoch=on_epoch, **how)
        finally:
            gc.collect()  # reference cycles would hold memory that the next trial needs
        for name in ("last.safetensors", "best.safetensors") if stopped else ():  # large, and no longer needed
            (out / name).unlink()

    def value(self, record: Mapping[str, Any]) -> float:
        """The value of the better weights, raw or averaged, after an epoch."""
        column = "mAP" if self.recipe.select == "oracle" else f"held-out {self.recipe.criterion}"
        return max(record[name] for name in (f"{column} raw", f"{column} ema") if name in record)


def make_task(
    method: str, data: TableData, space: Changes | None = None, *, epochs: int | None = None, device: str = "auto"
) -> MethodTask:
    """The task of a method on a table."""
    method_class(method)
    if method == "propml":
        return NetworkTask(data, space, epochs=epochs, device=device)
    if epochs not in (None, 1):
        raise ValueError(f"{method} has no epochs to spend; leave epochs out")
    return MethodTask(method, data, space)
