"""Running an experiment: the cells that are missing are computed, wherever that may be, and stored.

A run may be stopped or killed at any time: the next one on the same folder computes what is missing. Several may work
on one folder at once: a cell is claimed before it is computed, and a claim dies with its process.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from propml.benchmark.executors import CellFailure, Compute, Executor, InProcess, LocalProcesses, compute_cell
from propml.benchmark.provenance import run_provenance
from propml.benchmark.records import Failure
from propml.benchmark.run_progress import RunProgress, cell_title, outcome_text
from propml.benchmark.store import ResultStore

if TYPE_CHECKING:
    from propml.benchmark.any_cell import AnyCell, CellOutcome
    from propml.benchmark.experiment import Experiment

__all__ = ["OnDevice", "RunSummary", "run_experiment"]

# Seconds between two looks at cells that another process works on.
LOOK_AGAIN = 0.5


class RunSummary(NamedTuple):
    """What a run did.

    Attributes
    ----------
    done : list of AnyCell
        Computed by this run.
    skipped : list of AnyCell
        Done before, or by another run meanwhile.
    failed : list of Failure
    """

    done: list[AnyCell]
    skipped: list[AnyCell]
    failed: list[Failure]


def run_experiment(
    experiment: Experiment | str | Path,
    folder: str | Path,
    *,
    workers: int = 1,
    use_ray: bool = False,
    ray_address: str | None = None,
    retries: int = 2,
    keep_failures: bool = False,
    device: str | None = None,
    show: bool = True,
    command: Sequence[str] | None = None,
    compute: Compute = compute_cell,
) -> RunSummary:
    """Compute the cells of an experiment that a folder does not hold yet.

    Parameters
    ----------
    experiment : Experiment, or its name or path
    folder : path
        Where results are kept; made where it is not there.
    workers : int
        Local processes; 1 computes here.
    use_ray : bool
        Compute on Ray: on the cluster at ``ray_address``, or on ``workers`` CPUs (all, where that is 1) of a Ray that
        is started here.
    ray_address : str, optional
        Such as ``"auto"`` or ``"10.0.0.7:6379"``; implies ``use_ray``.
    retries : int
        How often a cell whose process died is tried again.
    keep_failures : bool
        Leave cells that have failed before as they are; by default they are tried again.
    device : str, optional
        For the methods that can use a GPU: ``"cpu"``, ``"cuda"``, ``"cuda:1"``; by default what the experiment says,
        and for images a GPU where there is one.
    show : bool
        Show progress on standard error.
    command : sequence of str, optional
        What was typed, for the record.
    compute : callable
        What computes a cell, which must be importable by worker processes.

    Returns
    -------
    RunSummary
        A cell that fails is among ``failed``; it stops no other one.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}; give 1 or more")
    if isinstance(experiment, str | Path):
        from propml.benchmark.experiment import load_experiment

        experiment = load_experiment(experiment)
    store = ResultStore(folder)
    use_ray = use_ray or ray_address is not None
    provenance = run_provenance(
        command,
        workers=workers,
        executor="ray" if use_ray else "local",
        experiment=experiment.name,
        title=experiment.title,
        note=experiment.note,
    )
    run = _Run(experiment.cells(), store, provenance, keep_failures)
    if device is not None:
        _check_device(device, here=not use_ray)
        # A Ray task sees no GPU but its own, whatever its number.
        compute = OnDevice(device.partition(":")[0] if use_ray else device, compute)
    executor: Executor | None = None
    try:
        run.add_metrics()
        with RunProgress(run.total, run.settled, show=show) as progress:
            if run.waiting:
                executor = _executor(workers, use_ray, ray_address, retries, device, compute)
                run.work(executor, progress)
    except KeyboardInterrupt:
        if show:
            done = len(run.summary.done) + len(run.summary.skipped)
            sys.stderr.write(
                f"\nstopped: {done} of {run.total} cells are done and kept in {folder}; "
                f"run the same command again to go on\n"
            )
        raise
    finally:
        if executor is not None:
            executor.close()
        store.claims.release_all()
    return run.summary


@dataclass(frozen=True)
class OnDevice:
    """Computes cells on a certain device; their keys, which say what is measured and not where, stay as they are."""

    device: str
    compute: Compute = compute_cell

    def __call__(self, cell: AnyCell) -> CellOutcome:
        return replace(self.compute(cell.on_device(self.device)), cell=cell)


