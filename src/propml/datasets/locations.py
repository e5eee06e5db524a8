"""Where datasets are looked for: an explicit folder, ``PROPML_DATA``, then the user's cache."""

import os
from pathlib import Path

from propml.this_machine import cache_dir

__all__ = ["data_dirs", "existing_file", "leads_out", "writable_data_dir"]


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
