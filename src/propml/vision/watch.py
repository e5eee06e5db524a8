"""An eye on a run: its speed, a stop where a loss is not a number, and its curves as CSV and for TensorBoard."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from propml.atomic_files import write_whole
from propml.extras import require
from propml.progress import Bar
from propml.vision.checkpoint import TrainingState
from propml.vision.distributed import Process

__all__ = ["Watch", "tensorboard", "write_curves"]


class Watch:
    """Looks at the losses now and then, tells the bar, and raises where a loss is not a finite number.

    The state gets the losses; ``names`` are those of the images. ``rate`` counts the images per second since
    :meth:`start`, in all processes together.
    """

    def __init__(self, state: TrainingState, names: list[str], here: Process, bar: Bar, checkpoint: Path) -> None:
        self.state, self.names, self.here, self.bar, self.checkpoint = state, names, here, bar, checkpoint
        self.pending: list[tuple[Tensor, Tensor]] = []
        self.images, self.started, self.rate = 0, time.perf_counter(), 0.0

    def start(self) -> None:
        """Begin to measure speed, at the start of an epoch."""
        self.images, self.started = 0, time.perf_counter()

    def saw(self, loss: Tensor, index: Tensor) -> None:
        """Take note of a step; nothing waits for it."""
        self.pending.append((loss.detach(), index))
        self.images += len(index) * self.here.world

    def look(self) -> None:
        """Fetch the losses of the steps since the last look; all processes look at the same steps."""
        if not self.pending:
            return
        own = torch.stack([loss for loss, _ in self.pending])
        losses = self.here.mean(own.clone())
        if not bool(losses.isfinite().all()):
            self._stop(losses, own)
        self.state.losses += losses.tolist()
        self.rate = self.images / max(time.perf_counter() - self.started, 1e-9)
        note = f"epoch {self.state.epoch + 1}  loss {self.state.losses[-1]:.4g}  {self.rate:.0f} images/s"
        self.bar.advance(len(self.pending), note)
        self.pending = []

    def _stop(self, losses: Tensor, own: Tensor) -> None:
        bad = int((~losses.isfinite()).nonzero()[0])
        step, rows = self.state.step - len(self.pending) + bad, self.pending[bad][1].tolist()
        more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
        named = "another process" if bool(own[bad].isfinite()) else ", ".join(self.names[i] for i in rows[:4]) + more
        kept = ". The last checkpoint is from before that step" if self.checkpoint.exists() else ""
        raise ValueError(
            f"the loss is {losses[bad].item()} in epoch {self.state.epoch + 1}, step {step + 1}, on the batch of "
            f"{named}; look at these images, lower learning_rate, or use precision float32{kept}"
        )


def write_curves(path: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write one row per evaluated epoch; columns that only some epochs have are empty elsewhere."""
    columns = list(dict.fromkeys(name for entry in history for name in entry))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for entry in history:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in entry.items()})
    write_whole(path, text.getvalue().encode())


@contextmanager
def tensorboard(folder: Path | None) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """What adds an epoch to the same curves in TensorBoard's format; without a folder it does nothing."""
    if folder is None:
        yield lambda entry: None
        return
    require("tensorboard", "tensorboard")
    with require("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(folder)) as writer:

        def add(entry: Mapping[str, Any]) -> None:
            for name, value in entry.items():
                if name != "epoch":
                    writer.add_scalar(name.replace(" ", "/"), value, entry["epoch"])

        yield add
