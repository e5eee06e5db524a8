"""Whole files or none: on a full disk, after a kill, with several writers at once."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from filling_disk import FillingDisk
from killed_writers import killed_after
from propml.atomic_files import locked, replacing, replacing_files, write_whole


def test_a_whole_file_is_synced_before_it_is_named_and_so_is_its_folder(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (events.append(os.readlink(f"/proc/self/fd/{descriptor}")), fsync(descriptor))
    )
    monkeypatch.setattr(os, "replace", lambda source, target: (events.append("renamed"), replace(source, target)))
    write_whole(tmp_path / "new" / "a.npz", b"content")
    beside, *after = events
    assert Path(beside).match(str(tmp_path / "new" / ".a.npz.*.writing"))
    assert after == ["renamed", str(tmp_path / "new")]
    assert (tmp_path / "new" / "a.npz").read_bytes() == b"content"


def test_half_a_file_never_stands_in_its_place(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    write_whole(path, b"old")
    monkeypatch.setattr(os, "write", FillingDisk(5))
    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(path, b"new and too long")
    assert caught.value.filename == str(path)
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
from propml.atomic_files import write_whole
path, letter = sys.argv[1:]
for _ in range(60):
    write_whole(path, letter.encode() * 100_000)
    seen = open(path, "rb").read()
    assert len(seen) == 100_000 and len(set(seen)) == 1, "mixed"
"""


def test_several_writers_at_once_leave_the_file_of_one(tmp_path):
    path = tmp_path / "a"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), letter]) for letter in "xy"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


KILLED = """
import os, sys
from propml.atomic_files import replacing
with replacing(sys.argv[1]) as beside:
    beside.write_bytes(b"half")
    os._exit(9)
"""


def test_what_a_dead_writer_left_is_removed_by_the_next_and_what_a_living_one_writes_is_not(tmp_path):
    path = tmp_path / "a[1].npz"
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == 9
    assert [entry.name.endswith(".writing") for entry in tmp_path.iterdir()] == [True]
    with replacing(path) as living:
        living.write_bytes(b"slow")
        write_whole(path, b"quick")
        assert {entry.name for entry in tmp_path.iterdir()} == {path.name, living.name}
    assert path.read_bytes() == b"slow"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_files_that_change_together_are_all_old_or_all_new_or_without_their_last_one(tmp_path):
    folder, seen, ended = tmp_path / "f", [], False

    def write(content):
        with replacing_files(folder, "record") as beside:
            for name in ("a", "deep/b", "record"):
                write_whole(beside / name, content)

    while not ended:
        write(b"old")
        assert sorted(path.name for path in folder.rglob("*")) == ["a", "b", "deep", "record"]
        ended = killed_after(len(seen), lambda: write(b"new"))
        found = {path: path.read_bytes() for path in map(folder.joinpath, ("a", "deep/b", "record")) if path.exists()}
        seen.append(b"mixed" if folder / "record" not in found else b" ".join(set(found.values())))
    assert [seen[0], seen[-1]] == [b"old", b"new"]
    assert set(seen) == {b"old", b"mixed", b"new"}


def test_an_error_in_the_block_leaves_files_that_change_together_as_they_were(tmp_path):
    (tmp_path / "record").write_text("old")

    def fail():
        with replacing_files(tmp_path, "record") as beside:
            write_whole(beside / "a", b"new")
            raise KeyError("half")

    with pytest.raises(KeyError, match="half"):
        fail()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"record": "old"}


def test_a_lock_is_held_by_one(tmp_path):
    with locked(tmp_path / "lock") as mine, locked(tmp_path / "lock", wait=False) as other:
        assert (mine, other) == (True, False)


def test_the_lock_of_a_dead_process_is_free(tmp_path):
    code = f"import os; from propml.atomic_files import locked\nwith locked({str(tmp_path / 'lock')!r}): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    with locked(tmp_path / "lock", wait=False) as mine:
        assert mine


def test_who_cannot_have_a_lock_is_not_kept_out(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with locked(tmp_path / "file" / "lock") as mine:
        assert mine
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with locked(tmp_path / "lock") as mine:
        assert mine


def test_an_error_under_a_lock_comes_through_and_frees_it(tmp_path):
    with pytest.raises(OSError, match="full"), locked(tmp_path / "lock"):
        raise OSError("full")
    with locked(tmp_path / "lock", wait=False) as mine:
        assert mine
