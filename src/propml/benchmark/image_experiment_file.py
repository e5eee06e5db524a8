"""Reading the TOML of an experiment on images, ``kind = "images"``: what it has besides, and instead of, tables'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from propml.benchmark.any_cell import SELECTIONS
from propml.benchmark.image_cell import KNOWN_RATE, ImageCell, ImageMethod
from propml.benchmark.metric_names import METRIC_NAMES
from propml.benchmark.toml_table import Table, hint, is_integer, is_number
from propml.datasets import names
from propml.metrics import VISION_METRICS
from propml.vision.recipe import METHODS, Recipe

__all__ = ["IMAGE_KEYS", "image_settings"]

IMAGE_KEYS = (
    "kind",
    "title",
    "note",
    "datasets",
    "images",
    "noise",
    "seeds",
    "selection",
    "metrics",
    "recipe",
    "methods",
)
METHOD_KEYS = ("method", "recipe", "selection")
PARTS = ("train", "test")
FOR_TABLES = 'is for experiments on tables, and this one says kind = "images"'
# Keys of experiments on tables that mean nothing here.
NOT_HERE = {
    "rows": f"{FOR_TABLES}; say images = {{ train = 300, test = 200 }}",
    "corruptions": f"{FOR_TABLES}; leave it out",
    "corruption": f"{FOR_TABLES}; noise is the rate at which labels that are not true become candidates. Leave it out",
    **dict.fromkeys(
        ("folds", "test_folds", "stratified"),
        f"{FOR_TABLES}; images are learned from and tested on the two parts of their dataset. Leave it out",
    ),
}
NOT_IN_A_METHOD = {
    "params": f"{FOR_TABLES}; say recipe = {{ … }}",
    "scaling": f"{FOR_TABLES}; leave it out",
    "lams": f'{FOR_TABLES}; say recipe = {{ lam = 0.3 }}, or lam = "auto", which tries several. Leave it out',
    "grid": f"{FOR_TABLES}; leave it out, or make each value a method of its own",
}
GIVEN = {
    "noise": "is the cell's; give a list of levels, noise = [0.1, 0.4], for the whole experiment",
    "seed": "is the cell's; give a list, seeds = [0, 1], for the whole experiment",
    "checkpoint_seconds": "is set by the runner: a cell is trained without a break; leave it out",
}
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def image_settings(table: Table, selection: str) -> dict[str, Any]:
    """The arguments of :class:`~propml.benchmark.experiment.Experiment` that only images have, checked."""
    table.refuse(NOT_HERE)
    table.only(IMAGE_KEYS)
    if "noise" not in table.values:
        raise table.error("noise", "is missing; candidates are made by flips, so give a list of rates such as [0.1]")
    noise = tuple(float(level) for level in table.numbers("noise", ()))
    for level in noise:
        if level >= 1:
            raise table.error("noise", f"holds {level:g}; rates of at least 0 and below 1 were expected")
    images = table.table("images")
    images.only(PARTS, "part")
    shared = _recipe(table)
    return {
        "datasets": table.names("datasets", (*names("vision"), *names("embedded")), "dataset of images"),
        "noise": noise,
        "images": {part: images.integer(part, None, least=1) for part in PARTS if part in images.values},
        "metrics": table.names("metrics", METRIC_NAMES, "metric", VISION_METRICS),
        "methods": tuple(
            _method(inner, name, shared, noise, selection) for name, inner in table.tables("methods", "method").items()
        ),
    }


def _method(table: Table, name: str, shared: Table, noise: tuple[float, ...], selection: str) -> ImageMethod:
    table.refuse(NOT_IN_A_METHOD)
    table.only(METHOD_KEYS)
    own = _recipe(table)
    if not own.values and "method" not in table.values:
        raise table.error("", f'names no method and no recipe; say method = "…" ({hint(name, METHODS)})')
    preset = table.choice("method", METHODS, None)
    settings = {**shared.values, **METHODS.get(preset, {}), **own.values}
    entry = ImageMethod(name, settings, table.choice("selection", SELECTIONS, None))
    for level in noise:
        try:
            ImageCell("", "", level, entry, 0, selection=entry.selection or selection).recipe()
        except ValueError as error:
            raise _error_where_it_stands(str(error), table, own, shared) from error
    return entry


def _error_where_it_stands(message: str, method: Table, own: Table, shared: Table) -> ValueError:
    """What the recipe said, under the name of the key it speaks of: the method's, or the one that all share."""
    key, _, problem = message.partition(" ")
    for table in (own, shared):
        if key in table.values:
            return table.error(key, problem)
    return method.error("recipe", f"does not work: {message}")


def _recipe(table: Table) -> Table:
    """The table ``recipe`` of the file or of a method: known settings with values of the right kind."""
    recipe, kinds = table.table("recipe"), get_type_hints(Recipe)
    recipe.refuse(GIVEN)
    recipe.only([field.name for field in fields(Recipe)], "setting of a recipe")
    for key, value in recipe.values.items():
        _check_kind(recipe, key, value, kinds[key])
    if recipe.values.get("select") == "oracle":
        raise recipe.error("select", 'is "oracle"; say selection = "oracle", for the experiment or for a method')
    return recipe


def _check_kind(table: Table, key: str, value: Any, kind: Any) -> None:
    if key == "flip_rate" and value == KNOWN_RATE:
        return
    if get_origin(kind) is Literal and isinstance(value, str):
        if value not in get_args(kind):
            raise table.error(key, f"is {value!r}, which is not a known {key}; {hint(value, get_args(kind))}")
    elif not _is_of_kind(value, kind):
        raise table.error(key, f"is {value!r}; {_in_words(kind)} was expected")


def _is_of_kind(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_is_of_kind(value, part) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    checks: Mapping[Any, Any] = {int: is_integer, float: is_number}
    return checks[kind](value) if kind in checks else isinstance(value, kind)


def _in_words(kind: Any) -> str:
    """
    >>> _in_words(float | Literal["auto"]), _in_words(int | None)
    ("a number or 'auto'", 'a whole number')
    """
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_in_words(part) for part in get_args(kind) if part is not NoneType)
    return " or ".join(map(repr, get_args(kind))) if get_origin(kind) is Literal else WORDS[kind]
