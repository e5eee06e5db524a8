"""Batches out of decoded images, seeded and shared out among processes, and the augmented views that are learned from.

Which images a step sees depends on ``(seed, epoch, step, rank)`` alone, so a run that was stopped in mid-epoch goes on
with exactly the batches it would have had. Deviations of the augmentation from the released code:

- Images are resized before the flip instead of after it, since they are decoded once: the two commute.
- RandAugment (Cubuk, Zoph, Shlens and Le, NeurIPS 2020): as in the package ``randaugment`` 1.0.2 of the released code,
  two operations are drawn, each at one of nine strengths over the same ranges and done with probability one half; the
  operations are torchvision's 14, which lack ``invert`` and its small ``cutout`` and have ``identity``. Groups of eight
  images are changed alike, since torchvision's functions take one amount at a time.
- Random numbers come from a ``torch.Generator`` on the host, so that a seed gives the same images on every device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import count
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from propml.vision.backbone import import_vision

Batch = tuple[Tensor, Tensor, Tensor]
T = TypeVar("T")
R = TypeVar("R")
GREY = 128  # what comes into view from outside of the image
CUTOUT = 0.5  # side of the square that is covered with a random colour, as a share of the image's
GROUP = 8  # images that are changed alike: a view of a batch is made of so many calls less
LEVELS = 9  # strengths of RandAugment, of which torchvision's 30 is the highest
CROP, ASPECT, COLOUR = (0.12, 1.0), (0.8, 1.25), 0.4  # shares of the image's area, width by height, change of colours
AHEAD = 2  # steps that the host may be ahead of a GPU: enough to keep it busy, and few views to keep in its memory


class Batches:
    """Batches of images, uint8 ``(n_images, height, width, 3)``, and their targets ``(n_images, n_labels)``.

    ``batch_size`` is that of a process: a step of all processes sees ``world * batch_size`` images. Shuffled, in a new
    order every epoch, every process gets as many images in a step as the others: the last step of an epoch is filled up
    with its first images where it cannot be shared out evenly. A last step in which a process would see a single image,
    of which a batch norm can learn nothing, is left out, unless all steps are so. Without ``shuffle`` (evaluation)
    every image comes once, in order, and a process may get fewer steps than another. ``rows`` are those to use.
    """

    def __init__(
        self,
        images: np.ndarray,
        targets: Any,
        batch_size: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
        device: str | torch.device = "cpu",
        rows: np.ndarray | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; give at least 1")
        self.images, self.batch_size, self.seed, self.rank, self.world = images, batch_size, seed, rank, world
        self.shuffle, self.device = shuffle, torch.device(device)
        self.rows = np.arange(len(images)) if rows is None else np.asarray(rows, dtype=np.int64)
        if not len(self.rows):
            raise ValueError("there are no images to make batches of")
        self.targets = torch.as_tensor(targets).to(self.device)

    def __len__(self) -> int:
        """The number of steps of an epoch."""
        full, rest = divmod(len(self.rows), self.batch_size * self.world)
        alone = self.shuffle and full > 0 and self.batch_size > 1 and rest <= self.world
        return full if alone or not rest else full + 1

    def epoch(self, number: int, start_step: int = 0) -> Iterator[Batch]:
        """From a step on: images, uint8 ``(n, 3, height, width)`` with channels last, their targets, and their rows."""
        order = np.random.default_rng((self.seed, number)).permutation(self.rows) if self.shuffle else self.rows
        shares = [self._share(order, step) for step in range(start_step, len(self))]
        shares = [share for share in shares if len(share)]
        with closing(prefetched(self._gathered, shares)) as gathered:
            for share, pixels in zip(shares, gathered, strict=True):
                index = torch.as_tensor(share).to(self.device, non_blocking=True)
                # torch keeps pinned memory until the copy has ended.
                images = pixels.to(self.device, non_blocking=True)
                yield images.permute(0, 3, 1, 2), self.targets[index], index

    def _share(self, order: np.ndarray, step: int) -> np.ndarray:
        together = order[step * self.batch_size * self.world :][: self.batch_size * self.world]
        if self.shuffle and (lacking := -len(together) % self.world):
            together = np.concatenate([together, np.resize(order, lacking)])
        return together[self.rank :: self.world]

    def _gathered(self, share: np.ndarray) -> Tensor:
        """The pixels of these rows; NumPy gathers them outside Python's lock."""
        on_gpu = self.device.type == "cuda"
        if on_gpu and self.device.index is not None:
            torch.cuda.set_device(self.device)  # of this thread: otherwise pinning wakes up the first GPU too
        pixels = torch.empty((len(share), *self.images.shape[1:]), dtype=torch.uint8, pin_memory=on_gpu)
        # With mode="raise" NumPy would copy everything twice; the rows were checked when they were chosen.
        np.take(self.images, share, 0, pixels.numpy(), "clip")
        return pixels


def prefetched(make: Callable[[T], R], items: Iterable[T], ahead: int = 2) -> Generator[R]:
    """``map(make, items)``, of which a thread makes so many while the ones before are worked on.

    By hand until Python 3.14, whose ``Executor.map`` has a ``buffersize``.
    """
    with ThreadPoolExecutor(1, "propml-prefetch") as thread:
        coming = deque[Future[R]]()
        try:
            for item in items:
                coming.append(thread.submit(make, item))
                if len(coming) > ahead:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            thread.shutdown(cancel_futures=True)  # nobody may want the rest any more


