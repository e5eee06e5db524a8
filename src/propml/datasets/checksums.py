"""Checksums of files, as ``"git:<hex>"`` (the id of a git blob) or ``"sha256:<hex>"``."""

import gzip
import hashlib
import zlib
from pathlib import Path

__all__ = ["checksum_of", "matches"]


def checksum_of(path: Path, kind: str) -> str:
    """The checksum of a file; of the content, where the file is a ``.gz`` of it.

    A git blob id is the SHA-1 of ``b"blob <size>\\0"`` followed by the content.
    """
    if kind not in ("git", "sha256"):
        raise ValueError(f"checksum kind {kind!r} is not known; use git or sha256")
    if path.suffix == ".gz":
        compressed = path.read_bytes()
        try:
            return _of_bytes(gzip.decompress(compressed), kind)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path} is not a complete gzip file ({error}); fetch or copy it again") from error
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
