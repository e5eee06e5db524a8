"""Files that are there as a whole or not at all, and locks that die with their process.

A process may be killed, a disk may fill up and two processes may write at once: what was written stays, and what was
written by half is not there. All of it rests on four promises of a POSIX file system: ``rename`` is atomic, ``fsync``
lasts, ``flock`` excludes, and a lock dies with its process. By hand: no dependency of this package does both, and
``filelock`` does not lock a file that is open already, on which the clean-up after dead writers rests.
"""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """An empty file beside this one to write to; it takes this one's place, on the disk, when the block has ended.

    Several processes may write the same file at once: the last one to end is there. A writer holds the lock of its own
    file, so that the next one knows, and removes, those of dead writers; on a file system without locks they stay.
    """
    path = Path(os.path.realpath(path))  # a link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_after_dead_writers(path)
    with naming(path):
        beside, held = _beside(path)
        try:
            yield beside
            with beside.open("r+b") as file:
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        finally:
            if held is not None:
                os.close(held)
        sync_folder(path.parent)


@contextmanager
def replacing_files(folder: str | Path, last: str) -> Iterator[Path]:
    """A folder inside this one to write files to; they take their places, ``last`` after all others, at the end.

    Several files cannot be switched at once. So ``last`` is removed first and comes last: files without it are of a
    switch that was killed. Until then, and where the block ends with an error, everything is as it was before. Write
    with :func:`replacing` and :func:`write_whole`, which have files on the disk.
    """
    folder = Path(os.path.realpath(folder))
    with replacing(folder / last) as new:
        beside = new.with_suffix(".files")
        try:
            beside.mkdir()
            yield beside
            os.replace(beside / last, new)
            (folder / last).unlink(missing_ok=True)
            for path in [path for path in beside.rglob("*") if path.is_file()]:
                target = folder / path.relative_to(beside)
                target.parent.mkdir(exist_ok=True)
                os.replace(path, target)
                sync_folder(target.parent)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def write_whole(path: str | Path, content: bytes) -> None:
    """Put a file in its place as a whole or not at all, and on the disk before this returns; see :func:`replacing`."""
    with replacing(path) as beside:
        fill(beside, content)


def fill(path: Path, content: bytes) -> None:
    """Write the content of a file that is there, such as one that :func:`replacing` made."""
    with path.open("wb") as file:
        write_all(file.fileno(), content)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have errors of the system, such as a full disk, name the file that was to be written."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


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


@contextmanager
def locked(path: str | Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file, made where it is not there, while the block runs; hands out whether nobody else has it.

    Several processes take turns: with ``wait`` the block begins when it is this one's, so that it always hands out
    True. Where no lock can be had (a folder that cannot be written, a system without locks) nobody is kept out.
    """
    mine = True
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(Path(path).open("ab"))
            mine = lock_file(file.fileno(), wait=wait)
        yield mine


def _beside(path: Path) -> tuple[Path, int | None]:
    """A new file beside this one, and the descriptor that holds its lock, if there are locks here."""
    while True:
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.writing")
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            locked = lock_file(descriptor, wait=False)
        except OSError:
            os.close(descriptor)
            return beside, None
        if locked and beside.exists():
            return beside, descriptor
        os.close(descriptor)  # another writer was quicker, and took it for one that was left behind


def _clear_after_dead_writers(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.writing"):
        with contextlib.suppress(OSError), left.open("r+b") as file:
            if lock_file(file.fileno(), wait=False):
                shutil.rmtree(left.with_suffix(".files"), ignore_errors=True)
                left.unlink()