def _check_device(device: str, *, here: bool) -> None:
    import torch

    try:
        kind = torch.device("cpu" if device == "auto" else device).type
    except RuntimeError:
        raise ValueError(f"device is {device!r}; give cpu, cuda, cuda:1 or auto") from None
    if here and kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {device!r} and there is no GPU that torch can use; give cpu, or nothing")


def _executor(
    workers: int, use_ray: bool, address: str | None, retries: int, device: str | None, compute: Compute
) -> Executor:
    if use_ray:
        from propml.benchmark.ray_executor import RayCluster

        gpus = 1 if device is not None and device.startswith("cuda") else 0
        cpus = workers if workers > 1 else None
        return RayCluster(address, workers=cpus, retries=retries, gpus=gpus, compute=compute)
    if workers > 1:
        return LocalProcesses(workers, retries=retries, compute=compute)
    return InProcess(compute)


class _Run:
    """The cells of a run: which of them wait, and what became of the others."""

    def __init__(
        self, cells: Sequence[AnyCell], store: ResultStore, provenance: dict[str, Any], keep_failures: bool
    ) -> None:
        self.summary = RunSummary([], [], [])
        self.total = len(cells)
        self.waiting: deque[AnyCell] = deque()
        self._store, self._provenance = store, provenance
        self._running = 0
        done = store.done()
        self._failed_before = {failure.key: failure for failure in store.failures()}
        for cell in cells:
            if cell.key in done:
                self.summary.skipped.append(cell)
            elif keep_failures and cell.key in self._failed_before:
                self.summary.failed.append(self._failed_before[cell.key])
            else:
                self.waiting.append(cell)

    @property
    def settled(self) -> int:
        """Cells that there is nothing left to do for."""
        return sum(len(cells) for cells in (self.summary.done, self.summary.skipped, self.summary.failed))

    def work(self, executor: Executor, progress: RunProgress) -> None:
        """Compute all that waits."""
        while self.waiting or self._running:
            while self._running < executor.slots and (cell := self._next(progress)) is not None:
                executor.submit(cell)
                self._running += 1
                progress.started()
            if self._running:
                for cell, computed in executor.finished(LOOK_AGAIN):
                    self._running -= 1
                    self._keep(cell, computed, progress)
            elif self.waiting:  # other processes are on all that is left
                time.sleep(LOOK_AGAIN)

    def _next(self, progress: RunProgress) -> AnyCell | None:
        """Claim a cell that nobody has settled and nobody works on; the others wait on."""
        for _ in range(len(self.waiting)):
            cell = self.waiting.popleft()
            with _told_how_to_go_on(self._store):
                mine = self._store.claims.take(cell.key)
            if not mine:
                self.waiting.append(cell)
            elif self._settled_elsewhere(cell, progress):  # looked at once nobody else can be on it
                self._store.claims.release(cell.key)
            else:
                return cell
        return None

    def _settled_elsewhere(self, cell: AnyCell, progress: RunProgress) -> bool:
        if cell.key in self._store.done():
            self.summary.skipped.append(cell)
            progress.ended(cell, "done by another run", mine=False)
            return True
        failures = self._store.failures(keys=[cell.key])
        if failures and failures[0] != self._failed_before.get(cell.key):
            self.summary.failed.append(failures[0])
            progress.ended(cell, f"FAILED in another run: {failures[0].reason}", failed=True, mine=False)
            return True
        return False

    def add_metrics(self) -> None:
        """Measure what the experiment asks for now and did not when a cell was done."""
        measured = self._store.measured()
        for cell in self.summary.skipped:
            if not measured[cell.key].issuperset(cell.metrics):
                try:
                    self._store.add_metrics(cell, self._provenance)
                except FileNotFoundError as error:
                    warnings.warn(f"{cell_title(cell)} lacks metrics that were asked for: {error}", stacklevel=2)

    def _keep(self, cell: AnyCell, computed: CellOutcome | CellFailure, progress: RunProgress) -> None:
        with _told_how_to_go_on(self._store):
            if isinstance(computed, CellFailure):
                error, message, trace = computed
                failure = self._store.add_failure(cell, message, self._provenance, error=error, trace=trace)
                self.summary.failed.append(failure)
                told = f"FAILED {failure.reason}"
            else:
                self._store.add(computed, self._provenance)
                self.summary.done.append(cell)
                told = outcome_text(computed)
        self._store.claims.release(cell.key)
        progress.ended(cell, told, failed=isinstance(computed, CellFailure))


@contextmanager
def _told_how_to_go_on(store: ResultStore) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{store.folder} could not be written ({error.strerror or error}); what was reported done is there: "
            f"make room, and run the same command again to go on"
        ) from error
