"""Workers outlive nobody: neither a process that is killed nor one that is ended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from propml.benchmark.executors import end_of, start_worker

# A parent that starts a worker, which starts a worker; both say their numbers and sleep.
PARENT = """
import sys, time
sys.path.insert(0, {here!r})
from test_benchmark_worker_processes import sleep_long
from propml.benchmark.executors import start_worker
if __name__ == "__main__":
    start_worker(sleep_long, (2,))
    time.sleep(600)
"""


def sleep_long(deep):
    os.write(1, f"{os.getpid()}\n".encode())
    if deep > 1:
        start_worker(sleep_long, (deep - 1,))
    time.sleep(600)


def lives(pid):
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_and_its_worker_end_with_the_process_that_started_them(tmp_path, number):
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(here=str(Path(__file__).parent)))
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    pids = [int(parent.stdout.readline()) for _ in range(2)]
    assert all(map(lives, pids))
    parent.send_signal(number)
    parent.wait()
    limit = time.monotonic() + 60
    while any(map(lives, pids)):
        assert time.monotonic() < limit, "a worker outlives its parent"
        time.sleep(0.05)


def test_how_a_process_ended_is_told_in_words():
    assert end_of(-signal.SIGKILL) == "it was ended by SIGKILL, as the system does when memory runs out"
    assert end_of(-signal.SIGTERM) == "it was ended by SIGTERM"
    assert end_of(3) == "it ended with exit code 3"
