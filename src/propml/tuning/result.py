"""What a search found: the best configuration and every trial, as ``best.toml``, ``trials.csv`` and ``search.html``.

The page is one file that needs no network, with Optuna's pictures of the study.
"""

from __future__ import annotations

import csv
import io
import json
import math
import tomllib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from sklearn.pipeline import make_pipeline

from propml import __version__
from propml.atomic_files import write_whole
from propml.extras import require
from propml.file_errors import reading
from propml.methods.registry import method_class
from propml.output import neutralised, page_style
from propml.range_scaler import RangeScaler
from propml.schema import check_schema
from propml.tuning.spaces import Space, restored, stored
from propml.tuning.studies import quiet
from propml.tuning.tasks import Task
from propml.tuning.trials import DIED, best_trial, finished

if TYPE_CHECKING:
    import optuna

BEST, TRIALS, PAGE = "best.toml", "trials.csv", "search.html"
EXPECTED = "give the best.toml that `propml tune` wrote"
# With fewer trials, the importance of arguments cannot be estimated.
FEWEST = 8
FIGURE = '<h2>{0}</h2>\n<img alt="{0}" src="data:image/svg+xml;base64,{2}">\n<p>{1}</p>'


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

    @classmethod
    def of(cls, trial: Any, space: Space) -> TrialRecord:
        """A trial of a study."""
        curve = dict(sorted(trial.intermediate_values.items()))
        seconds = (trial.datetime_complete - trial.datetime_start).total_seconds() if trial.datetime_start else 0.0
        state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
        value = math.nan if trial.value is None else trial.value
        why = trial.user_attrs.get("why", DIED if state == "failed" else "")
        params = restored(trial.params, space)
        return cls(trial.number, state, value, max(curve, default=0), seconds, params, why, curve)


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
        trials = [TrialRecord.of(trial, task.space) for trial in finished(study)]
        winner = best_trial(study)
        if winner is None:
            if failed := [each for each in trials if each.why]:
                first = f"trial {failed[0].number}: {failed[0].why}"
                raise ValueError(f"all {len(failed)} trials failed, so there is no best one; {first}")
            raise ValueError("no trial came far enough to be compared; give the search more time")
        best = next(each for each in trials if each.number == winner.number)
        params = {**task.fixed, **{name: value for name, value in best.params.items() if value is not None}}
        return cls(task.method, task.title, params, best.value, best, trials, task.facts(), task.space, study)

    def estimator(self, **further: Any) -> Any:
        """The method with the best configuration, not fitted.

        Before a method other than ProPML, which scales by itself, stands the scaling to [-1, 1] with which it was
        searched.
        """
        if self.method == "vision":
            raise ValueError("images were searched; train with propml.vision.VisionRecipe(**result.params)")
        model = method_class(self.method)(**{**self.params, **further})
        return model if self.method == "propml" else make_pipeline(RangeScaler(), model)

    def to_toml(self, experiment: Mapping[str, Any] | None = None) -> str:
        """The best configuration as an entry of an experiment; a whole one where ``experiment`` has its other keys."""
        labels = "true labels (oracle)" if self.facts.get("objective") == "oracle" else "candidate labels"
        told = f"{self.value:.4f} on held-out {labels}, {self.facts.get('criterion', '')}".rstrip(", ")
        lines = [f"# Found by propml tune in {len(self.trials)} trials: {told}", *_toml_lines(experiment or {}), ""]
        if self.method == "vision":
            lines += ["[recipe]"]
        else:
            name = f'methods."{self.title} tuned"'
            lines += [f"[{name}]", f'method = "{self.method}"', "", f"[{name}.params]"]
        return "\n".join([*lines, *_toml_lines(self.params), ""])

    def to_csv(self) -> str:
        """All trials, one row each."""
        names = list(dict.fromkeys(name for each in self.trials for name in each.params))
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["trial", "state", "value", "epochs", "seconds", *names, "why"])
        for each in self.trials:
            told = [*(stored(each.params.get(name, "")) for name in names), each.why]
            cells = [neutralised(cell) if isinstance(cell, str) else cell for cell in told]
            value = "" if math.isnan(each.value) else f"{each.value:.6f}"
            table.writerow([each.number, each.state, value, each.epochs, f"{each.seconds:.2f}", *cells])
        return text.getvalue()

    def write(self, folder: str | Path, experiment: Mapping[str, Any] | None = None, command: str = "") -> Path:
        """Write ``best.toml``, ``trials.csv`` and ``search.html``; returns the first."""
        folder = Path(folder)
        write_whole(folder / BEST, self.to_toml(experiment).encode())
        write_whole(folder / TRIALS, self.to_csv().encode())
        write_whole(folder / PAGE, render_page(self, command).encode())
        return folder / BEST

    def failures(self) -> list[TrialRecord]:
        """The trials that failed."""
        return [each for each in self.trials if each.state == "failed"]


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


