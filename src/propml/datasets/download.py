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

from propml.datasets import locations
from propml.datasets.catalogue import lookup
from propml.datasets.dataset import Entry
from propml.datasets.locations import existing_file, matches
from propml.messages import renamed_argument
from propml.progress import progress_bar

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
    retries : int
        How many tries in a row may bring nothing new.
    wait : float
        Seconds before the first retry; doubled with each one.

    Returns
    -------
    Path
        The data folder that holds the dataset.
    """
    entry = lookup(name)
    if not entry.files:
        raise ValueError(f"{entry.title} is part of the package; there is nothing to fetch")
    for folder in [Path(data_dir).expanduser()] if data_dir else locations.data_dirs():
        if entry.folder:
            complete = all(existing_file(folder, path) for path in entry.needs)
        else:
            complete = all(matches(existing_file(folder, file.path), file.checksum) for file in entry.files)
        if complete:
            return folder
    folder = locations.writable_data_dir(data_dir)
    how: dict[str, Any] = {"retries": retries, "wait": wait, "verbose": verbose}
    if entry.folder:
        _fetch_archives(entry, folder, how)
        return folder
    for file in entry.files:
        present = existing_file(folder, file.path)
        if matches(present, file.checksum):
            continue
        if present is not None and not force:
            raise ValueError(
                f"{present} is there and is not the published file (checksum {file.checksum}); "
                f"move it away, or pass --force to replace it"
            )
        download(file.url, folder / file.path, checksum=file.checksum, **how)
    return folder


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
        locations.extract(archives, destination, inner=entry.inner, required=required, verbose=how["verbose"])
    except locations.DamagedArchive as error:
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
    """Download ``url`` to ``path``, by way of ``path`` + ``.part``, which a later call goes on with.

    Without a ``checksum`` only the size that the server announces is checked; a wrong one removes what was written.
    ``retries`` and ``wait`` are those of :func:`fetch`. After ``timeout`` seconds without a byte a connection counts as
    dropped.
    """
    if urllib.parse.urlsplit(url).scheme not in _WEB:
        raise ValueError(f"{url} is not an http or https address")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    failures = 0
    while True:
        before = _size(part)
        try:
            _transfer(url, part, timeout, verbose)
            break
        except (OSError, http.client.HTTPException) as error:
            failures = 0 if _size(part) > before else failures + 1
            lasting = isinstance(error, urllib.error.HTTPError) and error.code not in _PASSING
            if lasting or failures > retries:
                kept = f"{_size(part)} bytes are kept, and the next try goes on from there"
                raise OSError(f"{url} could not be downloaded: {error}; {kept}") from error
            time.sleep(wait * 2**failures if failures else 0)
    if checksum is not None and (found := locations.checksum_of(part, checksum.partition(":")[0])) != checksum:
        part.unlink()
        raise ValueError(
            f"{url} gave a file with checksum {found}, expected {checksum}; nothing was kept. "
            f"Something on the way changed it: try again, or from another network"
        )
    os.replace(part, path)
    return path


def _transfer(url: str, part: Path, timeout: float, verbose: bool) -> None:
    """One connection; raises an ``OSError`` when it ends before the file does."""
    start = _size(part)
    headers = {"User-Agent": "propml", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response = _open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if start and error.code == 416:  # there is nothing after what has come
            return
        raise
    with response:
        if response.status != 206:  # a server may ignore the range and send all of the file
            start = 0
        elif start and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            part.unlink()
            raise ConnectionError("the server sent another range than it was asked for")
        announced = response.headers.get("Content-Length", "")
        total = start + int(announced) if announced.isdecimal() else None
        bar_shown = progress_bar(f"fetching {part.stem}", total or 0, show=verbose)
        with bar_shown as bar, part.open("ab" if start else "wb") as file:
            bar.advance(start)
            while block := response.read(_BLOCK):
                file.write(block)
                bar.advance(len(block))
    if total is not None and _size(part) != total:
        raise ConnectionError(f"the connection ended after {_size(part)} of {total} bytes")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
