"""Augmentation of whole batches on the device: the paper's flip, cutout and RandAugment, or random crops.

Flips and cutouts are each image's own; what torchvision does (RandAugment, crops, colours) is done alike to groups of
eight images, since its functions take one amount at a time. Deviations from the released code, each with the reason:

- Images are resized before the flip instead of after it, since they are decoded once: the two commute.
- RandAugment (Cubuk, Zoph, Shlens and Le, NeurIPS 2020): as in the package ``randaugment`` 1.0.2 of the released code,
  two operations are drawn, each at one of nine strengths over the same ranges and done with probability one half; the
  operations are torchvision's 14, which lack ``invert`` and its small ``cutout`` and have ``identity``.
- Random numbers come from a ``torch.Generator`` on the host, so that a seed gives the same images on every device.

Random crops are for networks that start from random weights. The paper's own augmentation leaves most images as they
are, which is enough for a network that has seen ImageNet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from propml.vision.backbone import import_vision

__all__ = ["Augment", "step_generator"]

GREY = 128  # what comes into view from outside of the image
GROUP = 8  # images that are changed alike: a view of a batch is made of so many calls less
LEVELS = 9  # strengths of RandAugment, of which torchvision's 30 is the highest
CROP, ASPECT, COLOUR = (0.12, 1.0), (0.8, 1.25), 0.4  # shares of the image's area, width by height, change of colours


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
        self.changes = randaugment or crop
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
        if self.cutout:
            images = self._cut(images, generator)
        if self.changes:
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
        flips = sent_to(torch.rand(len(images), generator=generator) < 0.5, images.device)
        return torch.where(flips[:, None, None, None], images.flip(3), images)

    def _changed(self, images: Tensor) -> Tensor:
        """A group of images after one crop and change of colours, or one RandAugment."""
        v2 = import_vision("torchvision.transforms.v2")
        if self.crop:
            side = self.crop_size or images.shape[3]
            images = v2.RandomResizedCrop(side, CROP, ASPECT)(images)
            images = v2.ColorJitter(COLOUR, COLOUR, COLOUR)(images)
        for level, drawn in torch.rand(2, 2).tolist() if self.randaugment else ():
            if drawn < 0.5:
                strength = 1 + int(level * LEVELS)
                magnitude = round(30 * strength / LEVELS)
                bilinear = v2.InterpolationMode.BILINEAR
                images = v2.RandAugment(1, magnitude, interpolation=bilinear, fill=GREY)(images)
        return images.contiguous(memory_format=torch.channels_last)

    def _cut(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Cover a square of each image with a colour; like Pillow's rectangle, it includes both ends."""
        n, reach = len(images), int(self.cutout * images.shape[3]) // 2
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