def _toml_lines(values: Mapping[str, Any]) -> list[str]:
    """Every value of JSON but null is one of TOML."""
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]


def render_page(result: SearchResult, command: str = "") -> str:
    """The page; everything that comes from data is escaped."""
    words = {"complete": "had the whole budget", "pruned": "were stopped early", "failed": "failed"}
    counts = Counter(each.state for each in result.trials)
    parts = ", ".join(f"{counts[state]} {words[state]}" for state in words if counts[state])
    by_truth = "the TRUE labels of held-out rows, which a real search does not have"
    by_candidates = "the candidate labels of held-out rows; no true label was used"
    heads, *rows = [list(map(escape, row)) for row in csv.reader(io.StringIO(result.to_csv()))]
    folder = resources.files("propml.tuning") / "page"
    template, style = ((folder / f"search.{kind}").read_text(encoding="utf-8") for kind in ("html", "css"))
    return Template(template).substitute(
        css=page_style(style),
        title=escape(result.title),
        summary=f"Trial {result.best.number} is the best, with {result.value:.4f} after epoch {result.best.epochs}. "
        f"Of {len(result.trials)} trials {parts}.",
        toml=escape(result.to_toml()),
        judged_by=by_truth if result.facts.get("objective") == "oracle" else by_candidates,
        pictures="\n".join(FIGURE.format(*words, b64encode(svg).decode()) for *words, svg in pictures(result)),
        heads="".join(f"<th>{name}</th>" for name in heads),
        rows="\n".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows),
        version=__version__,
        command=escape(command),
        facts=escape(", ".join(f"{name}: {value}" for name, value in result.facts.items())),
    )


def pictures(result: SearchResult) -> Iterator[tuple[str, str, bytes]]:
    """Title, caption and SVG of every picture that has something to show."""
    plots = require("optuna.visualization.matplotlib", "tune")
    if any(each.state == "complete" for each in result.trials):
        caption = "Trials that had the whole budget; the line is the best so far."
        yield "History", caption, _drawn(plots.plot_optimization_history, result.study)
    if any(len(each.curve) > 1 for each in result.trials):
        caption = "Every trial at the epochs at which it was compared with others; a line that ends early was stopped."
        yield "Epoch by epoch", caption, _drawn(plots.plot_intermediate_values, result.study)
    epoch, study = compared_trials(result)
    trials = study.get_trials(deepcopy=False)
    if len(trials) < FEWEST or not any(trial.params for trial in trials):
        return
    over = f"the {len(trials)} trials that were compared after epoch {epoch}"
    if len({trial.value for trial in trials}) > 1:
        caption = f"How much the value depends on each argument, over {over}."
        yield "Importance", caption, _drawn(plots.plot_param_importances, study)
    caption = f"One line for each of {over}, through its arguments; the better, the darker."
    yield "Parallel coordinates", caption, _drawn(plots.plot_parallel_coordinate, study)


def compared_trials(result: SearchResult) -> tuple[int, optuna.Study]:
    """The last epoch that at least half of the trials reached, and a study of what they were worth there."""
    optuna = require("optuna", "tune")  # it looks at complete trials only, and most of Hyperband's stop early
    counts = Counter(epoch for each in result.trials for epoch in each.curve)
    half = sum(bool(each.curve) for each in result.trials) / 2
    epoch = max((epoch for epoch, count in counts.items() if count >= half), default=0)
    with quiet():
        study = optuna.create_study(direction="maximize")
    trials = result.study.get_trials(deepcopy=False)
    for trial in (trials[each.number] for each in result.trials if epoch in each.curve):
        value = trial.intermediate_values[epoch]
        study.add_trial(optuna.create_trial(params=trial.params, distributions=trial.distributions, value=value))
    return epoch, study


def _drawn(plot: Any, study: optuna.Study) -> bytes:
    """What a plot of Optuna draws, as SVG; the caller's settings of matplotlib stay as they are."""
    matplotlib, pyplot = require("matplotlib", "tune"), require("matplotlib.pyplot", "tune")
    svg, backend = io.BytesIO(), matplotlib.get_backend()
    pyplot.switch_backend("agg")
    try:
        with quiet(), matplotlib.rc_context({"figure.figsize": (10, 5), "svg.hashsalt": "propml"}):
            axes = plot(study)
            if axes.get_legend() is not None:  # one entry for every trial
                axes.get_legend().remove()
            axes.figure.savefig(svg, format="svg", bbox_inches="tight", metadata={"Date": None})
            pyplot.close(axes.figure)
    finally:
        pyplot.switch_backend(backend)
    return svg.getvalue()
