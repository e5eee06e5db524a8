"""Checksums of files, as ``"git:<hex>"`` (the id of a git blob) or ``"sha256:<hex>"``."""

import hashlib
from pathlib import Path

from propml.file_errors import reading
from propml.unpacking import open_unpacked

__all__ = ["checksum_of", "matches"]


def checksum_of(path: Path, kind: str) -> str:
    """The checksum of a file; of the content, where the file is a ``.gz`` of it.

    A git blob id is the SHA-1 of ``b"blob <size>\\0"`` followed by the content.
    """
    if kind not in ("git", "sha256"):
        raise ValueError(f"checksum kind {kind!r} is not known; use git or sha256")
    if path.suffix == ".gz":
        with reading(path, "gzip file", "fetch or copy it again"), open_unpacked(path) as file:
            return _of_bytes(file.read(), kind)
    digest = _start(kind, path.stat().st_size)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return f"{kind}:{digest.hexdigest()}"


def matches(path: Path, expected: str) -> bool:
    """Whether a file has the expected checksum."""
    return checksum_of(path, expected.partition(":")[0]) == expected


def _of_bytes(content: bytes, kind: str) -> str:
    digest = _start(kind, len(content))
    digest.update(content)
    return f"{kind}:{digest.hexdigest()}"


def _start(kind: str, size: int) -> "hashlib._Hash":
    if kind == "sha256":
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
