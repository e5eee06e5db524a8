"""Augmentation of whole batches on the device: the paper's flip, cutout and RandAugment, or random crops.

Deviations from the released code, each with the reason:

- Images are resized before the flip instead of after it, since they are decoded once: the two commute.
- RandAugment: see :mod:`propml.vision.randaugment`.

Random crops are for networks that start from random weights: another part, size and colour of the image every time, by
one warp and one change of colours per image. The paper's own augmentation leaves most images as they are, which is
enough for a network that has seen ImageNet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from propml.vision import image_operations as do
from propml.vision.image_operations import chosen, erase, put, sent_to
from propml.vision.randaugment import rand_augment

__all__ = ["Augment", "random_crop", "step_generator"]

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


def step_generator(seed: int, epoch: int, step: int, rank: int = 0) -> torch.Generator:
    """The random numbers of one step of one process, whatever came before: a resumed run draws the same.

    >>> one, again = step_generator(0, 3, 17), step_generator(0, 3, 17)
    >>> bool(torch.rand(1, generator=one) == torch.rand(1, generator=again))
    True
    """
    state = np.random.SeedSequence((seed, epoch, step, rank)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)  # torch takes what fits a signed number


class Augment:
    """Bytes in, augmented floating point out; calling it gives the strong view.

    Parameters
    ----------
    mean, std : sequence of 3 floats
        Of the values in [0, 1], per channel; by default nothing is taken off, as TResNet wants it.
    cutout : float
        Side of the square that is covered with a random colour, as a share of the image's; 0: none.
    randaugment : bool
    crop : bool
        Crop at random and change colours: see :mod:`propml.vision.augment`.
    crop_size : int, optional
        Side of the crops in pixels; by default the image's.
    dtype : torch.dtype
        Of what comes out.

    Examples
    --------
    >>> augment = Augment()
    >>> images = torch.full((2, 3, 8, 8), 255, dtype=torch.uint8)
    >>> augment(images, step_generator(0, 0, 0)).shape, augment.plain(images).max().item()
    (torch.Size([2, 3, 8, 8]), 1.0)
    """

    def __init__(
        self,
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        *,
        cutout: float = 0.5,
        randaugment: bool = True,
        crop: bool = False,
        crop_size: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
            raise ValueError(f"mean is {mean} and std {std}; give one of each per channel, and std above 0")
        if not 0 <= cutout <= 1:
            raise ValueError(f"cutout is {cutout}; it is a share of the image's side, between 0 and 1")
        self.mean, self.std, self.cutout, self.dtype = mean, std, cutout, dtype
        self.randaugment, self.crop, self.crop_size = randaugment, crop, crop_size
        # (v / 255 − mean) / std as one product and one sum, or as a product with one number.
        self._scale = 1 / (255 * torch.tensor(std, dtype=torch.float32)).view(1, 3, 1, 1)
        self._shift = -(torch.tensor(mean) / torch.tensor(std)).float().view(1, 3, 1, 1)
        self._one_scale = 1 / (255 * std[0]) if len(set(std)) == 1 and not any(mean) else None

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The strong view, see :meth:`strong`."""
        return self.strong(images, generator)

    def strong(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Flip, crop, cutout, RandAugment, as far as they were asked for, normalise.

        Parameters
        ----------
        images : Tensor of uint8, shape (n_images, 3, height, width)
        generator : torch.Generator
            On the CPU, whatever the device of the images; the same state gives the same result.

        Returns
        -------
        Tensor, shape (n_images, 3, height, width), or of the crops' size
        """
        images = self._flipped(images, generator)
        if self.crop:
            images = random_crop(images, generator, self.crop_size)
        if self.cutout:
            images = self._cut(images, generator)
        if self.randaugment:
            images = rand_augment(images, generator)
        return self.plain(images)

    def weak(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Flip and normalise: the view on which CDCR measures confidence."""
        return self.plain(self._flipped(images, generator))

    def plain(self, images: Tensor) -> Tensor:
        """Normalise: what a model sees of test images."""
        values = images.float()  # converting first is twice as fast as a product of bytes and floating point
        if self._one_scale is not None:
            return values.mul_(self._one_scale).to(self.dtype)
        if self._scale.device != images.device:
            self._scale, self._shift = self._scale.to(images.device), self._shift.to(images.device)
        return values.mul_(self._scale).add_(self._shift).to(self.dtype)

    def _flipped(self, images: Tensor, generator: torch.Generator) -> Tensor:
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise ValueError(f"images are {images.dtype} of shape {tuple(images.shape)}, expected uint8 (n, 3, h, w)")
        if generator.device.type != "cpu":
            raise ValueError(f"the generator is on {generator.device}; give one on the CPU, also for images elsewhere")
        rows = sent_to((torch.rand(len(images), generator=generator) < 0.5).nonzero()[:, 0], images.device)
        result = images.clone()
        put(result, rows, chosen(images, rows).flip(3))
        return result

    def _cut(self, images: Tensor, generator: torch.Generator) -> Tensor:
        n = len(images)
        centre = sent_to(torch.rand(n, 2, generator=generator), images.device)
        fill = sent_to(torch.randint(256, (n, 3), generator=generator, dtype=torch.uint8), images.device)
        side = torch.full((n,), int(self.cutout * images.shape[3]), device=images.device)
        return erase(images, centre, side, fill)
