"""Datasets by name: which there are, where they lie, loading them, and whether the files are what they should be."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from propml.datasets.dataset import Dataset, Entry, Facts, ImageDataset, Statistics
from propml.datasets.locations import checksum_of, data_dirs, existing_file, extract, matches
from propml.datasets.registry import REGISTRY
from propml.devices import cache_dir
from propml.messages import did_you_mean


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
    known = {re.sub(r"[^a-z0-9]", "", key): entry for key, entry in REGISTRY.items()}
    if (entry := known.get(re.sub(r"[^a-z0-9]", "", name.lower()))) is not None:
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
    if isinstance(loaded, ImageDataset) or not entry.needs:
        return loaded
    # A truncated file can be well-formed: its shape gives it away.
    shape = (*loaded.X.shape, len(loaded.label_names))
    known = [(facts.n_samples, facts.n_features, facts.n_labels) for facts in entry.facts]
    if shape not in known:
        found, *expected = (" × ".join(map(str, size)) for size in (shape, *known))
        raise ValueError(
            f"{entry.title} in {folder} is {found} (rows × features × labels), expected {' or '.join(expected)}; "
            f"the file is truncated or is another version. Fetch it again, or read it with the reader of its format"
        )
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
    if not place.is_file():
        return place
    # By checksum, so that another archive is another folder.
    folder = cache_dir() / "unpacked" / checksum_of(place, "sha256").partition(":")[2][:16]
    if not all(existing_file(folder, path) for path in entry.needs):
        extract([place], folder, required=entry.needs, verbose=sys.stderr.isatty())
    return folder


def at_hand(entry: Entry, data_dir: str | Path | None = None) -> Path | None:
    """The data folder that holds a dataset, or the local archive of it; ``None`` where neither is there."""
    folders = data_dirs(data_dir)
    for folder in folders:
        if all(existing_file(folder, path) for path in entry.needs):
            return folder
    if entry.archive:
        return next((folder / entry.archive for folder in folders if (folder / entry.archive).is_file()), None)
    return None


@dataclass(frozen=True)
class Check:
    """One number: what it is, what was expected (``None``: nobody knows), what was found."""

    what: str
    expected: float | None
    found: float | None
    ok: bool


@dataclass(frozen=True)
class Verification:
    """What :func:`verify` found."""

    entry: Entry
    folder: Path  #: the data folder that was read
    facts: Facts  #: the known copy that the files were compared with
    checks: tuple[Check, ...]
    files: tuple[tuple[Path, str], ...]  #: each file, and in words what its checksum says

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each thing that is not as it should be."""
        wrong = [f"{c.what} is {c.found:g}, expected {c.expected:g}" for c in self.checks if not c.ok]
        if not self.facts.copy:
            wrong += [f"{path} {state}" for path, state in self.files if state.startswith("differs")]
        return tuple(wrong)


def verify(name: str, data_dir: str | Path | None = None) -> Verification:
    """Load a dataset and compare it with what the registry knows; see :attr:`Verification.problems`.

    Examples
    --------
    >>> verify("digits-mosaic").problems
    ()
    """
    entry = lookup(name)
    folder = find(entry, data_dir)
    if entry.suite == "vision":
        parts: list[Any] = [load(entry.name, data_dir, split=split) for split in entry.splits]
        paths = tuple(path for part in parts for path in part.paths)
        whole = replace(parts[0], paths=paths, truth=np.concatenate([part.truth for part in parts]))
    else:
        whole = load(entry.name, data_dir)
    statistics = whole.statistics()
    facts = next((facts for facts in entry.facts if facts.n_samples == statistics.n_samples), entry.facts[0])
    return Verification(entry, folder, facts, _compare(statistics, facts), _file_states(entry, folder))


_COMPARED = {
    "rows": "n_samples",
    "features": "n_features",
    "labels": "n_labels",
    "true labels per row": "mean_true",
    "candidates per row": "mean_candidates",
    "rows without a true label": "rows_without_truth",
    "rows without a candidate": "rows_without_candidates",
    "rows whose candidates lack a true label": "rows_missing_truth",
}


def _compare(statistics: Statistics, facts: Facts) -> tuple[Check, ...]:
    checks = []
    for what, field in _COMPARED.items():
        expected, found = getattr(facts, field), getattr(statistics, field)
        if field == "rows_missing_truth" and found is not None:
            expected = 0
        if expected is not None or found is not None:
            tolerance = facts.tolerance if field.startswith("mean") else 0
            ok = expected is None or (found is not None and abs(found - expected) <= tolerance)
            checks.append(Check(what, expected, found, ok))
    return tuple(checks)


def _file_states(entry: Entry, folder: Path) -> tuple[tuple[Path, str], ...]:
    if entry.folder:
        return ((folder / entry.folder, "no published checksum"),)
    states = []
    for file in entry.files:
        path = existing_file(folder, file.path) or folder / file.path
        states.append((path, "as published" if matches(path, file.checksum) else "differs from the published file"))
    return tuple(states)
