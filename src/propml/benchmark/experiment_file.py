"""Reading the TOML of an experiment: a mistake is one sentence with the file, the key and the nearest right name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from propml.benchmark.cell import SELECTIONS, MethodEntry
from propml.benchmark.image_cell import ImageCell, ImageMethod
from propml.benchmark.problem import SCALINGS, OwnFile, has_real_candidates, own_file
from propml.benchmark.rivals import RIVALS, benchmark_class
from propml.benchmark.toml_table import TomlTable, frozen, read_table
from propml.corruption import CORRUPTIONS
from propml.datasets import names
from propml.datasets.catalogue import lookup
from propml.datasets.registry import REGISTRY
from propml.file_errors import reading
from propml.messages import did_you_mean
from propml.methods import METHODS
from propml.metrics import VISION_METRICS
from propml.noise import KINDS, Noise
from propml.paper.metric_names import METRIC_NAMES, TABULAR_METRICS
from propml.vision.recipe import METHODS as IMAGE_METHODS
from propml.vision.recipe import VisionRecipe as Recipe
from propml.vision.recipe import with_new_names

SHARED_KEYS = ("kind", "title", "note", "datasets", "noise", "seeds", "selection", "metrics", "methods")
TABLE_KEYS = (*SHARED_KEYS, "files", "corruption", "corruptions", "rows", "folds", "test_folds", "stratified")
IMAGE_KEYS = (*SHARED_KEYS, "images", "recipe")
FOR_IMAGES = dict.fromkeys(("images", "recipe"), 'is for experiments on images; say kind = "images", or leave it out')
FOR_TABLES = 'is for experiments on tables, and this one says kind = "images"'
# Keys of experiments on tables that mean nothing on images.
NOT_FOR_IMAGES = {
    "rows": f"{FOR_TABLES}; say images = {{ train = 300, test = 200 }}",
    **dict.fromkeys(("files", "corruptions"), f"{FOR_TABLES}; leave it out"),
    "corruption": f"{FOR_TABLES}; noise is the rate at which labels that are not true become candidates. Leave it out",
    **dict.fromkeys(
        ("folds", "test_folds", "stratified"),
        f"{FOR_TABLES}; images are learned from and tested on the two parts of their dataset. Leave it out",
    ),
    "params": f"{FOR_TABLES}; say recipe = {{ … }}",
    "scaling": f"{FOR_TABLES}; leave it out",
    "lams": f'{FOR_TABLES}; say recipe = {{ lam = 0.3 }}, or lam = "auto", which tries several. Leave it out',
}
# Arguments that the runner gives to a method, to a corruption, and to a recipe.
GIVEN = ("random_state", "verbose")
GIVEN_TO_CORRUPTIONS = ("X", "truth", "random_state", "n_jobs", "cache_dir", "verbose", "labels", "names")
GIVEN_TO_RECIPES = {
    "noise": "is the cell's; give a list of levels, noise = [0.1, 0.4], for the whole experiment",
    "seed": "is the cell's; give a list, seeds = [0, 1], for the whole experiment",
    "checkpoint_seconds": "is set by the runner: a cell is trained without a break; leave it out",
}
# Arguments of ProPMLClassifier that describe one network; the others say what it does on candidates.
OF_A_NETWORK = (
    *("loss", "order", "hidden", "bins", "dropout", "input_dropout", "n_models", "epochs", "batch_size"),
    *("learning_rate", "weight_decay", "ema", "threshold", "device", "bfloat16"),
)
PARTS = ("train", "test")


def read_settings(path: Path) -> dict[str, Any]:
    """The arguments of :class:`~propml.benchmark.experiment.Experiment` that a file gives, checked."""
    with reading(path, "experiment", "correct it; paper/quick.toml is an example"):
        table = read_table(path)
        kind = table.choice("kind", ("tables", "images"), "tables")
        selection = table.choice("selection", SELECTIONS, SELECTIONS[0])
        return {
            "kind": kind,
            "title": table.text("title", path.stem),
            "note": table.text("note", ""),
            "seeds": table.integers("seeds", (0,)),
            "selection": selection,
            **(_image_settings if kind == "images" else _table_settings)(table, selection),
        }


# -- tables -----------------------------------------------------------------------------------------------------------


def _table_settings(table: TomlTable, selection: str) -> dict[str, Any]:
    """The arguments that only tables have."""
    table.refuse(FOR_IMAGES)
    table.only(TABLE_KEYS)
    folds = table.integer("folds", 5, least=2)
    known = [name for name in REGISTRY if lookup(name).suite != "vision"]
    own = table.tables("files", "file") if "files" in table.values else {}
    for name in table.values.get("datasets", ()):
        if isinstance(name, str) and Path(name).suffix and name not in (*own, *known):
            raise table.error("files", f'lacks "{name}"; say where its true labels are: [files."{name}"] truth = "…"')
    datasets = table.names("datasets", (*own, *known), "dataset of tables")
    table.table("files").only(datasets, "dataset of this experiment")
    files = {name: own_file(inner, name, table.file.parent) for name, inner in own.items()}
    return {
        "datasets": datasets,
        "files": files,
        "rows": table.integer("rows", None, least=folds),
        "folds": folds,
        "test_folds": table.integer("test_folds", None, least=1),
        "stratified": table.flag("stratified", False),
        **_noise_settings(table, datasets, files),
        "metrics": table.names("metrics", METRIC_NAMES, "metric", TABULAR_METRICS),
        "methods": tuple(_method(inner, name, selection) for name, inner in table.tables("methods", "method").items()),
    }


def _noise_settings(table: TomlTable, datasets: tuple[str, ...], files: Mapping[str, OwnFile]) -> dict[str, Any]:
    """One corruption with its levels, or several under ``[corruptions]``."""
    if "corruptions" in table.values:
        table.refuse(dict.fromkeys(("noise", "corruption"), "stands beside [corruptions]; give one of the two"))
        return _several_kinds(table)
    # What has no level cannot stand beside a list of levels.
    known = [name for name, kind in KINDS.items() if kind.argument]
    if isinstance(table.values.get("corruption"), dict):
        inner = table.table("corruption")
        name = inner.choice("name", known, "svm", "corruption")
        settings = _corruption_settings(inner, name, own=("name",))
    else:
        name, settings = table.choice("corruption", known, "svm"), {}
    noise = _levels(table, name)
    needing = [dataset for dataset in datasets if not has_real_candidates(dataset, files)]
    if needing and not noise:
        raise table.error(
            "noise", f"is missing; {needing[0]} has no candidates of its own, so give a list such as [50]"
        )
    return {"noise": noise, "corruption_settings": {name: settings}}


def _several_kinds(table: TomlTable) -> dict[str, Any]:
    """Kinds of noise by the names of their corruptions, each with its levels and further arguments."""
    noise: list[Noise] = []
    settings: dict[str, dict[str, Any]] = {}
    tables = table.tables("corruptions", "corruption")
    table.table("corruptions").only(KINDS, "corruption")
    for name, inner in tables.items():
        settings[name] = _corruption_settings(inner, name, own=("noise",))
        if not KINDS[name].argument:
            inner.refuse({"noise": f"means nothing to {name!r}, which has no level; leave it out"})
            noise.append(Noise(name, named=True))
            continue
        levels = _levels(inner, name)
        if not levels:
            raise inner.error("noise", "is missing; give a list of levels")
        noise += [level._replace(named=True) for level in levels]
    return {"noise": tuple(noise), "corruption_settings": settings}


def _corruption_settings(inner: TomlTable, name: str, own: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a corruption besides its level; ``own`` are keys of the table that are none."""
    taken = {*GIVEN_TO_CORRUPTIONS, KINDS[name].argument}
    arguments = [each for each in inspect.signature(CORRUPTIONS[name]).parameters.values() if each.name not in taken]
    inner.only([*own, *(each.name for each in arguments)], f"argument of the corruption {name!r}")
    for each in arguments:
        if each.default is each.empty and each.name not in inner.values:
            raise inner.error(each.name, f"is missing; the corruption {name!r} needs it")
    return {key: value for key, value in inner.values.items() if key not in own}


