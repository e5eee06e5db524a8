"""What a network learns from: batches of augmented images, on a GPU each made while the one before is learned from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count

import torch
from torch import Tensor

from propml.vision.batches import Batch

__all__ = ["augmented"]

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
