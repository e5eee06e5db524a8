"""Values as JSON holds them: for keys, for what is kept on disk, and for what a person reads.

By hand: ``json.dumps`` asks its ``default`` neither about numbers that are not finite nor about keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def jsonable(value: Any, *, lossy: bool = False) -> Any:
    """The same with numbers and containers of Python only; a set becomes a sorted list.

    ``lossy`` makes do with what JSON knows: a number that is not finite becomes None, and any other thing (a path, a
    model) its text. Else they stay as they are and JSON refuses them: what a key is made of must lose nothing.

    >>> jsonable({"lam": np.float32(0.5), "hidden": (1, np.int64(2))})
    {'lam': 0.5, 'hidden': [1, 2]}
    >>> jsonable([float("nan"), 1 + 2j], lossy=True)
    [None, '(1+2j)']
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): jsonable(each, lossy=lossy) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [jsonable(each, lossy=lossy) for each in value]
    if not lossy or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def unboxed(value: Any) -> Any:
    """A number or text of NumPy as one of Python; anything else as it is.

    >>> unboxed(np.int64(3)), unboxed(("a", "b"))
    (3, ('a', 'b'))
    """
    return value.item() if isinstance(value, np.generic) else value
