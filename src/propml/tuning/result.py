"""What a search found: the best configuration, every trial, and the files that say so."""

from __future__ import annotations

import csv
import io
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml.atomic_files import write_whole
from propml.csv_safety import neutralised
from propml.file_errors import reading
from propml.schema import check_schema
from propml.tuning.spaces import Space, restored, stored
from propml.tuning.trials import DIED, best_trial, finished

if TYPE_CHECKING:
    import optuna

    from propml.tuning.tasks import Task

__all__ = ["SearchResult", "TrialRecord", "read_best"]

BEST, TRIALS, PAGE = "best.toml", "trials.csv", "search.html"
EXPECTED = "give the best.toml that `propml tune` wrote"


@dataclass(frozen=True)
class TrialRecord:
    """One trial."""

    number: int
    state: str  # "complete", "pruned" or "failed"
    value: float  # at its last epoch that was compared; NaN where it failed
    epochs: int  # how long it trained
    seconds: float  # from its beginning to its end, which trials of a stack share
    params: Mapping[str, Any]
    why: str = ""  # the reason where it failed
    curve: Mapping[int, float] = field(default_factory=dict)  # value by epoch, where it was compared


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Trials that a dead worker left behind, and that were tried again, are not in it.
    """

    method: str
    title: str
    params: dict[str, Any]  # the best configuration, as arguments of the method
    value: float  # what it was worth on held-out rows
    best: TrialRecord
    trials: list[TrialRecord]  # in the order of their numbers
    facts: dict[str, Any]  # what was searched: method, objective, criterion, folds, data
    space: Space
    study: optuna.Study = field(repr=False)

    @classmethod
    def of(cls, study: optuna.Study, task: Task) -> SearchResult:
        """The state of a study."""
        records = {trial.number: _record(trial, task.space) for trial in finished(study)}
        winner = best_trial(study)
        if winner is None:
            failed = [record for record in records.values() if record.why]
            if failed:
                first = f"trial {failed[0].number}: {failed[0].why}"
                raise ValueError(f"all {len(failed)} trials failed, so there is no best one; {first}")
            raise ValueError("no trial came far enough to be compared; give the search more time")
        best, trials = records[winner.number], list(records.values())
        params = {**task.fixed, **{name: value for name, value in best.params.items() if value is not None}}
        return cls(task.method, task.title, params, best.value, best, trials, task.facts(), task.space, study)

    def estimator(self, **further: Any) -> Any:
        """The method with the best configuration, not fitted.

        Before a method other than ProPML, which scales by itself, stands the scaling to [-1, 1] with which it was
        searched.
        """
        from sklearn.pipeline import make_pipeline

        from propml.methods.registry import method_class
        from propml.range_scaler import RangeScaler

        if self.method == "vision":
            raise ValueError("images were searched; train with propml.vision.recipe.Recipe(**result.params)")
        model = method_class(self.method)(**{**self.params, **further})
        return model if self.method == "propml" else make_pipeline(RangeScaler(), model)

    def to_toml(self, experiment: Mapping[str, Any] | None = None) -> str:
        """The best configuration as an entry of an experiment; a whole one where ``experiment`` has its other keys."""
        labels = "true labels (oracle)" if self.facts.get("objective") == "oracle" else "candidate labels"
        lines = [
            f"# Found by propml tune in {len(self.trials)} trials: {self.value:.4f} on held-out {labels}, "
            f"{self.facts.get('criterion', '')}".rstrip(", "),
        ]
        lines += [f"{key} = {_toml(value)}" for key, value in (experiment or {}).items()]
        if self.method == "vision":
            lines += ["", "[recipe]"]
        else:
            name = f"[methods.{_toml(self.title + ' tuned')}"
            lines += ["", f"{name}]", f"method = {_toml(self.method)}", "", f"{name}.params]"]
        lines += [f"{key} = {_toml(value)}" for key, value in self.params.items()]
        return "\n".join([*lines, ""])

    def to_csv(self) -> str:
        """All trials, one row each."""
        names = list(dict.fromkeys(name for each in self.trials for name in each.params))
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["trial", "state", "value", "epochs", "seconds", *names, "why"])
        for each in self.trials:
            cells = [*(stored(each.params.get(name, "")) for name in names), each.why]
            cells = [neutralised(cell) if isinstance(cell, str) else cell for cell in cells]
            value = "" if math.isnan(each.value) else f"{each.value:.6f}"
            table.writerow([each.number, each.state, value, each.epochs, f"{each.seconds:.2f}", *cells])
        return text.getvalue()

    def write(self, folder: str | Path, experiment: Mapping[str, Any] | None = None, command: str = "") -> Path:
        """Write ``best.toml``, ``trials.csv`` and ``search.html``; returns the first."""
        from propml.tuning.page import render_page

        folder = Path(folder)
        write_whole(folder / BEST, self.to_toml(experiment).encode())
        write_whole(folder / TRIALS, self.to_csv().encode())
        write_whole(folder / PAGE, render_page(self, command).encode())
        return folder / BEST

    def failures(self) -> list[TrialRecord]:
        return [each for each in self.trials if each.state == "failed"]


def _record(trial: Any, space: Space) -> TrialRecord:
    curve = dict(sorted(trial.intermediate_values.items()))
    seconds = (trial.datetime_complete - trial.datetime_start).total_seconds() if trial.datetime_start else 0.0
    state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
    return TrialRecord(
        trial.number,
        state,
        math.nan if trial.value is None else trial.value,
        max(curve, default=0),
        seconds,
        restored(trial.params, space),
        trial.user_attrs.get("why", DIED if state == "failed" else ""),
        curve,
    )


def read_best(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Method and arguments of a ``best.toml``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "best.toml")
    ...     _ = path.write_text('[methods.Tuned]\\nmethod = "ridge"\\nparams = { alpha = 3.0 }\\n')
    ...     read_best(path)
    ('ridge', {'alpha': 3.0})
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there; {EXPECTED}")
    with reading(path, "TOML file with the best arguments", EXPECTED):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        methods = content.get("methods", {})
        if "recipe" in content:
            methods = {"recipe": {"method": "vision", "params": content["recipe"]}}
        check_schema(methods, {str: {"method": str, "params?": {str: object}, str: object}}, "methods")
        if len(methods) != 1:
            raise ValueError(f"it holds {len(methods)} methods, and one was expected")
        (entry,) = methods.values()
    params = entry.get("params", {})
    return entry["method"], {name: tuple(value) if isinstance(value, list) else value for name, value in params.items()}


def _toml(value: Any) -> str:
    """Every value of JSON but null is one of TOML."""
    return json.dumps(value, ensure_ascii=False)
