"""What happened epoch by epoch: a CSV file that is always whole, and TensorBoard for those who want it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from propml.atomic_files import write_whole
from propml.extras import require

__all__ = ["TensorBoard", "write_curves"]


def write_curves(path: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write one row per evaluated epoch; columns that only some epochs have are empty elsewhere."""
    columns = list(dict.fromkeys(name for entry in history for name in entry))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for entry in history:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in entry.items()})
    write_whole(path, text.getvalue().encode())


class TensorBoard:
    """The same curves in TensorBoard's format; does nothing where it was not asked for.

    Parameters
    ----------
    folder : Path or None
        ``None``: nothing is written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._writer: Any = None
        if folder is not None:
            require("tensorboard", "tensorboard")
            self._writer = require("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(folder))

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, entry: Mapping[str, Any]) -> None:
        """One epoch."""
        if self._writer is not None:
            for name, value in entry.items():
                if name != "epoch":
                    self._writer.add_scalar(name.replace(" ", "/"), value, entry["epoch"])
