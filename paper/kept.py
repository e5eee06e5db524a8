"""The numbers that are kept in ``results/``: read, joined by those of new runs, written again, and how old they are."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import isnan, nan
from pathlib import Path
from typing import NamedTuple

from propml.benchmark.experiment import Experiment, load_experiment
from propml.benchmark.image_cell import ImageMethod
from propml.benchmark.provenance import age_of, made_by, origin
from propml.benchmark.reporting.formats import render_long
from propml.benchmark.reporting.model import Report, Section
from propml.benchmark.reporting.tables import metric_tables
from propml.benchmark.results import CellResult, Results, load_results, means
from propml.noise import Noise, Setting
from propml.paper import Mean, load_published
from propml.paper.published import listed

RESULTS = Path(__file__).parent / "results"
# Of the proving ground a file of its own keeps what its tables show, a row per setting and method.
GROUND = "ground"
GROUND_METHODS = ("ProPML default", "ProPML", "BCE", "Extra trees", "Random forest", "Boosting", "Logistic", "Ridge")
GROUND_METRICS = ("average_precision", "OF1")
GROUND_COLUMNS = ("dataset", "noise", "method", *GROUND_METRICS, "n", "commit", "code")
NONE_OLD = "None of these numbers is older than the code."
AGES = {
    "changed": "made by code or settings that have changed since",
    "unknown": "of unknown age",
}


class Place(NamedTuple):
    """A method in one setting of an experiment."""

    experiment: str
    setting: Setting
    method: str


class Kept(NamedTuple):
    """What was measured there, by metric; the commit, and fingerprints of code and settings (``code:settings``)."""

    means: dict[str, Mean]
    commit: str
    code: str


Numbers = dict[Place, Kept]


def load_numbers(folder: Path = RESULTS) -> Numbers:
    """All that is kept; files of earlier versions do not know their code."""
    numbers: Numbers = {}
    for row in _rows(folder / "results-long.csv"):
        if row["ours_mean"]:
            values = float(row["ours_mean"]), float(row["ours_std"] or nan), int(row["ours_n"])
            _keep(numbers, row["experiment"], row, {row["metric"]: values})
    for row in _rows(folder / "ground.csv"):
        _keep(numbers, GROUND, row, {name: (float(row[name]), nan, int(row["n"])) for name in GROUND_METRICS})
    return numbers


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)


def _keep(numbers: Numbers, experiment: str, row: dict[str, str], values: dict[str, tuple[float, float, int]]) -> None:
    noise = row["noise"]
    level = None if not noise else Noise.read(noise if noise[0].isalpha() else float(noise))
    place = Place(experiment, Setting(row["dataset"], level), row["method"])
    kept = numbers.setdefault(place, Kept({}, row.get("commit", ""), row.get("code", "")))
    for metric, (mean, std, n) in values.items():
        kept.means[metric] = Mean(experiment, row["dataset"], level, row["method"], metric, mean, std, n)


def files(numbers: Numbers) -> dict[str, str]:
    """The CSV files by their names."""
    report = Report("", "", tuple(sections(numbers).values()), (), "", "")
    written = {"results-long.csv": _without_commands(render_long(report))}
    ground = [",".join(GROUND_COLUMNS)]
    for (experiment, (dataset, noise), method), kept in numbers.items():
        if experiment == GROUND:
            means = [kept.means[name] for name in GROUND_METRICS]
            values = [*(f"{mean.mean:.4g}" for mean in means), str(means[0].n)]
            ground.append(",".join([dataset, str(noise or ""), method, *values, kept.commit, kept.code]))
    if len(ground) > 1:
        written["ground.csv"] = "\n".join(ground) + "\n"
    return written


def _without_commands(text: str) -> str:
    """A report's CSV without its longest column, which the others tell."""
    lines = list(csv.reader(io.StringIO(text)))
    column = lines[0].index("command")
    kept = io.StringIO()
    csv.writer(kept, lineterminator="\n").writerows(line[:column] + line[column + 1 :] for line in lines)
    return kept.getvalue()


def sections(numbers: Numbers) -> dict[str, Section]:
    """What a report shows of each experiment but the proving ground."""
    names = dict.fromkeys(place.experiment for place in numbers if place.experiment != GROUND)
    return {name: _section(name, numbers) for name in names}


