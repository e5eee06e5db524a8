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
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from propml.benchmark.cell import Cell
from propml.benchmark.executors import Compute, InProcess, LocalProcesses, RayCluster, compute_cell
from propml.benchmark.experiment import Experiment, load_experiment
from propml.benchmark.provenance import fingerprint, made_by, run_provenance
from propml.benchmark.results import CellResult, Failure
from propml.benchmark.store import ResultStore
from propml.benchmark.wording import setting_name
from propml.devices import choose_device
from propml.messages import renamed_argument
from propml.paper.published import metric_of
from propml.progress import Bar, progress_bar

# Seconds between two looks at cells that another process works on.
LOOK_AGAIN = 0.5
# The paper's abbreviations, where a line must be short.
SHORT = {"average_precision": "AP", "average_precision:paper": "AP"}


class RunSummary(NamedTuple):
    """What a run did."""

    done: list[Cell]  #: computed by this run
    skipped: list[Cell]  #: done before, or by another run meanwhile
    failed: list[CellResult]


@renamed_argument("show", "verbose")
def run_experiment(
    experiment: Experiment | str | Path,
    folder: str | Path,
    *,
    workers: int = 1,
    ray_address: str | None = None,
    retries: int = 2,
    keep_failures: bool = False,
    device: str | None = None,
    verbose: bool = True,
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
    ray_address : str, optional
        Compute on the Ray cluster there, such as ``"auto"`` or ``"10.0.0.7:6379"``, or (``"local"``) on ``workers``
        CPUs (all, where that is 1) of a Ray that is started here.
    retries : int
        How often a cell whose process died is tried again.
    keep_failures : bool
        Leave cells that have failed before as they are; by default they are tried again.
    device : str, optional
        For the methods that can use a GPU: ``"cpu"``, ``"cuda"``, ``"cuda:1"``; by default what the experiment says,
        and for images a GPU where there is one.
    verbose : bool
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
        experiment = load_experiment(experiment)
    store = ResultStore(folder)
    where = {"workers": workers, "executor": "local" if ray_address is None else "ray"}
    what = {"experiment": experiment.name, "title": experiment.title, "note": experiment.note}
    provenance = run_provenance(command, **where, **what)
    run = _Run(experiment.cells(), store, provenance, keep_failures, verbose)
    if device is not None:
        if ray_address is None:
            choose_device(device)  # raises where it cannot be used
        # A Ray task sees no GPU but its own, whatever its number.
        compute = partial(compute_on, device if ray_address is None else device.partition(":")[0], compute)
    try:
        run.add_metrics()
        if run.waiting:
            executor: InProcess | LocalProcesses | RayCluster
            if ray_address is not None:
                gpus = 1 if device is not None and device.startswith("cuda") else 0
                cpus = workers if workers > 1 else None
                executor = RayCluster(ray_address, workers=cpus, retries=retries, gpus=gpus, compute=compute)
            elif workers > 1:
                executor = LocalProcesses(workers, retries=retries, compute=compute)
            else:
                executor = InProcess(compute)
            to_do = run.total - run.settled
            with closing(executor), progress_bar("cells", to_do, show=verbose, long_steps=True) as run.bar:
                run.work(executor)
    except KeyboardInterrupt:
        if verbose:
            done = f"{len(run.summary.done) + len(run.summary.skipped)} of {run.total} cells are done"
            sys.stderr.write(f"\nstopped: {done} and kept in {folder}; run the same command again to go on\n")
        raise
    finally:
        store.claims.release_all()
    return run.summary


def compute_on(device: str, compute: Compute, cell: Cell) -> CellResult:
    """Compute a cell on a certain device; its key, which says what is measured and not where, stays as it is."""
    return replace(compute(cell.on_device(device)), key=cell.key, settings=cell.configuration())


class _Run:
    """The cells of a run: those that wait, the outcome of the others, and lines about them."""

    bar: Bar  # while cells are computed

    def __init__(
        self, cells: Sequence[Cell], store: ResultStore, provenance: dict[str, Any], keep_failures: bool, verbose: bool
    ) -> None:
        self.summary = RunSummary([], [], [])
        self.total = len(cells)
        self.waiting: deque[Cell] = deque()
        self._store, self._provenance = store, provenance
        self._running: dict[Future[CellResult], Cell] = {}
        # Of the code as it is now: it may be edited before the last cell is done.
        code_of = cache(fingerprint)
        self._fingerprints: dict[str, str] = {}
        # A bar on a terminal, one line per finished cell anywhere else.
        self._lines = verbose and not sys.stderr.isatty()
        done = store.done()
        self._failed_before = {failed.key: failed for failed in store.failed()}
        for cell in cells:
            if cell.key in done:
                self.summary.skipped.append(cell)
            elif keep_failures and cell.key in self._failed_before:
                self.summary.failed.append(self._failed_before[cell.key])
            else:
                self.waiting.append(cell)
                self._fingerprints[cell.key] = code_of(made_by(cell.configuration()))

    @property
    def settled(self) -> int:
        """Cells that there is nothing left to do for."""
        return len(self.summary.done) + len(self.summary.skipped) + len(self.summary.failed)

    def add_metrics(self) -> None:
        """Measure what the experiment asks for now and did not when a cell was done."""
        measured = self._store.measured()
        for cell in self.summary.skipped:
            if not measured[cell.key].issuperset(cell.metrics):
                try:
                    self._store.add_metrics(cell, self._provenance)
                except FileNotFoundError as error:
                    warnings.warn(f"{cell_title(cell)} lacks metrics that were asked for: {error}", stacklevel=2)

    def work(self, executor: InProcess | LocalProcesses | RayCluster) -> None:
        """Compute all that waits."""
        while self.waiting or self._running:
            while len(self._running) < executor.slots and (cell := self._next()) is not None:
                self._advance(0, len(self._running) + 1)
                self._running[executor.submit(cell)] = cell
            if self._running:
                for future in wait(self._running, LOOK_AGAIN, FIRST_COMPLETED).done:
                    self._keep(self._running.pop(future), future)
            elif self.waiting:  # other processes work on all that is left
                time.sleep(LOOK_AGAIN)

    def _next(self) -> Cell | None:
        """Claim a cell that nobody has settled and nobody works on; the others wait on."""
        for _ in range(len(self.waiting)):
            cell = self.waiting.popleft()
            with _saying_how_to_go_on(self._store):
                mine = self._store.claims.take(cell.key)
            if not mine:
                self.waiting.append(cell)
                continue
            # Looked at only once no other process can work on it.
            failed = [each for each in self._store.failed(keys=[cell.key]) if each != self._failed_before.get(each.key)]
            if cell.key in self._store.done():
                self._settle(cell, self.summary.skipped, cell, "done by another run")
            elif failed:
                self._settle(cell, self.summary.failed, failed[0], f"FAILED in another run: {failed[0].outcome}")
            else:
                return cell
        return None

    def _keep(self, cell: Cell, future: Future[CellResult]) -> None:
        """Store what became of a cell; what an executor raises, such as that its process died, is a failure, too."""
        error = future.exception()
        result = cell.result(failure=Failure(type(error).__name__, str(error))) if error else future.result()
        with _saying_how_to_go_on(self._store):
            kept = self._store.add(replace(result, fingerprint=self._fingerprints[cell.key]), self._provenance)
        if kept.failure:
            self._settle(cell, self.summary.failed, kept, f"FAILED {kept.outcome}")
            return
        metric = cell.metrics[0]
        mean = sum(fold.values[metric] for fold in result.folds) / len(result.folds)
        seconds = result.seconds_fit + result.seconds_predict
        title = SHORT.get(metric) or metric_of(metric).title
        self._settle(cell, self.summary.done, cell, f"{title} {100 * mean:.1f}  {seconds:.1f} s")

    def _settle(self, cell: Cell, among: list[Any], what: Any, said: str) -> None:
        among.append(what)
        self._store.claims.release(cell.key)
        self._advance(1, len(self._running))
        if self._lines:
            sys.stderr.write(f"{cell_title(cell)}  {said}  [{self.settled}/{self.total}]\n")
            sys.stderr.flush()

    def _advance(self, steps: int, running: int) -> None:
        self.bar.advance(steps, f"{running} running, {len(self.summary.failed)} failed")


def cell_title(cell: Cell) -> str:
    """A cell in few words, such as ``"birds 50 % PML-NI"``."""
    seed = f", seed {cell.seed}" if cell.seed else ""
    return f"{setting_name(cell.dataset, cell.noise)} {cell.method.name}{seed}"


@contextmanager
def _saying_how_to_go_on(store: ResultStore) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{store.folder} could not be written ({error.strerror or error}); what was reported done is there: "
            f"make room, and run the same command again to go on"
        ) from error
