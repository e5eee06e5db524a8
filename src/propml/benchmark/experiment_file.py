"""Reading the TOML of an experiment: a mistake is one sentence with the file, the key and the nearest right name."""

from __future__ import annotations

import inspect
import json
import math
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from propml.benchmark.cell import SELECTIONS, MethodEntry
from propml.benchmark.image_cell import ImageCell, ImageMethod
from propml.benchmark.problem import SCALINGS, OwnFile, has_real_candidates
from propml.benchmark.rivals import RIVALS, benchmark_class
from propml.corruption import CORRUPTIONS
from propml.datasets import names
from propml.datasets.catalogue import lookup
from propml.datasets.registry import REGISTRY
from propml.file_errors import reading
from propml.messages import did_you_mean
from propml.methods import METHODS
from propml.metrics import VISION_METRICS
from propml.noise import KINDS, Noise
from propml.paper.published import METRIC_NAMES, TABULAR_METRICS
from propml.tables import read_table
from propml.vision.recipe import METHODS as IMAGE_METHODS
from propml.vision.recipe import VisionRecipe as Recipe
from propml.vision.recipe import with_new_names

SHARED_KEYS = ("kind", "title", "note", "datasets", "noise", "seeds", "selection", "metrics", "methods")
TABLE_KEYS = (*SHARED_KEYS, "files", "corruption", "corruptions", "rows", "folds", "test_folds", "stratified")
IMAGE_KEYS = (*SHARED_KEYS, "images", "recipe")
# Arguments that the runner gives to a method, to a corruption, and to a recipe.
GIVEN = ("random_state", "verbose")
GIVEN_TO_CORRUPTIONS = ("X", "truth", "random_state", "n_jobs", "cache_dir", "verbose", "labels", "names")
GIVEN_TO_RECIPES = ("noise", "seed", "checkpoint_seconds")
# Arguments of ProPMLClassifier that describe one network; the others say what it does on candidates.
OF_A_NETWORK = (
    *("loss", "order", "hidden", "bins", "dropout", "input_dropout", "n_models", "epochs", "batch_size"),
    *("learning_rate", "weight_decay", "ema", "threshold", "device", "bfloat16"),
)


def read_settings(path: Path) -> dict[str, Any]:
    """The arguments of :class:`~propml.benchmark.experiment.Experiment` that a file gives, checked."""
    with reading(path, "experiment", "correct it; paper/quick.toml is an example"):
        table = TomlTable(tomllib.loads(path.read_text(encoding="utf-8")), path)
        kind = table.choice("kind", ("tables", "images"), "tables")
        selection = table.choice("selection", SELECTIONS, SELECTIONS[0])
        return {
            "kind": kind,
            "title": table.text("title", path.stem),
            "note": table.text("note", ""),
            "seeds": table.list_of(
                "seeds", (0,), "whole numbers of at least 0", lambda each: is_integer(each) and each >= 0
            ),
            "selection": selection,
            **(_image_settings if kind == "images" else _table_settings)(table, selection),
        }


def _table_settings(table: TomlTable, selection: str) -> dict[str, Any]:
    """The arguments that only tables have."""
    table.only(TABLE_KEYS, 'key of an experiment on tables, which it is without kind = "images"')
    folds = table.integer("folds", 5, least=2)
    known = [name for name in REGISTRY if lookup(name).suite != "vision"]
    own = table.tables("files", "file") if "files" in table.values else {}
    datasets = table.names("datasets", (*own, *known), "dataset of tables, nor a file under [files]")
    table.table("files").only(datasets, "dataset of this experiment")
    files = {name: _own_file(inner, name) for name, inner in own.items()}
    return {
        "datasets": datasets,
        "files": files,
        "rows": table.integer("rows", None, least=folds),
        "folds": folds,
        "test_folds": table.integer("test_folds", None, least=1),
        "stratified": table.value("stratified", False, is_flag, "true or false"),
        **_noise_settings(table, datasets, files),
        "metrics": table.names("metrics", METRIC_NAMES, "metric", TABULAR_METRICS),
        "methods": tuple(_method(inner, name, selection) for name, inner in table.tables("methods", "method").items()),
    }


