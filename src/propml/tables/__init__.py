"""Tables: a user's own file goes in; features, candidate labels, votes, identifiers, texts and image paths come out.

:func:`read_table` reads a file and finds its labels, :func:`learn_features` turns its other columns into numbers, and
:func:`write_cleaned` writes the file again with new labels. :func:`read_dataset` reads a table of numbers as it is.
``fit``, ``predict``, ``evaluate``, ``tune`` and ``audit`` read files through this package.
"""

from typing import TYPE_CHECKING

from propml.messages import former_names
from propml.tables.dataset import read_dataset
from propml.tables.features import Features, learn_features
from propml.tables.files import UserTable, read_table, write_cleaned
from propml.tables.sources import open_table

__all__ = ["Features", "UserTable", "learn_features", "open_table", "read_dataset", "read_table", "write_cleaned"]

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__, {"open_source": "open_table"})
