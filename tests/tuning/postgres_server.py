"""A PostgreSQL server of one's own, on loopback, with a data folder that goes when the tests end."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest


def _program(name):
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / name).exists():
            return str(folder / name)
    return shutil.which(name)


def _user():
    """PostgreSQL refuses to run as root; anybody else will do."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return pytest.skip("PostgreSQL does not run as root, and there is no other user")


@contextmanager
def postgres():
    """The URL of a running server."""
    initdb, postgres = _program("initdb"), _program("postgres")
    if not (initdb and postgres):
        pytest.skip("no PostgreSQL server on this machine: install Debian's postgresql to test with one")
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="propml-postgres-"))
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "env": {"PATH": os.environ["PATH"]}}
    as_user = as_user if user else {}
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = None
    try:
        made = subprocess.run(
            [initdb, "-D", folder / "data", "-U", "tuner", "-A", "trust", "--no-sync", "-E", "UTF8"],
            capture_output=True,
            text=True,
            cwd=folder,
            **as_user,
        )
        if made.returncode:
            pytest.skip(f"PostgreSQL cannot be set up here: {made.stderr[-300:]}")
        process = subprocess.Popen(
            [postgres, "-D", folder / "data", "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **as_user,
        )
        url = f"postgresql://tuner@127.0.0.1:{port}/postgres"
        _wait(url, process)
        yield url
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # do not wait for open connections
            process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(url, process):
    import psycopg2

    limit = time.monotonic() + 60
    while True:
        try:
            psycopg2.connect(url).close()
            return
        except psycopg2.OperationalError:
            assert process.poll() is None, "PostgreSQL ended"
            assert time.monotonic() < limit, "PostgreSQL does not answer"
            time.sleep(0.1)
