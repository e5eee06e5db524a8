"""What the registry knows of a dataset: its files, where they come from, and the numbers they must show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from propml.datasets.dataset import Dataset, ImageDataset

__all__ = ["Entry", "Facts", "RemoteFile"]


@dataclass(frozen=True)
class RemoteFile:
    """A file of a dataset: its path in the data folder, its address, and its checksum where one is known."""

    path: str
    url: str
    checksum: str | None = None


@dataclass(frozen=True)
class Facts:
    """The numbers of one copy of a dataset; ``None`` where nobody has published or measured them.

    Attributes
    ----------
    tolerance : float
        By how much the means may differ: half of the last digit that is known.
    copy : str
        What kind of copy this is, where it is not the published file.
    """

    n_samples: int
    n_features: int | None
    n_labels: int
    mean_true: float | None = None
    mean_candidates: float | None = None
    rows_without_truth: int | None = None
    rows_without_candidates: int | None = None
    tolerance: float = 0.0006
    copy: str = ""


@dataclass(frozen=True)
class Entry:
    """One row of the registry.

    Attributes
    ----------
    name : str
        The key, in lower case.
    title : str
        As the paper writes it.
    suite : str
        ``"real-world"``, ``"artificial"``, ``"vision"``, ``"embedded"``, or (not in the paper) ``"extra"``, ``"text"``.
    facts : tuple of Facts
        The published copy first, then other legitimate ones.
    files : tuple of RemoteFile
        What ``fetch`` downloads.
    read : callable
        ``read(folder, **options)`` of the data folder in which :attr:`needs` are; ignored by the embedded one.
    needs : tuple of str
        The paths that must be in a data folder for :attr:`read` to work.
    source : str
        Where it comes from, for people.
    splits : tuple of str
        The names of the training and the test part, where these are given.
    folder : str
        Where :attr:`files` are unpacked to, when they are archives.
    inner : str
        The folder inside the archives that becomes :attr:`folder`; by default all of their content.
    archive : str
        A local archive that is unpacked into the user's cache when it is found in a data folder.
    note : str
        What one should know before comparing numbers.
    """

    name: str
    title: str
    suite: str
    facts: tuple[Facts, ...]
    files: tuple[RemoteFile, ...]
    read: Callable[..., Dataset | ImageDataset]
    needs: tuple[str, ...]
    source: str
    splits: tuple[str, ...] = ()
    folder: str = ""
    inner: str = ""
    archive: str = ""
    note: str = ""
