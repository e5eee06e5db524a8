"""How large a compressed file may become: a small file that unpacks to gigabytes is refused before it fills the memory.

The limit is 200 times the size of the file and never less than 512 MiB; ``PROPML_UNPACK_GIB`` in the environment sets
another one. By hand, since gzip, bz2, lzma and zipfile have no limit of their own.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

from propml.file_errors import FileError

VARIABLE = "PROPML_UNPACK_GIB"
# Deflate reaches 1000 to one. Tables of zeros reach 100 and more, so that the floor lets through what is small anyway.
TIMES, AT_LEAST = 200, 512 * 2**20
# How compressed files begin; that of bzip2 is long because a table may well begin with BZ.
_OPENERS: dict[bytes, Any] = {rb"\x1f\x8b": gzip.open, rb"BZh[1-9]1AY&SY": bz2.open, rb"\xfd7zXZ\x00": lzma.open}


class TooLarge(FileError):
    """A file whose content would be larger than the limit."""


def limit_in_environment() -> int | None:
    """Bytes that the environment allows, or None where it says nothing."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    try:
        return int(float(given) * 2**30)
    except (ValueError, OverflowError):
        raise ValueError(f"{VARIABLE} is {given!r} in the environment; give a number of GiB, such as 8") from None


def check_unpacked(path: Path, size: int, *, known: bool = True) -> None:
    """Refuse content of this many bytes in a file if that is beyond the limit; not ``known``: more may come."""
    limit = _limit(path)
    if size > limit:
        becomes = _told(size) if known else f"more than {_told(limit)}"
        raise TooLarge(
            f"{path} has {_told(path.stat().st_size)} and would become {becomes} in memory, and {_told(limit)} are "
            f"allowed; if you trust the file, set {VARIABLE} in the environment to the GiB that it may take, such as 8"
        )


def open_unpacked(path: Path, raw: IO[bytes] | None = None) -> IO[bytes]:
    """The content of a file, unpacked where it is gzip, bzip2 or xz, up to the limit; ``raw`` is the file, if open."""
    with path.open("rb") as file:
        start = file.read(10)
    for beginning, opener in _OPENERS.items():
        if re.match(beginning, start):
            return io.BufferedReader(_Counted(opener(raw or path, "rb"), path), 2**16)
    return raw or path.open("rb")


def is_gzipped(path: Path) -> bool:
    """Whether a file is gzip, so that a copy of it is to be gzip too."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def inflated(body: bytes | memoryview, path: Path) -> bytes:
    """What a deflated part of a file holds."""
    engine = zlib.decompressobj()
    made = engine.decompress(body, _limit(path) + 1)
    check_unpacked(path, len(made), known=False)
    if not engine.eof:
        raise ValueError("a compressed part is cut off")
    return made


def check_zip(path: Path) -> None:
    """Refuse a zip file whose members, as they are declared, are too large together; more is never unpacked of one."""
    with zipfile.ZipFile(path) as zipped:
        check_unpacked(path, sum(member.file_size for member in zipped.infolist()))


class _Counted(io.RawIOBase):
    """A stream that ends with an error where more comes out of it than is allowed."""

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream, self._path = stream, path
        self._limit, self._seen = _limit(path), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        self._seen += count
        if self._seen > self._limit:
            check_unpacked(self._path, self._seen, known=False)
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def _limit(path: Path) -> int:
    given = limit_in_environment()
    return max(AT_LEAST, TIMES * path.stat().st_size) if given is None else given


def _told(size: int) -> str:
    """Bytes for people."""
    return f"{size / 2**20:.1f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"
