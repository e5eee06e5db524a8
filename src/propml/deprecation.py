"""Old names that still work, with a warning, for one release."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["former_names", "renamed_argument", "warn_renamed"]

P = ParamSpec("P")
R = TypeVar("R")


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn the caller of the function that calls this one: a name has changed."""
    message = f"{old} is now called {new}; the old name goes with the next release"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def renamed_argument(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take a keyword argument by its old name as well.

    >>> @renamed_argument("show", "verbose")
    ... def train(*, verbose: bool = True) -> bool:
    ...     return verbose
    >>> with warnings.catch_warnings(action="ignore"):
    ...     train(show=False)
    False
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{function.__name__}() got {old} and {new}, which are the same; give {new} alone")
                warn_renamed(f"{old}= of {function.__name__}()", f"{new}=")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def former_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that still knows its old names; ``names`` maps each to the present one."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", names[name])
        return getattr(sys.modules[module], names[name])

    return get
