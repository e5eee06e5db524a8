"""Batches out of decoded images: seeded, shared out among processes, and at the device before they are asked for.

Which images a step sees depends on ``(seed, epoch, step, rank)`` alone, so a run that was stopped in mid-epoch goes on
with exactly the batches it would have had. :func:`augmented` makes views of them, on a GPU each while the one before is
learned from.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["Batches", "augmented"]

Batch = tuple[Tensor, Tensor, Tensor]


class Batches:
    """Batches of images and targets, in a new order every epoch.

    Parameters
    ----------
    images : memmap or ndarray of uint8, shape (n_images, height, width, 3)
    targets : array-like, shape (n_images, n_labels)
        Kept on the device as they are.
    batch_size : int
        Per process, so that a step of all processes sees ``world * batch_size`` images.
    seed : int
    rank, world : int
        Which process this is, of how many.
    shuffle : bool
        With ``True`` (training) every process gets as many images in a step as the others: the last step of an epoch is
        filled up with its first images where it cannot be shared out evenly. A last step in which a process would see a
        single image, of which a batch norm can learn nothing, is left out, unless all steps are so. With ``False``
        (evaluation) every image comes once, in order, and a process may get fewer steps than another.
    device : str or device
    rows : ndarray of int, optional
        Use only these rows of ``images`` and ``targets``, for instance all but those held out.
    drop_last : bool
        Leave out the last step of an epoch where it is not full, so that all batches have one shape.
    resident : bool
        Keep all images on the device, which needs no gathering on the host; for what fits there.
    prefetch : int
        How many batches are made ready ahead of time.
    workers : int
        Threads that gather one batch together; more than one hides the latency of a disk.

    Examples
    --------
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
        drop_last: bool = False,
        resident: bool = False,
        prefetch: int = 2,
        workers: int = 1,
    ) -> None:
        if batch_size < 1 or prefetch < 1 or workers < 1:
            raise ValueError(f"batch_size is {batch_size}, prefetch {prefetch}, workers {workers}; each is at least 1")
        if not 0 <= rank < world:
            raise ValueError(f"rank is {rank} of {world} processes; ranks count from 0")
        if len(images) != len(targets):
            raise ValueError(f"there are {len(images)} images and targets for {len(targets)}")
        self.images, self.batch_size, self.seed, self.rank, self.world = images, batch_size, seed, rank, world
        self.shuffle, self.device, self.drop_last = shuffle, torch.device(device), drop_last
        self.prefetch, self.workers = prefetch, workers
        self.rows = np.arange(len(images)) if rows is None else np.asarray(rows, dtype=np.int64)
        if not len(self.rows):
            raise ValueError("there are no images to make batches of")
        if not len(self):
            raise ValueError(f"{len(self.rows)} images fill no batch of {world} × {batch_size}; use a smaller one")
        self.targets = torch.as_tensor(targets).to(self.device)
        self._resident = _copied(images, self.device) if resident else None

    def __len__(self) -> int:
        """The number of steps of an epoch."""
        full, rest = divmod(len(self.rows), self.batch_size * self.world)
        alone = self.shuffle and full > 0 and self.batch_size > 1 and rest <= self.world
        return full if self.drop_last or alone or not rest else full + 1

    def index(self, epoch: int, step: int) -> np.ndarray:
        """The rows of ``images`` that this process sees in a step, ``(n,)``."""
        return self._share(self._order(epoch), step)

    def epoch(self, number: int, start_step: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from a step on.

        Yields
        ------
        images : Tensor of uint8, shape (n, 3, height, width)
            On the device, with channels last in memory.
        targets : Tensor, shape (n, n_labels)
        index : Tensor of int64, shape (n,)
            The rows of ``images`` that these are.
        """
        order = self._order(number)
        shares = [self._share(order, step) for step in range(start_step, len(self))]
        shares = [share for share in shares if len(share)]
        if self._resident is not None:
            for share in shares:
                index = torch.as_tensor(share).to(self.device, non_blocking=True)
                yield self._resident[index].permute(0, 3, 1, 2), self.targets[index], index
        else:
            yield from _Prefetched(self, shares)

    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.rows) if self.shuffle else self.rows

    def _share(self, order: np.ndarray, step: int) -> np.ndarray:
        together = order[step * self.batch_size * self.world :][: self.batch_size * self.world]
        if self.shuffle and (lacking := -len(together) % self.world):
            together = np.concatenate([together, np.resize(order, lacking)])
        return together[self.rank :: self.world]


class _Prefetched:
    """Iterates over batches that a thread gathers, and sends to the device, while the last one is worked on."""

    def __init__(self, batches: Batches, shares: list[np.ndarray]) -> None:
        self.batches, self.shares = batches, shares
        self.ready: queue.Queue[Any] = queue.Queue(batches.prefetch)
        self.stopped = threading.Event()

    def __iter__(self) -> Iterator[Batch]:
        thread = threading.Thread(target=self._fill, name="propml-batches", daemon=True)
        thread.start()
        try:
            for _ in self.shares:
                made = self.ready.get()
                if isinstance(made, BaseException):
                    raise made
                yield self._arrived(*made)
        finally:
            self.stopped.set()
            thread.join()

    def _fill(self) -> None:
        """In the thread: make one batch after the other until all are made or nobody wants them any more."""
        try:
            send = _sender(self.batches)
            with ThreadPoolExecutor(self.batches.workers) as pool:
                for share in self.shares:
                    if not self._put(send(share, pool)):
                        return
        except BaseException as error:  # told to the one who waits, whatever it is
            self._put(error)

    def _put(self, made: Any) -> bool:
        while not self.stopped.is_set():
            try:
                self.ready.put(made, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _arrived(self, images: Tensor, index: Tensor, sent: Any) -> Batch:
        if sent is not None:
            current = torch.cuda.current_stream(self.batches.device)
            current.wait_event(sent)
            # The memory came from another stream: it must not be given away before this one has done with it.
            images.record_stream(current)
            index.record_stream(current)
        return images.permute(0, 3, 1, 2), self.batches.targets[index], index


def _copied(images: np.ndarray, device: torch.device) -> Tensor:
    """All images on a device; by blocks, since a memory-mapped file need not fit in memory a second time."""
    stored = torch.empty(images.shape, dtype=torch.uint8, device=device)
    for start in range(0, len(images), 4096):
        block = np.array(images[start : start + 4096])
        stored[start : start + len(block)] = torch.from_numpy(block)
    return stored


def _gather(images: np.ndarray, share: np.ndarray, out: np.ndarray, pool: ThreadPoolExecutor, workers: int) -> None:
    """``images[share]`` into ``out``; NumPy copies outside Python's lock."""
    parts = np.array_split(np.arange(len(share)), min(workers, len(share)))
    # With mode="raise" NumPy would copy everything twice; the rows were checked when they were chosen.
    take = [pool.submit(np.take, images, share[p], 0, out[p[0] : p[-1] + 1], "clip") for p in parts]
    for part in take:
        part.result()


def _sender(batches: Batches) -> Any:
    """Gathers a share and sends it; to a GPU from pinned memory, on a stream of its own, while it computes."""
    device, on_gpu = batches.device, batches.device.type == "cuda"
    if on_gpu and device.index is not None:
        torch.cuda.set_device(device)  # of this thread: otherwise pinning wakes up the first GPU too
    stream = torch.cuda.Stream(device) if on_gpu else None

    def send(share: np.ndarray, pool: ThreadPoolExecutor) -> tuple[Tensor, Tensor, Any]:
        pixels = torch.empty((len(share), *batches.images.shape[1:]), dtype=torch.uint8, pin_memory=on_gpu)
        _gather(batches.images, share, pixels.numpy(), pool, batches.workers)
        index = torch.from_numpy(share)
        if stream is None:
            return pixels.to(device), index.to(device), None
        with torch.cuda.stream(stream):  # torch keeps pinned memory until the copy has ended
            sent = pixels.to(device, non_blocking=True), index.pin_memory().to(device, non_blocking=True)
            return *sent, stream.record_event()

    return send


AHEAD = 2  # steps that the host may be ahead of a GPU: enough to keep it busy, and few views to keep in its memory


def augmented(
    batches: Iterable[Batch], view_of: Callable[[Tensor, int], Tensor], device: torch.device, first_step: int = 0
) -> Iterator[Batch]:
    """The batches with a view in the place of the images, channels last in memory.

    Parameters
    ----------
    batches : iterable of (images, targets, index)
    view_of : callable
        ``view_of(images, step)`` of one step, counted from ``first_step``; it depends on nothing else.
    device : torch.device

    Examples
    --------
    >>> batches = [(torch.ones(1, 3, 2, 2), torch.zeros(1), torch.zeros(1))] * 2
    >>> views = augmented(batches, lambda images, step: step * images, torch.device("cpu"))
    >>> [view.max().item() for view, _, _ in views]
    [0.0, 1.0]
    """

    def viewed(step: int, images: Tensor) -> Tensor:
        return view_of(images, step).contiguous(memory_format=torch.channels_last)

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
