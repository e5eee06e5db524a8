"""Training speed on images: ``python benchmarks/vision.py`` on a GPU machine.

TResNet-L, 224 px, batch 256. The eager loop is what one would write at first: autocast, channels last, Adam, a batch
that already lies on the GPU, no augmentation and no averaged weights. Ours is the real training loop
(:func:`propml.vision.training.fit`) with everything in the measured step: loader, augmentation on the GPU, fused Adam,
averaged weights. The loader alone must be faster than both. Then features of a pretrained backbone on the CPU, by
batches of 64 and of 8 images. ``--quick`` tries it all on a CPU in seconds; ``--features-only`` is the last part.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from propml.losses import propml_loss
from propml.targets import Candidates
from propml.vision.backbone import make_network
from propml.vision.batches import Augment, Batches, step_generator
from propml.vision.deep_features import ON_CPU, backbone_alone, run_network
from propml.vision.distributed import Process, choose_precision
from propml.vision.recipe import PAPER, VisionRecipe
from propml.vision.training import fit
from propml.vision.training_data import TrainingData

N_LABELS = 20


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def made_data(n: int, size: int, folder: Path) -> TrainingData:
    """Random images in a memory-mapped file, as decoded ones would lie there."""
    rng = np.random.default_rng(0)
    images = np.lib.format.open_memmap(folder / "images.npy", mode="w+", dtype=np.uint8, shape=(n, size, size, 3))
    for start in range(0, n, 256):
        images[start : start + 256] = rng.integers(0, 256, images[start : start + 256].shape, dtype=np.uint8)
    matrix = (rng.random((n, N_LABELS)) < 0.3).astype(np.int8)
    matrix[:, 0] = 1
    names = [f"image {i}" for i in range(n)]
    return TrainingData(images, Candidates.from_matrix(matrix), names, None, np.array([], dtype=np.int64))


def eager(recipe: VisionRecipe, device: torch.device, steps: int) -> float:
    """Images per second of the loop that one would write at first."""
    network = make_network(recipe, N_LABELS).train()
    network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-5)
    precision = choose_precision(recipe.precision, device)
    images = torch.rand(recipe.batch_size, 3, recipe.side, recipe.side, device=device)
    images = images.contiguous(memory_format=torch.channels_last)
    targets = (torch.rand(recipe.batch_size, N_LABELS, device=device) < 0.3).to(torch.int8)
    for step in range(3 + steps):
        if step == 3:
            wait(device)
            start = time.perf_counter()
        with precision.autocast():
            logits = network(images)
        propml_loss(logits.float(), targets, lam=0.3).mean().backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    wait(device)
    return steps * recipe.batch_size / (time.perf_counter() - start)


def ours(recipe: VisionRecipe, data: TrainingData, here: Process) -> float:
    """Images per second of the second epoch of the real loop; in the first one it compiles."""
    with tempfile.TemporaryDirectory() as folder:
        found = fit(data, recipe, 0.3, Path(folder), here, verbose=False)
    return found.history[-1]["images_per_second"]


def loader(recipe: VisionRecipe, data: TrainingData, device: torch.device, *, augmented: bool) -> float:
    """Images per second that reach the GPU, with or without augmentation, where nothing else is done."""
    batches = Batches(data.images, data.targets(), recipe.batch_size, device=device)
    augment, n = Augment(dtype=torch.bfloat16), 0
    for epoch in range(2):  # the first one warms up the page cache and the pinned buffers
        wait(device)
        start, n = time.perf_counter(), 0
        for step, (images, _, _) in enumerate(batches.epoch(epoch)):
            if augmented:
                augment(images, step_generator(0, epoch, step))
            n += len(images)
        wait(device)
    return n / (time.perf_counter() - start)


def features_on_cpu(backbone: str, size: int, n: int) -> None:
    """Images per second whose features a CPU computes, by batches of 64 and as it does by itself, in turns."""
    network = backbone_alone(backbone, None, size)
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    rates: dict[int | None, list[float]] = {64: [], None: []}
    run_network(network, images[:8], True, None, "cpu")
    for batch_size in (64, None) * 3:
        start = time.perf_counter()
        run_network(network, images, True, batch_size, "cpu")
        rates[batch_size].append(n / (time.perf_counter() - start))
    many, few = max(rates[64]), max(rates[None])
    print(f"features on a CPU, {backbone}, {size} px: {few / many:.2f} × as many images/s by {ON_CPU} as by 64")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="tresnet_l")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--batches", type=int, default=96, help="per epoch")
    parser.add_argument("--modes", nargs="*", default=["reduce-overhead"], help="of torch.compile")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--features-only", action="store_true")
    options = parser.parse_args()
    if options.features_only:
        features_on_cpu(VisionRecipe.backbone, 280, 64)
        return
    if not (options.quick or torch.cuda.is_available()):
        print("no GPU here: --quick is measured instead")
        options.quick = True
    if options.quick:
        options.backbone, options.size, options.batch_size, options.batches, options.modes = "small_cnn", 32, 8, 3, []
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    here = Process(device)
    recipe = replace(
        PAPER,
        backbone=options.backbone,
        weights=None,
        size=options.size,
        batch_size=options.batch_size,
        epochs=2,
        eval_every=2,
        learning_rate=1e-5,
        lam=0.3,
        select="last",
        checkpoint_seconds=1e9,
    )
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{options.backbone}, {options.size} px, batch {options.batch_size}, {name}, torch {torch.__version__}")

    def tell(what: str, rate: float, base: float | None = None) -> None:
        times = "" if base is None else f"{rate / base:8.2f} × the eager loop"
        print(f"{what:58} {rate:9.0f} images/s{times}", flush=True)

    base = eager(recipe, device, min(options.batches, 24))
    tell("eager loop, no loader, no augmentation, no average", base)
    with tempfile.TemporaryDirectory() as folder:
        data = made_data(options.batches * options.batch_size, options.size, Path(folder))
        for augmented in (False, True):
            what = "loader with augmentation, alone" if augmented else "loader alone"
            tell(what, loader(recipe, data, device, augmented=augmented), base)
        tell("ours, eager", ours(recipe, data, here), base)
        for mode in options.modes:
            tell(f"ours, compiled ({mode})", ours(replace(recipe, compile=mode), data, here), base)
    features_on_cpu(*(("small_cnn", 32, 64) if options.quick else (VisionRecipe.backbone, 280, 64)))


if __name__ == "__main__":
    main()
