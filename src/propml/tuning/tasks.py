"""What can be searched: networks on a table, which train together; and everything else, one trial at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from propml.benchmark.experiment_file import GIVEN
from propml.durable import replacing
from propml.methods.propml import ProPMLClassifier
from propml.methods.propml_arguments import epochs_of
from propml.methods.registry import METHODS, method_class
from propml.range_scaler import RangeScaler
from propml.tuning.objective import TableData
from propml.tuning.spaces import Space, altered, space_of

__all__ = ["MethodTask", "NetworkTask", "Pruned", "Report", "Task", "make_task"]

# report(epoch, value): called after every epoch; raises Pruned where the trial is to end.
Report = Callable[[int, float], None]


class Pruned(Exception):
    """A trial is to stop now."""


class Task(Protocol):
    """What is searched.

    Attributes
    ----------
    method : str
    title : str
        As tables print it.
    space : dict
    epochs : int
        The whole budget of a trial; 1 for methods that have no epochs.
    fixed : dict
        Arguments that a configuration does not hold and the result needs.
    is_large : bool
        Whether a trial may run out of memory so that it takes its process with it, which is then not the caller's; and
        keeps its own checkpoints in its folder, too large to be sent around.
    """

    method: str
    title: str
    space: Space
    epochs: int
    fixed: dict[str, Any]
    is_large: bool

    def facts(self) -> dict[str, Any]:
        """What searches on one study must agree on, as plain values."""
        ...

    def run(self, configuration: Mapping[str, Any], report: Report, folder: Path | None) -> dict[str, Any]:
        """Train one trial and report after every epoch; returns further facts of it.

        ``folder`` is the trial's own; where it holds a checkpoint, training goes on from there.
        """
        ...


class MethodTask:
    """A method without epochs, fitted once per fold.

    Examples
    --------
    >>> from propml.datasets import digits_mosaic
    >>> made = digits_mosaic(60)
    >>> task = MethodTask("ridge", TableData.of(made.X, made.candidates), {"alpha": (1, 100)})
    >>> task.run({"alpha": 10.0}, lambda epoch, value: print(epoch, value > 0.4), None)
    1 True
    {}
    """

    epochs = 1
    is_large = False

    def __init__(self, method: str, data: TableData, changes: Mapping[str, Any] | None = None) -> None:
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

    def run(self, configuration: Mapping[str, Any], report: Report, folder: Path | None) -> dict[str, Any]:
        values = []
        for fold in self.data.folds:
            model = method_class(self.method)(**{**self.fixed, **configuration})
            model.fit(self._features[fold.train], self.data.candidates[fold.train])
            values.append(self.data.judged(model.predict_proba(self._features[fold.held]), fold))
        report(1, float(np.mean(values)))
        return {}


class NetworkTask(MethodTask):
    """ProPML's networks: a whole rung of trials trains as one stacked model, see :mod:`propml.tuning.rungs`."""

    def __init__(
        self,
        data: TableData,
        changes: Mapping[str, Any] | None = None,
        *,
        epochs: int | None = None,
        device: str = "auto",
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
    def networks(self) -> Any:
        from propml.tuning.rungs import Networks

        return Networks(self.data, self.device)

    def rung(self, configurations: Sequence[Mapping[str, Any]]) -> Any:
        """These trials in training together."""
        from propml.tuning.rungs import Rung

        return Rung(self.networks, configurations, self.epochs)

    def run(self, configuration: Mapping[str, Any], report: Report, folder: Path | None) -> dict[str, Any]:
        """One trial alone, with a checkpoint after every epoch."""
        rung, epoch = self.rung([configuration]), 0
        kept = None if folder is None else folder / "checkpoint.pt"
        if kept is not None and kept.exists():
            epoch = rung.load(kept)
        while epoch < self.epochs:
            epoch += 1
            value = float(rung.train_to(epoch)[0])
            if rung.why:
                raise ValueError(rung.why[0])
            if kept is not None:
                with replacing(kept) as beside:
                    rung.save(beside)
            report(epoch, value)
        return {"best_epoch": int(rung.best_epochs()[0])}

    def __getstate__(self) -> dict[str, Any]:
        """Another process puts the table on its own device."""
        return {name: value for name, value in self.__dict__.items() if name != "networks"}


def make_task(
    method: str,
    data: TableData,
    space: Mapping[str, Any] | None = None,
    *,
    epochs: int | None = None,
    device: str = "auto",
) -> MethodTask:
    """The task of a method on a table."""
    method_class(method)
    if method == "propml":
        return NetworkTask(data, space, epochs=epochs, device=device)
    if epochs not in (None, 1):
        raise ValueError(f"{method} has no epochs to spend; leave epochs out")
    return MethodTask(method, data, space)
