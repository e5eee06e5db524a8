"""Downloads against a server that drops connections, ignores ranges and serves corrupt bytes."""

import hashlib
import socket
from pathlib import Path

import numpy as np
import pytest

from propml.datasets.download import download

CONTENT = np.random.default_rng(0).bytes(100_000)
SHA = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
QUICK = {"wait": 0.001, "verbose": False}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "new" / "file.bin"


def left(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir()) if target.parent.is_dir() else []


def test_plain_download(server, target):
    server.serve("/f", CONTENT)
    assert download(f"{server.url}/f", target, checksum=SHA, wait=0.001) == target
    assert target.read_bytes() == CONTENT
    assert left(target) == ["file.bin"]


def test_dropped_connections_are_resumed_where_they_stopped(server, target):
    """Seven pieces need six retries; each brings something new, so two retries in a row are enough."""
    served = server.serve("/f", CONTENT, drop_after=15_000)
    download(f"{server.url}/f", target, checksum=SHA, retries=2, **QUICK)
    assert target.read_bytes() == CONTENT
    assert served.requests == [None, *(f"bytes={15_000 * i}-" for i in range(1, 7))]


def test_a_server_that_ignores_ranges_is_asked_from_the_start(server, target):
    served = server.serve("/f", CONTENT, drop_after=40_000, ranges=False)
    with pytest.raises(OSError, match=r"ended after 40000 of 100000 bytes; 40000 bytes are kept"):
        download(f"{server.url}/f", target, checksum=SHA, retries=2, **QUICK)
    assert left(target) == ["file.bin.part"]
    served.drop_after = None
    download(f"{server.url}/f", target, checksum=SHA, **QUICK)
    assert target.read_bytes() == CONTENT
    assert served.requests[-1] == "bytes=40000-"


def test_a_redirect_within_the_web_is_followed(server, target):
    server.serve("/old", b"", moved_to=f"{server.url}/f")
    server.serve("/f", CONTENT)
    download(f"{server.url}/old", target, checksum=SHA, **QUICK)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("address", ["ftp://127.0.0.1:1/f", "file:///etc/hostname", "data:,hello"])
def test_a_redirect_out_of_the_web_is_refused_in_one_sentence(server, target, address):
    served = server.serve("/f", b"", moved_to=address)
    with pytest.raises((ValueError, OSError)) as error:
        download(f"{server.url}/f", target, retries=2, **QUICK)
    assert address in str(error.value)
    assert "\n" not in str(error.value)
    assert (served.requests, left(target)) == ([None], [])


def test_corrupt_bytes_leave_nothing_behind(server, target):
    server.serve("/f", CONTENT[:-1] + b"\0")
    with pytest.raises(ValueError, match=r"expected sha256:.*; nothing was kept"):
        download(f"{server.url}/f", target, checksum=SHA, **QUICK)
    assert left(target) == []


def test_corrupt_bytes_do_not_touch_the_file_that_is_there(server, target):
    target.parent.mkdir()
    target.write_bytes(b"precious")
    server.serve("/f", b"corrupt")
    with pytest.raises(ValueError, match="nothing was kept"):
        download(f"{server.url}/f", target, checksum=SHA, **QUICK)
    assert target.read_bytes() == b"precious"
    assert left(target) == ["file.bin"]


@pytest.mark.parametrize("beginning", [b"x" * 5000, CONTENT + b"more"])
def test_the_beginning_of_another_file_is_thrown_away(server, target, beginning):
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(beginning)
    served = server.serve("/f", CONTENT)
    with pytest.raises(ValueError, match="nothing was kept"):
        download(f"{server.url}/f", target, checksum=SHA, **QUICK)
    download(f"{server.url}/f", target, checksum=SHA, **QUICK)
    assert target.read_bytes() == CONTENT
    assert served.requests == [f"bytes={len(beginning)}-", None]


def test_a_part_that_is_already_whole_needs_no_byte(server, target):
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(CONTENT)
    served = server.serve("/f", CONTENT)
    download(f"{server.url}/f", target, checksum=SHA, **QUICK)
    assert target.read_bytes() == CONTENT
    assert served.requests == ["bytes=100000-"]


def test_a_server_that_answers_another_range_is_asked_from_the_start(server, target):
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(CONTENT[:500])
    server.serve("/f", CONTENT, shift=7)
    download(f"{server.url}/f", target, checksum=SHA, **QUICK)
    assert target.read_bytes() == CONTENT


def test_passing_trouble_is_retried_and_lasting_trouble_is_not(server, target):
    served = server.serve("/f", CONTENT, answers=[503, 429, 500])
    download(f"{server.url}/f", target, checksum=SHA, **QUICK)
    assert len(served.requests) == 4
    with pytest.raises(OSError, match="/absent could not be downloaded: HTTP Error 404: "):
        download(f"{server.url}/absent", target, **QUICK)
    served.answers = [403]
    with pytest.raises(OSError, match="HTTP Error 403"):
        download(f"{server.url}/f", target, **QUICK)


def test_without_a_checksum_the_announced_size_counts(server, target):
    server.serve("/f", CONTENT, drop_after=10, ranges=False)
    with pytest.raises(OSError, match="ended after 10 of 100000 bytes"):
        download(f"{server.url}/f", target, retries=0, **QUICK)
    assert not target.exists()
    server.serve("/g", CONTENT, announce=False)
    assert download(f"{server.url}/g", target.with_name("g"), **QUICK).read_bytes() == CONTENT


def test_nobody_answers(target):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound, but nobody listens
        with pytest.raises(OSError, match=f"http://127.0.0.1:{port}/f could not be downloaded.*0 bytes are kept"):
            download(f"http://127.0.0.1:{port}/f", target, retries=1, **QUICK)


def test_what_brings_nothing_leaves_nothing(server, target):
    server.serve("/f", b"corrupt")
    with pytest.raises(OSError, match="HTTP Error 404"):
        download(f"{server.url}/absent", target, **QUICK)
    with pytest.raises(ValueError, match="nothing was kept"):
        download(f"{server.url}/f", target, checksum=SHA, **QUICK)
    assert left(target) == []


def test_a_connection_that_falls_silent_counts_as_dropped(target):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(OSError, match="timed out"):
            download(f"http://127.0.0.1:{silent.getsockname()[1]}/f", target, retries=0, timeout=0.05, **QUICK)


def test_other_addresses_are_refused(tmp_path):
    with pytest.raises(ValueError, match="file:///etc/passwd is not an http or https address"):
        download("file:///etc/passwd", tmp_path / "x")
