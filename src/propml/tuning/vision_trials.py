"""The vision trainer as something to search: every trial is a run of :func:`propml.vision.training.train`."""

from __future__ import annotations

import gc
import hashlib
import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml.tuning.spaces import VISION, altered
from propml.tuning.tasks import Pruned, Report

if TYPE_CHECKING:
    from propml.vision.recipe import Recipe
    from propml.vision.sources import ImageSource

__all__ = ["VisionTask"]

# What the search itself decides.
OWN = ("epochs", "select", "criterion", "seed", "hold_out", "noise", "eval_every", "schedule_epochs")


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
    """

    method = "vision"
    is_large = True

    def __init__(
        self,
        source: ImageSource,
        recipe: Recipe,
        changes: Mapping[str, Any] | None = None,
        *,
        validation: ImageSource | None = None,
        device: str = "auto",
        cache: str | Path | None = "auto",
    ) -> None:
        if recipe.select == "last":
            raise ValueError('select is "last", which judges nothing; choose "candidates", or "oracle"')
        if recipe.select == "oracle" and validation is None:
            raise ValueError('select is "oracle" and there are no validation images with true labels; give some')
        known = [each.name for each in fields(recipe) if each.name not in OWN]
        self.space = altered(VISION, {"loss": recipe.loss, **(changes or {})}, known, "the vision recipe")
        self.source, self.recipe, self.validation = source, recipe, validation
        self.device, self.cache = device, cache
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

    def run(self, configuration: Mapping[str, Any], report: Report, folder: Path | None) -> None:
        """Train one network; it goes on from its checkpoint where its folder has one."""
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="propml-tune-") as scratch:
                self.run(configuration, report, Path(scratch))
            return
        best, pruned, out = -math.inf, False, folder / "run"

        def on_epoch(record: Mapping[str, Any]) -> bool:
            nonlocal best, pruned
            value = self.value(record)
            best = value if math.isnan(value) else max(best, value)
            try:
                report(record["epoch"], best)
            except Pruned:
                pruned = True
            return pruned

        resume = (out / "recipe.json").exists()
        options = {"device": self.device, "cache": self.cache, "show": False, "on_epoch": on_epoch, "resume": resume}
        try:
            self.train(self.source, self.validation, replace(self.recipe, **configuration), out, **options)
        finally:
            gc.collect()  # what refers to itself in a circle would keep its memory from the next trial
        if pruned:
            for name in ("last.safetensors", "best.safetensors"):  # nobody needs these weights, and they are large
                (out / name).unlink()
            raise Pruned

    @staticmethod
    def train(*arguments: Any, **options: Any) -> None:
        """:func:`propml.vision.training.train`, which is imported where it runs."""
        from propml.vision.training import train

        train(*arguments, **options)

    def value(self, record: Mapping[str, Any]) -> float:
        """What the better of both kinds of weights, raw and averaged, were worth after an epoch."""
        column = "mAP" if self.recipe.select == "oracle" else f"held-out {self.recipe.criterion}"
        return max(record[name] for name in (f"{column} raw", f"{column} ema") if name in record)


def _loss_title(loss: str) -> str:
    """The name of the method that is this loss and nothing else, such as "ProPML" for "propml"."""
    from propml.vision.recipe import METHODS

    return next(name for name, changes in METHODS.items() if changes == {"loss": loss})