def _noise_settings(table: TomlTable, datasets: tuple[str, ...], files: Mapping[str, OwnFile]) -> dict[str, Any]:
    """One corruption with its levels, or several under ``[corruptions]``, each with further arguments."""
    if "corruptions" not in table.values:
        # What has no level cannot stand beside a list of levels.
        known = [name for name, kind in KINDS.items() if kind.argument]
        levels = _levels(table, table.choice("corruption", known, "svm"))
        needing = [dataset for dataset in datasets if not has_real_candidates(dataset, files)]
        if needing and not levels:
            why = f"{needing[0]} has no candidates of its own"
            raise table.error("noise", f"is missing; {why}, so give a list such as [50]")
        return {"noise": levels, "corruption_settings": {}}
    for key in ("noise", "corruption"):
        if key in table.values:
            raise table.error(key, "stands beside [corruptions]; give one of the two")
    noise: list[Noise] = []
    settings: dict[str, dict[str, Any]] = {}
    tables = table.tables("corruptions", "corruption")
    table.table("corruptions").only(KINDS, "corruption")
    for name, inner in tables.items():
        level = KINDS[name].argument
        arguments = dict(inspect.signature(CORRUPTIONS[name]).parameters)
        known = [key for key in arguments if key not in (*GIVEN_TO_CORRUPTIONS, level)] + ["noise"] * bool(level)
        inner.only(known, f"argument of the corruption {name!r}")
        for key in known:
            if key != "noise" and arguments[key].default is inspect.Parameter.empty and key not in inner.values:
                raise inner.error(key, f"is missing; the corruption {name!r} needs it")
        settings[name] = {key: value for key, value in inner.values.items() if key != "noise"}
        levels = _levels(inner, name) if level else (Noise(name),)
        if not levels:
            raise inner.error("noise", "is missing; give a list of levels")
        noise += [each._replace(named=True) for each in levels]
    return {"noise": tuple(noise), "corruption_settings": settings}


def _levels(table: TomlTable, name: str) -> tuple[Noise, ...]:
    numbers, kind = table.numbers("noise"), KINDS[name]
    for number in numbers:
        broken = kind.argument == "count" and number != int(number)
        if number > kind.most or broken:
            expected = "a whole number" if broken else f"a number between 0 and {kind.most:g}"
            raise table.error("noise", f"holds {number:g}; {name!r} expects {expected}")
    return tuple(Noise.read(float(number), name) for number in numbers)


def _method(table: TomlTable, name: str, selection: str) -> MethodEntry:
    table.only(("method", "params", "scaling", "selection", "lams"), "key of a method for tables")
    known = (*METHODS, *RIVALS)
    if "method" not in table.values:
        raise table.error("method", f"is missing; {did_you_mean(name, known)}")
    method = table.choice("method", known, None)
    own = table.choice("selection", SELECTIONS, None)
    scaling = table.choice("scaling", SCALINGS, "none" if method == "propml" or method in RIVALS else "unit-range")
    params = _arguments(table.table("params"), method)
    oracle = (own or selection) == "oracle"
    lams = table.numbers("lams")
    if lams and not (oracle and method == "propml"):
        raise table.error("lams", 'is for propml with selection = "oracle"; leave it out')
    if oracle and method == "propml":
        for key, value in params.items():
            if key not in OF_A_NETWORK and value is not False:
                what = 'says what to do on candidates, and selection = "oracle" does not; leave it out'
                raise table.table("params").error(key, what)
    elif oracle and not hasattr(benchmark_class(method), "fit_to_truth"):
        raise table.error("selection", f'is "oracle", and {method} picks nothing by true labels; say "candidates"')
    return MethodEntry(name, method, params, scaling, own, lams or None)


def _arguments(table: TomlTable, method: str) -> dict[str, Any]:
    known = [name for name in benchmark_class(method)().get_params() if name not in GIVEN]
    table.only(known, f"argument of {method} (the runner sets {' and '.join(GIVEN)})")
    for key, value in table.values.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise table.error(key, f"is {value!r}; a finite number, a text, true or false was expected") from None
    return frozen(table.values)


# Options that may be lists.
LISTS = ("truth", "categorical", "label_columns", "votes_columns", "features", "ignore", "missing")
NOT_HERE = ("path", "image", "allow_outside")  # no method looks at pictures of a table
OPTIONS = ("truth", "categorical", *(name for name in inspect.signature(read_table).parameters if name not in NOT_HERE))


def _own_file(table: TomlTable, name: str) -> OwnFile:
    """A file with its table ``[files."name"]``, checked: it is read once, so that mistakes are told before the run."""
    others = {
        "min_votes": (is_integer, "a whole number"),
        "min_confidence": (is_number, "a number"),
        "merge_labels": (is_flag, "true or false"),
        **dict.fromkeys(LISTS, (is_text, "a text or a list of texts")),
    }
    table.only(OPTIONS, "option")
    for key, value in table.values.items():
        right, expected = others.get(key, (is_text, "a text"))
        if not all(map(right, value if key in LISTS and isinstance(value, list) else [value])):
            raise table.error(key, f"is {value!r}; {expected} was expected")
    if table.values.get("embed") == "auto":
        raise table.error("embed", 'is "auto", which looks at the labels of all rows; name the encoder')
    try:
        return OwnFile.read(name, table.file.parent, frozen(table.values))
    except (ValueError, OSError) as error:
        raise table.error("", f"does not work: {error}") from error


# -- images -----------------------------------------------------------------------------------------------------------


