"""Where datasets are looked for (a given folder, ``PROPML_DATA``, the user's cache), and whether a file is right.

Checksums are written ``"git:<hex>"`` (the id of a git blob) or ``"sha256:<hex>"``.
"""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

from propml.devices import cache_dir
from propml.file_errors import reading
from propml.unpacking import open_unpacked

__all__ = ["checksum_of", "data_dirs", "existing_file", "leads_out", "matches", "writable_data_dir"]


def data_dirs(data_dir: str | Path | None = None) -> list[Path]:
    """The folders to search, first one first: the argument, ``PROPML_DATA``, the user's cache."""
    given = [data_dir, os.environ.get("PROPML_DATA")]
    folders = [Path(folder).expanduser() for folder in given if folder]
    return list(dict.fromkeys([*folders, cache_dir()]))


def writable_data_dir(data_dir: str | Path | None = None) -> Path:
    """Where a download goes: the argument, else ``PROPML_DATA`` where one may write, else the user's cache."""
    if data_dir:
        return Path(data_dir).expanduser()
    return next((folder for folder in data_dirs() if folder.is_dir() and os.access(folder, os.W_OK)), cache_dir())


def existing_file(folder: Path, relative: str) -> Path | None:
    """The file itself or, for text, its ``.gz``: whichever is there."""
    names = [relative, f"{relative}.gz"] if relative.endswith((".arff", ".tsv", ".json")) else [relative]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def leads_out(folder: Path, relative: str) -> bool:
    """Whether a path that a file names leads out of a folder: through ``..``, from the root, or through a link.

    >>> leads_out(Path("photos"), "a/b.jpg"), leads_out(Path("photos"), "../b.jpg"), leads_out(Path("photos"), "/b.jpg")
    (False, True, True)
    """
    try:
        return not (folder / relative).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a name that no file can have, or links in a circle: it is nowhere
        return False


def checksum_of(path: Path, kind: str) -> str:
    """The checksum of a file; of the content, where the file is a ``.gz`` of it.

    A git blob id is the SHA-1 of ``b"blob <size>\\0"`` followed by the content.
    """
    if kind not in ("git", "sha256"):
        raise ValueError(f"checksum kind {kind!r} is not known; use git or sha256")
    if path.suffix == ".gz":
        with reading(path, "gzip file", "fetch or copy it again"), open_unpacked(path) as file:
            content = file.read()
        return _checksum(io.BytesIO(content), len(content), kind)
    with path.open("rb") as file:
        return _checksum(file, path.stat().st_size, kind)


def matches(path: Path, expected: str) -> bool:
    """Whether a file has the expected checksum."""
    return checksum_of(path, expected.partition(":")[0]) == expected


def _checksum(file: Any, size: int, kind: str) -> str:
    digest = hashlib.sha256() if kind == "sha256" else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    while block := file.read(1 << 20):
        digest.update(block)
    return f"{kind}:{digest.hexdigest()}"
