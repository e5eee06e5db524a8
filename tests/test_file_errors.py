"""The border at which files come in."""

import errno
import gzip
import struct

import pytest

from propml.file_errors import FileError, reading


@pytest.mark.parametrize(
    "raised",
    [KeyError("shape"), struct.error("unpack requires 4 bytes"), RecursionError(), EOFError(), gzip.BadGzipFile("bad")],
)
def test_whatever_a_parser_raises_names_the_file(raised: Exception) -> None:
    with (
        pytest.raises(FileError, match=r"^data\.npz is not a readable npz file \(.+\); save it again$"),
        reading("data.npz", "npz file", "save it again"),
    ):
        raise raised


def test_sentences_that_name_the_file_stay_as_they_are() -> None:
    with pytest.raises(FileError, match=r"^a\.csv: line 3 has 2 cells$"), reading("a.csv", "table"):
        raise ValueError("a.csv: line 3 has 2 cells")


def test_sentences_without_the_file_get_its_name() -> None:
    with pytest.raises(FileError, match=r"^a\.csv: line 3 has 2 cells$"), reading("a.csv", "table"):
        raise FileError("line 3 has 2 cells")


@pytest.mark.parametrize("raised", [OSError(errno.ENOSPC, "full"), FileNotFoundError(2, "gone"), ImportError("pandas")])
def test_errors_of_the_system_and_missing_extras_pass(raised: Exception) -> None:
    with pytest.raises(type(raised)) as caught, reading("a.csv", "table"):
        raise raised
    assert caught.value is raised


def test_memory_that_does_not_suffice_is_a_sentence() -> None:
    with pytest.raises(FileError, match=r"^a\.npz needs more memory"), reading("a.npz", "npz file"):
        raise MemoryError


def test_a_position_that_no_file_has_is_the_fault_of_the_file(tmp_path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"x")
    told = r"a\.npz is not a readable npz file \(\[Errno 22\] Invalid argument\)"
    with pytest.raises(FileError, match=told), reading(path, "npz file"), path.open("rb", buffering=0) as file:
        file.seek(-5)
