"""The vision trainer as something to search: every trial is a run of :func:`propml.vision.training.train`.

A trial trains in a process of its own, which writes its curves after every epoch; here they are watched, and a trial
that is to stop is ended at once. What is out of memory takes its own process with it and nothing else.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml.benchmark.worker_processes import start_worker
from propml.durable import write_whole
from propml.tuning.reasons import reason
from propml.tuning.search import Pruned
from propml.tuning.spaces import VISION, altered
from propml.tuning.tasks import Report

if TYPE_CHECKING:
    from propml.vision.recipe import Recipe
    from propml.vision.sources import ImageSource

__all__ = ["VisionTask"]

# Seconds between two looks at the curves.
LOOK = 0.2
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
        process = start_worker(
            _train_one, (self.train, self.source, self.validation, recipe, out, self.device, self.cache)
        )
        told, best = 0, -math.inf
        try:
            over = False
            while not over:
                process.join(LOOK)
                over = not process.is_alive()  # and then the curves are read once more
                for epoch, value in self._curve(out):
                    if epoch > told:
                        told, best = epoch, value if math.isnan(value) else max(best, value)
                        report(epoch, best)
        except Pruned:
            _end(process)
            for name in LARGE:  # nobody needs these weights, and they are large
                (out / name).unlink(missing_ok=True)
            raise
        finally:
            _end(process)
        if process.exitcode:
            raise _failure(out, process.exitcode)
        return {"run": str(out)}

    def _curve(self, out: Path) -> list[tuple[int, float]]:
        """What the weights, raw or averaged, were worth after each epoch."""
        try:
            text = (out / "curves.csv").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        column = "mAP" if self.recipe.select == "oracle" else f"held-out {self.recipe.criterion}"
        columns = [f"{column} raw", f"{column} ema"]
        return [
            (int(row["epoch"]), max(float(row[name]) for name in columns if row.get(name)))
            for row in csv.DictReader(text.splitlines())
        ]


def _loss_title(loss: str) -> str:
    """The name of the method that is this loss and nothing else, such as "ProPML" for "propml"."""
    from propml.vision.recipe import METHODS

    return next(name for name, changes in METHODS.items() if changes == {"loss": loss})


def _train_one(
    train: Callable[..., Any], source: Any, validation: Any, recipe: Any, out: Path, device: str, cache: Any
) -> None:
    try:
        resume = (out / "recipe.json").exists()
        train(source, validation, recipe, out, resume=resume, device=device, cache=cache, show=False)
    except BaseException as error:
        write_whole(out / "error.txt", reason(error).encode())
        if not isinstance(error, ValueError):
            traceback.print_exc()
        sys.exit(1)


def _failure(out: Path, code: int) -> Exception:
    if code < 0:
        return MemoryError() if code == -9 else RuntimeError(f"its process ended with signal {-code}")
    try:
        return ValueError((out / "error.txt").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return RuntimeError(f"its process ended with exit code {code}")


def _end(process: Any) -> None:
    if process.is_alive():
        process.terminate()
    process.join()
