"""The results of a folder: text that only grows, with kept scores beside it.

::

    results.jsonl   one block of rows per cell: its values (one row per fold and metric), what its folds chose and cost,
                    and the cell itself with all of its settings; or one row that says how it failed
    runs.jsonl      one line per run that added something: versions, commit, machine; rows name their run
    scores/         test rows, scores and predictions of each cell, so that a new metric needs no new fit

A cell is done when its block is there. Its scores are written before, and each is written as a whole or not at all (see
:mod:`propml.benchmark.shared_files`), so that a run may be killed anywhere, and several may run at once.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from propml import __version__
from propml.atomic_files import write_whole
from propml.benchmark.results import CellResult, Failure, FoldResult
from propml.benchmark.shared_files import BlockFile, Claims, JsonRow
from propml.file_errors import reading
from propml.noise import Noise
from propml.schema import Array, Schema, check_schema
from propml.unpacking import check_zip

if TYPE_CHECKING:
    from propml.benchmark.cell import Cell

Block = list[JsonRow]

IDENTITY = ("experiment", "dataset", "noise", "method", "seed")
# Files of earlier versions have neither commit nor fingerprint.
OF_A_CELL = ("peak_bytes", "device", "commit", "fingerprint")
KEPT: Schema = {
    "fold": Array("iu", "rows"),
    "test": Array("iu", "rows", least=0),
    "scores": Array("f", "rows", "labels", finite=False),
    "predicted": Array("iu", "rows", "labels", least=0, most=1),
}


class ResultStore:
    """The results in a folder, which is made by the first thing that is added.

    Where a folder holds two cells that differ in their settings alone (an experiment was changed and run again), the
    one that was added last is shown; ``keys`` asks for certain ones.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.claims = Claims(self.folder / ".claims")
        self._cells = BlockFile(self.folder / "results.jsonl")
        self._runs = BlockFile(self.folder / "runs.jsonl")

    def add(self, result: CellResult, provenance: Mapping[str, Any]) -> CellResult:
        """Keep what became of a cell, and return it with run and commit; a cell that is done already stays as it is."""
        self._add_run(provenance)
        # Outside a checkout the version stands for the commit.
        commit = provenance.get("commit") or f"propml {provenance.get('propml', __version__)}"
        dirty = "-dirty" if provenance.get("dirty") else ""
        result = replace(result, run=provenance["run"], commit=f"{commit}{dirty}")
        with self._cells.locked() as append:
            if result.key not in self.done():
                if result.failure is None:
                    write_whole(self._scores_path(result.key), _pack_scores(result.folds))
                append([{**row, "run": provenance["run"]} for row in _rows(result)])
        return result

    def add_metrics(self, cell: Cell, provenance: Mapping[str, Any]) -> None:
        """Measure what a cell that is done was not asked for when it was computed, by its kept scores."""
        from propml.benchmark.cell import judged  # whoever reads results needs no torch

        self._add_run(provenance)
        with self._cells.locked() as append:
            known = self.measured()[cell.key]
            wanted = [name for name in cell.metrics if name not in known]
            if wanted:
                asked, truth = replace(cell, metrics=tuple(wanted)), cell.truth()
                result = cell.result([judged(asked, fold, truth) for fold in self.scores(cell.key)])
                rows = [*_value_rows(result), {"row": "values", **_identity(result)}]
                append([{**row, "run": provenance["run"]} for row in rows])

    def done(self) -> set[str]:
        """The keys of all cells that need not be computed again."""
        return {block[-1]["key"] for block in self._cells.blocks() if block[-1]["row"] == "cell"}

    def measured(self) -> dict[str, set[str]]:
        """Which metrics are known of each cell that is done, by key."""
        metrics: dict[str, set[str]] = {}
        for block in self._cells.blocks():
            if block[-1]["row"] in ("cell", "values"):
                known = metrics.setdefault(block[-1]["key"], set())
                known.update(row["metric"] for row in block if row["row"] == "value")
        return metrics

    def cells(self, experiment: str | None = None, *, keys: Collection[str] | None = None) -> list[CellResult]:
        """The last result of every cell that was done, then the last failure of every cell that was not done since."""
        with reading(self._cells.path, "file of results", "restore it, or run into another folder"):
            done: dict[tuple[Any, ...], Block] = {}
            failed: dict[tuple[Any, ...], Block] = {}
            for block in self._cells.blocks():
                row = block[-1]
                if experiment not in (None, row["experiment"]) or (keys is not None and row["key"] not in keys):
                    continue
                identity = tuple(row[name] for name in IDENTITY)
                if row["row"] == "cell":
                    done[identity] = block
                    failed.pop(identity, None)
                elif row["row"] == "failure":
                    failed[identity] = block
                elif identity in done and done[identity][-1]["key"] == row["key"]:
                    done[identity] = [*block[:-1], *done[identity]]
            results = [_done_cell(block) for block in done.values()]
            # Failures of earlier versions do not say what made their candidates; other cells of their experiment do.
            kinds = {cell.experiment: cell.noise.kind for cell in results if cell.noise}
            for row in (block[-1] for block in failed.values()):
                failure = Failure(row["error"], row["message"], row["trace"])
                whose = _read_identity(row, row.get("corruption", kinds.get(row["experiment"])))
                results.append(CellResult(**whose, failure=failure, commit=row.get("commit", "")))
            return results

    def failed(self, *, keys: Collection[str] | None = None) -> list[CellResult]:
        """Cells that failed, each with its last failure, and have not been done since."""
        return [cell for cell in self.cells(keys=keys) if cell.failure]

    def runs(self) -> list[dict[str, Any]]:
        """The runs that filled the folder, first one first."""
        return [dict(run) for (run,) in self._runs.blocks()]

    def scores(self, key: str) -> list[FoldResult]:
        """The kept test rows, scores and predictions of a cell, fold by fold."""
        path = self._scores_path(key)
        if not path.exists():
            raise FileNotFoundError(
                f"the scores of {key} are not in {path.parent}; without them a new metric needs a run in another folder"
            )
        with reading(path, "file of kept scores", "restore the file, or run the cell anew"):
            check_zip(path)
            with np.load(path, allow_pickle=False) as stored:
                kept = {name: stored[name] for name in KEPT}
            check_schema(kept, KEPT, "it")
        fold, *arrays = kept.values()
        return [FoldResult(int(number), *(array[fold == number] for array in arrays)) for number in np.unique(fold)]

    def _add_run(self, provenance: Mapping[str, Any]) -> None:
        with self._runs.locked() as append:
            if all(run["run"] != provenance["run"] for (run,) in self._runs.blocks()):
                append([provenance])

    def _scores_path(self, key: str) -> Path:
        return self.folder / "scores" / f"{key}.npz"


