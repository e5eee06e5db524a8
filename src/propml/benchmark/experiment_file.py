"""Reading the TOML of an experiment: a mistake is one sentence with the file, the key and the nearest right name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from propml.benchmark.any_cell import SELECTIONS
from propml.benchmark.cell import MethodEntry
from propml.benchmark.image_experiment_file import image_settings
from propml.benchmark.metric_names import METRIC_NAMES, TABULAR_METRICS
from propml.benchmark.noise_table import noise_settings
from propml.benchmark.problem import SCALINGS, has_real_candidates
from propml.benchmark.rivals import RIVALS, benchmark_class
from propml.benchmark.toml_table import Table, frozen, hint, read_table
from propml.datasets.catalogue import lookup
from propml.datasets.registry import REGISTRY
from propml.file_errors import reading
from propml.methods import METHODS

KINDS = ("tables", "images")
KEYS = (
    "kind",
    "title",
    "note",
    "datasets",
    "noise",
    "corruption",
    "corruptions",
    "rows",
    "folds",
    "test_folds",
    "stratified",
    "seeds",
    "selection",
    "metrics",
    "methods",
)
METHOD_KEYS = ("method", "params", "scaling", "selection", "lams", "grid")
FOR_IMAGES = dict.fromkeys(("images", "recipe"), 'is for experiments on images; say kind = "images", or leave it out')
# Arguments that the runner gives.
GIVEN = ("random_state", "verbose")
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


def read_settings(path: Path) -> dict[str, Any]:
    """The arguments of :class:`~propml.benchmark.experiment.Experiment` that a file gives, checked."""
    with reading(path, "experiment", "correct it; paper/quick.toml is an example"):
        return _settings(read_table(path), path)


def _settings(table: Table, path: Path) -> dict[str, Any]:
    kind = table.choice("kind", KINDS, KINDS[0])
    selection = table.choice("selection", SELECTIONS, SELECTIONS[0])
    settings = (image_settings if kind == "images" else _table_settings)(table, selection)
    return {
        "kind": kind,
        "title": table.text("title", path.stem),
        "note": table.text("note", ""),
        "seeds": table.integers("seeds", (0,)),
        "selection": selection,
        **settings,
    }


def _table_settings(table: Table, selection: str) -> dict[str, Any]:
    """The arguments that only tables have."""
    table.refuse(FOR_IMAGES)
    table.only(KEYS)
    folds = table.integer("folds", 5, least=2)
    settings: dict[str, Any] = {
        "datasets": table.names("datasets", _tables(), "dataset of tables"),
        "rows": table.integer("rows", None, least=folds),
        "folds": folds,
        "test_folds": table.integer("test_folds", None, least=1),
        "stratified": table.flag("stratified", False),
    }
    made = (name for name in settings["datasets"] if not has_real_candidates(name))
    settings |= noise_settings(table, made)
    settings["metrics"] = table.names("metrics", METRIC_NAMES, "metric", TABULAR_METRICS)
    methods = table.tables("methods", "method")
    settings["methods"] = tuple(_method(inner, name, selection) for name, inner in methods.items())
    return settings


def _tables() -> tuple[str, ...]:
    return tuple(name for name in REGISTRY if lookup(name).suite != "vision")


def _method(table: Table, name: str, selection: str) -> MethodEntry:
    table.refuse(FOR_IMAGES)
    table.only(METHOD_KEYS)
    known = (*METHODS, *RIVALS)
    if "method" not in table.values:
        raise table.error("method", f"is missing; {hint(name, known)}")
    method = table.choice("method", known, None)
    own = table.choice("selection", SELECTIONS, None)
    scaling = table.choice("scaling", SCALINGS, "none" if method == "propml" or method in RIVALS else "unit-range")
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
    return MethodEntry(name, method, params, scaling, own, lams or None, frozen(grid.values) or None)


def _arguments(table: Table, method: str) -> dict[str, Any]:
    known = [name for name in benchmark_class(method)().get_params() if name not in GIVEN]
    for name in GIVEN:
        if name in table.values:
            raise table.error(name, "is set by the runner (random_state is the seed); leave it out")
    table.only(known, f"argument of {method}")
    for key, value in table.values.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise table.error(key, f"is {value!r}; a finite number, a text, true or false was expected") from None
    return frozen(table.values)


def _check_network(params: Table) -> None:
    for key, value in params.values.items():
        if key not in OF_A_NETWORK and value is not False:
            raise params.error(key, 'says what to do on candidates, and selection = "oracle" does not; leave it out')
