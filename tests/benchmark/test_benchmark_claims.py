"""Claims: one holder at a time, and none that outlives its process."""

import os
import signal
import subprocess
import sys

import pytest

from propml.benchmark import claims
from propml.benchmark.claims import Claims
from propml.durable import lock_file

HOLDER = """
import sys, time
from propml.benchmark.claims import Claims
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


def test_a_file_that_vanishes_between_opening_and_locking_is_no_claim(tmp_path, monkeypatch):
    first, second, third = Claims(tmp_path), Claims(tmp_path), Claims(tmp_path)
    assert first.take("cell")

    def release_then_lock(descriptor, **arguments):
        first.release("cell")
        return lock_file(descriptor, **arguments)

    with monkeypatch.context() as patched:
        patched.setattr(claims, "lock_file", release_then_lock)
        assert second.take("cell")
    assert not third.take("cell")
    second.release("cell")
    assert third.take("cell")


def test_a_failing_lock_leaks_no_file(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="locks"):
        Claims(tmp_path).take("cell")
    assert len(os.listdir("/proc/self/fd")) == before
