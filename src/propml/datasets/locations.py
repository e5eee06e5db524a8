"""Where datasets are looked for (a given folder, ``PROPML_DATA``, the user's cache), and whether a file is right.

Checksums are written ``"git:<hex>"`` (the id of a git blob) or ``"sha256:<hex>"``. Archives are unpacked so that
nothing lands outside, and either all of it is there or nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from propml.devices import cache_dir
from propml.file_errors import FileError, reading
from propml.progress import Bar, progress_bar
from propml.unpacking import TooLarge, check_zip, open_unpacked


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
    """The ``"git"`` or ``"sha256"`` checksum of a file; of the content, where the file is a ``.gz`` of it."""
    opened = open_unpacked(path) if path.suffix == ".gz" else path.open("rb")
    with reading(path, "file", "fetch or copy it again"), opened as file:
        if kind == "sha256":
            return f"sha256:{hashlib.file_digest(file, kind).hexdigest()}"  # type: ignore[arg-type]
        content = file.read()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return f"git:{blob.hexdigest()}"


def matches(path: Path | None, expected: str | None) -> bool:
    """Whether a file is there and has the expected checksum, if one is known."""
    return path is not None and expected is not None and checksum_of(path, expected.partition(":")[0]) == expected


class DamagedArchive(FileError):
    """``archive`` cannot be unpacked: it is no archive, is truncated, or writes outside its folder."""

    def __init__(self, archive: Path, sentence: str) -> None:
        super().__init__(sentence)
        self.archive = archive


def extract(
    archives: Sequence[Path], destination: Path, *, inner: str = "", required: Sequence[str] = (), verbose: bool = True
) -> Path:
    """Unpack zip and tar archives together into one new folder, all or nothing.

    ``inner`` is the folder inside the archives that becomes ``destination``, by default all of their content;
    ``required`` are files that must be in it. If another process has made ``destination`` meanwhile, that one stays.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    total = sum(archive.stat().st_size for archive in archives)
    with (
        tempfile.TemporaryDirectory(prefix=f".{destination.name}-", dir=destination.parent) as temporary,
        progress_bar(f"unpacking {destination.name}", total, show=verbose) as bar,
    ):
        content = Path(temporary, "content")
        content.mkdir()
        for archive in archives:
            _unpack(archive, content, bar)
        if absent := [name for name in required if not (content / inner / name).is_file()]:
            names = ", ".join(archive.name for archive in archives)
            raise ValueError(f"{names} lacks {absent[0]}; it is not the expected archive, or it is truncated")
        try:
            (content / inner).rename(destination)
        except OSError:
            if not (destination.is_dir() and all((destination / name).is_file() for name in required)):
                raise
    return destination


def _unpack(archive: Path, folder: Path, bar: Bar) -> None:
    try:
        with reading(archive, "archive", "fetch or copy it again"):
            members = _zip_members if zipfile.is_zipfile(archive) else _tar_members
            for name, is_plain, content, consumed in members(archive):
                parts = name.replace("\\", "/").split("/")
                if not is_plain or parts[0] == "" or ".." in parts or ":" in parts[0]:
                    told = "that is a link or a device, or leads out of the folder; nothing was unpacked"
                    raise ValueError(f"{archive} has a member {name!r} {told}")
                target = folder.joinpath(*parts)
                (target if content is None else target.parent).mkdir(parents=True, exist_ok=True)
                if content is not None:
                    with target.open("wb") as file:
                        shutil.copyfileobj(content, file)
                bar.advance(consumed)
    except TooLarge:  # a whole archive: with another limit it can be unpacked
        raise
    except FileError as error:
        raise DamagedArchive(archive, str(error)) from error


def _tar_members(archive: Path) -> Iterator[tuple[str, bool, IO[bytes] | None, int]]:
    """Of each member: name, whether it is a file or folder, content (None for a folder), bytes of the archive read."""
    with (
        archive.open("rb") as raw,
        open_unpacked(archive, raw) as content,
        tarfile.open(fileobj=content, mode="r|") as tar,
    ):
        before = 0
        for member in tar:
            content_of = tar.extractfile(member) if member.isfile() else None
            yield member.name, member.isfile() or member.isdir(), content_of, raw.tell() - before
            before = raw.tell()
        while content.read(1 << 20):  # the checksum of the compression stands at the end
            pass


def _zip_members(archive: Path) -> Iterator[tuple[str, bool, IO[bytes] | None, int]]:
    check_zip(archive)
    with zipfile.ZipFile(archive) as zipped:
        for member in zipped.infolist():
            is_plain = stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
            content = None if member.is_dir() else zipped.open(member)
            yield member.filename, is_plain, content, member.compress_size
