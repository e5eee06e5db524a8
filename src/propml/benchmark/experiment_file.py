"""Reading the TOML of an experiment: a mistake is one sentence with the file, the key and the nearest right name."""

from __future__ import annotations

import difflib
import inspect
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from propml.benchmark.cell import MethodEntry
from propml.benchmark.metric_names import METRIC_NAMES
from propml.benchmark.problem import LEVELS, SCALINGS, has_real_candidates
from propml.corruption import CORRUPTIONS
from propml.datasets.catalogue import lookup
from propml.datasets.registry import REGISTRY
from propml.methods import METHODS, method_class

SELECTIONS = ("candidates", "oracle")
KEYS = (
    "title",
    "datasets",
    "noise",
    "corruption",
    "rows",
    "folds",
    "stratified",
    "seeds",
    "selection",
    "metrics",
    "methods",
)
METHOD_KEYS = ("method", "params", "scaling", "selection", "lams", "grid")
# Arguments that the runner gives.
GIVEN = ("random_state", "verbose")
GIVEN_TO_CORRUPTION = ("X", "truth", "random_state", "n_jobs", "cache_dir", "verbose", "labels", "names")
# Arguments of ProPMLClassifier that describe one network; the others say what it does on candidates.
OF_A_NETWORK = (
    "loss",
    "order",
    "hidden",
    "dropout",
    "input_dropout",
    "n_models",
    "epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "ema",
    "threshold",
    "device",
    "bfloat16",
)


def hint(name: Any, known: Iterable[Any]) -> str:
    """What to write instead of a name that is not known.

    >>> hint("yeastc", ["yeastcc", "birds"]), hint("x", ["yeastcc", "birds"])
    ("did you mean 'yeastcc'?", 'known are yeastcc, birds')
    """
    plain = {str(each).lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), plain, n=1, cutoff=0.5)
    return f"did you mean {plain[near[0]]!r}?" if near else f"known are {', '.join(map(str, plain.values()))}"


