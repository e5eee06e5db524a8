"""What a reader returns: features or image files with labels; and what the registry knows of such a dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.targets import Candidates


@dataclass(frozen=True)
class Statistics:
    """The numbers by which one recognises a dataset; ``None`` where the dataset has no such part."""

    n_samples: int
    n_features: int | None  #: None for images
    n_labels: int
    mean_true: float | None = None  #: labels per row, over all rows
    mean_candidates: float | None = None
    rows_without_truth: int | None = None
    rows_without_candidates: int | None = None
    rows_missing_truth: int | None = None  #: rows whose candidate set lacks one of the true labels


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of features with their true labels, their candidate labels, or both.

    Examples
    --------
    >>> d = Dataset("toy", np.eye(2), np.array([[1, 0], [0, 0]], dtype=np.uint8), None, ("a", "b"), ("x", "y"))
    >>> d.statistics().mean_true
    0.5
    >>> d.drop_unlabelled().X
    array([[1., 0.]])
    """

    name: str
    X: np.ndarray | sp.csr_array  #: float64, shape (n_samples, n_features); sparse where the file was sparse
    truth: np.ndarray | None  #: uint8, shape (n_samples, n_labels)
    candidates: Candidates | None
    label_names: tuple[str, ...]
    feature_names: tuple[str, ...]

    def __post_init__(self) -> None:
        n_samples, n_features = self.X.shape
        if len(self.feature_names) != n_features:
            raise ValueError(
                f"{self.name}: X has {n_features} columns and {len(self.feature_names)} feature names were given"
            )
        for part, given in (("truth", self.truth), ("candidates", self.candidates)):
            if given is not None and given.shape != (n_samples, len(self.label_names)):
                raise ValueError(
                    f"{self.name}: {part} has shape {given.shape}, expected {n_samples} rows of X "
                    f"by {len(self.label_names)} label names"
                )

    def __repr__(self) -> str:
        kind = "sparse " if sp.issparse(self.X) else ""
        labels = "".join(f", {part}" for part in ("truth", "candidates") if getattr(self, part) is not None)
        return f"Dataset({self.name!r}, {kind}X {self.X.shape}, {len(self.label_names)} labels{labels})"

    def take(self, rows: Any) -> Dataset:
        """The given rows of every part: positions, a boolean mask or a slice."""
        picked = np.atleast_1d(np.arange(self.X.shape[0])[rows])
        return replace(
            self,
            X=self.X[picked],
            truth=None if self.truth is None else self.truth[picked],
            candidates=None if self.candidates is None else self.candidates[picked],
        )

    def drop_unlabelled(self) -> Dataset:
        """Without the rows that have no true label, as the paper does."""
        if self.truth is None:
            raise ValueError(f"{self.name} has no true labels, so the rows without one are not known")
        return self.take(self.truth.any(axis=1))

    def statistics(self) -> Statistics:
        """Shape and label counts, see :class:`Statistics`."""
        numbers = _truth_statistics(self.truth)
        if self.candidates is not None:
            sizes = self.candidates.sizes()
            numbers["mean_candidates"] = float(sizes.mean())
            numbers["rows_without_candidates"] = int((sizes == 0).sum())
            if self.truth is not None:
                numbers["rows_missing_truth"] = len(self.candidates.missing_from(self.truth))
        return Statistics(self.X.shape[0], self.X.shape[1], len(self.label_names), **numbers)


@dataclass(frozen=True, eq=False)
class ImageDataset:
    """Image files with their true labels; the images are opened by whoever trains on them."""

    name: str
    paths: tuple[Path, ...]
    truth: np.ndarray  #: uint8, shape (n_samples, n_labels)
    label_names: tuple[str, ...]
    split: str  #: the name of the part, such as "trainval"

    def __post_init__(self) -> None:
        if self.truth.shape != (len(self.paths), len(self.label_names)):
            raise ValueError(
                f"{self.name}: truth has shape {self.truth.shape}, expected {len(self.paths)} images "
                f"by {len(self.label_names)} label names"
            )

    def __repr__(self) -> str:
        return f"ImageDataset({self.name!r}, {self.split!r}, {len(self.paths)} images, {len(self.label_names)} labels)"

    def take(self, rows: Any) -> ImageDataset:
        """The given images: positions, a boolean mask or a slice."""
        picked = np.atleast_1d(np.arange(len(self.paths))[rows])
        return replace(self, paths=tuple(self.paths[i] for i in picked), truth=self.truth[picked])

    def statistics(self) -> Statistics:
        """Shape and label counts, see :class:`Statistics`."""
        return Statistics(len(self.paths), None, len(self.label_names), **_truth_statistics(self.truth))


def _truth_statistics(truth: np.ndarray | None) -> dict[str, Any]:
    if truth is None:
        return {}
    counts = truth.sum(axis=1, dtype=np.int64)
    return {"mean_true": float(counts.mean()), "rows_without_truth": int((counts == 0).sum())}


# -- what the registry knows of a dataset ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RemoteFile:
    """A file of a dataset: its path in the data folder, its address, and its checksum where one is known."""

    path: str
    url: str
    checksum: str | None = None


@dataclass(frozen=True)
class Facts(Statistics):
    """The statistics of one copy of a dataset; ``None`` where nobody has published or measured them."""

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
