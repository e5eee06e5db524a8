"""What our own files hold, told as data and checked by one function before anything is built from it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import numpy as np
import scipy.sparse as sp

__all__ = ["Array", "Schema", "check_schema", "schema_of"]

#: A type; ``None``; a list with the schema of its entries; a tuple of alternatives; a dict of fields, in which ``str``
#: stands for every other field and a name that ends in ``?`` may be missing; an :class:`Array`.
Schema: TypeAlias = Any

_WORDS = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false", dict: "fields"}


class Array:
    """An array of numbers or names.

    Parameters
    ----------
    kinds : str
        The letters of the types that it may have, such as ``"f"`` or ``"iu"``.
    *shape : str or int
        Sizes. A name, such as ``"labels"`` or ``"features+1"``, stands for the same size wherever it occurs;
        the entries of a list each have their own.
    sparse : bool
        Whether it may also be a sparse matrix.
    least, most : float
        The range of its values.
    finite : bool
    right : function of the array, optional
        What else must be true of it.
    """

    def __init__(
        self,
        kinds: str,
        *shape: str | int,
        sparse: bool = False,
        least: float = -math.inf,
        most: float = math.inf,
        finite: bool = True,
        right: Callable[[Any], bool] | None = None,
    ) -> None:
        self.kinds, self.shape, self.sparse = kinds, shape, sparse
        self.least, self.most, self.finite, self.right = least, most, finite, right

    def fits(self, value: Any, sizes: dict[str, int]) -> bool:
        """Whether this is such an array; names of sizes that are new here are learned from it."""
        if not (isinstance(value, np.ndarray) or (self.sparse and sp.issparse(value))):
            return False
        if value.dtype.kind not in self.kinds or value.ndim != len(self.shape):
            return False
        for size, expected in zip(value.shape, self.shape, strict=True):
            name, _, more = str(expected).partition("+")
            extra = int(more or 0)
            if size != (int(name) if name.isdigit() else sizes.setdefault(name, size - extra) + extra):
                return False
        return self._in_range(value) and (self.right is None or self.right(value))

    def _in_range(self, value: Any) -> bool:
        if sp.issparse(value):
            value = value.copy()
            value.sum_duplicates()  # entries of one place add up
            value = value.data
        if not (self.finite and value.size and value.dtype.kind in "biuf"):
            return True
        return bool(np.isfinite(value).all() and self.least <= value.min() and value.max() <= self.most)

    def __str__(self) -> str:
        return f"an array of type {'/'.join(self.kinds)} and shape ({', '.join(map(str, self.shape))})"


def check_schema(value: Any, schema: Schema, where: str, sizes: dict[str, int] | None = None) -> None:
    """Raise a ``ValueError`` that says where a value is not what its schema says.

    Parameters
    ----------
    value : nested dicts, lists, arrays and plain values
    schema : Schema
    where : str
        The name of the value, for the message.
    sizes : dict, optional
        Sizes that are known already, such as ``{"labels": 3}``.

    Examples
    --------
    >>> check_schema({"seed": 1, "files": ["a"]}, {"seed": int, "files": [str], "note?": str}, "run")
    >>> check_schema({"seed": 1, "files": ["a", 2]}, {"seed": int, "files": [str]}, "run")
    Traceback (most recent call last):
    ...
    ValueError: run.files[1] is 2, expected text
    """
    sizes = {} if sizes is None else sizes
    if isinstance(schema, tuple):
        _check_any(value, schema, where, sizes)
    elif isinstance(schema, dict) and isinstance(value, dict):
        for name, inner in value.items():
            key = next((key for key in (name, f"{name}?", str) if key in schema), None)
            if key is None:
                raise ValueError(f"{where} has a field {str(name)[:40]!r}, which is not known")
            check_schema(inner, schema[key], f"{where}.{name}", sizes)
        if missing := [key for key in schema if key is not str and not key.endswith("?") and key not in value]:
            raise ValueError(f"{where} has no {missing[0]!r}")
    elif isinstance(schema, list) and isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            check_schema(inner, schema[0], f"{where}[{place}]", dict(sizes))
    elif not _is_plain(value, schema, sizes):
        raise ValueError(f"{where} is {_shown(value)}, expected {_expected(schema)}")


def schema_of(annotation: Any) -> Schema:
    """The schema that a type of Python says; a literal is told as its type.

    >>> schema_of(list[str]), schema_of(float | None)
    ([<class 'str'>], (<class 'float'>, None))
    """
    arguments = get_args(annotation)
    if get_origin(annotation) in (Union, UnionType):
        return tuple(map(schema_of, arguments))
    if get_origin(annotation) is Literal:
        return tuple({type(each) for each in arguments})
    if get_origin(annotation) in (list, tuple):
        return [schema_of(arguments[0])]
    return None if annotation is NoneType else annotation


def _check_any(value: Any, alternatives: tuple[Schema, ...], where: str, sizes: dict[str, int]) -> None:
    for number, schema in enumerate(alternatives):
        learned = dict(sizes)
        try:
            check_schema(value, schema, where, learned)
        except ValueError:
            if number == len(alternatives) - 1:
                raise
        else:
            sizes.update(learned)
            return


def _is_plain(value: Any, schema: Schema, sizes: dict[str, int]) -> bool:
    if isinstance(schema, Array):
        return schema.fits(value, sizes)
    if schema is None or schema is object:
        return schema is object or value is None
    if not isinstance(schema, type) or (isinstance(value, bool) and schema is not bool):
        return False
    if schema is float:
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return isinstance(value, schema)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) or sp.issparse(value):
        return f"an array of type {value.dtype.kind} and shape {value.shape}, or one with values that are out of range"
    return repr(value)[:60]


def _expected(schema: Schema) -> str:
    if isinstance(schema, list | dict):
        return "a list" if isinstance(schema, list) else "fields"
    return _WORDS.get(schema, getattr(schema, "__name__", str(schema)))
