"""Where cells are computed: in this process, in local ones, or on Ray.

An executor takes cells (``submit``), up to ``slots`` at a time, and hands back what became of those that have ended
(``finished``, which waits for the first of them, but hardly longer than its timeout in seconds); ``close`` stops the
others. It never writes results: the process that runs the experiment does, and it alone, so that no cell can be counted
twice.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import propml
from propml.benchmark.results import CellResult, Failure
from propml.extras import require

if TYPE_CHECKING:
    from propml.benchmark.cell import Cell

# Workers on one machine, each with many threads, would compete for the cores.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Where data and caches are.
FOLDERS = ("PROPML_DATA", "XDG_CACHE_HOME")

Compute = Callable[["Cell"], CellResult]
Ended = list[tuple["Cell", CellResult]]


def compute_cell(cell: Cell) -> CellResult:
    """What executors do by default."""
    from propml.benchmark.cell import TabularCell, compute
    from propml.benchmark.image_cell import ImageCell, compute_images

    if isinstance(cell, ImageCell):
        return compute_images(cell)
    assert isinstance(cell, TabularCell)
    return compute(cell)


def attempt(cell: Cell, compute: Compute) -> CellResult:
    """Compute a cell; what it raises becomes a failure that can be sent, stored and read."""
    try:
        return compute(cell)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__, limit=-8)
        # Without the folders of this machine.
        files = [re.sub(r".*/(site-packages|src)/|.*/(?=[^/]+$)", "", frame.filename, count=1) for frame in frames]
        trace = [f"{file}:{at.lineno} in {at.name}: {at.line}" for file, at in zip(files, frames, strict=True)]
        return cell.result(failure=Failure(type(error).__name__, str(error), "\n".join(trace)))


class InProcess:
    """One cell after the other, right here."""

    slots = 1

    def __init__(self, compute: Compute = compute_cell) -> None:
        self._compute = compute
        self._waiting: list[Cell] = []

    def submit(self, cell: Cell) -> None:
        self._waiting.append(cell)

    def finished(self, timeout: float) -> Ended:
        cell = self._waiting.pop(0)
        return [(cell, attempt(cell, self._compute))]

    def close(self) -> None:
        self._waiting.clear()


@dataclass
class _Worker:
    process: multiprocessing.process.BaseProcess
    channel: connection.Connection
    cell: Cell | None = None


class LocalProcesses:
    """Worker processes on this machine, with one thread each; one that dies is replaced and its cell tried again.

    That happens up to ``retries`` times. A cell that raises is not tried again: it would raise again.
    """

    def __init__(self, workers: int, *, retries: int = 2, compute: Compute = compute_cell) -> None:
        self.slots, self._retries, self._compute = workers, retries, compute
        self._workers: list[_Worker] = []
        self._deaths: dict[str, int] = {}

    def submit(self, cell: Cell) -> None:
        for dead in [worker for worker in self._workers if worker.cell is None and not worker.process.is_alive()]:
            self._bury(dead)
        worker = next((worker for worker in self._workers if worker.cell is None), None)
        if worker is None:
            channel, theirs = multiprocessing.get_context("spawn").Pipe()
            worker = _Worker(start_worker(_work, (theirs, self._compute)), channel)
            theirs.close()
            self._workers.append(worker)
        worker.cell = cell
        with suppress(OSError):  # it died this very moment: `finished` sees that, and tries the cell again
            worker.channel.send(cell)

    def finished(self, timeout: float) -> Ended:
        busy = [worker for worker in self._workers if worker.cell is not None]
        connection.wait([end for worker in busy for end in (worker.channel, worker.process.sentinel)], timeout)
        ended = []
        for worker in busy:
            cell, result = worker.cell, self._received(worker)
            if cell is not None and result is not None:
                worker.cell = None
                ended.append((cell, result))
        return ended

    def close(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.channel.close()
        self._workers.clear()

    def _received(self, worker: _Worker) -> CellResult | None:
        """What a worker sent, or why its cell is given up; None while it may still answer."""
        try:
            if worker.channel.poll():
                return worker.channel.recv()
        except (EOFError, OSError):
            pass
        else:
            if worker.process.is_alive():
                return None
        self._bury(worker)
        assert worker.cell is not None
        deaths = self._deaths[worker.cell.key] = self._deaths.get(worker.cell.key, 0) + 1
        if deaths <= self._retries:
            self.submit(worker.cell)
            return None
        times = "once" if deaths == 1 else f"{deaths} times, at every try"
        message = f"the process that computed it died {times}: {end_of(worker.process.exitcode)}"
        return worker.cell.result(failure=Failure("WorkerDied", message))

    def _bury(self, worker: _Worker) -> None:
        worker.process.join()
        worker.channel.close()
        self._workers.remove(worker)


def _work(channel: connection.Connection, compute: Compute) -> None:
    """A worker's life: take a cell, compute it, send what became of it."""
    while True:
        try:
            cell = channel.recv()
        except EOFError:
            return
        channel.send(attempt(cell, compute))


