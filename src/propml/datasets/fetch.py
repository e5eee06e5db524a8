"""Downloading the files of a registered dataset."""

from __future__ import annotations

from pathlib import Path

from propml.datasets.archives import DamagedArchive, extract
from propml.datasets.catalogue import lookup
from propml.datasets.checksums import matches
from propml.datasets.download import download
from propml.datasets.entry import Entry, RemoteFile
from propml.datasets.locations import data_dirs, existing_file, writable_data_dir

__all__ = ["fetch"]


def fetch(
    name: str,
    data_dir: str | Path | None = None,
    *,
    force: bool = False,
    retries: int = 4,
    wait: float = 0.5,
    show_progress: bool = True,
) -> Path:
    """Download a dataset, unless it is already there.

    Parameters
    ----------
    name : str
        See :func:`propml.datasets.names`.
    data_dir : path, optional
        By default ``PROPML_DATA`` where one may write, otherwise the user's cache.
    force : bool
        Replace files that are there and are not the published ones.
    retries, wait : int, float
        See :func:`propml.datasets.download.download`.

    Returns
    -------
    Path
        The data folder that holds the dataset.
    """
    entry = lookup(name)
    if not entry.files:
        raise ValueError(f"{entry.title} is part of the package; there is nothing to fetch")
    for folder in [Path(data_dir).expanduser()] if data_dir else data_dirs():
        if _complete(entry, folder):
            return folder
    folder = writable_data_dir(data_dir)
    if entry.folder:
        _fetch_archives(entry, folder, retries, wait, show_progress)
        return folder
    for file in entry.files:
        present = existing_file(folder, file.path)
        if present is not None and _is_published(present, file):
            continue
        if present is not None and not force:
            raise ValueError(
                f"{present} is there and is not the published file (checksum {file.checksum}); "
                f"move it away, or pass --force to replace it"
            )
        download(
            file.url,
            folder / file.path,
            checksum=file.checksum,
            retries=retries,
            wait=wait,
            show_progress=show_progress,
        )
    return folder


def _complete(entry: Entry, folder: Path) -> bool:
    if entry.folder:
        return all(existing_file(folder, path) for path in entry.needs)
    present = [(existing_file(folder, file.path), file) for file in entry.files]
    return all(path is not None and _is_published(path, file) for path, file in present)


def _is_published(path: Path, file: RemoteFile) -> bool:
    return file.checksum is None or matches(path, file.checksum)


def _fetch_archives(entry: Entry, folder: Path, retries: int, wait: float, show_progress: bool) -> None:
    """Archives are removed once they are unpacked; one that is damaged is removed too."""
    destination = folder / entry.folder
    if destination.exists():
        raise ValueError(f"{destination} is there and is not complete; move it away, then fetch {entry.name} again")
    archives = [folder / file.path for file in entry.files]
    for file, archive in zip(entry.files, archives, strict=True):
        if not archive.is_file():
            download(file.url, archive, retries=retries, wait=wait, show_progress=show_progress)
    required = [need.partition("/")[2] for need in entry.needs]
    try:
        extract(archives, destination, inner=entry.inner, required=required, show_progress=show_progress)
    except DamagedArchive as error:
        error.archive.unlink()
        raise
    for archive in archives:
        archive.unlink()
