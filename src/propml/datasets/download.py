"""Downloads: the files of a dataset, each over HTTP.

A transfer goes on where it stopped, is checked, and the file appears under its name only when it is right: pooch, the
usual library for this, starts again from the beginning, which hurts with gigabytes of images.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from propml.datasets.catalogue import lookup
from propml.datasets.dataset import Entry, RemoteFile
from propml.datasets.locations import (
    DamagedArchive,
    checksum_of,
    data_dirs,
    existing_file,
    extract,
    matches,
    writable_data_dir,
)
from propml.messages import renamed_argument
from propml.progress import progress_bar

__all__ = ["download", "fetch"]

_BLOCK = 1 << 18
_WEB = ("http", "https")
# Answers that may be different the next time: timeouts, too many requests, trouble of the server.
_PASSING = (408, 425, 429, 500, 502, 503, 504)


class _OnlyWeb(urllib.request.HTTPRedirectHandler):
    """Follows a redirect from the web to the web, and to nothing else: urllib would go on to FTP."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urllib.parse.urlsplit(newurl).scheme not in _WEB:
            raise ValueError(f"{req.full_url} leads on to {newurl}, which is not an http or https address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_open = urllib.request.build_opener(_OnlyWeb).open


class _Dropped(Exception):
    """The transfer stopped early; what has come so far is kept."""


@renamed_argument("show_progress", "verbose")
def fetch(
    name: str,
    data_dir: str | Path | None = None,
    *,
    force: bool = False,
    retries: int = 4,
    wait: float = 0.5,
    verbose: bool = True,
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
        See :func:`download`.

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
    how: dict[str, Any] = {"retries": retries, "wait": wait, "verbose": verbose}
    if entry.folder:
        _fetch_archives(entry, folder, how)
        return folder
    for file in entry.files:
        present = existing_file(folder, file.path)
        if _is_published(present, file):
            continue
        if present is not None and not force:
            raise ValueError(
                f"{present} is there and is not the published file (checksum {file.checksum}); "
                f"move it away, or pass --force to replace it"
            )
        download(file.url, folder / file.path, checksum=file.checksum, **how)
    return folder


def _complete(entry: Entry, folder: Path) -> bool:
    if entry.folder:
        return all(existing_file(folder, path) for path in entry.needs)
    return all(_is_published(existing_file(folder, file.path), file) for file in entry.files)


def _is_published(path: Path | None, file: RemoteFile) -> bool:
    return path is not None and (file.checksum is None or matches(path, file.checksum))


def _fetch_archives(entry: Entry, folder: Path, how: dict[str, Any]) -> None:
    """Archives are removed once they are unpacked; one that is damaged is removed too."""
    destination = folder / entry.folder
    if destination.exists():
        raise ValueError(f"{destination} is there and is not complete; move it away, then fetch {entry.name} again")
    archives = [folder / file.path for file in entry.files]
    for file, archive in zip(entry.files, archives, strict=True):
        if not archive.is_file():
            download(file.url, archive, **how)
    required = [need.partition("/")[2] for need in entry.needs]
    try:
        extract(archives, destination, inner=entry.inner, required=required, verbose=how["verbose"])
    except DamagedArchive as error:
        error.archive.unlink()
        raise
    for archive in archives:
        archive.unlink()


def download(
    url: str,
    path: Path,
    *,
    checksum: str | None = None,
    retries: int = 4,
    wait: float = 0.5,
    timeout: float = 30.0,
    verbose: bool = True,
) -> Path:
    """Download ``url`` to ``path``.

    The bytes go to ``path`` + ``.part``; a later call asks the server for the rest of it. When all have come and
    the checksum is right the file is renamed. A wrong checksum removes everything that was written.

    Parameters
    ----------
    url : str
        ``http://`` or ``https://``.
    path : Path
        Its folder is created.
    checksum : str, optional
        ``"git:<hex>"`` or ``"sha256:<hex>"``; without it only the size that the server announces is checked.
    retries : int
        How many tries in a row may bring nothing new.
    wait : float
        Seconds before the first retry; doubled with each one.
    timeout : float
        Seconds without a byte after which a connection counts as dropped.
    """
    if urllib.parse.urlsplit(url).scheme not in _WEB:
        raise ValueError(f"{url} is not an http or https address")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    failures, resumed = 0, part.exists()
    while True:
        before = _size(part)
        try:
            _transfer(url, part, timeout, verbose)
        except _Dropped as error:
            failures = 0 if _size(part) > before else failures + 1
            if failures > retries:
                raise OSError(f"{url} could not be downloaded: {error}; {_kept(part)}") from error
            time.sleep(wait * 2**failures if failures else 0)
            continue
        found = checksum_of(part, checksum.partition(":")[0]) if checksum else None
        if found == checksum:
            os.replace(part, path)
            return path
        part.unlink()
        if not resumed:
            raise ValueError(
                f"{url} gave a file with checksum {found}, expected {checksum}; nothing was kept. "
                f"Something on the way changed it: try again, or from another network"
            )
        failures, resumed = 0, False  # the beginning may have been of another file: once more, from the start


def _transfer(url: str, part: Path, timeout: float, verbose: bool) -> None:
    """One connection; raises ``_Dropped`` when it ends before the file does."""
    start = _size(part)
    headers = {"User-Agent": "propml", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response = _open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # nothing after the end: the part is whole, or it is longer than the file
            if error.headers.get("Content-Range") == f"bytes */{start}":
                return
            part.unlink(missing_ok=True)
            raise _Dropped("what had been fetched before does not fit the file") from error
        told = f"the server answered {error.code} {error.reason}"
        raise _Dropped(told) if error.code in _PASSING else OSError(f"{url} could not be downloaded: {told}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _Dropped(str(error) or type(error).__name__) from error
    with response:
        if response.status != 206:  # a server may ignore the range and send all of the file
            start = 0
        elif start and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            part.unlink()
            raise _Dropped("the server sent another range than it was asked for")
        announced = response.headers.get("Content-Length", "")
        total = start + int(announced) if announced.isdecimal() else None
        bar_shown = progress_bar(f"fetching {part.stem}", total or 0, show=verbose)
        with bar_shown as bar, part.open("ab" if start else "wb") as file:
            bar.advance(start)
            while block := _block(response):
                file.write(block)
                bar.advance(len(block))
    if total is not None and _size(part) != total:
        raise _Dropped(f"the connection ended after {_size(part)} of {total} bytes")


def _block(response: http.client.HTTPResponse) -> bytes:
    """The next bytes; trouble of the disk, which another try does not mend, is not of this kind."""
    try:
        return response.read(_BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise _Dropped(str(error) or type(error).__name__) from error


def _kept(part: Path) -> str:
    if not _size(part):
        part.unlink(missing_ok=True)
        return "nothing has come yet; try again later, or from another network"
    return f"{_size(part)} bytes are kept in {part}, and the next try goes on from there"


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