def _section(name: str, numbers: Numbers) -> Section:
    planned = [entry.name for entry in known(name).methods]
    own = [place for place in numbers if place.experiment == name]
    own.sort(key=lambda place: planned.index(place.method) if place.method in planned else len(planned))
    cells = [
        CellResult(name, *place.setting, place.method, 0, commit=numbers[place].commit, fingerprint=numbers[place].code)
        for place in own
    ]
    tuned = {entry.name for entry in known(name).methods if (entry.selection or known(name).selection) == "oracle"}
    published = [row for row in load_published() if row.experiment == name]
    rows = [mean for place in own for mean in numbers[place].means.values()]
    return Section(
        name=name,
        title=known(name).title,
        note="",
        argument=name,
        results=Results(cells),
        published=published,
        tables=metric_tables(rows, published, {}, tuned),
        ranks=(),
        tuned=frozenset(tuned),
        known_methods=frozenset({*planned, *(place.method for place in own)}),
    )


# -- new runs --------------------------------------------------------------------------------------------------------


def of_runs(folder: Path, some_seeds: bool = False) -> tuple[Numbers, list[Place]]:
    """What a results folder adds, and what it holds in part only: other folds, seeds or settings than today's.

    With ``some_seeds`` one of several seeds is enough.
    """
    cells: dict[Place, list[CellResult]] = {}
    for cell in load_results(folder).done:
        if cell.experiment != GROUND or cell.method in GROUND_METHODS:
            cells.setdefault(Place(cell.experiment, cell.setting, cell.method), []).append(cell)
    added = {}
    for place, some in cells.items():
        planned = _planned(place.experiment).get(place)
        done = {cell.key for cell in some}
        if planned and (planned & done if some_seeds else planned <= done):
            added[place] = _kept(place, some)
    return added, [place for place in cells if place not in added]


@cache
def _planned(experiment: str) -> dict[Place, set[str]]:
    """The keys of the cells that make up each number."""
    keys: dict[Place, set[str]] = {}
    for cell in known(experiment).cells():
        place = Place(experiment, Setting(cell.dataset, cell.noise), cell.method.name)
        keys.setdefault(place, set()).add(cell.key)
    return keys


def _kept(place: Place, cells: Sequence[CellResult]) -> Kept:
    found = {mean.metric: mean for mean in means(cells) if not isnan(mean.mean)}
    if place.experiment == GROUND:
        found = {name: found[name] for name in GROUND_METRICS}
    commit, code = origin(cells)
    short = re.sub(r"\b([0-9a-f]{10})[0-9a-f]{30}", r"\1", commit)
    return Kept(found, short, f"{code}:{_settings(place)}" if code else "")


# -- age -------------------------------------------------------------------------------------------------------------


@cache
def known(experiment: str) -> Experiment:
    return load_experiment(experiment)


@cache
def modules(experiment: str, method: str) -> tuple[str, ...]:
    """What computes a method of an experiment today; nothing where it is not there any more."""
    for entry in known(experiment).methods:
        if entry.name == method:
            if isinstance(entry, ImageMethod):
                return made_by({"kind": "images", "params": {"method": entry.table}})
            return made_by({"method": entry.method, "selection": entry.selection or known(experiment).selection})
    return ()


def _settings(place: Place) -> str:
    """Eight digits that stand for the protocol and for all that the experiment's file says of a number."""
    return hashlib.sha256(" ".join(sorted(_planned(place.experiment).get(place, ()))).encode()).hexdigest()[:8]


@cache
def _age_of(made: str, names: tuple[str, ...]) -> str:
    """Cached: hundreds of numbers share their code, and reading all of it takes a tenth of a second."""
    return age_of(made, names)


def age(place: Place, code: str) -> str:
    """Of a kept number: ``"current"``, ``"changed"`` or ``"unknown"``, by the code and the settings that made it."""
    made, _, settings = code.partition(":")
    found = _age_of(made, modules(place.experiment, place.method))
    return "changed" if found == "current" and settings not in ("", _settings(place)) else found


def older(numbers: Numbers, experiments: Iterable[str]) -> str:
    """Which numbers come from other code than today's, or may do so: experiment by experiment, method by method."""
    told, some = [], False
    for name in experiments:
        own = [place for place in numbers if place.experiment == name]
        total, some = Counter(place.method for place in own), some or bool(own)
        for state, words in AGES.items():
            old = Counter(place.method for place in own if age(place, numbers[place].code) == state)
            names = [
                method if n == total[method] else f"{method} ({n} of {total[method]})" for method, n in old.items()
            ]
            if names:
                rows = "all rows" if old == total else listed(names, len(names))
                told.append(f"{known(name).title}, {words}: {rows}.")
    return f"**Older than the code.** {' '.join(told)}" if told else NONE_OLD if some else ""


def age_text(ages: Iterable[str]) -> str:
    """The same of numbers that one program made at once."""
    found = set(ages)
    words = [text for state, text in AGES.items() if state in found]
    return f"**Older than the code.** All of it is {' or '.join(words)}." if words else NONE_OLD