def _levels(table: TomlTable, name: str) -> tuple[Noise, ...]:
    numbers, kind = table.numbers("noise", ()), KINDS[name]
    for number in numbers:
        broken = kind.argument == "count" and number != int(number)
        if number > kind.most or broken:
            expected = "a whole number" if broken else f"a number between 0 and {kind.most:g}"
            raise table.error("noise", f"holds {number:g}; {name!r} expects {expected}")
    return tuple(Noise.read(float(number), name) for number in numbers)


def _method(table: TomlTable, name: str, selection: str) -> MethodEntry:
    table.refuse(FOR_IMAGES)
    table.only(("method", "params", "scaling", "selection", "lams"))
    known = (*METHODS, *RIVALS)
    if "method" not in table.values:
        raise table.error("method", f"is missing; {did_you_mean(name, known)}")
    method = table.choice("method", known, None)
    own = table.choice("selection", SELECTIONS, None)
    scaling = table.choice("scaling", SCALINGS, "none" if method == "propml" or method in RIVALS else "unit-range")
    params = _arguments(table.table("params"), method)
    oracle = (own or selection) == "oracle"
    lams = table.numbers("lams", ())
    if lams and not (oracle and method == "propml"):
        raise table.error("lams", 'is for propml with selection = "oracle"; leave it out')
    if oracle and method == "propml":
        _check_network(table.table("params"))
    elif oracle and not hasattr(benchmark_class(method), "fit_to_truth"):
        raise table.error("selection", f'is "oracle", and {method} picks nothing by true labels; say "candidates"')
    return MethodEntry(name, method, params, scaling, own, lams or None)


