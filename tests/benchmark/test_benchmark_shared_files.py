"""Files that lose nothing: torn at every byte, on a full disk, and with several writers at once."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from filling_disk import FillingDisk
from propml.benchmark.shared_files import BlockFile, Claims, json_line

FIRST = [{"cell": "a", "value": 0.1}, {"cell": "a", "value": 1 / 3}, {"cell": "a"}]
SECOND = [{"cell": "β", "value": 2.5e-300}, {"cell": "β"}]
THIRD = [{"cell": "c"}]


@pytest.fixture
def file(tmp_path):
    return BlockFile(tmp_path / "new" / "rows.jsonl")


def test_blocks_come_back_exactly_and_in_order(file):
    assert file.blocks() == []
    file.append(FIRST)
    file.append(SECOND)
    assert file.blocks() == [FIRST, SECOND]
    assert BlockFile(file.path).blocks() == [FIRST, SECOND]
    assert [json.loads(line)["cell"] for line in file.path.read_text().splitlines()] == list("aaaββ")


def test_reading_makes_and_changes_nothing(file):
    assert file.blocks() == []
    assert not file.path.parent.exists()
    file.append(FIRST)
    torn = file.path.read_bytes() + b'{"cell": '
    file.path.write_bytes(torn)
    assert BlockFile(file.path).blocks() == [FIRST]
    assert file.path.read_bytes() == torn


def test_a_block_torn_at_any_byte_is_not_there_and_is_cut_off_by_the_next(file, tmp_path):
    file.append(FIRST)
    first = file.path.read_bytes()
    file.append(SECOND)
    both = file.path.read_bytes()
    (alone := BlockFile(tmp_path / "alone.jsonl")).append(THIRD)
    third = alone.path.read_bytes()
    for length in range(len(first), len(both) - 1):
        torn = BlockFile(tmp_path / "torn.jsonl")
        torn.path.write_bytes(both[:length])
        assert torn.blocks() == [FIRST], length
        torn.append(THIRD)
        assert torn.path.read_bytes() == first + third, length
        assert torn.blocks() == [FIRST, THIRD]


def test_an_eaten_line_end_costs_nothing(file):
    file.append(FIRST)
    file.append(SECOND)
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-1])
    again = BlockFile(file.path)
    assert again.blocks() == [FIRST, SECOND]
    again.append(THIRD)
    assert again.blocks() == [FIRST, SECOND, THIRD]
    assert file.path.read_bytes().startswith(whole)


@pytest.mark.parametrize(
    "damage",
    [lambda line: line[:9], lambda line: b"\xff\x00" + line, lambda line: b"", lambda line: b"[1, 2]",
     lambda line: line.replace(b"2.5", b"3.5"), lambda line: b"[" * 99_999,
     lambda line: line.replace(b"2.5e-300", b'"\\ud800"'), lambda line: line[:-1] + b', "block": -1}'],
)  # fmt: skip
def test_damage_in_the_middle_costs_that_block_only_and_is_told(file, damage):
    for block in (FIRST, SECOND, THIRD):
        file.append(block)
    lines = file.path.read_bytes().split(b"\n")
    lines[3] = damage(lines[3])
    file.path.write_bytes(b"\n".join(lines))
    with pytest.warns(UserWarning, match=r"rows.jsonl is damaged before line 6"):
        assert BlockFile(file.path).blocks() == [FIRST, THIRD]


def test_lines_of_no_block_are_told_and_the_next_block_counts(file):
    file.append(FIRST)
    with file.path.open("ab") as end:
        end.write(b'{"cell": "stray"}\n' + b"".join(json_line(row) for row in [SECOND[0], {**SECOND[1], "block": 2}]))
    with pytest.warns(UserWarning, match="damaged before line 7"):
        assert BlockFile(file.path).blocks() == [FIRST, SECOND]


def test_a_reader_sees_what_others_add_and_starts_again_when_the_file_is_replaced(file):
    reader = BlockFile(file.path)
    file.append(FIRST)
    assert reader.blocks() == [FIRST]
    file.append(SECOND)
    assert reader.blocks() == [FIRST, SECOND]
    file.path.unlink()
    assert reader.blocks() == []
    file.append(THIRD)
    assert reader.blocks() == [THIRD]
    file.append(FIRST)
    file.path.write_bytes(b'{"cell": "c", "block": 1}\n')
    assert reader.blocks() == [THIRD]


@pytest.mark.parametrize("room", [0, 1, 20, 60])
def test_a_full_disk_leaves_the_file_as_it_was(file, monkeypatch, room):
    file.append(FIRST)
    before = file.path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", FillingDisk(room))
        with pytest.raises(OSError, match="No space left") as caught:
            file.append(SECOND)
    assert caught.value.filename == str(file.path)
    assert file.path.read_bytes() == before
    file.append(SECOND)
    assert file.blocks() == [FIRST, SECOND]


def test_a_write_in_parts_is_one_block(file, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, bytes(content)[:7]))
    file.append(FIRST)
    assert file.blocks() == [FIRST]


WRITER = """
import resource, sys
from propml.benchmark.shared_files import BlockFile
from propml.atomic_files import write_whole
path, name, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
file = BlockFile(path)
try:
    for number in range(60):
        file.append([{"writer": name, "number": number, "part": part, "filler": "x" * 40} for part in range(4)])
        print(number, flush=True)
