"""Datasets by name: which there are, where they lie, and loading them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from propml.datasets.archives import extract
from propml.datasets.checksums import checksum_of
from propml.datasets.dataset import Dataset, ImageDataset
from propml.datasets.entry import Entry
from propml.datasets.locations import data_dirs, existing_file
from propml.datasets.registry import REGISTRY
from propml.devices import cache_dir
from propml.messages import did_you_mean

__all__ = ["at_hand", "find", "load", "lookup", "names"]


def names(suite: str | None = None) -> tuple[str, ...]:
    """The names that :func:`load` knows, of one suite or of all.

    >>> names("artificial")
    ('bibtex', 'birds', 'enron', 'medical', 'scene')
    """
    suites = sorted({entry.suite for entry in REGISTRY.values()})
    if suite is not None and suite not in suites:
        raise ValueError(f"suite {suite!r} is not known; choose one of {', '.join(suites)}")
    return tuple(name for name, entry in REGISTRY.items() if suite in (None, entry.suite))


def lookup(name: str) -> Entry:
    """The registry's row for a name; case and punctuation do not matter.

    >>> lookup("Music emotion").name
    'music-emotion'
    """
    known = {_plain(key): entry for key, entry in REGISTRY.items()}
    if (entry := known.get(_plain(name))) is not None:
        return entry
    raise ValueError(f"dataset {name!r} is not known; {did_you_mean(name, REGISTRY)}")


def load(name: str, data_dir: str | Path | None = None, **options: Any) -> Dataset | ImageDataset:
    """Load a dataset of the registry.

    Parameters
    ----------
    name : str
        See :func:`names`.
    data_dir : path, optional
        Searched first; then ``PROPML_DATA``, then the user's cache.
    **options
        ``split`` for the vision sets (see ``REGISTRY[name].splits``); the arguments of
        :func:`~propml.datasets.digits_mosaic` for the embedded one.

    Returns
    -------
    Dataset or ImageDataset
        Tables in full: use :meth:`Dataset.drop_unlabelled` for the rows the paper evaluates on.

    Examples
    --------
    >>> load("digits-mosaic", n_samples=10).X.shape
    (10, 256)
    """
    entry = lookup(name)
    folder = find(entry, data_dir)
    loaded = entry.read(folder, **options)
    if isinstance(loaded, Dataset) and entry.needs:
        _check_shape(loaded, entry, folder)
    return loaded


def find(entry: Entry, data_dir: str | Path | None = None) -> Path:
    """The data folder that holds a dataset; a local archive of it is unpacked into the user's cache first."""
    place = at_hand(entry, data_dir)
    if place is None:
        folders = data_dirs(data_dir)
        missing = next(path for path in entry.needs if existing_file(folders[0], path) is None)
        raise FileNotFoundError(
            f"{entry.title} ({missing}) was not found in {', '.join(map(str, folders))}; "
            f"run `propml datasets fetch {entry.name}` or set PROPML_DATA"
        )
    return _unpacked(entry, place) if place.is_file() else place


def at_hand(entry: Entry, data_dir: str | Path | None = None) -> Path | None:
    """The data folder that holds a dataset, or the local archive of it; ``None`` where neither is there."""
    folders = data_dirs(data_dir)
    for folder in folders:
        if all(existing_file(folder, path) for path in entry.needs):
            return folder
    if entry.archive:
        return next((folder / entry.archive for folder in folders if (folder / entry.archive).is_file()), None)
    return None


def _unpacked(entry: Entry, archive: Path) -> Path:
    """The content of an archive in the user's cache, keyed by checksum so that another archive is another folder."""
    folder = cache_dir() / "unpacked" / checksum_of(archive, "sha256").partition(":")[2][:16]
    if not all(existing_file(folder, path) for path in entry.needs):
        extract([archive], folder, required=entry.needs, show_progress=sys.stderr.isatty())
    return folder


def _check_shape(dataset: Dataset, entry: Entry, folder: Path) -> None:
    """A truncated file can be well-formed: its shape gives it away."""
    shape = (*dataset.X.shape, len(dataset.label_names))
    known = [(facts.n_samples, facts.n_features, facts.n_labels) for facts in entry.facts]
    if shape not in known:
        sizes = " or ".join(" × ".join(map(str, size)) for size in known)
        raise ValueError(
            f"{entry.title} in {folder} is {' × '.join(map(str, shape))} (rows × features × labels), expected {sizes}; "
            f"the file is truncated or is another version. Fetch it again, or read it with the reader of its format"
        )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
