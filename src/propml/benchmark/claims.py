"""Who computes which cell: a claim is a locked file, so it dies with the process that holds it."""

from __future__ import annotations

import os
from pathlib import Path

from propml.durable import is_at, lock_file

__all__ = ["Claims"]


class Claims:
    """The cells that this process works on, where other processes on the same folder see them.

    Parameters
    ----------
    folder : path
        Made where it does not exist; a file in it that nobody locks means nothing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mine, theirs = Claims(folder), Claims(folder)
    ...     first = mine.take("birds"), theirs.take("birds")
    ...     mine.release("birds")
    ...     first, theirs.take("birds")
    ((True, False), True)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._held: dict[str, int] = {}

    def take(self, key: str) -> bool:
        """Claim a cell; false where somebody else, or this very object, has claimed it."""
        if key in self._held:
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / key
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                locked = lock_file(descriptor, wait=False)
                # A holder that releases removes its file.
                if locked and is_at(descriptor, path):
                    self._held[key] = descriptor
                    return True
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
            if not locked:
                return False

    def release(self, key: str) -> None:
        """Give a cell back; nothing happens where it is not held."""
        descriptor = self._held.pop(key, None)
        if descriptor is not None:
            (self.folder / key).unlink(missing_ok=True)
            os.close(descriptor)

    def release_all(self) -> None:
        """Give everything back, and clear away the files of holders that are dead."""
        for key in list(self._held):
            self.release(key)
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if self.take(path.name):
                self.release(path.name)