def _image_settings(table: TomlTable, selection: str) -> dict[str, Any]:
    """The arguments that only images have."""
    table.only(IMAGE_KEYS, 'key of an experiment on images, which kind = "images" makes it')
    if "noise" not in table.values:
        raise table.error("noise", "is missing; candidates are made by flips, so give a list of rates such as [0.1]")
    noise = _levels(table, "flips")
    images = table.table("images")
    images.only(("train", "test"), "part")
    shared = _recipe(table)
    return {
        "datasets": table.names("datasets", (*names("vision"), *names("embedded")), "dataset of images"),
        "noise": noise,
        "images": {part: images.integer(part, None, least=1) for part in images.values},
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
    keys = ("method", "recipe", "selection", *(("params",) if for_tables else ()))
    table.only(keys, "key of a method for images")
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
    known = [field.name for field in fields(Recipe) if field.name not in GIVEN_TO_RECIPES]
    recipe.only(known, "setting of a recipe (noise and seeds are the experiment's)")
    if recipe.values.get("select") == "oracle":
        raise recipe.error("select", 'is "oracle"; say selection = "oracle", for the experiment or for a method')
    return recipe


# -- a table of the file, read key by key -----------------------------------------------------------------------------


class TomlTable:
    """A table of the file; what is wrong becomes an error that names file and key.

    ``where`` is the dotted name of the table, empty for the whole file.
    """

    def __init__(self, values: Mapping[str, Any], file: Path, where: str = "") -> None:
        self.values, self.file, self.where = values, file, where

    def error(self, key: str, problem: str) -> ValueError:
        return ValueError(f"{self.file}: {self._name(key)} {problem}")

    def _name(self, key: str) -> str:
        """The dotted name of a key of this table, or of the table itself."""
        bare = key if key.replace("-", "").replace("_", "").isalnum() else f'"{key}"'
        return ".".join(part for part in (self.where, bare if key else "") if part)

    def only(self, known: Collection[str], what: str) -> None:
        """Raise where a key is not known."""
        for key in self.values:
            if key not in known:
                raise self.error(key, f"is not a known {what}; {did_you_mean(key, known)}")

    def table(self, key: str) -> TomlTable:
        value = self.value(key, {}, lambda given: isinstance(given, dict), "a table")
        return TomlTable(value, self.file, self._name(key))

    def tables(self, key: str, what: str) -> dict[str, TomlTable]:
        """The tables in a table by their names, at least one."""
        outer = self.table(key)
        if not outer.values:
            raise outer.error("", f"is empty; give at least one {what}, such as [{key}.Ridge]")
        return {name: outer.table(name) for name in outer.values}

    def value(self, key: str, default: Any, right: Callable[[Any], Any], expected: str) -> Any:
        """What a key says, checked, or the default where it is not there."""
        value = self.values.get(key, default)
        if key in self.values and not right(value):
            raise self.error(key, f"is {value!r}; {expected} was expected")
        return value

    def text(self, key: str, default: str) -> str:
        return self.value(key, default, lambda value: is_text(value) and value.strip(), "a text")

    def integer(self, key: str, default: int | None, *, least: int) -> Any:
        expected = f"a whole number of at least {least}"
        return self.value(key, default, lambda value: is_integer(value) and value >= least, expected)

    def choice(self, key: str, known: Collection[str], default: str | None) -> Any:
        if key not in self.values:
            return default
        value = self.text(key, "")
        if value not in known:
            raise self.error(key, f"is {value!r}, which is not a known {key}; {did_you_mean(value, known)}")
        return value

    def numbers(self, key: str) -> tuple[float, ...]:
        """Finite numbers of at least 0; none where the key is not there."""
        return self.list_of(key, (), "numbers of at least 0", lambda value: is_number(value) and value >= 0)

    def names(
        self, key: str, known: Collection[str], what: str, default: tuple[str, ...] | None = None
    ) -> tuple[str, ...]:
        """Known names; without a default they must be there."""
        if key not in self.values and default is None:
            raise self.error(key, f"is missing; give a list of names out of {', '.join(known)}")
        names = self.list_of(key, default or (), "names", is_text)
        for name in names:
            if name not in known:
                raise self.error(key, f"names {name!r}, which is not a known {what}; {did_you_mean(name, known)}")
        return names

    def list_of(self, key: str, default: tuple[Any, ...], what: str, right: Callable[[Any], bool]) -> tuple[Any, ...]:
        """At least one value, each of them right and none twice."""
        expected = f"a list of {what} was expected"
        values = self.values.get(key, default)
        if key in self.values and (not isinstance(values, list) or not values):
            raise self.error(key, f"is {values!r}; {expected}, with at least one")
        for place, each in enumerate(values):
            if not right(each):
                raise self.error(key, f"holds {each!r}; {expected}")
            if each in values[:place]:
                raise self.error(key, f"holds {each!r} twice; leave one out")
        return tuple(values)


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    if isinstance(value, dict):
        return {key: frozen(each) for key, each in value.items()}
    return tuple(frozen(each) for each in value) if isinstance(value, list) else value


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not is_flag(value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not is_flag(value) and math.isfinite(value)
