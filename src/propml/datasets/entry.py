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
    """The numbers of one copy of a dataset; ``None`` where nobody has published or measured them."""

    n_samples: int
    n_features: int | None
    n_labels: int
    mean_true: float | None = None
    mean_candidates: float | None = None
    rows_without_truth: int | None = None
    rows_without_candidates: int | None = None
    tolerance: float = 0.0006  #: by how much the means may differ: half of the last digit that is known
    copy: str = ""  #: what kind of copy this is, where it is not the published file


@dataclass(frozen=True)
class Entry:
    """One row of the registry."""

    name: str  #: the key, in lower case
    title: str  #: as the paper writes it
    suite: str  #: "real-world", "artificial", "vision", "embedded", or, not in the paper, "extra" and "text"
    facts: tuple[Facts, ...]  #: the published copy first, then other legitimate ones
    files: tuple[RemoteFile, ...]  #: what ``fetch`` downloads
    read: Callable[..., Dataset | ImageDataset]  #: ``read(folder, **options)`` of the folder in which ``needs`` are
    needs: tuple[str, ...]  #: the paths that must be in a data folder for ``read`` to work
    source: str  #: where it comes from, for people
    splits: tuple[str, ...] = ()  #: the names of the training and the test part, where these are given
    folder: str = ""  #: where ``files`` are unpacked to, when they are archives
    inner: str = ""  #: the folder inside the archives that becomes ``folder``; by default all of their content
    archive: str = ""  #: a local archive that is unpacked into the user's cache when it is found in a data folder
    note: str = ""  #: what one should know before comparing numbers
