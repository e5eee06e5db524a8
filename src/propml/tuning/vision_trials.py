"""The vision trainer as something to search: every trial is a run of :func:`propml.vision.training.train`.

A trial trains in a process of its own, which sends the record of every epoch. A process that runs out of memory takes
no other trial with it, and one whose trial is to stop is ended at once.
"""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml.benchmark.worker_processes import end_of, start_worker
from propml.tuning.reasons import reason
from propml.tuning.spaces import VISION, altered
from propml.tuning.tasks import Pruned, Report

if TYPE_CHECKING:
    from propml.vision.recipe import Recipe
    from propml.vision.sources import ImageSource

__all__ = ["VisionTask"]

# What the search itself decides.
OWN = ("epochs", "select", "criterion", "seed", "hold_out", "noise", "eval_every", "schedule_epochs")
LARGE = ("last.safetensors", "best.safetensors")


def train_images(*args: Any, **kwargs: Any) -> Any:
    """:func:`propml.vision.training.train`, imported where it runs."""
    from propml.vision.training import train

    return train(*args, **kwargs)


class VisionTask:
    """A network on images.

    Parameters
    ----------
    source : ImageSource
        Images with candidates, or with true labels that the recipe's noise makes candidates of.
    recipe : Recipe
        What stays; its ``epochs`` are the whole budget, its ``select`` is the objective.
    changes : mapping, optional
        Changes of the space, as in :func:`propml.tuning.search`; by default the paper's ranges.
    validation : ImageSource, optional
        For ``select="oracle"``: images with true labels.
    device, cache
        As in the trainer.
    train : callable
        The trainer.
    """

    method = "vision"
    keeps_files = True

    def __init__(
        self,
        source: ImageSource,
        recipe: Recipe,
        changes: Mapping[str, Any] | None = None,
        *,
        validation: ImageSource | None = None,
        device: str = "auto",
        cache: str | Path | None = "auto",
        train: Callable[..., Any] = train_images,
    ) -> None:
        if recipe.select == "last":
            raise ValueError('select is "last", which judges nothing; choose "candidates", or "oracle"')
        if recipe.select == "oracle" and validation is None:
            raise ValueError('select is "oracle" and there are no validation images with true labels; give some')
        known = [each.name for each in fields(recipe) if each.name not in OWN]
        self.space = altered(VISION, {"loss": recipe.loss, **(changes or {})}, known, "the vision recipe")
        self.source, self.recipe, self.validation = source, recipe, validation
        self.device, self.cache, self.train = device, cache, train
        self.title = _loss_title(recipe.loss)
        self.epochs = recipe.epochs
        default = type(recipe)()
        self.fixed = {n: v for n, v in asdict(recipe).items() if v != getattr(default, n) and v is not None}

    def facts(self) -> dict[str, Any]:
        """What searches on one study must agree on."""
        settings = json.dumps({n: v for n, v in asdict(self.recipe).items() if n not in self.space}, sort_keys=True)
        return {
            "method": "vision",
            "epochs": self.epochs,
            "objective": self.recipe.select,
            "criterion": "mAP" if self.recipe.select == "oracle" else self.recipe.criterion,
            "data": f"{self.source.name}, {len(self.source.items)} images, {len(self.source.label_names)} labels",
            "recipe": hashlib.sha256(settings.encode()).hexdigest()[:16],
        }

    def run(self, configuration: Mapping[str, Any], report: Report, folder: Path | None) -> dict[str, Any]:
        """Train one network; it goes on from its checkpoint where its folder has one."""
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="propml-tune-") as scratch:
                return self.run(configuration, report, Path(scratch))
        out = folder / "run"
        recipe = replace(self.recipe, **configuration)
        options = {"resume": (out / "recipe.json").exists(), "device": self.device, "cache": self.cache, "show": False}
        best = -math.inf
        try:
            with _training(self.train, (self.source, self.validation, recipe, out), options) as records:
                for record in records:
                    value = self.value(record)
                    best = value if math.isnan(value) else max(best, value)
                    report(record["epoch"], best)
        except Pruned:
            for name in LARGE:  # nobody needs these weights, and they are large
                (out / name).unlink(missing_ok=True)
            raise
        return {"run": str(out)}

    def value(self, record: Mapping[str, Any]) -> float:
        """What the better of both kinds of weights, raw and averaged, were worth after an epoch."""
        column = "mAP" if self.recipe.select == "oracle" else f"held-out {self.recipe.criterion}"
        return max(record[name] for name in (f"{column} raw", f"{column} ema") if name in record)


def _loss_title(loss: str) -> str:
    """The name of the method that is this loss and nothing else, such as "ProPML" for "propml"."""
    from propml.vision.recipe import METHODS

    return next(name for name, changes in METHODS.items() if changes == {"loss": loss})


@contextmanager
def _training(
    train: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> Iterator[Iterator[Mapping[str, Any]]]:
    """The records of a training in another process, which does not outlive the block."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = start_worker(_train, (sender, train, arguments, options))
    sender.close()  # so that the other process holds the only one, and its death ends the records
    try:
        yield _records(receiver, process)
    finally:
        process.kill()
        process.join()


def _records(receiver: Connection, process: Any) -> Iterator[Mapping[str, Any]]:
    while receiver in wait([receiver, process.sentinel]):
        try:
            message = receiver.recv()
        except (EOFError, OSError):
            break
        if isinstance(message, str):  # the reason of a failure
            raise ValueError(message)
        yield message
    process.join()
    if process.exitcode == -signal.SIGKILL:
        raise MemoryError
    if process.exitcode:
        raise RuntimeError(f"its process failed: {end_of(process.exitcode)}")


def _train(
    sender: Connection, train: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> None:
    try:
        train(*arguments, **options, on_epoch=sender.send)
    except BaseException as error:
        sender.send(reason(error))
        if not isinstance(error, ValueError):
            traceback.print_exc()
        sys.exit(1)
