"""What was measured: one record per cell, with its folds, and means over them as tables print them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from propml.benchmark.wording import setting_name
from propml.noise import Noise, Setting
from propml.paper.published import Mean


@dataclass(frozen=True)
class FoldResult:
    """One fold of a cell; what was tested and its scores are None where they were left in their file."""

    fold: int
    #: Shape (n_test,): rows of a table, counted among those that have a true label, or images of the test part.
    test: Any = field(default=None, compare=False, repr=False)
    scores: Any = field(default=None, compare=False, repr=False)  #: float32, shape (n_test, n_labels)
    predicted: Any = field(default=None, compare=False, repr=False)  #: uint8, shape (n_test, n_labels)
    values: Mapping[str, float] = field(default_factory=dict)  #: metrics by name, as fractions
    seconds_fit: float = 0.0
    seconds_predict: float = 0.0
    chosen: Mapping[str, Any] = field(default_factory=dict)  #: what was chosen on the way, such as λ


@dataclass(frozen=True)
class Failure:
    """Why a cell failed: type and message of the exception, and the end of its traceback."""

    error: str
    message: str
    trace: str = ""

    @property
    def reason(self) -> str:
        """Type and message in one line."""
        return f"{self.error}: {self.message}".strip(": ").partition("\n")[0]


@dataclass(frozen=True)
class CellResult:
    """What became of a cell: its folds, or why it failed."""

    experiment: str
    dataset: str
    noise: Noise | None  #: None for candidates that come with the dataset
    method: str  #: its name in the tables
    seed: int
    key: str = ""  #: of the cell
    settings: Mapping[str, Any] = field(default_factory=dict)  #: everything that the numbers depend on
    folds: tuple[FoldResult, ...] = ()
    peak_bytes: int = 0  #: the most that was allocated on the GPU, or that the process held
    device: str = "cpu"  #: the name of the GPU, or "cpu"
    failure: Failure | None = None
    run: str = ""  #: the run that brought it
    commit: str = ""  #: of the code that made it, or its version where there is no commit
    fingerprint: str = ""  #: of the modules that made it, see :mod:`propml.benchmark.provenance`; empty for old ones

    @property
    def setting(self) -> Setting:
        return Setting(self.dataset, self.noise)

    @property
    def seconds_fit(self) -> float:
        return sum(fold.seconds_fit for fold in self.folds)

    @property
    def seconds_predict(self) -> float:
        return sum(fold.seconds_predict for fold in self.folds)

    @property
    def outcome(self) -> str:
        """Why it failed, or how many folds there are."""
        return self.failure.reason if self.failure else f"{len(self.folds)} folds"

    def __str__(self) -> str:
        return f"{setting_name(self.dataset, self.noise)} {self.method}, seed {self.seed}: {self.outcome}"


@dataclass(frozen=True)
class Results:
    """The content of a results folder."""

    cells: Sequence[CellResult]  #: those that are done, in the order in which they were added; then those that failed
    runs: Sequence[Mapping[str, Any]] = ()  #: what brought them, first one first: versions, commit, device

    @property
    def failed(self) -> list[CellResult]:
        return [cell for cell in self.cells if cell.failure]

    @property
    def done(self) -> list[CellResult]:
        return [cell for cell in self.cells if not cell.failure]

    def of(self, experiment: str) -> Results:
        """The part that belongs to one experiment."""
        return Results([cell for cell in self.cells if cell.experiment == experiment], self.runs)

    def means(self, metric: str | None = None) -> list[Mean]:
        """Means over folds and seeds, see :func:`means`; of one metric, or of all."""
        return [mean for mean in means(self.cells) if metric in (None, mean.metric)]


def load_results(folder: str | Path) -> Results:
    """What ``propml benchmark run`` has put into a folder so far."""
    from propml.benchmark.store import ResultStore

    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no results folder {folder}; `propml benchmark run` makes one")
    store = ResultStore(folder)
    return Results(store.cells(), store.runs())


def means(cells: Iterable[CellResult]) -> list[Mean]:
    """Mean and sample standard deviation over folds and seeds, in percent, in the order in which cells come."""
    values: dict[tuple[str, str, Noise | None, str, str], list[float]] = {}
    for cell in cells:
        for fold in cell.folds:
            for metric, value in fold.values.items():
                key = (cell.experiment, cell.dataset, cell.noise, cell.method, metric)
                values.setdefault(key, []).append(100 * value)
    return [
        Mean(*key, float(np.mean(some)), float(np.std(some, ddof=1)) if len(some) > 1 else nan, len(some))
        for key, some in values.items()
    ]
