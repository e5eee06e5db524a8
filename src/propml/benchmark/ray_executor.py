"""Cells on Ray: a cluster by its address, or one that is started on this machine for the time of the run."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import propml
from propml.benchmark.executors import Compute, Ended, attempt, compute_cell
from propml.benchmark.results import CellResult, Failure
from propml.extras import require

if TYPE_CHECKING:
    from propml.benchmark.cell import Cell

# Where data and caches are: a worker must look where the driver would have looked.
FOLDERS = ("PROPML_DATA", "XDG_CACHE_HOME")
LOOPBACK = "127.0.0.1"


class RayCluster:
    """Each cell is a Ray task; Ray tries it again, up to ``retries`` times, where the worker or the machine dies.

    Without an address, such as ``"auto"``, ``"10.0.0.7:6379"`` or ``"ray://10.0.0.7:10001"``, Ray starts here, with so
    many ``workers`` (by default all CPUs). The workers of a cluster are sent this very package, and find data under the
    same ``PROPML_DATA``. A cell asks for so many ``gpus``.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        retries: int = 2,
        gpus: float = 0,
        compute: Compute = compute_cell,
    ) -> None:
        self._ray, self._ours = ray, _ = join(address, workers)
        self._gpus = gpus
        self._running: dict[Any, Cell] = {}
        if gpus > ray.cluster_resources().get("GPU", 0):  # its cells would wait for ever
            self.close()
            raise ValueError(
                "cells were to run on a GPU and the Ray cluster has none; leave the device out, or add one"
            )
        self._compute = compute
        self._task = ray.remote(attempt).options(
            max_retries=retries,
            num_cpus=1,
            num_gpus=gpus,
            runtime_env={"env_vars": _passed_on()},
        )

    @property
    def slots(self) -> int:
        return slots(self._ray, self._gpus)

    def submit(self, cell: Cell) -> None:
        self._running[self._task.remote(cell, self._compute)] = cell

    def finished(self, timeout: float) -> Ended:
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=timeout)
        ended = [(reference, self._running.pop(reference)) for reference in ready]
        return [(cell, self._result(reference, cell)) for reference, cell in ended]

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._ours:
            self._ray.shutdown()

    def _result(self, reference: Any, cell: Cell) -> CellResult:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:  # what a cell raises comes back as a failure; this is Ray's own
            return cell.result(failure=Failure(type(error).__name__, f"Ray gave the cell up: {error}"))


def join(address: str | None, workers: int | None) -> tuple[Any, bool]:
    """Ray, connected to the cluster at an address, or to one started here that no other machine can reach.

    Also whether it was connected here, so that it is to be shut down here; a caller's own connection is left as it is.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = require("ray", "cluster")
    if ray.is_initialized():
        return ray, False
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        with _on_loopback(ray), _own_sigterm():
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        return ray, True
    try:
        _knock(address)
        with _own_sigterm():
            ray.init(address=address, runtime_env={"py_modules": [str(Path(propml.__file__).parent)]}, **quiet)
    except (ConnectionError, TimeoutError, socket.gaierror) as error:
        raise ValueError(
            f"no Ray cluster answers at {address!r} ({error}); give the address that `ray start --head` prints"
        ) from error
    return ray, True


def slots(ray: Any, gpus: float) -> int:
    """How many tasks, with so many GPUs each, the cluster can run at once now; it may grow and shrink."""
    there = ray.cluster_resources()
    by_gpu = [there.get("GPU", 0) / gpus] if gpus else []
    return max(1, int(min(there.get("CPU", 1), *by_gpu, float("inf"))))


@contextmanager
def _on_loopback(ray: Any) -> Iterator[None]:
    """A Ray that starts in the block listens to this machine only: whoever reaches it can run any code.

    On Linux Ray takes 127.0.0.1 for the address that other machines know; this is its own switch against that, which it
    looks at when it is imported. Should a version of Ray not know it, then nothing is left running.
    """
    constants = ray._private.ray_constants
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
        if (address := ray.util.get_node_ip_address()) != LOOPBACK:
            ray.shutdown()
            raise ValueError(
                f"Ray {ray.__version__} listens on {address}, where other machines reach it, and not on {LOOPBACK} "
                f"alone; leave --ray out, or start a cluster yourself and give its address"
            )
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Ray answers SIGTERM with an exit of its own; what was to happen before happens after the block, too."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _knock(address: str) -> None:
    """Ray waits for minutes where no server listens; a refused connection is known at once."""
    host, colon, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _passed_on() -> dict[str, str]:
    """Whole paths: a worker stands in another folder than the driver."""
    return {name: str(Path(os.environ[name]).expanduser().absolute()) for name in FOLDERS if os.environ.get(name)}
