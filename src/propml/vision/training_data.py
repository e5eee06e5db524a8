"""What the training loop reads: decoded images with candidates, those held out, and validation images with truth.

Candidates are drawn once, before training: every label that is not true becomes one with probability ``noise``, as in
the paper (:func:`propml.corruption.independent_flips`). ``candidates.npz`` in the folder of a run holds what was drawn,
and which images could be read; a later start that would learn from anything else is stopped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from propml.atomic_files import locked, replacing, write_whole
from propml.corruption import independent_flips
from propml.tables.table import quoted_names
from propml.targets import Candidates
from propml.vision.batches import Batches
from propml.vision.distributed import Process
from propml.vision.image_cache import OnError, build_cache
from propml.vision.recipe import VisionRecipe, read_recipe, write_recipe
from propml.vision.sources import ImageSource

HOLD_OUT_STREAM = 1
FROZEN = "frozen.safetensors"  # the backbone as it was, with the best head
# What a run leaves in its folder once it has learned something, or in those of the λ that it tries.
TRACES = ("*.safetensors", "curves.csv", "lam.json")


def draw_candidates(source: ImageSource, noise: float | None, seed: int) -> Candidates:
    """True labels and flips of probability ``noise``; without, the source's own candidates, or its true labels."""
    if noise is None and source.candidates is not None:
        return source.candidates
    if source.truth is None:
        raise ValueError(
            f"{source.name} has no true labels to learn from or to add noise to; name candidates, and leave out --noise"
        )
    if noise is None:
        return Candidates.from_matrix(source.truth, source.label_names, empty="ignore")
    return independent_flips(source.truth, noise, random_state=seed, labels=source.label_names)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Images and labels of a run."""

    images: np.ndarray  # uint8, (n_images, size, size, 3)
    candidates: Candidates  # one row per image
    names: list[str]  # what to call each image in a message
    validation: tuple[np.ndarray, np.ndarray] | None  # images and truth
    held_out: np.ndarray  # rows that are not learned from: their candidates choose λ, epoch and weights

    def hold_out(self, share: float, seed: int) -> TrainingData:
        """Set aside a share of the images (0: none), the same ones for the same seed."""
        n = len(self.images)
        order = np.random.default_rng((seed, HOLD_OUT_STREAM)).permutation(n)
        return replace(self, held_out=np.sort(order[: round(share * n)]))

    @property
    def learned(self) -> np.ndarray:
        """The other rows, which are learned from."""
        return np.setdiff1d(np.arange(len(self.images)), self.held_out)

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.candidates.labels))

    def targets(self) -> Tensor:
        """Candidates as int8, ``(n_images, n_labels)``."""
        return self.candidates.to_torch()

    def batches(self, recipe: VisionRecipe, here: Process) -> Batches:
        """The images that are learned from, shuffled."""
        share = here.batch_size(recipe.batch_size)
        order: dict[str, Any] = {"seed": recipe.seed, "rank": here.rank, "world": here.world}
        return Batches(self.images, self.targets(), share, rows=self.learned, device=here.device, **order)


def ordered_batches(
    images: np.ndarray, targets: Any, recipe: VisionRecipe, here: Process, rows: np.ndarray | None = None
) -> Batches:
    """Images, or some of them, each once; without gradients twice as many fit in a batch."""
    share = 2 * here.batch_size(recipe.batch_size)
    order: dict[str, Any] = {"shuffle": False, "rank": here.rank, "world": here.world}
    return Batches(images, targets, share, rows=rows, device=here.device, **order)


@contextmanager
def alone_in(out: Path, here: Process) -> Iterator[None]:
    """Refuse a folder in which another run is under way; the lock of a run that was killed dies with it."""
    with locked(out / ".lock", wait=False) if here.is_first else nullcontext(True) as mine:
        if not mine:
            raise ValueError(f"another run is under way in {out}; wait for it, or choose another folder")
        yield


def open_run(out: Path, recipe: VisionRecipe, resume: bool, here: Process) -> None:
    """Make the folder of a new run, or check that the one that is there is the one to go on with.

    A folder in which nothing was learned yet, for instance because a setting was wrong, is that of a new run.
    """
    path = out / "recipe.json"
    started = path.exists() and any(next(out.rglob(trace), None) is not None for trace in TRACES)
    if started:
        if not resume:
            raise ValueError(f"{out} holds a run already; go on with it (--resume), or choose another folder")
        before = read_recipe(path)
        if differing := recipe.differs_from(before):
            told = ", ".join(f"{name} {getattr(before, name)}, not {getattr(recipe, name)}" for name in differing)
            raise ValueError(f"the run in {out} was started with {told}; go on with the same, or choose another folder")
    here.wait()  # all have looked before the first one writes
    if here.is_first:
        if not started and path.exists():
            for name in ("candidates.npz", "skipped.txt"):
                (out / name).unlink(missing_ok=True)
            shutil.rmtree(out / "lam", ignore_errors=True)
        write_recipe(path, recipe)
    here.wait()


def prepare_data(
    train: ImageSource,
    validation: ImageSource | None,
    recipe: VisionRecipe,
    out: Path,
    here: Process,
    *,
    cache: Path | None,
    on_error: OnError = "skip",
    verbose: bool = True,
) -> tuple[TrainingData, list[str]]:
    """Decode the images and draw the candidates, which must be those that an earlier start of this run had.

    Nothing is held out of them yet. The notes are sentences on true labels that are learned from, and on images that
    could not be read; ``skipped.txt`` in ``out`` names them all.
    """
    parts = [train]
    if validation is not None:
        if validation.label_names != train.label_names:
            raise ValueError(
                f"training images have the labels {quoted_names(train.label_names)} and validation images "
                f"{quoted_names(validation.label_names)}; give both the same, in the same order"
            )
        if validation.truth is None:
            raise ValueError(f"{validation.name} ({validation.split}) has no true labels to judge by; leave it out")
        parts.append(validation)
    candidates = draw_candidates(train, recipe.noise, recipe.seed)
    options: dict[str, Any] = {"on_error": on_error, "verbose": verbose and here.is_first}
    read = [(part, build_cache(part, recipe.side, cache, **options)) for part in parts]
    learned, judged = read[0][1], [(found.images, np.asarray(source.truth)[found.kept]) for source, found in read[1:]]
    names = [train.name_of(row) for row in learned.kept]
    files = "\n".join(Path(name).name for name in names)  # without their folders, since data may be moved
    drawn = {
        "candidates": candidates.to_matrix(np.int8),
        "label_names": np.array([str(name) for name in candidates.labels]),
        "kept": learned.kept,
        "images": np.array(hashlib.sha256(os.fsencode(files)).hexdigest()),
    }
    record = out / "candidates.npz"
    if record.exists():
        with np.load(record, allow_pickle=False) as stored:  # that of an older version does not hold all
            changed = [name for name in drawn if name in stored and not np.array_equal(stored[name], drawn[name])]
        if changed:
            raise ValueError(
                f"the run in {out} was started with other candidates, or with other images that could be read "
                f"({', '.join(changed)} of {record.name} differ); bring them back, or choose another folder"
            )
    here.wait()  # all have looked before the first one writes
    notes = [f"{source.name} ({source.split}): {found.describe()}" for source, found in read if found.skipped]
    if recipe.noise is None and train.candidates is None:
        told = "has no candidates: learning from the true labels; --noise makes candidates of them"
        notes.insert(0, f"{train.name} ({train.split}) {told}")
    skipped = [f"{path}: {why}\n" for _, found in read for path, why in found.skipped]
    if here.is_first:
        if not record.exists():
            noise = np.nan if recipe.noise is None else recipe.noise  # NaN: the source's own
            with replacing(record) as beside, beside.open("wb") as file:
                np.savez_compressed(file, **drawn, noise=noise, seed=recipe.seed)  # type: ignore[arg-type]
        if skipped:
            write_whole(out / "skipped.txt", "".join(skipped).encode(errors="replace"))
    none = np.array([], dtype=np.int64)
    return TrainingData(learned.images, candidates[learned.kept], names, judged[0] if judged else None, none), notes
