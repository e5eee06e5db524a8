"""RandAugment as the paper's code runs it, on batches.

Cubuk, Zoph, Shlens and Le: RandAugment: Practical Automated Data Augmentation with a Reduced Search Space. NeurIPS
2020. In the variant of the Python package ``randaugment`` 1.0.2, which the released ProPML code uses and which is not
the ``(N, M)`` of that article: every image draws two pairs of one of 15 operations and one of nine strengths, and each
of the two is done with probability one half.

Deviations from that package, each with the reason:

- Pixels are moved with bilinear interpolation; there, shears are bicubic and translations and rotations take the
  nearest pixel. One sampling routine of the device serves all five.
- The square that the operation ``cutout`` covers is up to 20 pixels wide *at a side of 224* and scales with the image,
  so that small images do not vanish behind it.
- Random numbers come from a ``torch.Generator`` on the host, so that a seed gives the same images on every device; the
  package uses two global generators.

As there, rotations go in one direction only, and strength 0 is never drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from propml.vision import image_operations as do

__all__ = ["OPERATIONS", "rand_augment"]

LEVELS = 10  # of which the first changes nothing and is not drawn


class Operation(NamedTuple):
    """What is done, with which amount at the lowest and the highest level, and whether it has two directions.

    ``apply`` takes images and amounts; of the operations that only move pixels it takes amounts, height and width, and
    says where each pixel comes from. ``cutout``, which needs a place as well, has none.
    """

    apply: Callable[..., Tensor] | None
    lowest: float = 0.0
    highest: float = 0.0
    signed: bool = False
    neutral: float = 0.0  # the amount that changes nothing, from which the two directions part
    moves: bool = False


OPERATIONS: dict[str, Operation] = {
    "shear_x": Operation(do.shear_x, 0, 0.3, signed=True, moves=True),
    "shear_y": Operation(do.shear_y, 0, 0.3, signed=True, moves=True),
    "translate_x": Operation(do.translate_x, 0, 150 / 331, signed=True, moves=True),
    "translate_y": Operation(do.translate_y, 0, 150 / 331, signed=True, moves=True),
    "rotate": Operation(do.rotate, 0, 30, moves=True),
    "color": Operation(do.color, 0, 0.9, signed=True, neutral=1),
    "contrast": Operation(do.contrast, 0, 0.9, signed=True, neutral=1),
    "sharpness": Operation(do.sharpness, 0, 0.9, signed=True, neutral=1),
    "brightness": Operation(do.brightness, 0, 0.9, signed=True, neutral=1),
    "posterize": Operation(do.posterize, 8, 4),
    "solarize": Operation(do.solarize, 256, 0),
    "autocontrast": Operation(do.autocontrast),
    "equalize": Operation(do.equalize),
    "invert": Operation(do.invert),
    "cutout": Operation(None, 0, 20 / 224),
}
# Those that move pixels first: they are done together.
_NAMES = tuple(sorted(OPERATIONS, key=lambda name: not OPERATIONS[name].moves))
MOVES = tuple(name for name, each in OPERATIONS.items() if each.moves)


def rand_augment(images: Tensor, generator: torch.Generator, *, rounds: int = 2, probability: float = 0.5) -> Tensor:
    """Do ``rounds`` random operations to each image.

    Parameters
    ----------
    images : Tensor of uint8, shape (n_images, 3, height, width)
        On any device.
    generator : torch.Generator
        On the CPU: it decides on the host what is done to which image, so that the device is never waited for.
    rounds : int
        Operations drawn per image.
    probability : float
        That a drawn operation is done.
    """
    for _ in range(rounds):
        images = _one_round(images, generator, probability)
    return images


def _one_round(images: Tensor, generator: torch.Generator, probability: float) -> Tensor:
    n = len(images)
    draw = partial(torch.randint, size=(n,), generator=generator)
    operation, level, sign = draw(len(_NAMES)), draw(1, LEVELS), 2 * draw(2) - 1
    done = torch.rand(n, generator=generator) < probability
    place = torch.rand(n, 2, generator=generator)
    amount = _amounts(operation, level, sign)

    # Images of one operation side by side, those left alone last; one transfer brings all of it to the device.
    order = torch.argsort(torch.where(done, operation, len(_NAMES)), stable=True)
    counts = torch.bincount(operation[done], minlength=len(_NAMES)).tolist()
    sources = _sources(amount[order], counts, *images.shape[2:])
    packed = torch.cat([order[:, None].double(), amount[order, None], place[order], sources.view(n, 6)], dim=1)
    packed = do.sent_to(packed, images.device)
    rows = packed[:, 0].long()
    amount, place, sources = packed[:, 1:].float().split([1, 2, 6], dim=1)

    result, start = images.clone(), 0
    n_moved = sum(counts[: len(MOVES)])
    parts = [("moved", n_moved), *zip(_NAMES[len(MOVES) :], counts[len(MOVES) :], strict=True)]
    for name, count in parts:
        if count:
            own = slice(start, start + count)
            chosen = do.chosen(images, rows[own])
            if name == "moved":
                changed = do.moved(chosen, sources[own].view(-1, 2, 3))
            else:
                changed = _applied(name, chosen, amount[own, 0], place[own])
            do.put(result, rows[own], changed)
            start += count
    return result


def _sources(amount: Tensor, counts: list[int], height: int, width: int) -> Tensor:
    """Where pixels come from in the images that are moved, which are the first ones, as float64 ``(n, 2, 3)``."""
    sources, start = torch.zeros(len(amount), 2, 3, dtype=torch.float64), 0
    for name, count in zip(MOVES, counts, strict=False):
        own, apply = slice(start, start + count), OPERATIONS[name].apply
        assert apply is not None
        sources[own] = apply(amount[own], height, width)
        start += count
    return sources


def _amounts(operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """What the drawn strengths mean to the drawn operations, as float64 ``(n,)``."""
    known = [OPERATIONS[name] for name in _NAMES]
    lowest = torch.tensor([each.lowest for each in known], dtype=torch.float64)[operation]
    highest = torch.tensor([each.highest for each in known], dtype=torch.float64)[operation]
    signed = torch.tensor([each.signed for each in known])[operation]
    neutral = torch.tensor([each.neutral for each in known], dtype=torch.float64)[operation]
    amount = lowest + (highest - lowest) * level / (LEVELS - 1)
    return neutral + torch.where(signed, sign * amount, amount)


def _applied(name: str, images: Tensor, amount: Tensor, place: Tensor) -> Tensor:
    apply = OPERATIONS[name].apply
    if apply is None:  # cutout
        grey = torch.full((3,), do.GREY, dtype=torch.uint8, device=images.device)
        return do.erase(images, place, amount * images.shape[3], grey)
    return apply(images, amount)
