"""Where cells are computed: in this process, in local ones, or on Ray.

An executor takes cells, up to ``slots`` at a time: ``submit`` returns a future of what becomes of a cell, and ``close``
stops those that still run. It never writes results: the process that runs the experiment does, and it alone, so that no
cell can be counted twice.
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
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
    """One cell after the other, right here: a cell is done when ``submit`` returns."""

    slots = 1

    def __init__(self, compute: Compute = compute_cell) -> None:
        self._compute = compute

    def submit(self, cell: Cell) -> Future[CellResult]:
        done: Future[CellResult] = Future()
        done.set_result(attempt(cell, self._compute))
        return done

    def close(self) -> None: ...


class WorkerDied(RuntimeError):
    """What a cell failed with whose process died at every try."""


class LocalProcesses:
    """Worker processes on this machine, with one thread each; one that dies is replaced and its cell tried again.

    That happens up to ``retries`` times. A cell that raises is not tried again: it would raise again.
    """

    def __init__(self, workers: int, *, retries: int = 2, compute: Compute = compute_cell) -> None:
        self.slots, self._retries, self._compute = workers, retries, compute
        self._waiters = ThreadPoolExecutor(workers)  # a thread sends a cell to a worker, and waits for its answer
        self._lock = threading.Lock()  # for all that starts and ends processes
        self._processes: list[Any] = []
        self._idle: list[tuple[Any, connection.Connection]] = []
        self._closed = False

    def submit(self, cell: Cell) -> Future[CellResult]:
        return self._waiters.submit(self._computed, cell)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        self._waiters.shutdown(cancel_futures=True)
        for process in self._processes:
            process.join()

    def _computed(self, cell: Cell) -> CellResult:
        for _ in range(1 + self._retries):
            process, channel = self._worker()
            with suppress(EOFError, OSError):  # it died
                channel.send(cell)
                connection.wait([channel, process.sentinel])
                if channel.poll():
                    result = channel.recv()
                    self._idle.append((process, channel))
                    return result
            with self._lock:
                process.join()
        times = f"{1 + self._retries} times, at every try" if self._retries else "once"
        raise WorkerDied(f"the process that computed it died {times}: {end_of(process.exitcode)}")

    def _worker(self) -> tuple[Any, connection.Connection]:
        """A worker that is idle and alive, or else a new one."""
        with self._lock:
            while self._idle:
                process, channel = self._idle.pop()
                if process.is_alive():
                    return process, channel
            if self._closed:
                raise CancelledError
            channel, theirs = multiprocessing.get_context("spawn").Pipe()
            process = start_worker(_work, (theirs, self._compute))
            theirs.close()
            self._processes.append(process)
            return process, channel


def _work(channel: connection.Connection, compute: Compute) -> None:
    """A worker's life: take a cell, compute it, send what became of it."""
    with suppress(EOFError):
        while True:
            channel.send(attempt(channel.recv(), compute))


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
        self._tasks: set[Any] = set()
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

    def submit(self, cell: Cell) -> Future[CellResult]:
        task = self._task.remote(cell, self._compute)
        self._tasks.add(task)
        future = task.future()
        future.add_done_callback(lambda _: self._tasks.discard(task))
        return future

    def close(self) -> None:
        for task in list(self._tasks):
            self._ray.cancel(task, force=True)
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
