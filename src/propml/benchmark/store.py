"""The results of a folder: text that only grows, with kept scores beside it.

::

    results.jsonl   one block of rows per cell: its values (one row per fold and metric), what its folds chose and cost,
                    and the cell itself with all of its settings; or one row that says how it failed
    runs.jsonl      one line per run that added something: versions, commit, machine; rows name their run
    scores/         test rows, scores and predictions of each cell, so that a new metric needs no new fit

A cell is done when its block is there. Its scores are written before, and each is written as a whole or not at all (see
:mod:`propml.benchmark.block_file`), so that a run may be killed anywhere, and several may run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from propml.benchmark.block_file import BlockFile, Row
from propml.benchmark.claims import Claims
from propml.benchmark.records import (
    IDENTITY,
    Chosen,
    Failure,
    KeptFold,
    Timing,
    check_cell,
    check_run,
    chosen_of,
    identity_of,
    outcome_rows,
    pack_scores,
    results_of,
    timing_of,
    unpack_scores,
    value_rows,
)
from propml.benchmark.results import Result
from propml.durable import write_whole

if TYPE_CHECKING:
    from propml.benchmark.any_cell import AnyCell, CellOutcome

__all__ = ["Chosen", "Failure", "KeptFold", "ResultStore", "Timing"]

Block = list[Row]
Measure = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


class ResultStore:
    """The results in a folder.

    Where a folder holds two cells that differ in their settings alone (an experiment was changed and run again), the
    one that was added last is shown; ``keys`` asks for certain ones.

    Parameters
    ----------
    folder : path
        Need not exist: it is made by the first thing that is added.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.claims = Claims(self.folder / ".claims")
        self._cells = BlockFile(self.folder / "results.jsonl", check_cell)
        self._runs = BlockFile(self.folder / "runs.jsonl", check_run)

    def add(self, outcome: CellOutcome, provenance: Mapping[str, Any]) -> None:
        """Keep what a cell gave; a cell that is there already stays as it is.

        Parameters
        ----------
        outcome : CellOutcome
        provenance : mapping
            From :func:`propml.benchmark.provenance.run_provenance`.
        """
        self._add_run(provenance)
        with self._cells.locked() as append:
            if outcome.cell.key not in self.done():
                write_whole(self._scores_path(outcome.cell.key), pack_scores(outcome))
                append([{**row, "run": provenance["run"]} for row in outcome_rows(outcome)])

    def add_failure(
        self, cell: AnyCell, message: str, provenance: Mapping[str, Any], *, error: str = "", trace: str = ""
    ) -> Failure:
        """Keep how a cell failed, unless it was done meanwhile."""
        self._add_run(provenance)
        told = {"error": error, "message": message, "trace": trace, "run": provenance["run"]}
        row = {**identity_of(cell), **told}
        with self._cells.locked() as append:
            if cell.key not in self.done():
                append([{"row": "failure", **row}])
        return Failure(**row)

    def add_metrics(self, cell: AnyCell, provenance: Mapping[str, Any]) -> None:
        """Measure what a cell that is done was not asked for when it was computed, by its kept scores."""
        self._add_run(provenance)
        with self._cells.locked() as append:
            there = self.measured()[cell.key]
            wanted = [name for name in cell.metrics if name not in there]
            if wanted:
                identity = identity_of(cell)
                values = self._judged({**identity, "settings": cell.configuration()}, wanted)
                rows = [*value_rows(identity, values), {"row": "values", **identity}]
                append([{**row, "run": provenance["run"]} for row in rows])

    def done(self) -> set[str]:
        """The keys of all cells that need not be computed again."""
        return {block[-1]["key"] for block in self._cells.blocks() if block[-1]["row"] == "cell"}

    def measured(self) -> dict[str, set[str]]:
        """Which metrics are known of each cell that is done, by key."""
        found: dict[str, set[str]] = {}
        for block in self._cells.blocks():
            if block[-1]["row"] in ("cell", "values"):
                found.setdefault(block[-1]["key"], set()).update(
                    row["metric"] for row in block if row["row"] == "value"
                )
        return found

    def failures(self, experiment: str | None = None, *, keys: Collection[str] | None = None) -> list[Failure]:
        """Cells that failed, each with its last failure, and have not been done since."""
        _, failed = self._latest(experiment, keys)
        return [
            Failure(*(row[name] for name in (*IDENTITY, "message", "error", "trace", "key", "run"))) for row in failed
        ]

    def results(self, experiment: str | None = None, *, keys: Collection[str] | None = None) -> list[Result]:
        """One result per fold and metric of every cell, in the order in which cells were first added."""
        return [result for block in self._latest(experiment, keys)[0] for result in results_of(block)]

    def timings(self, experiment: str | None = None) -> list[Timing]:
        """What every cell cost."""
        return [timing_of(block) for block in self._latest(experiment)[0]]

    def chosen(self, experiment: str | None = None) -> list[Chosen]:
        """What every fold selected; folds that selected nothing are left out."""
        return [chosen for block in self._latest(experiment)[0] for chosen in chosen_of(block)]

    def settings(self, experiment: str | None = None) -> dict[str, dict[str, Any]]:
        """Everything that the numbers of a cell depend on, by key."""
        return {block[-1]["key"]: block[-1]["settings"] for block in self._latest(experiment)[0]}

    def provenance(self) -> list[dict[str, Any]]:
        """The runs that filled the folder, first one first."""
        return [dict(run) for (run,) in self._runs.blocks()]

    def scores(self, key: str) -> list[KeptFold]:
        """The kept predictions of a cell, fold by fold."""
        path = self._scores_path(key)
        if not path.exists():
            raise FileNotFoundError(
                f"the scores of {key} are not in {path.parent}; without them a new metric needs a run in another folder"
            )
        return unpack_scores(path)

    def reevaluate(self, metrics: Sequence[str] | Mapping[str, Measure], experiment: str | None = None) -> list[Result]:
        """Other metrics of the kept scores: nothing is fitted again, and nothing is written.

        Parameters
        ----------
        metrics : sequence of str, or mapping of names to functions
            Names that an experiment could ask for, or functions of ``(truth, scores, predicted)``, each
            ``(n_test, n_labels)``, that return a number.
        """
        return [
            Result._make([*(block[-1][name] for name in IDENTITY), fold, metric, value])
            for block in self._latest(experiment)[0]
            for fold, values in self._judged(block[-1], metrics).items()
            for metric, value in values.items()
        ]

    def _judged(self, cell: Row, metrics: Sequence[str] | Mapping[str, Measure]) -> dict[int, dict[str, float]]:
        """Metrics by fold, from the kept scores of a cell and the true labels of its dataset."""
        from propml.benchmark.metric_names import evaluate_metrics

        kept, truth = self.scores(cell["key"]), _truth(cell)
        if isinstance(metrics, Mapping):
            return {
                fold: {name: float(measure(truth[test], scores, predicted)) for name, measure in metrics.items()}
                for fold, test, scores, predicted in kept
            }
        return {
            fold: evaluate_metrics(truth[test], scores, predicted, metrics, cell["method"])
            for fold, test, scores, predicted in kept
        }

    def _latest(
        self, experiment: str | None = None, keys: Collection[str] | None = None
    ) -> tuple[list[Block], list[Row]]:
        """The last block of every cell that was done, and the last failure of every cell that was not done since."""
        done: dict[tuple[Any, ...], Block] = {}
        failed: dict[tuple[Any, ...], Row] = {}
        for block in self._cells.blocks():
            row = block[-1]
            if experiment not in (None, row["experiment"]) or (keys is not None and row["key"] not in keys):
                continue
            identity = tuple(row[name] for name in IDENTITY)
            if row["row"] == "cell":
                done[identity] = block
                failed.pop(identity, None)
            elif row["row"] == "failure":
                failed[identity] = row
            elif identity in done and done[identity][-1]["key"] == row["key"]:
                done[identity] = [*block[:-1], *done[identity]]
        return list(done.values()), list(failed.values())

    def _add_run(self, provenance: Mapping[str, Any]) -> None:
        with self._runs.locked() as append:
            if all(run["run"] != provenance["run"] for (run,) in self._runs.blocks()):
                append([provenance])

    def _scores_path(self, key: str) -> Path:
        return self.folder / "scores" / f"{key}.npz"


def _truth(cell: Row) -> np.ndarray:
    """The true labels that the rows of kept scores count in; no image is read for them."""
    settings = cell["settings"]
    if settings.get("kind") == "images":
        from propml.benchmark.image_cell import open_part

        truth = open_part(cell["dataset"], "test", settings["images"]).truth
    else:
        from propml.benchmark.problem import load_truth

        truth = load_truth(cell["dataset"], cell["seed"], settings["rows"]).truth
    assert truth is not None
    return truth
