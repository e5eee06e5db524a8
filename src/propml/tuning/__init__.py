"""Hyper-parameter search: TPE and Hyperband over candidate labels, by one process or by many that share a study.

A table and its candidate labels go in; the best arguments of a method, and all that was tried, come out.
:func:`search` does so on a table, and :func:`run_search` for any :class:`~propml.tuning.tasks.Task`, such as the vision
trainer's. :class:`Range` and :class:`OneOf` say what is searched, and :func:`read_best` reads what was found.
"""

from typing import TYPE_CHECKING

from propml.messages import former_names
from propml.tuning.result import SearchResult, read_best
from propml.tuning.searching import run_search, search
from propml.tuning.spaces import OneOf, Range

__all__ = ["OneOf", "Range", "SearchResult", "read_best", "run_search", "search"]

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__, {"Choice": "OneOf", "Number": "Range"})
