"""What a run tells while it runs: a bar on a terminal, one line per finished cell anywhere else."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from propml.benchmark.metric_names import metric_of
from propml.benchmark.titles import setting_name
from propml.progress import Bar, progress_bar

if TYPE_CHECKING:
    from propml.benchmark.any_cell import AnyCell, CellOutcome

# The paper's abbreviations, where a line must be short.
SHORT = {"average_precision": "AP", "average_precision:paper": "AP"}


class RunProgress:
    """Cells done, running and failed, and the time left.

    Parameters
    ----------
    total : int
        Cells of the experiment.
    settled : int
        Those of them that there is nothing to do for.
    show : bool
        Tell nothing where false.
    """

    def __init__(self, total: int, settled: int, *, show: bool = True) -> None:
        self._total, self._settled, self._running, self._failed = total, settled, 0, 0
        self._show = show
        self._lines = show and not sys.stderr.isatty()
        self._open = ExitStack()
        self._bar: Bar

    def __enter__(self) -> Self:
        bar = progress_bar("cells", self._total - self._settled, show=self._show, long_steps=True)
        self._bar = self._open.enter_context(bar)
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def started(self) -> None:
        """A cell begins."""
        self._running += 1
        self._bar.advance(0, self._note())

    def ended(self, cell: AnyCell, told: str, *, failed: bool = False, mine: bool = True) -> None:
        """A cell has ended here or, with ``mine=False``, in another process on the same folder."""
        self._settled += 1
        self._running -= mine
        self._failed += failed
        self._bar.advance(1, self._note())
        if self._lines:
            sys.stderr.write(f"{cell_title(cell)}  {told}  [{self._settled}/{self._total}]\n")
            sys.stderr.flush()

    def _note(self) -> str:
        return f"{self._running} running, {self._failed} failed"


def cell_title(cell: AnyCell) -> str:
    """A cell in few words, such as ``"birds 50 % PML-NI"``."""
    seed = f", seed {cell.seed}" if cell.seed else ""
    return f"{setting_name(cell.dataset, cell.noise, cell.corruption)} {cell.method.name}{seed}"


def outcome_text(outcome: CellOutcome) -> str:
    """The first metric of a cell and its seconds, such as ``"AP 63.8  2.1 s"``."""
    metric = outcome.cell.metrics[0]
    mean = sum(fold.values[metric] for fold in outcome.folds) / len(outcome.folds)
    seconds = sum(fold.seconds_fit + fold.seconds_predict for fold in outcome.folds)
    return f"{SHORT.get(metric) or metric_of(metric).title} {100 * mean:.1f}  {seconds:.1f} s"
