"""The noise of an experiment's file: one corruption with its levels, or several under ``[corruptions]``."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from propml.benchmark.noise_levels import LEVELS, noise_name
from propml.benchmark.toml_table import Table
from propml.corruption import CORRUPTIONS

__all__ = ["noise_settings"]

# Arguments that the runner gives.
GIVEN = ("X", "truth", "random_state", "n_jobs", "cache_dir", "verbose", "labels", "names")


def noise_settings(table: Table, made: Iterable[str]) -> dict[str, Any]:
    """The arguments of :class:`~propml.benchmark.experiment.Experiment` that say which noise there is.

    Parameters
    ----------
    table : Table
        The whole file.
    made : iterable of str
        The datasets whose candidates are to be made; without any there need be no noise.
    """
    if "corruptions" in table.values:
        table.refuse(dict.fromkeys(("noise", "corruption"), "stands beside [corruptions]; give one of the two"))
        return _several(table)
    name, settings = _one(table)
    noise = _levels(table, name)
    needing = next(iter(made), None)
    if needing is not None and not noise:
        raise table.error("noise", f"is missing; {needing} has no candidates of its own, so give a list such as [50]")
    return {"noise": noise, "corruption": name, "corruption_settings": settings}


def _several(table: Table) -> dict[str, Any]:
    """Kinds of noise by the names of their corruptions, each with its levels and further arguments."""
    noise: list[str] = []
    settings: dict[str, dict[str, Any]] = {}
    for name, inner in table.tables("corruptions", "corruption").items():
        if name not in LEVELS:
            table.table("corruptions").only(LEVELS, "corruption")
        settings[name] = _arguments(inner, name, own=("noise",))
        if not LEVELS[name].argument:
            inner.refuse({"noise": f"means nothing to {name!r}, which has no level; leave it out"})
            noise.append(noise_name(name, None))
            continue
        levels = _levels(inner, name)
        if not levels:
            raise inner.error("noise", "is missing; give a list of levels")
        noise += [noise_name(name, level) for level in levels]
    return {"noise": tuple(noise), "corruptions": settings}


def _one(table: Table) -> tuple[str, dict[str, Any]]:
    """A name, or a table with the name and further arguments."""
    # What has no level cannot stand beside a list of levels.
    known = [name for name, level in LEVELS.items() if level.argument]
    if not isinstance(table.values.get("corruption"), dict):
        return table.choice("corruption", known, "svm"), {}
    inner = table.table("corruption")
    name = inner.choice("name", known, "svm", "corruption")
    return name, _arguments(inner, name, own=("name",))


def _arguments(inner: Table, name: str, own: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a corruption besides its level; ``own`` are keys of the table that are none."""
    taken = {*GIVEN, LEVELS[name].argument}
    arguments = [each for each in inspect.signature(CORRUPTIONS[name]).parameters.values() if each.name not in taken]
    inner.only([*own, *(each.name for each in arguments)], f"argument of the corruption {name!r}")
    for each in arguments:
        if each.default is each.empty and each.name not in inner.values:
            raise inner.error(each.name, f"is missing; the corruption {name!r} needs it")
    return {key: value for key, value in inner.values.items() if key not in own}


def _levels(table: Table, name: str) -> tuple[float, ...]:
    levels = tuple(float(level) for level in table.numbers("noise", ()))
    level = LEVELS[name]
    for noise in levels:
        broken = level.argument == "count" and level.of(noise) != noise
        if noise > level.most or broken:
            expected = "a whole number" if broken else f"a number between 0 and {level.most:g}"
            raise table.error("noise", f"holds {noise:g}; {name!r} expects {expected}")
    return levels
