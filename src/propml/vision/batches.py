"""Batches out of decoded images: seeded, shared out among processes, and gathered before they are asked for.

Which images a step sees depends on ``(seed, epoch, step, rank)`` alone, so a run that was stopped in mid-epoch goes on
with exactly the batches it would have had. :func:`augmented` makes views of them, on a GPU each while the one before is
learned from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

__all__ = ["Batches", "augmented", "prefetched"]

Batch = tuple[Tensor, Tensor, Tensor]
T = TypeVar("T")
R = TypeVar("R")
AHEAD = 2  # steps that the host may be ahead of a GPU: enough to keep it busy, and few views to keep in its memory


class Batches:
    """Batches of images, uint8 ``(n_images, height, width, 3)``, and their targets ``(n_images, n_labels)``.

    ``batch_size`` is that of a process: a step of all processes sees ``world * batch_size`` images. Shuffled, in a new
    order every epoch, every process gets as many images in a step as the others: the last step of an epoch is filled up
    with its first images where it cannot be shared out evenly. A last step in which a process would see a single image,
    of which a batch norm can learn nothing, is left out, unless all steps are so. Without ``shuffle`` (evaluation)
    every image comes once, in order, and a process may get fewer steps than another. ``rows`` are those to use, for
    instance all but those held out.

    >>> batches = Batches(np.zeros((5, 8, 8, 3), np.uint8), np.eye(5), 3, seed=0)
    >>> len(batches), [tuple(images.shape) for images, _, _ in batches.epoch(0)]
    (2, [(3, 3, 8, 8), (2, 3, 8, 8)])
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
        if not 0 <= rank < world:
            raise ValueError(f"rank is {rank} of {world} processes; ranks count from 0")
        if len(images) != len(targets):
            raise ValueError(f"there are {len(images)} images and targets for {len(targets)}")
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
        """The batches of an epoch from a step on: images, their targets, and the rows of ``images`` that they are.

        Images are uint8 ``(n, 3, height, width)`` on the device, with channels last in memory.
        """
        order = np.random.default_rng((self.seed, number)).permutation(self.rows) if self.shuffle else self.rows
        shares = [self._share(order, step) for step in range(start_step, len(self))]
        shares = [share for share in shares if len(share)]
        for share, pixels in zip(shares, prefetched(self._gathered, shares), strict=True):
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


def prefetched(make: Callable[[T], R], items: Iterable[T], ahead: int = 2) -> Iterator[R]:
    """``map(make, items)``, of which a thread makes so many while the ones before are worked on.

    By hand until Python 3.14, whose ``Executor.map`` has a ``buffersize``.

    >>> list(prefetched(abs, [-1, -2, -3]))
    [1, 2, 3]
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
    """The batches with a view in the place of the images, channels last in memory.

    The view of a step, counted from ``first_step``, is ``view(images, drawn(step))``; it depends on nothing else.
    """

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
