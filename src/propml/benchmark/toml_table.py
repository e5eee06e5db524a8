"""A TOML file read key by key: a mistake is one sentence with the file, the key and the nearest right name."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def hint(name: Any, known: Iterable[Any]) -> str:
    """What to write instead of a name that is not known.

    >>> hint("yeastc", ["yeastcc", "birds"]), hint("x", ["yeastcc", "birds"])
    ("did you mean 'yeastcc'?", 'known are yeastcc, birds')
    """
    plain = {str(each).lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), plain, n=1, cutoff=0.5)
    return f"did you mean {plain[near[0]]!r}?" if near else f"known are {', '.join(map(str, plain.values()))}"


def read_table(path: Path) -> TomlTable:
    """The whole of an experiment's file."""
    try:
        return TomlTable(tomllib.loads(path.read_text(encoding="utf-8")), path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there; give the path of an experiment's .toml file") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as TOML: {error}") from error


class TomlTable:
    """A table of the file, read key by key; what is wrong becomes an error that names file and key.

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

    def only(self, known: Iterable[str], what: str = "key") -> None:
        for key in self.values:
            if key not in known:
                raise self.error(key, f"is not a known {what}; {hint(key, known)}")

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Keys that are known elsewhere and make no sense here, each with the reason and what to do."""
        for key in self.values:
            if key in reasons:
                raise self.error(key, reasons[key])

    def table(self, key: str) -> TomlTable:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"is {value!r}; a table was expected")
        return TomlTable(value, self.file, self._name(key))

    def tables(self, key: str, what: str) -> dict[str, TomlTable]:
        """The tables in a table by their names, at least one."""
        outer = self.table(key)
        if not outer.values:
            raise outer.error("", f"is empty; give at least one {what}, such as [{key}.Ridge]")
        for name in outer.values:
            if not name.strip():
                raise outer.error(name, f"has no name; name the {what} as the tables shall print it")
        return {name: outer.table(name) for name in outer.values}

    def text(self, key: str, default: str) -> str:
        if key not in self.values:
            return default
        value = self.values[key]
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
        if key in self.values and not (is_integer(value) and value >= least):
            raise self.error(key, f"is {value!r}; a whole number of at least {least} was expected")
        return value

    def numbers(self, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """Finite numbers of at least 0."""
        return self._list(key, default, "numbers of at least 0", lambda v: is_number(v) and v >= 0)

    def integers(self, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return self._list(key, default, "whole numbers of at least 0", lambda v: is_integer(v) and v >= 0)

    def names(
        self, key: str, known: Iterable[str], what: str, default: tuple[str, ...] | None = None
    ) -> tuple[str, ...]:
        """Known names; without a default they must be there."""
        if key not in self.values:
            if default is not None:
                return default
            raise self.error(key, f"is missing; give a list of names out of {', '.join(known)}")
        names = self._list(key, (), "names", lambda v: isinstance(v, str))
        for name in names:
            if name not in known:
                raise self.error(key, f"names {name!r}, which is not a known {what}; {hint(name, known)}")
        return names

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


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    if isinstance(value, dict):
        return {key: frozen(each) for key, each in value.items()}
    return tuple(frozen(each) for each in value) if isinstance(value, list) else value


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
