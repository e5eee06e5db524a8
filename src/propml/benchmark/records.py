"""What the store tells about a cell beside its results, and how an outcome becomes rows of text."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propml.benchmark.block_file import Row
from propml.benchmark.results import Noise, Result
from propml.benchmark.titles import setting_name
from propml.file_errors import reading
from propml.schema import Array, Schema, check_schema
from propml.unpacking import check_zip

if TYPE_CHECKING:
    from propml.benchmark.any_cell import AnyCell, CellOutcome

IDENTITY = ("experiment", "dataset", "noise", "method", "seed")


_CELL: Schema = {
    **dict.fromkeys(("key", "experiment", "dataset", "method"), str),
    "noise": (None, float, str),
    "seed": int,
    str: object,
}
# What the rows of a block hold, by their kind.
ROWS: dict[str, Schema] = {
    "value": {**_CELL, "fold": int, "metric": str, "value": (None, float)},
    "fold": {"fold": int, "seconds_fit": float, "seconds_predict": float, "chosen": {str: object}, str: object},
    "cell": {**_CELL, "peak_bytes": int, "device": str, "settings": {str: object}},
    "values": _CELL,
    "failure": {**_CELL, **dict.fromkeys(("message", "error", "trace", "run"), str)},
}
KEPT: Schema = {
    "fold": Array("iu", "rows"),
    "test": Array("iu", "rows", least=0),
    "scores": Array("f", "rows", "labels", finite=False),
    "predicted": Array("iu", "rows", "labels", least=0, most=1),
}


def check_cell(block: list[Row]) -> None:
    """Raise where a block is not what :func:`outcome_rows` makes, or one that tells a failure or further values."""
    for row in block:
        check_schema(row, ROWS[row["row"]], "a row")
    if block[-1]["row"] not in ("cell", "values", "failure"):
        raise ValueError("a block ends with its cell")


def check_run(block: list[Row]) -> None:
    """Raise where a block is not one row that tells of a run."""
    check_schema(block[0], {"run": str, str: object}, "a run")
    if len(block) > 1:
        raise ValueError("a run is one row")


class Failure(NamedTuple):
    """A cell that raised, or whose process died.

    Attributes
    ----------
    experiment, dataset, noise, method, seed
        As in :class:`~propml.benchmark.results.Result`.
    message : str
        What the exception said.
    error : str
        Its type, such as ``"ValueError"``.
    trace : str
        The last lines of its traceback.
    key : str
        The key of the cell.
    run : str
        The run in which it failed.
    """

    experiment: str
    dataset: str
    noise: Noise
    method: str
    seed: int
    message: str
    error: str = ""
    trace: str = ""
    key: str = ""
    run: str = ""

    def __str__(self) -> str:
        return f"{setting_name(self.dataset, self.noise)} {self.method}, seed {self.seed}: {self.reason}"

    @property
    def reason(self) -> str:
        """Type and message in one line."""
        return f"{self.error}: {self.message}".strip(": ").partition("\n")[0]


class Timing(NamedTuple):
    """What a cell cost: seconds over all of its folds, and the most memory of its process."""

    experiment: str
    dataset: str
    noise: Noise
    method: str
    seed: int
    seconds_fit: float
    seconds_predict: float
    peak_bytes: int
    device: str


class Chosen(NamedTuple):
    """What a fold selected, such as ``{"lam": 0.1}``."""

    experiment: str
    dataset: str
    noise: Noise
    method: str
    seed: int
    fold: int
    chosen: dict[str, Any]


class KeptFold(NamedTuple):
    """The kept predictions of a fold.

    Attributes
    ----------
    fold : int
    test : ndarray of int, shape (n_test,)
        Rows of the problem.
    scores : ndarray of float32, shape (n_test, n_labels)
    predicted : ndarray of uint8, shape (n_test, n_labels)
    """

    fold: int
    test: np.ndarray
    scores: np.ndarray
    predicted: np.ndarray


def identity_of(cell: AnyCell) -> Row:
    """What every row of a cell says; the key ends in the hash of its configuration."""
    return {
        "key": cell.key,
        "experiment": cell.experiment,
        "dataset": cell.dataset,
        "noise": cell.noise,
        "method": cell.method.name,
        "seed": cell.seed,
    }


def outcome_rows(outcome: CellOutcome) -> list[Row]:
    """One row per fold and metric, one per fold, and one for the cell."""
    rows = value_rows(identity_of(outcome.cell), {fold.fold: fold.values for fold in outcome.folds})
    for fold in outcome.folds:
        seconds = {"seconds_fit": round(fold.seconds_fit, 4), "seconds_predict": round(fold.seconds_predict, 4)}
        rows.append({"row": "fold", "key": outcome.cell.key, "fold": fold.fold, **seconds, "chosen": fold.chosen})
    machine = {"peak_bytes": outcome.peak_bytes, "device": outcome.device}
    rows.append({"row": "cell", **identity_of(outcome.cell), **machine, "settings": outcome.cell.configuration()})
    return rows


def value_rows(identity: Row, values: Mapping[int, Mapping[str, float]]) -> list[Row]:
    """One row per fold and metric, from metrics by fold."""
    return [
        {"row": "value", **identity, "fold": fold, "metric": metric, "value": value}
        for fold, measured in values.items()
        for metric, value in measured.items()
    ]


def results_of(block: list[Row]) -> list[Result]:
    """The results in the block of a cell; null, which stands for a value that is not finite, comes back as nan."""
    return [
        Result._make(float("nan") if row[name] is None and name == "value" else row[name] for name in Result._fields)
        for row in block
        if row["row"] == "value"
    ]


def timing_of(block: list[Row]) -> Timing:
    """What the cell of a block cost."""
    cell, folds = block[-1], [row for row in block if row["row"] == "fold"]
    seconds = [sum(row[name] for row in folds) for name in ("seconds_fit", "seconds_predict")]
    return Timing._make([*(cell[name] for name in IDENTITY), *seconds, cell["peak_bytes"], cell["device"]])


def chosen_of(block: list[Row]) -> list[Chosen]:
    """What the folds of a block selected."""
    identity = [block[-1][name] for name in IDENTITY]
    return [
        Chosen._make([*identity, row["fold"], row["chosen"]]) for row in block if row["row"] == "fold" and row["chosen"]
    ]


def pack_scores(outcome: CellOutcome) -> bytes:
    """The predictions of all folds as one compressed ``.npz``."""
    folds = outcome.folds
    arrays = {
        "fold": np.repeat([fold.fold for fold in folds], [len(fold.test) for fold in folds]),
        "test": np.concatenate([fold.test for fold in folds]),
        "scores": np.concatenate([np.asarray(fold.scores, dtype=np.float32) for fold in folds]),
        "predicted": np.concatenate([np.asarray(fold.predicted, dtype=np.uint8) for fold in folds]),
    }
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    return packed.getvalue()


def unpack_scores(path: Path) -> list[KeptFold]:
    """What :func:`pack_scores` packed."""
    with reading(path, "file of kept scores", "restore the file, or run the cell anew"):
        check_zip(path)
        with np.load(path, allow_pickle=False) as stored:
            kept = {name: stored[name] for name in KEPT}
        check_schema(kept, KEPT, "it")
    fold, test, scores, predicted = kept.values()
    return [
        KeptFold(int(number), test[fold == number], scores[fold == number], predicted[fold == number])
        for number in np.unique(fold)
    ]
