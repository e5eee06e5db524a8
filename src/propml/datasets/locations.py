"""Where datasets are looked for (a given folder, ``PROPML_DATA``, the user's cache), and whether a file is right.

Checksums are written ``"git:<hex>"`` (the id of a git blob) or ``"sha256:<hex>"``. Archives are unpacked so that
nothing lands outside, and either all of it is there or nothing.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from propml.devices import cache_dir
from propml.file_errors import FileError, reading
from propml.progress import Bar, progress_bar
from propml.unpacking import TooLarge, check_zip, open_unpacked

__all__ = [
    "DamagedArchive", "checksum_of", "data_dirs", "existing_file", "extract", "leads_out", "matches",
    "writable_data_dir",
]  # fmt: skip

# Trouble of the system that comes from the names of members: too long, not possible, one for a file and a folder.
_OF_NAMES = (errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)


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


# -- archives ----------------------------------------------------------------------------------------------------------


class DamagedArchive(FileError):
    """An archive that cannot or must not be unpacked."""

    def __init__(self, archive: Path, sentence: str) -> None:
        super().__init__(sentence)
        self.archive = archive


def extract(
    archives: Sequence[Path],
    destination: Path,
    *,
    inner: str = "",
    required: Sequence[str] = (),
    verbose: bool = True,
) -> Path:
    """Unpack archives together into one new folder, all or nothing.

    Everything goes to a temporary folder beside ``destination``, which is renamed at the end; whatever fails
    before leaves no trace. A member with an absolute path, a ``..``, a link or a device is refused.

    Parameters
    ----------
    archives : sequence of Path
        ``.zip``, or ``.tar`` with any compression.
    destination : Path
        The folder that is to exist afterwards. If another process made it meanwhile, that one stays.
    inner : str
        The folder inside the archives that becomes ``destination``; by default all of the content.
    required : sequence of str
        Files that must be in ``destination`` before it is accepted.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{destination.name}-", dir=destination.parent))
    try:
        content = temporary / "content"
        content.mkdir()
        total = sum(archive.stat().st_size for archive in archives)
        with progress_bar(f"unpacking {destination.name}", total, show=verbose) as bar:
            for archive in archives:
                _unpack(archive, content, bar)
        absent = [name for name in required if not (content / inner / name).is_file()]
        if absent:
            names = ", ".join(archive.name for archive in archives)
            raise ValueError(f"{names} lacks {absent[0]}; it is not the expected archive, or it is truncated")
        _rename(content / inner, destination, required)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return destination


def _rename(source: Path, destination: Path, required: Sequence[str]) -> None:
    if not destination.exists():
        try:
            os.rename(source, destination)
            return
        except OSError:
            if not destination.is_dir():  # otherwise another process was faster
                raise
    absent = [name for name in required if not (destination / name).is_file()]
    if absent:
        raise FileExistsError(f"{destination} is there and lacks {absent[0]}; move it away and try again")


def _unpack(archive: Path, folder: Path, bar: Bar) -> None:
    try:
        with reading(archive, "archive", "fetch or copy it again"):
            members = _zip_members if zipfile.is_zipfile(archive) else _tar_members
            for name, content, consumed in members(archive):
                target = _inside(folder, name, archive)
                (target if content is None else target.parent).mkdir(parents=True, exist_ok=True)
                if content is not None:
                    with target.open("wb") as file:
                        shutil.copyfileobj(content, file)
                bar.advance(consumed)
    except TooLarge:  # a whole archive: with another limit it can be unpacked
        raise
    except FileError as error:
        raise DamagedArchive(archive, str(error)) from error
    except OSError as error:
        if error.errno not in _OF_NAMES:
            raise
        told = f"{archive} has a member that cannot be written ({error.strerror}); fetch it again"
        raise DamagedArchive(archive, told) from error


def _inside(folder: Path, name: str, archive: Path) -> Path:
    """Where a member goes; a name that leads out of ``folder`` on any platform is refused."""
    parts = name.replace("\\", "/").split("/")
    if parts[0] == "" or ".." in parts or ":" in parts[0] or "\0" in name:
        raise ValueError(f"{archive} has a member {name!r}, which leads out of the folder; nothing was unpacked")
    return folder.joinpath(*parts)


def _tar_members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None, int]]:
    """Name, content (``None`` for a folder) and the bytes of the archive consumed since the last member."""
    with (
        archive.open("rb") as raw,
        open_unpacked(archive, raw) as content,
        tarfile.open(fileobj=content, mode="r|") as tar,
    ):
        before = 0
        for member in tar:
            _check_kind(member.isfile() or member.isdir(), archive, member.name)
            yield member.name, tar.extractfile(member) if member.isfile() else None, raw.tell() - before
            before = raw.tell()
        while content.read(1 << 20):  # the checksum of the compression stands at the end
            pass


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None, int]]:
    check_zip(archive)
    with zipfile.ZipFile(archive) as zipped:
        for member in zipped.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            _check_kind(kind in (0, stat.S_IFREG, stat.S_IFDIR), archive, member.filename)
            content = None if member.is_dir() else zipped.open(member)
            yield member.filename, content, member.compress_size


def _check_kind(is_plain: bool, archive: Path, name: str) -> None:
    if not is_plain:
        raise ValueError(f"{archive} has a member {name!r} that is a link or a device; nothing was unpacked")
