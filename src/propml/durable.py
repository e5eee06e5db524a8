"""Files that are there as a whole or not at all, and locks that die with their process.

A process may be killed, a disk may fill up and two processes may write at once: what was written stays, and what was
written by half is not there. All of it rests on four promises of a POSIX file system: ``rename`` is atomic, ``fsync``
lasts, ``flock`` excludes, and a lock dies with its process.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["lock_file", "replacing", "sync_folder", "write_all", "write_whole"]


@contextmanager
def replacing(path: str | Path, *, several: bool = False) -> Iterator[Path]:
    """A path beside this one to write to; it takes this one's place, and is on the disk, when the block has ended.

    Where the block ends with an error, everything is as it was before.

    Parameters
    ----------
    path : path
        Its folder is made where it is not there.
    several : bool
        Whether several processes may write this file at once. Otherwise the path beside has one fixed name, so that
        what a killed writer left behind is overwritten by the next one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "numbers.txt") as beside:
    ...         _ = beside.write_text("1 2 3")
    ...     [path.name for path in Path(folder).iterdir()]
    ['numbers.txt']
    """
    path = Path(os.path.realpath(path))  # a link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    mark = f".{secrets.token_hex(6)}" if several else ""
    beside = path.with_name(f".{path.name}{mark}.writing")
    try:
        yield beside
        descriptor = os.open(beside, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_whole(path: str | Path, content: bytes, *, several: bool = False) -> None:
    """Put a file in its place as a whole or not at all, and on the disk before this returns; see :func:`replacing`."""
    with replacing(path, several=several) as beside:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            write_all(descriptor, content)
        finally:
            os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """In one write; a disk that is filling up takes a part of it, and says so at the next."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_file(descriptor: int, *, wait: bool = True) -> bool:
    """Take the exclusive lock of an open file; whether that worked, which with ``wait`` it does."""
    try:
        import fcntl
    except ImportError as error:
        raise OSError("this needs POSIX file locks, which this system lacks; use Linux or macOS") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