def _arguments(table: TomlTable, method: str) -> dict[str, Any]:
    known = [name for name in benchmark_class(method)().get_params() if name not in GIVEN]
    table.refuse(dict.fromkeys(GIVEN, "is set by the runner (random_state is the seed); leave it out"))
    table.only(known, f"argument of {method}")
    for key, value in table.values.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise table.error(key, f"is {value!r}; a finite number, a text, true or false was expected") from None
    return frozen(table.values)


def _check_network(params: TomlTable) -> None:
    for key, value in params.values.items():
        if key not in OF_A_NETWORK and value is not False:
            raise params.error(key, 'says what to do on candidates, and selection = "oracle" does not; leave it out')


# -- images -----------------------------------------------------------------------------------------------------------


def _image_settings(table: TomlTable, selection: str) -> dict[str, Any]:
    """The arguments that only images have."""
    table.refuse(NOT_FOR_IMAGES)
    table.only(IMAGE_KEYS)
    if "noise" not in table.values:
        raise table.error("noise", "is missing; candidates are made by flips, so give a list of rates such as [0.1]")
    rates = table.numbers("noise", ())
    for rate in rates:
        if rate >= 1:
            raise table.error("noise", f"holds {rate:g}; rates of at least 0 and below 1 were expected")
    noise = tuple(Noise("flips", float(rate)) for rate in rates)
    images = table.table("images")
    images.only(PARTS, "part")
    shared = _recipe(table)
    return {
        "datasets": table.names("datasets", (*names("vision"), *names("embedded")), "dataset of images"),
        "noise": noise,
        "images": {part: images.integer(part, None, least=1) for part in PARTS if part in images.values},
        "metrics": table.names("metrics", METRIC_NAMES, "metric", VISION_METRICS),
        "methods": tuple(
            _image_method(inner, name, shared, noise, selection)
            for name, inner in table.tables("methods", "method").items()
        ),
    }


def _image_method(
    table: TomlTable, name: str, shared: TomlTable, noise: tuple[Noise, ...], selection: str
) -> ImageMethod:
    for_tables = table.values.get("method") in (*METHODS, *RIVALS)  # on the features of the recipe's backbone
    table.refuse({key: why for key, why in NOT_FOR_IMAGES.items() if not (for_tables and key == "params")})
    table.only(("method", "recipe", "selection", *(("params",) if for_tables else ())))
    own = _recipe(table)
    if not own.values and "method" not in table.values:
        raise table.error("", f'names no method and no recipe; say method = "…" ({did_you_mean(name, IMAGE_METHODS)})')
    preset = table.choice("method", (*METHODS, *RIVALS) if for_tables else IMAGE_METHODS, None)
    settings = {**shared.values, **({} if for_tables else IMAGE_METHODS.get(preset, {})), **own.values}
    entry = ImageMethod(name, settings, table.choice("selection", SELECTIONS, None))
    if for_tables:
        entry = replace(entry, table=preset, params=_arguments(table.table("params"), preset))
    for level in noise:
        try:
            ImageCell("", "", level, entry, 0, selection=entry.selection or selection).recipe()
        except ValueError as error:
            # What the recipe said, under the name of the key it speaks of: the method's, or the one that all share.
            key, _, problem = str(error).partition(" ")
            for recipe in (own, shared):
                if key in recipe.values:
                    raise recipe.error(key, problem) from error
            raise table.error("recipe", f"does not work: {error}") from error
    return entry


def _recipe(table: TomlTable) -> TomlTable:
    """The table ``recipe`` of the file or of a method: known settings, whose values the recipe itself checks."""
    recipe = table.table("recipe")
    recipe.values = with_new_names(recipe.values)
    recipe.refuse(GIVEN_TO_RECIPES)
    recipe.only([field.name for field in fields(Recipe)], "setting of a recipe")
    if recipe.values.get("select") == "oracle":
        raise recipe.error("select", 'is "oracle"; say selection = "oracle", for the experiment or for a method')
    return recipe
