"""Archives: all or nothing, and nothing outside."""

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from propml.datasets.locations import DamagedArchive, extract


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    return path


def only(folder: Path) -> list[str]:
    """Everything below a folder; hidden temporary folders would show."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("suffix", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tar.xz", "w:xz"), ("tar.bz2", "w:bz2")]
)
def test_tar_with_any_compression(tmp_path, suffix, mode):
    archive = make_tar(tmp_path / f"a.{suffix}", {"top/a.txt": b"one", "top/deep/b.txt": b"two" * 10_000}, mode)
    made = extract([archive], tmp_path / "out" / "there", verbose=False)
    assert only(made) == ["top", "top/a.txt", "top/deep", "top/deep/b.txt"]
    assert (made / "top/deep/b.txt").read_bytes() == b"two" * 10_000
    assert only(tmp_path / "out") == ["there", *(f"there/{name}" for name in only(made))]


def test_zip_with_folders_and_several_archives_together(tmp_path):
    first = make_zip(tmp_path / "a.zip", {"top/": b"", "top/a.txt": b"one"})
    second = make_tar(tmp_path / "b.tar", {"top/b.txt": b"two", "other.txt": b"left behind"})
    made = extract([first, second], tmp_path / "out", inner="top", required=["a.txt", "b.txt"])
    assert only(made) == ["a.txt", "b.txt"]


EVIL = ["../evil.txt", "/evil.txt", "top/../../evil.txt", "..\\evil.txt", "C:\\evil.txt", "C:evil.txt"]


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_a_member_that_leads_out_is_refused_and_nothing_stays(tmp_path, name, make):
    archive = make(tmp_path / "evil.archive", {"good.txt": b"fine", name: b"evil"})
    with pytest.raises(DamagedArchive, match="leads out of the folder; nothing was unpacked"):
        extract([archive], tmp_path / "deep" / "out", verbose=False)
    assert only(tmp_path) == ["deep", "evil.archive"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    archive = tmp_path / "x.tar"
    with tarfile.open(archive, "w") as tar:
        info = tarfile.TarInfo("innocent")
        info.type, info.linkname = kind, "../../secret"
        tar.addfile(info)
    with pytest.raises(DamagedArchive, match="'innocent' that is a link or a device"):
        extract([archive], tmp_path / "out", verbose=False)
    assert only(tmp_path) == ["x.tar"]


def test_links_in_a_zip_are_refused(tmp_path):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        info = zipfile.ZipInfo("innocent")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        zipped.writestr(info, "/etc/passwd")
    with pytest.raises(DamagedArchive, match="'innocent' that is a link or a device"):
        extract([archive], tmp_path / "out", verbose=False)
    assert only(tmp_path) == ["x.zip"]


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.xz", "zip"])
def test_damaged_archives_leave_nothing(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    members = {f"{i}.bin": os.urandom(4000) for i in range(5)}
    if suffix == "zip":
        make_zip(path, members)
        content = bytearray(path.read_bytes())
        content[2000:2100] = bytes(100)  # the bytes of the first member, so that its CRC is wrong
    else:
        make_tar(path, members, "w:" + suffix.partition(".")[2])
        content = bytearray(path.read_bytes())[:9000]
    path.write_bytes(content)
    with pytest.raises(DamagedArchive, match="is not a readable archive"):
        extract([path], tmp_path / "out", verbose=False)
    assert only(tmp_path) == [path.name]


def test_what_is_no_archive_or_is_encrypted_is_refused(tmp_path):
    text = tmp_path / "a.tar"
    text.write_text("<html>404</html>")
    with pytest.raises(DamagedArchive, match="is not a readable archive"):
        extract([text], tmp_path / "out", verbose=False)
    locked = make_zip(tmp_path / "locked.zip", {"a.txt": b"one"})
    content = bytearray(locked.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1  # the flag that says "encrypted"
    locked.write_bytes(content)
    with pytest.raises(DamagedArchive, match=r"not a readable archive .*encrypted"):
        extract([locked], tmp_path / "out", verbose=False)
    assert only(tmp_path) == ["a.tar", "locked.zip"]


def test_an_archive_without_the_required_files_is_refused(tmp_path):
    archive = make_zip(tmp_path / "a.zip", {"top/a.txt": b"one"})
    with pytest.raises(ValueError, match=r"a\.zip lacks b\.txt"):
        extract([archive], tmp_path / "out", inner="top", required=["b.txt"], verbose=False)
    assert only(tmp_path) == ["a.zip"]


def test_a_whole_folder_that_another_process_made_stays(tmp_path):
    archive = make_zip(tmp_path / "a.zip", {"a.txt": b"new", "b.txt": b"new"})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("old")
    with pytest.raises(OSError, match="out"):
        extract([archive], tmp_path / "out", required=["a.txt", "b.txt"], verbose=False)
    extract([archive], tmp_path / "out", required=["a.txt"], verbose=False)
    assert (tmp_path / "out" / "a.txt").read_text() == "old"
    assert only(tmp_path) == ["a.zip", "out", "out/a.txt"]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path, monkeypatch):
    archive = make_zip(tmp_path / "a.zip", {"a.txt": b"ours"})
    monkeypatch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(PermissionError):
        extract([archive], tmp_path / "other", verbose=False)