# -- worker processes: they ignore Ctrl-C, which this process handles, and end with this process -----------------------


def start_worker(target: Callable[..., None], arguments: Sequence[Any], threads: int = 1) -> Any:
    """Start a process that does this and nothing else, with so many threads.

    It is spawned, and must be able to import ``target``: a script that gets here must keep its own work under
    ``if __name__ == "__main__":``.
    """
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_live, args=(target, *arguments), name="propml-worker")
    resource_tracker.ensure_running()  # when it starts, it takes the mask away
    before = {name: os.environ.get(name) for name in THREADS}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(dict.fromkeys(THREADS, str(threads)))
    try:
        process.start()
    finally:
        for name in THREADS:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if value is not None})
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process


def end_of(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None or code >= 0:
        return f"it ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"it was ended by {name}{hint}"


def _live(target: Callable[..., None], *arguments: Any) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def die_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=die_with_parent, daemon=True).start()
    target(*arguments)


# -- Ray: a cluster by its address, or one that is started on this machine for the time of the run ---------------------


class RayCluster:
    """Each cell is a Ray task; Ray tries it again, up to ``retries`` times, where the worker or the machine dies.

    The address is such as ``"auto"``, ``"10.0.0.7:6379"`` or ``"ray://10.0.0.7:10001"``; with ``"local"`` Ray starts
    here, with so many ``workers`` (by default all CPUs). The workers of a cluster are sent this very package, and find
    data under the same ``PROPML_DATA``. A cell asks for so many ``gpus``.
    """

    def __init__(
        self,
        address: str = "local",
        *,
        workers: int | None = None,
        retries: int = 2,
        gpus: float = 0,
        compute: Compute = compute_cell,
    ) -> None:
        self._ray, self._ours = ray, _ = join(address, workers)
        self._gpus, self._compute = gpus, compute
        self._running: dict[Any, Cell] = {}
        if gpus > ray.cluster_resources().get("GPU", 0):  # its cells would wait for ever
            self.close()
            raise ValueError(
                "cells were to run on a GPU and the Ray cluster has none; leave the device out, or add one"
            )
        # A worker stands in another folder than the driver, and looks where that one would have looked.
        places = {name: os.environ[name] for name in FOLDERS if os.environ.get(name)}
        folders = {name: str(Path(place).expanduser().absolute()) for name, place in places.items()}
        options = {"max_retries": retries, "num_cpus": 1, "num_gpus": gpus, "runtime_env": {"env_vars": folders}}
        self._task = ray.remote(attempt).options(**options)

    @property
    def slots(self) -> int:
        """How many cells the cluster can run at once now; it may grow and shrink."""
        there = self._ray.cluster_resources()
        by_gpu = [there.get("GPU", 0) / self._gpus] if self._gpus else []
        return max(1, int(min(there.get("CPU", 1), *by_gpu, float("inf"))))

    def submit(self, cell: Cell) -> None:
        self._running[self._task.remote(cell, self._compute)] = cell

    def finished(self, timeout: float) -> Ended:
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=timeout)
        ended = []
        for reference in ready:
            cell = self._running.pop(reference)
            try:
                result = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:  # Ray's own; what a cell raises comes back as a failure
                result = cell.result(failure=Failure(type(error).__name__, f"Ray gave the cell up: {error}"))
            ended.append((cell, result))
        return ended

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._ours:
            self._ray.shutdown()


def join(address: str, workers: int | None = None) -> tuple[Any, bool]:
    """Ray, connected to the cluster at an address; ``"local"`` starts one here that no other machine can reach.

    Also whether it was connected here, so that it is to be shut down here; a caller's own connection is left as it is.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = require("ray", "cluster")
    if ray.is_initialized():
        return ray, False
    quiet = {"log_to_driver": False, "logging_level": "error"}
    # Ray answers SIGTERM with an exit of its own; what was to happen before happens afterwards, too.
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        if address == "local":
            with _on_loopback(ray):
                ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        else:
            _knock(address)
            ray.init(address=address, runtime_env={"py_modules": [str(Path(propml.__file__).parent)]}, **quiet)
    except (ConnectionError, TimeoutError, socket.gaierror) as error:
        raise ValueError(
            f"no Ray cluster answers at {address!r} ({error}); give the address that `ray start --head` prints"
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_sigterm or signal.SIG_DFL)
    return ray, True


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
        if (address := ray.util.get_node_ip_address()) != "127.0.0.1":
            ray.shutdown()
            raise ValueError(
                f"Ray {ray.__version__} listens on {address}, where other machines reach it, and not on 127.0.0.1 "
                f"alone; start a cluster yourself and give its address"
            )
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _knock(address: str) -> None:
    """Ray waits for minutes where no server listens; a refused connection is known at once."""
    host, colon, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
