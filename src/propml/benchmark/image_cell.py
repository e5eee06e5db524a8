"""A cell on images, (dataset, noise, method, seed): one network, trained on the training part, tested on the test part.

Or a method for tables in its place, which learns from the features of the recipe's backbone. True labels of test images
enter in the metric alone, and, with ``selection = "oracle"``, in the choice of λ, epoch and weights, as in the paper.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from propml.benchmark.cell import PROTOCOL, Cell, judged, make_model, score
from propml.benchmark.provenance import watch_machine
from propml.benchmark.results import CellResult, FoldResult
from propml.benchmark.rivals import RIVALS
from propml.devices import cache_dir, choose_device
from propml.jsonable import jsonable
from propml.metrics import VISION_METRICS
from propml.noise import Noise
from propml.range_scaler import RangeScaler
from propml.vision.recipe import LAM_RULE, with_former_names
from propml.vision.recipe import VisionRecipe as Recipe
from propml.vision.sources import ImageSource, open_source

# Settings of a recipe that change nothing in the scores.
NOT_CONFIGURATION = ("look_every", "checkpoint_seconds")


@dataclass(frozen=True)
class ImageMethod:
    """A method as an experiment on images runs it."""

    name: str  #: what the tables call it; the published name where there is one
    #: Settings of :class:`propml.vision.VisionRecipe`, but for noise and seed, which are the cell's;
    #: ``flip_rate = "noise"`` is the noise of the cell.
    recipe: Mapping[str, Any] = field(default_factory=dict)
    selection: str | None = None  #: "candidates" or "oracle"; None takes the experiment's
    table: str | None = None  #: a method for tables, for features of the recipe's backbone
    params: Mapping[str, Any] = field(default_factory=dict)  #: arguments of its class


@dataclass(frozen=True)
class ImageCell(Cell):
    """One training of a method on a dataset of images at a noise level with a seed."""

    noise: Noise  #: flips: the rate at which labels that are not true become candidates
    method: ImageMethod
    metrics: tuple[str, ...] = VISION_METRICS
    images: Mapping[str, int] = field(default_factory=dict)  #: use so many of "train" and of "test"; by default all
    selection: str = "candidates"  #: the recipe's ``select``; "oracle": the true labels of test images choose
    device: str = "auto"  #: where to train; not part of the key

    def recipe(self) -> Recipe:
        """How the network is trained."""
        rate = self.noise.level
        # No checkpoints: a run in a temporary folder is never resumed.
        settings = {**self.method.recipe, "noise": rate, "seed": self.seed, "checkpoint_seconds": 1e9}
        if settings.get("flip_rate") == "noise":
            settings["flip_rate"] = rate
        if self.selection == "oracle":
            settings["select"] = "oracle"
        return Recipe(**settings)

    def configuration(self) -> dict[str, Any]:
        recipe = self.recipe()
        settings = {name: value for name, value in asdict(recipe).items() if name not in NOT_CONFIGURATION}
        settings = with_former_names(settings)
        if self.method.table is not None:
            own = {"method": self.method.table, "arguments": self.method.params}
            settings = {name: settings[name] for name in ("backbone", "weights", "size", "noise")} | own
        elif recipe.chooses_lam:
            settings["lam_rule"] = LAM_RULE
        own = {name: getattr(self, name) for name in ("dataset", "images", "seed", "selection")}
        return jsonable({"protocol": PROTOCOL, "kind": "images", "name": self.method.name, "params": settings, **own})

    def on_device(self, device: str) -> Self:
        return replace(self, device=device)

    def truth(self) -> np.ndarray:
        truth = open_part(self.dataset, "test", self.images).truth
        assert truth is not None
        return truth


def open_part(dataset: str, part: str, images: Mapping[str, int]) -> ImageSource:
    """The part "train" or "test" of a dataset, whose images are not read yet; ``images`` says how many.

    They are so many mosaics, or images at random, the same for every seed, so that they are decoded once.
    """
    wanted = images.get(part)
    if wanted is not None and dataset == "digits-mosaic":
        return open_source(dataset, part, n_samples=wanted)
    whole = open_source(dataset, part)
    if wanted is None or wanted >= len(whole):
        return whole
    return whole.take(np.sort(np.random.default_rng(0).choice(len(whole), wanted, replace=False)))


def compute_images(cell: ImageCell) -> CellResult:
    """Train a network in a temporary folder, and test it."""
    train, test = (open_part(cell.dataset, part, cell.images) for part in ("train", "test"))
    device = _device(cell.device)
    with watch_machine(device.startswith("cuda")) as machine:
        score_images = _score_images if cell.method.table is None else _score_features
        fold = score_images(cell, train, test, device)
    assert test.truth is not None
    return cell.result([judged(cell, fold, test.truth)], **machine)


def _score_images(cell: ImageCell, train: ImageSource, test: ImageSource, device: str) -> FoldResult:
    """Probabilities of the test images that can be read."""
    from propml.vision import training
    from propml.vision.backbone import resolved
    from propml.vision.checkpoint import load_network
    from propml.vision.image_cache import build_cache
    from propml.vision.predict import probabilities

    recipe, cache = resolved(cell.recipe()), cache_dir() / "images"
    # Before the clock starts: the first cell decodes for all.
    _, decoded = (build_cache(source, recipe.side, cache, verbose=False) for source in (train, test))
    with tempfile.TemporaryDirectory(prefix="propml-images-") as folder:
        run = Path(folder) / "run"
        start = time.perf_counter()
        seen = test if recipe.select == "oracle" else None  # no other method is shown a test label
        network = training.train(train, seen, recipe, run, device=device, cache=cache, verbose=False)
        fitted = time.perf_counter()
        scores = probabilities(load_network(run), decoded.images, batch_size=2 * recipe.batch_size, device=device)
        seconds: dict[str, Any] = {"seconds_fit": fitted - start, "seconds_predict": time.perf_counter() - fitted}
        chosen: dict[str, Any] = {"epoch": network.epoch, "weights": network.weights}
        if recipe.chooses_lam:
            choice = json.loads((run / "lam.json").read_text(encoding="utf-8"))
            kept = ("lam", "worth", "weight_decay", "epoch")
            tried = [
                {name: each[name] for name in kept if name in each} | each.get("held_out", {})
                for each in choice["tried"]
            ]
            chosen |= {"lam": choice["lam"], "tried": tried}
    predicted = (scores > 0.5).astype(np.uint8)
    return FoldResult(0, decoded.kept, scores, predicted, **seconds, chosen=jsonable(chosen))


def _score_features(cell: ImageCell, train: ImageSource, test: ImageSource, device: str) -> FoldResult:
    """What a method for tables makes of the features of test images; it learns from a network's candidates."""
    from propml.vision.deep_features import backbone_alone, compute_features
    from propml.vision.training_data import draw_candidates

    recipe, entry = cell.recipe(), cell.method
    assert entry.table is not None
    network = backbone_alone(recipe.backbone, recipe.weights, recipe.size)
    learned, seen = (compute_features(network, part, device=device, verbose=False) for part in (train, test))
    candidates = draw_candidates(train, recipe.noise, recipe.seed)[learned.kept]
    model = make_model(entry.table, entry.params, cell.seed)
    if "device" in model.get_params():
        model.set_params(device=device)
    scaler = RangeScaler().fit(learned.X) if entry.table != "propml" and entry.table not in RIVALS else None
    X, new = (part.X if scaler is None else scaler.transform(part.X) for part in (learned, seen))
    return score(model, X, candidates, new, seen.kept)


def _device(name: str) -> str:
    """A device by its full name, "auto" being a GPU where there is one; its memory is the one that is watched."""
    import torch

    place = choose_device(name)
    if place.type != "cuda":
        return str(place)
    name = f"cuda:{torch.cuda.current_device() if place.index is None else place.index}"
    torch.cuda.set_device(name)
    return name