def augmented(
    batches: Iterable[Batch],
    view: Callable[[Tensor, torch.Generator], Tensor],
    drawn: Callable[[int], torch.Generator],
    device: torch.device,
    first_step: int = 0,
) -> Iterator[Batch]:
    """The batches with ``view(images, drawn(step))`` in the place of the images, channels last in memory."""

    def viewed(step: int, images: Tensor) -> Tensor:
        return view(images, drawn(step)).contiguous(memory_format=torch.channels_last)

    if device.type == "cuda":
        yield from _beside(batches, viewed, device, first_step)
    else:
        for step, (images, targets, index) in enumerate(batches, first_step):
            yield viewed(step, images), targets, index


def _beside(
    batches: Iterable[Batch], viewed: Callable[[int, Tensor], Tensor], device: torch.device, first_step: int
) -> Iterator[Batch]:
    """Views made on a stream of their own: their many small kernels fill the gaps between those of the network."""
    side, current = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    side.wait_stream(current)  # what batches are taken from may just have been made there
    rest, learned = iter(batches), deque[torch.cuda.Event]()

    def made() -> Iterator[tuple[Batch, torch.cuda.Event]]:
        for step in count(first_step):
            with torch.cuda.stream(side):
                if (batch := next(rest, None)) is None:
                    return
                images, targets, index = batch
                view = viewed(step, images)
            yield (view, targets, index), side.record_event()

    views = made()
    ahead = next(views, None)
    while ahead is not None:
        batch, ready = ahead
        ahead = next(views, None)
        current.wait_event(ready)
        for tensor in batch:
            tensor.record_stream(current)  # which needs their memory longer than the stream they were made on
        yield batch
        learned.append(current.record_event())
        if len(learned) > AHEAD:
            learned.popleft().synchronize()


def step_generator(seed: int, epoch: int, step: int, rank: int = 0) -> torch.Generator:
    """The random numbers of one step of one process, whatever came before: a resumed run draws the same."""
    state = np.random.SeedSequence((seed, epoch, step, rank)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)  # torch takes what fits a signed number


class Augment:
    """Bytes in, augmented floating point out.

    ``mean`` and ``std`` are of the values in [0, 1], per channel; by default nothing is taken off, as TResNet wants it.
    ``kind`` says what a call does: flip, cutout and RandAugment (paper); flip and RandAugment; flip, crop to
    ``crop_size`` pixels and change colours (crop: for networks from random weights); flip (light); nothing.
    """

    def __init__(
        self,
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        *,
        kind: str = "paper",
        crop_size: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.kind, self.crop_size, self.dtype = kind, crop_size, dtype
        # (v / 255 − mean) / std as one product and one sum.
        self._scale = 1 / (255 * torch.tensor(std, dtype=torch.float32)).view(1, 3, 1, 1)
        self._shift = -(torch.tensor(mean) / torch.tensor(std)).float().view(1, 3, 1, 1)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """What a network learns from in the place of images, uint8 ``(n, 3, height, width)``, on any device."""
        if self.kind == "none":
            return self.plain(images)
        images = self._flipped(images, generator)
        if self.kind == "paper":
            images = self._cut(images, generator)
        if self.kind != "light":
            seed = int(torch.randint(2**62, (), generator=generator))
            with torch.random.fork_rng(devices=[]):  # torchvision draws from the global generator of the host
                torch.default_generator.manual_seed(seed)
                images = torch.cat([self._changed(group) for group in images.split(GROUP)])
        return self.plain(images)

    def weak(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Flip and normalise: the view on which CDCR measures confidence."""
        return self.plain(self._flipped(images, generator))

    def plain(self, images: Tensor) -> Tensor:
        """Normalise: what a model sees of test images."""
        values = images.float()  # converting first is twice as fast as a product of bytes and floating point
        if self._scale.device != images.device:
            self._scale, self._shift = self._scale.to(images.device), self._shift.to(images.device)
        return values.mul_(self._scale).add_(self._shift).to(self.dtype)

    def _flipped(self, images: Tensor, generator: torch.Generator) -> Tensor:
        flips = sent_to(torch.rand(len(images), generator=generator) < 0.5, images.device)
        return torch.where(flips[:, None, None, None], images.flip(3), images)

    def _changed(self, images: Tensor) -> Tensor:
        """A group of images after one crop and change of colours, or one RandAugment."""
        v2 = import_vision("torchvision.transforms.v2")
        if self.kind == "crop":
            images = v2.RandomResizedCrop(self.crop_size or images.shape[3], CROP, ASPECT)(images)
            images = v2.ColorJitter(COLOUR, COLOUR, COLOUR)(images)
        for level, drawn in () if self.kind == "crop" else torch.rand(2, 2).tolist():
            if drawn < 0.5:
                magnitude = round(30 * (1 + int(level * LEVELS)) / LEVELS)
                bilinear = v2.InterpolationMode.BILINEAR
                images = v2.RandAugment(1, magnitude, interpolation=bilinear, fill=GREY)(images)
        return images.contiguous(memory_format=torch.channels_last)

    def _cut(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Cover a square of each image with a colour; like Pillow's rectangle, it includes both ends."""
        n, reach = len(images), int(CUTOUT * images.shape[3]) // 2
        centre = sent_to(torch.rand(n, 2, generator=generator), images.device)
        fill = sent_to(torch.randint(256, (n, 3), generator=generator, dtype=torch.uint8), images.device)
        near = []
        for dim, length in enumerate(images.shape[2:]):
            place = torch.arange(length, device=images.device)
            near.append((place - (centre[:, dim, None] * length).floor()).abs() <= reach)
        covered = near[0][:, None, :, None] & near[1][:, None, None, :]
        return torch.where(covered, fill[:, :, None, None], images)


def sent_to(values: Tensor, device: torch.device) -> Tensor:
    """The values on a device, without waiting for what it is doing."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)
