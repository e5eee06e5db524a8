"""The augmentation for networks that start from random weights: another part, size and colour of the image every time.

One warp (crop, aspect, turn) and one change of colours per image, a few kernels for the whole batch. The paper's own
augmentation leaves most images as they are, which is enough for a network that has seen ImageNet.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from propml.vision import image_operations as do

__all__ = ["random_crop"]

SIDES = (0.35, 1.0)  # of the crop, as shares of the image's
ASPECT = 1.25  # how much wider than high it may be, or higher than wide
DEGREES = 10.0
COLOUR = 0.4  # by how much brightness, contrast and saturation may go up and down


def random_crop(images: Tensor, generator: torch.Generator, size: int | None = None) -> Tensor:
    """A crop of each image, slightly turned, in slightly other colours.

    Parameters
    ----------
    images : Tensor of uint8, shape (n_images, 3, height, width)
        On any device.
    generator : torch.Generator
        On the CPU; the same state gives the same result.
    size : int, optional
        Side of the crops in pixels; by default the image's.
    """
    n = len(images)
    draws = torch.rand(n, 8, generator=generator)
    side = SIDES[0] + (SIDES[1] - SIDES[0]) * draws[:, 0]
    stretch = torch.exp((draws[:, 1] - 0.5) * math.log(ASPECT))
    width, height = (side * stretch).clamp(max=1), (side / stretch).clamp(max=1)
    centre = 0.5 + (draws[:, 2:4] - 0.5) * (1 - torch.stack([width, height], dim=1))
    degrees = (2 * draws[:, 4] - 1) * DEGREES
    amounts = 1 + (2 * draws[:, 5:] - 1) * COLOUR
    packed = do.sent_to(
        torch.cat([torch.stack([width, height, degrees], dim=1), centre, amounts], dim=1), images.device
    )
    width, height, degrees, x, y, *colours = packed.unbind(dim=1)
    images = do.crop(images, width, height, degrees, x, y, size)
    for change, amount in zip((do.brightness, do.contrast, do.color), colours, strict=True):
        images = change(images, amount)
    return images
