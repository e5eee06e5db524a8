"""Whole files or none: on a full disk, after a kill, with several writers at once."""

import os
import stat
import subprocess
import sys

import pytest

from filling_disk import FillingDisk
from propml.durable import replacing, write_whole


def test_a_whole_file_is_synced_before_it_is_named_and_so_is_its_folder(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (events.append(os.readlink(f"/proc/self/fd/{descriptor}")), fsync(descriptor))
    )
    monkeypatch.setattr(os, "replace", lambda source, target: (events.append("renamed"), replace(source, target)))
    write_whole(tmp_path / "new" / "a.npz", b"content")
    assert events == [str(tmp_path / "new" / ".a.npz.writing"), "renamed", str(tmp_path / "new")]
    assert (tmp_path / "new" / "a.npz").read_bytes() == b"content"


def test_half_a_file_never_stands_in_its_place(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    (tmp_path / ".a.npz.writing").write_bytes(b"left behind by a writer that was killed, and longer than the next")
    write_whole(path, b"old")
    monkeypatch.setattr(os, "write", FillingDisk(5))
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new and too long")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


def test_an_error_in_the_block_leaves_everything_as_it_was(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as beside:
            beside.write_text("new")
            raise KeyError("half")

    with pytest.raises(KeyError, match="half"):
        fail()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_written_file_is_readable_for_whom_the_user_wants(tmp_path):
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "a", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


WRITER = """
import sys
from propml.durable import write_whole
path, letter = sys.argv[1:]
for _ in range(60):
    write_whole(path, letter.encode() * 100_000, several=True)
    seen = open(path, "rb").read()
    assert len(seen) == 100_000 and len(set(seen)) == 1, "mixed"
"""


def test_several_writers_at_once_leave_the_file_of_one(tmp_path):
    path = tmp_path / "a"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), letter]) for letter in "xy"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
