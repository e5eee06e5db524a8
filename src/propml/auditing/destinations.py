"""Where results go: looked at before the work, so that none of it is lost and nothing that is read is written over."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["check_folder", "check_not_link", "check_not_read"]


def check_folder(folder: str | Path) -> None:
    """Refuse a folder that is a file, or that could not be made or written to; nothing is made here."""
    folder = Path(folder)
    there = next(path for path in (folder, *folder.parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is not a folder, so nothing can be written to {folder}; choose another")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} may not be written to, so {folder} cannot be used; choose another folder")


def check_not_read(written: Iterable[Path], read: Iterable[str | Path | None]) -> None:
    """Refuse to write over a file that is read, by whichever name."""
    sources = [path for name in read if name is not None and (path := Path(name)).exists()]
    for path in written:
        if path.exists() and any(path.samefile(source) for source in sources):
            raise ValueError(f"{path} is read here and would be overwritten; write to another place")


def check_not_link(written: Iterable[Path]) -> None:
    """Refuse to write through a link: what it leads to is not ours to replace."""
    for path in written:
        if path.is_symlink():
            raise ValueError(f"{path} is a link, and would be written over; remove it, or write to another place")