def read_settings(path: Path) -> dict[str, Any]:
    """The arguments of :class:`~propml.benchmark.experiment.Experiment` that a file gives, checked."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there; give the path of an experiment's .toml file") from None
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as TOML: {error}") from error
    table = Table(values, path)
    table.only(KEYS)
    selection = table.choice("selection", SELECTIONS, "candidates")
    folds = table.integer("folds", 5, least=2)
    settings: dict[str, Any] = {
        "title": table.text("title", path.stem),
        "datasets": _datasets(table),
        "noise": tuple(float(level) for level in table.numbers("noise", ())),
        "rows": table.integer("rows", None, least=folds),
        "folds": folds,
        "stratified": table.flag("stratified", False),
        "seeds": table.integers("seeds", (0,)),
        "selection": selection,
        **_corruption(table),
    }
    _check_noise(table, settings)
    if "metrics" in values:
        settings["metrics"] = table.names("metrics", METRIC_NAMES, "metric")
    methods = table.table("methods")
    if not methods.values:
        raise methods.error("", "is empty; give at least one method, such as [methods.Ridge]")
    settings["methods"] = tuple(_method(methods.table(name), name, selection) for name in methods.values)
    return settings


class Table:
    """A table of the file, read key by key; what is wrong becomes an error that names file and key.

    Parameters
    ----------
    values : mapping
    file : path
    where : str
        The dotted name of the table; empty for the whole file.
    """

    def __init__(self, values: Mapping[str, Any], file: Path, where: str = "") -> None:
        self.values, self.file, self.where = values, file, where

    def error(self, key: str, problem: str) -> ValueError:
        return ValueError(f"{self.file}: {self._name(key)} {problem}")

    def _name(self, key: str) -> str:
        """The dotted name of a key of this table, or of the table itself."""
        bare = key if key.replace("-", "").replace("_", "").isalnum() else f'"{key}"'
        return ".".join(part for part in (self.where, bare if key else "") if part)

    def only(self, known: Iterable[str], what: str = "key") -> None:
        for key in self.values:
            if key not in known:
                raise self.error(key, f"is not a known {what}; {hint(key, known)}")

    def table(self, key: str) -> Table:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"is {value!r}; a table was expected")
        return Table(value, self.file, self._name(key))

    def text(self, key: str, default: str) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"is {value!r}; a text was expected")
        return value

    def choice(self, key: str, known: Iterable[str], default: str | None, what: str = "") -> Any:
        if key not in self.values:
            return default
        value = self.text(key, "")
        if value not in known:
            raise self.error(key, f"is {value!r}, which is not a known {what or key}; {hint(value, known)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"is {value!r}; true or false was expected")
        return value

    def integer(self, key: str, default: int | None, *, least: int) -> Any:
        value = self.values.get(key, default)
        if key in self.values and not (_is_integer(value) and value >= least):
            raise self.error(key, f"is {value!r}; a whole number of at least {least} was expected")
        return value

    def numbers(self, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """Finite numbers of at least 0."""
        return self._list(key, default, "numbers of at least 0", lambda v: _is_number(v) and v >= 0)

    def integers(self, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return self._list(key, default, "whole numbers of at least 0", lambda v: _is_integer(v) and v >= 0)

    def names(self, key: str, known: Iterable[str], what: str) -> tuple[str, ...]:
        found = self._list(key, (), "names", lambda v: isinstance(v, str))
        for name in found:
            if name not in known:
                raise self.error(key, f"names {name!r}, which is not a known {what}; {hint(name, known)}")
        return found

    def _list(self, key: str, default: tuple[Any, ...], what: str, right: Any) -> tuple[Any, ...]:
        if key not in self.values:
            return default
        value = self.values[key]
        if not isinstance(value, list) or not value:
            raise self.error(key, f"is {value!r}; a list of {what} was expected, with at least one")
        for place, each in enumerate(value):
            if not right(each):
                raise self.error(key, f"holds {each!r}; a list of {what} was expected")
            if each in value[:place]:
                raise self.error(key, f"holds {each!r} twice; leave one out")
        return tuple(value)


def _datasets(table: Table) -> tuple[str, ...]:
    if "datasets" not in table.values:
        raise table.error("datasets", f"is missing; give a list of names out of {', '.join(_tables())}")
    return table.names("datasets", _tables(), "dataset of tables")


def _tables() -> tuple[str, ...]:
    return tuple(name for name in REGISTRY if lookup(name).suite != "vision")


def _corruption(table: Table) -> dict[str, Any]:
    """A name, or a table with the name and further arguments."""
    if not isinstance(table.values.get("corruption"), dict):
        return {"corruption": table.choice("corruption", LEVELS, "svm")}
    inner = table.table("corruption")
    name = inner.choice("name", LEVELS, "svm", "corruption")
    taken = {*GIVEN_TO_CORRUPTION, LEVELS[name].argument}
    arguments = [each for each in inspect.signature(CORRUPTIONS[name]).parameters.values() if each.name not in taken]
    inner.only(["name", *(each.name for each in arguments)], f"argument of the corruption {name!r}")
    for each in arguments:
        if each.default is each.empty and each.name not in inner.values:
            raise inner.error(each.name, f"is missing; the corruption {name!r} needs it")
    settings = {key: value for key, value in inner.values.items() if key != "name"}
    return {"corruption": name, "corruption_settings": settings}


def _check_noise(table: Table, settings: Mapping[str, Any]) -> None:
    made = [name for name in settings["datasets"] if not has_real_candidates(name)]
    if made and not settings["noise"]:
        raise table.error("noise", f"is missing; {made[0]} has no candidates of its own, so give a list such as [50]")
    level = LEVELS[settings["corruption"]]
    for noise in settings["noise"]:
        broken = level.argument == "count" and level.of(noise) != noise
        if noise > level.most or broken:
            expected = "a whole number" if broken else f"a number between 0 and {level.most:g}"
            raise table.error("noise", f"holds {noise:g}; {settings['corruption']!r} expects {expected}")


def _method(table: Table, name: str, selection: str) -> MethodEntry:
    table.only(METHOD_KEYS)
    if not name.strip():
        raise table.error("", "has no name; name the method as the tables shall print it")
    if "method" not in table.values:
        raise table.error("method", f"is missing; {hint(name, METHODS)}")
    method = table.choice("method", METHODS, None)
    own = table.choice("selection", SELECTIONS, None)
    scaling = table.choice("scaling", SCALINGS, "none" if method == "propml" else "unit-range")
    params = _arguments(table.table("params"), method)
    oracle = (own or selection) == "oracle"
    lams, grid = table.numbers("lams", ()), table.table("grid")
    for key, owner in (("lams", method == "propml"), ("grid", method != "propml")):
        if key in table.values and not (oracle and owner):
            of = "propml" if key == "lams" else "other methods than propml"
            raise table.error(key, f'is for {of} with selection = "oracle"; leave it out')
    if oracle and method == "propml":
        _check_network(table.table("params"))
    elif oracle and not grid.values:
        raise table.error("grid", 'is missing; selection = "oracle" picks from it, such as grid = { alpha = [1, 10] }')
    for key in _arguments(grid, method):
        if not isinstance(grid.values[key], list) or not grid.values[key]:
            raise grid.error(key, f"is {grid.values[key]!r}; a list of values to try was expected")
    return MethodEntry(name, method, params, scaling, own, lams or None, _frozen(grid.values) or None)


def _arguments(table: Table, method: str) -> dict[str, Any]:
    known = [name for name in method_class(method)().get_params() if name not in GIVEN]
    for name in GIVEN:
        if name in table.values:
            raise table.error(name, "is set by the runner (random_state is the seed); leave it out")
    table.only(known, f"argument of {method}")
    for key, value in table.values.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise table.error(key, f"is {value!r}; a finite number, a text, true or false was expected") from None
    return _frozen(table.values)


def _check_network(params: Table) -> None:
    for key, value in params.values.items():
        if key not in OF_A_NETWORK and value is not False:
            raise params.error(key, 'says what to do on candidates, and selection = "oracle" does not; leave it out')


def _frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    if isinstance(value, dict):
        return {key: _frozen(each) for key, each in value.items()}
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