def _identity(result: CellResult) -> JsonRow:
    """What every row of a cell says; the key ends in the hash of its configuration."""
    noise = result.noise.written if result.noise else None
    return {"key": result.key, **{name: getattr(result, name) for name in IDENTITY}, "noise": noise}


def _rows(result: CellResult) -> list[JsonRow]:
    """One row per fold and metric, one per fold, and one for the cell; or the one of a failure."""
    identity = _identity(result)
    if result.failure:
        kind = {"corruption": result.noise.kind} if result.noise else {}
        return [{"row": "failure", **identity, **asdict(result.failure), **kind, "commit": result.commit}]
    rows = _value_rows(result)
    for fold in result.folds:
        seconds = {"seconds_fit": round(fold.seconds_fit, 4), "seconds_predict": round(fold.seconds_predict, 4)}
        rows.append({"row": "fold", "key": result.key, "fold": fold.fold, **seconds, "chosen": fold.chosen})
    kept = {name: getattr(result, name) for name in OF_A_CELL}
    return [*rows, {"row": "cell", **identity, **kept, "settings": result.settings}]


def _value_rows(result: CellResult) -> list[JsonRow]:
    return [
        {"row": "value", **_identity(result), "fold": fold.fold, "metric": metric, "value": value}
        for fold in result.folds
        for metric, value in fold.values.items()
    ]


def _done_cell(block: Block) -> CellResult:
    """What :func:`_rows` wrote; null, which stands for a value that is not finite, comes back as nan."""
    row = block[-1]
    values: dict[int, dict[str, float]] = {}
    for each in block:
        if each["row"] == "value":
            value = float("nan") if each["value"] is None else each["value"]
            values.setdefault(each["fold"], {})[each["metric"]] = value
    of_a_fold = ("fold", "seconds_fit", "seconds_predict", "chosen")
    folds = [
        FoldResult(values=values.get(each["fold"], {}), **{name: each[name] for name in of_a_fold})
        for each in block
        if each["row"] == "fold"
    ]
    settings = row["settings"]
    kind = "flips" if settings.get("kind") == "images" else settings.get("candidates", {}).get("corruption")
    kept = {name: row[name] for name in OF_A_CELL if name in row}
    return CellResult(**_read_identity(row, kind), settings=settings, folds=tuple(folds), **kept)


def _read_identity(row: JsonRow, kind: str | None) -> dict[str, Any]:
    noise = None if row["noise"] is None else Noise.read(row["noise"], kind)
    return {name: row.get(name, "") for name in (*IDENTITY, "key", "run")} | {"noise": noise}


def _pack_scores(folds: Sequence[FoldResult]) -> bytes:
    """The predictions of all folds as one compressed ``.npz``."""
    arrays = {
        "fold": np.repeat([fold.fold for fold in folds], [len(fold.test) for fold in folds]),
        "test": np.concatenate([fold.test for fold in folds]),
        "scores": np.concatenate([np.asarray(fold.scores, dtype=np.float32) for fold in folds]),
        "predicted": np.concatenate([np.asarray(fold.predicted, dtype=np.uint8) for fold in folds]),
    }
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    return packed.getvalue()
