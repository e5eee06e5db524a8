"""What a network learns from: batches of augmented images, on a GPU each made while the one before is learned from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from propml.vision.batches import Batch

__all__ = ["augmented"]


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

    numbered = enumerate(batches, first_step)
    if device.type != "cuda":
        yield from ((viewed(step, images), targets, index) for step, (images, targets, index) in numbered)
        return
    # An augmentation is many small kernels: on a stream of their own they fill the gaps between those of the network.
    side, ahead = torch.cuda.Stream(device), None
    for step, (images, targets, index) in numbered:
        side.wait_stream(torch.cuda.current_stream(device))  # which the images come on
        with torch.cuda.stream(side):
            view = viewed(step, images)
        images.record_stream(side)
        made = side.record_event()
        if ahead is not None:
            yield _arrived(*ahead)
        ahead = (view, targets, index, made)
    if ahead is not None:
        yield _arrived(*ahead)


def _arrived(view: Tensor, targets: Tensor, index: Tensor, made: torch.cuda.Event) -> Batch:
    """On the current stream, which then waits until the view is made, and keeps its memory."""
    current = torch.cuda.current_stream(view.device)
    current.wait_event(made)
    view.record_stream(current)
    return view, targets, index
