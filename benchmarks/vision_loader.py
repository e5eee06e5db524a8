"""Images per second before any network: decoding, the loader alone, and augmentation on the device.

    python benchmarks/vision_loader.py             # random images of 224 px, batch 256
    python benchmarks/vision_loader.py --quick     # a few small batches: does it work here?

On a GPU it first checks that loader and augmentation give the same as on the CPU, byte by byte where they give bytes.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from propml.vision.augment import Augment, step_generator
from propml.vision.batches import Batches
from propml.vision.image_cache import build_cache
from propml.vision.randaugment import rand_augment
from propml.vision.sources import ImageSource


def photos(folder: Path, n: int) -> ImageSource:
    """Noise over a gradient as JPEG files of 500 × 375, about as VOC has them."""
    rng = np.random.default_rng(0)
    gradient = np.linspace(0, 180, 500)[None, :, None] + np.zeros((375, 1, 3))
    for i in range(n):
        coarse = rng.integers(0, 75, (25, 34, 3)).repeat(15, 0)[:375].repeat(15, 1)[:, :500]
        Image.fromarray((gradient + coarse).astype(np.uint8)).save(folder / f"{i:05}.jpg", quality=90)
    return ImageSource("photos", tuple(sorted(folder.glob("*.jpg"))), None, None, ("any",), "train")


def rate(images: Callable[[], Iterator[int]], device: torch.device, seconds: float) -> float:
    """Images per second; the first batch warms up and is not counted."""
    counted, start = 0, 0.0
    while True:
        for n in images():
            if not start:
                _wait(device)
                start = time.perf_counter()
                continue
            counted += n
            if time.perf_counter() - start > seconds:
                _wait(device)
                return counted / (time.perf_counter() - start)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def check(device: torch.device, images: np.ndarray) -> None:
    """The device gives what the CPU gives."""
    targets = np.arange(len(images))[:, None]
    for resident in (False, True):
        theirs = Batches(images, targets, 32, seed=0, device=device, resident=resident, workers=2).epoch(0)
        ours = Batches(images, targets, 32, seed=0).epoch(0)
        for one, other in zip(ours, theirs, strict=True):
            assert all(torch.equal(a, b.cpu()) for a, b in zip(one, other, strict=True)), "the loader differs"
    pixels = torch.from_numpy(images[:128]).permute(0, 3, 1, 2)
    here, there = (
        rand_augment(pixels.to(place), step_generator(0, 0, 0), probability=1.0).cpu().int()
        for place in ("cpu", device)
    )
    apart = (here - there).abs()
    assert (apart > 1).float().mean() < 1e-3, "RandAugment differs"  # interpolation rounds otherwise here and there
    print(f"the device gives what the CPU gives (RandAugment: {100 * (apart > 0).float().mean():.2f} % of bytes by 1)")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="small and short")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--workers", type=int, default=1, help="threads that gather a batch")
    given = options.parse_args()
    device = torch.device(given.device)
    size, batch, n, seconds = (64, 64, 512, 0.5) if given.quick else (224, 256, 4096, 3.0)

    with tempfile.TemporaryDirectory() as folder:
        source = photos(Path(folder), 64 if given.quick else 512)
        start = time.perf_counter()
        build_cache(source, size, Path(folder) / "cache", show=False)
        print(f"decoding JPEG of 500 × 375 to {size}: {len(source) / (time.perf_counter() - start):,.0f} images/s")
        pixels = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
        np.save(Path(folder) / "images.npy", pixels)
        images = np.load(Path(folder) / "images.npy", mmap_mode="r")
        check(device, np.array(images[:256]))
        batches = Batches(
            images, np.zeros((n, 20)), batch, seed=0, device=device, drop_last=True, workers=given.workers
        )
        epochs = (len(found[0]) for epoch in range(10**6) for found in batches.epoch(epoch))
        print(
            f"loader alone to {device}, batch {batch} at {size}: {rate(lambda: epochs, device, seconds):,.0f} images/s"
        )

        augment, one = Augment(), next(batches.epoch(0))[0]
        for name, view in (("strong", augment.strong), ("weak", augment.weak)):

            def views(view: Callable = view) -> Iterator[int]:
                for step in range(10**6):
                    yield len(view(one, step_generator(0, 0, step)))

            print(f"augmentation on {device}, {name} view: {rate(views, device, seconds):,.0f} images/s")


if __name__ == "__main__":
    main()
