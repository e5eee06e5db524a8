"""The words of messages: what an argument is called where the reader is, what was meant, and what has a new name."""

from __future__ import annotations

import difflib
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

# On the command line: the options that are not called as their argument is. In Python: None.
_OPTIONS: ContextVar[Mapping[str, str] | None] = ContextVar("options", default=None)


def argument(name: str, *value: Any) -> str:
    """An argument, with the value to give it where there is one, as the reader of the message writes it.

    >>> argument("sep", ","), argument("ignore", ["id"]), argument("min_votes")
    ("sep=','", "ignore=['id']", 'min_votes')
    >>> with called_as_options({"id_column": "--id"}):
    ...     print(argument("sep", ";"), argument("ignore", ["a", "b"]), argument("merge_labels", True))
    ...     print(argument("id_column"))
    --sep ';' --ignore a,b --merge-labels
    --id
    """
    options = _OPTIONS.get()
    if options is None:
        return f"{name}={value[0]!r}" if value else name
    option = options.get(name, f"--{name.replace('_', '-')}")
    return option if not value or value[0] is True else f"{option} {_typed(value[0])}"


@contextmanager
def called_as_options(others: Mapping[str, str]) -> Iterator[None]:
    """Inside the block messages name options; ``others`` are those that are not called as their argument is."""
    before = _OPTIONS.set(others)
    try:
        yield
    finally:
        _OPTIONS.reset(before)


def did_you_mean(name: Any, known: Iterable[Any], otherwise: str | None = None) -> str:
    """What to write instead of a name that is not known; where none is near ``otherwise``, by default all there are.

    >>> did_you_mean("Yeastc", ["yeastcc", "birds"]), did_you_mean("x", ["yeastcc", "birds"])
    ("did you mean 'yeastcc'?", 'known are yeastcc, birds')
    """
    by_text = {str(each).lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), by_text, n=1, cutoff=0.5)
    if near:
        return f"did you mean {by_text[near[0]]!r}?"
    return f"known are {', '.join(map(str, by_text.values()))}" if otherwise is None else otherwise


def no_number_among(X: Any) -> str | None:
    """Which column of features holds text, dates or the like, and what to do about it; None where none does.

    >>> no_number_among([[1, 2], [3, "?"]]).partition(";")[0], no_number_among([[1, None]])
    ("column 1 of X holds '?', which is no number", None)
    """
    numbers = hasattr(X, "__array__") and np.asarray(X).dtype.kind in "biufc"
    cells = np.empty(0) if numbers else np.asarray(X, dtype=object)
    if cells.ndim != 2:
        return None
    for name, column in zip(getattr(X, "columns", range(cells.shape[1])), cells.T, strict=True):
        strange = next((cell for cell in column if not _is_number(cell)), None)
        if strange is not None:
            return (
                f"column {name!r} of X holds {strange!r}, which is no number; encode the column (for instance by "
                f"sklearn.preprocessing.OneHotEncoder) or drop it, or use `propml fit FILE`, which takes mixed columns"
            )
    return None


def _is_number(cell: Any) -> bool:
    """Whether scikit-learn would take it for one; a missing number is one, and complex ones it refuses itself."""
    try:
        float(cell)
    except (TypeError, ValueError):
        return cell is None or type(cell).__name__ == "NAType" or isinstance(cell, complex)
    return True


def _typed(value: Any) -> str:
    """A value as one types it in a shell, where options know ``none`` for nothing and ``\\t`` for a tab."""
    parts = [f"{name}={own}" for name, own in value.items()] if isinstance(value, Mapping) else value
    text = ",".join(map(str, parts)) if isinstance(parts, list | tuple) else str(parts)
    return shlex.quote(text.replace("\t", "\\t") or "none")


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