except OSError as error:
    print(type(error).__name__, error.errno, flush=True)
"""


def test_what_was_reported_written_is_there_when_the_system_refuses_more(file):
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(file.path), "one", "5000"], capture_output=True, text=True, check=True
    )
    *told, last = done.stdout.splitlines()
    assert last == f"OSError {errno.EFBIG}"
    assert 3 < len(told) < 59
    assert [block[0]["number"] for block in file.blocks()] == [int(number) for number in told]
    assert file.path.read_bytes().count(b"\n") == 4 * len(told)


def test_two_writers_at_once_mix_no_blocks(file):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file.path), name, "0"], stdout=subprocess.DEVNULL)
        for name in ("one", "two")
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    blocks = file.blocks()
    for name in ("one", "two"):
        assert [block[0]["number"] for block in blocks if block[0]["writer"] == name] == list(range(60))
    for block in blocks:
        assert [row["part"] for row in block] == [0, 1, 2, 3]
        assert len({row["writer"] for row in block}) == 1


def test_numbers_survive_and_nothing_leaves_the_json_standard():
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308]
    line = json_line({"values": values, "nan": float("nan"), "inner": {"inf": float("inf")}, "path": object})
    told = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert told["values"] == values
    assert told["nan"] is None
    assert told["inner"] == {"inf": None}
    assert told["path"] == "<class 'object'>"


def test_half_a_character_comes_back(file):
    file.append([{"message": "\ud800"}])
    assert BlockFile(file.path).blocks() == [[{"message": "\ud800"}]]


def test_a_system_without_locks_says_so(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(OSError, match="POSIX file locks"):
        file.append(FIRST)


# -- claims -----------------------------------------------------------------------------------------------------------


HOLDER = """
import sys, time
from propml.benchmark.shared_files import Claims
claims = Claims(sys.argv[1])
print(claims.take("cell"), flush=True)
time.sleep(60)
"""


def test_a_killed_holder_holds_nothing(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "True\n"
    mine = Claims(tmp_path)
    assert not mine.take("cell")
    assert mine.take("another cell")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert mine.take("cell")
    mine.release_all()
    assert list(tmp_path.iterdir()) == []


def test_a_holder_cannot_claim_twice_and_release_is_harmless(tmp_path):
    mine = Claims(tmp_path / "new")
    mine.release("cell")
    assert mine.take("cell")
    assert not mine.take("cell")
    mine.release("cell")
    mine.release("cell")
    assert mine.take("cell")
