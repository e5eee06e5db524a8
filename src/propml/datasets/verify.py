"""Whether the files at hand are the dataset they claim to be: shape, label statistics, candidates, checksums."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from propml.datasets.catalogue import find, load, lookup
from propml.datasets.checksums import matches
from propml.datasets.dataset import Dataset, ImageDataset, Statistics, joined_images
from propml.datasets.entry import Entry, Facts
from propml.datasets.locations import existing_file

__all__ = ["Check", "Verification", "verify"]


@dataclass(frozen=True)
class Check:
    """One number: what it is, what was expected (``None``: nobody knows), what was found."""

    what: str
    expected: float | None
    found: float | None
    ok: bool


@dataclass(frozen=True)
class Verification:
    """What :func:`verify` found.

    Attributes
    ----------
    folder : Path
        The data folder that was read.
    facts : Facts
        The known copy that the files were compared with.
    checks : tuple of Check
    files : tuple of (Path, str)
        Each file and what its checksum says: ``"as published"``, ``"differs from the published file"`` or
        ``"no published checksum"``.
    """

    entry: Entry
    folder: Path
    facts: Facts
    checks: tuple[Check, ...]
    files: tuple[tuple[Path, str], ...]

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
    statistics = _load_all(entry, data_dir).statistics()
    facts = next((facts for facts in entry.facts if facts.n_samples == statistics.n_samples), entry.facts[0])
    return Verification(entry, folder, facts, _compare(statistics, facts), _file_states(entry, folder))


def _load_all(entry: Entry, data_dir: str | Path | None) -> Dataset | ImageDataset:
    if entry.suite != "vision":
        return load(entry.name, data_dir)
    parts = [load(entry.name, data_dir, split=split) for split in entry.splits]
    return joined_images([part for part in parts if isinstance(part, ImageDataset)])


def _compare(statistics: Statistics, facts: Facts) -> tuple[Check, ...]:
    named = {
        "rows": "n_samples",
        "features": "n_features",
        "labels": "n_labels",
        "true labels per row": "mean_true",
        "candidates per row": "mean_candidates",
        "rows without a true label": "rows_without_truth",
        "rows without a candidate": "rows_without_candidates",
    }
    checks = []
    for what, field in named.items():
        expected, found = getattr(facts, field), getattr(statistics, field)
        if expected is None and found is None:
            continue
        tolerance = facts.tolerance if field.startswith("mean") else 0
        ok = expected is None or (found is not None and abs(found - expected) <= tolerance)
        checks.append(Check(what, expected, found, ok))
    if statistics.rows_missing_truth is not None:
        missing = statistics.rows_missing_truth
        checks.append(Check("rows whose candidates lack a true label", 0, missing, missing == 0))
    return tuple(checks)


def _file_states(entry: Entry, folder: Path) -> tuple[tuple[Path, str], ...]:
    if entry.folder:
        return ((folder / entry.folder, "no published checksum"),)
    states = []
    for file in entry.files:
        path = existing_file(folder, file.path) or folder / file.path
        same = file.checksum is not None and matches(path, file.checksum)
        states.append((path, "as published" if same else "differs from the published file"))
    return tuple(states)
