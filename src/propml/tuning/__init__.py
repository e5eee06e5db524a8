"""Hyper-parameter search: TPE and Hyperband over candidate labels, on one machine or on a Ray cluster.

:func:`search` finds the arguments of a method on a table; :func:`run_search` searches any :class:`Task`, such as the
vision trainer's.
"""

from propml.tuning.result import SearchResult, TrialRecord, read_best
from propml.tuning.searching import run_search, search
from propml.tuning.spaces import SPACES, Choice, Number, When, space_of
from propml.tuning.tasks import OBJECTIVES, TableData, Task, make_task

__all__ = [
    "OBJECTIVES",
    "SPACES",
    "Choice",
    "Number",
    "SearchResult",
    "TableData",
    "Task",
    "TrialRecord",
    "When",
    "make_task",
    "read_best",
    "run_search",
    "search",
    "space_of",
]
