"""What files hold, checked before anything is built from it: schemas of our own, and the parts of sparse matrices.

By hand, since sizes of arrays depend on each other, which no dependency of this package checks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import suppress
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import numpy as np
import scipy.sparse as sp

#: A type; ``None``; a list with the schema of its entries; a tuple of alternatives; a dict of fields, in which ``str``
#: stands for every other field and a name that ends in ``?`` may be missing; an :class:`Array`.
Schema: TypeAlias = Any

_WORDS = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false", dict: "fields"}


class Array:
    """An array of numbers or names.

    ``kinds`` are the letters of the types that it may have, such as ``"iu"``. In its shape a name, such as ``"labels"``
    or ``"features+1"``, stands for the same size wherever it occurs; the entries of a list each have their own.
    ``right`` is what else must be true of it.
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

    ``where`` is its name in the message; ``sizes`` of arrays that are known already are such as ``{"labels": 3}``.

    >>> check_schema({"seed": 1, "files": ["a"]}, {"seed": int, "files": [str], "note?": str}, "run")
    >>> check_schema({"seed": 1, "files": ["a", 2]}, {"seed": int, "files": [str]}, "run")
    Traceback (most recent call last):
    ...
    ValueError: run.files[1] is 2, expected text
    """
    sizes = {} if sizes is None else sizes
    if isinstance(schema, tuple):
        for alternative in schema[:-1]:
            learned = dict(sizes)
            with suppress(ValueError):
                check_schema(value, alternative, where, learned)
                sizes.update(learned)
                return
        check_schema(value, schema[-1], where, sizes)
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


def checked_csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: Any) -> sp.csr_array:
    """A sparse matrix from its three arrays, or a ``ValueError`` that says which of them is wrong.

    SciPy trusts these arrays: its own full check passes over them where the last entry of ``indptr`` is 0, and a wrong
    one ends the process. Indices become 32-bit where they fit, as scikit-learn's trees ask for.
    """
    data, indices, indptr, sizes = map(np.asarray, (data, indices, indptr, shape))
    if sizes.shape != (2,) or sizes.dtype.kind not in "iu" or sizes.min() < 0 or sizes.max() >= np.iinfo(np.int64).max:
        raise ValueError(f"the shape is {shape!r}, expected two whole numbers from 0 to 2**63 - 2")
    n_rows, n_columns = map(int, sizes)
    entries, rows = (data.size,), (n_rows + 1,)
    wanted = {"data": (data, "biuf", entries), "indices": (indices, "iu", entries), "indptr": (indptr, "iu", rows)}
    for name, (part, kinds, size) in wanted.items():
        if part.dtype.kind not in kinds or part.shape != size:
            raise ValueError(f"{name} has type {part.dtype} and shape {part.shape}, expected {kinds} and {size}")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if falls.size or indptr[0] != 0 or indptr[-1] != len(data):
        seen = f"falls after position {falls[0]}" if falls.size else f"goes from {indptr[0]} to {indptr[-1]}"
        raise ValueError(f"indptr {seen}; it must rise from 0 to the number of entries, {len(data)}")
    if len(indices) and (indices.min() < 0 or indices.max() >= n_columns):
        raise ValueError(f"indices go from {indices.min()} to {indices.max()}, and there are {n_columns} columns")
    kind = np.int32 if max(n_rows, n_columns, len(data)) <= np.iinfo(np.int32).max else np.int64
    return sp.csr_array((data, indices.astype(kind), indptr.astype(kind)), shape=(n_rows, n_columns))


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
