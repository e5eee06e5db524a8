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
CUTOUT = 0.5  # side of the square that is covered with a random colour, as a share of the image's
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
    """Bytes in, augmented floating point out.

    ``mean`` and ``std`` are of the values in [0, 1], per channel; by default nothing is taken off, as TResNet wants it.
    ``kind`` says what a call does: flip, cutout and RandAugment (paper); flip and RandAugment; flip, crop to
    ``crop_size`` pixels and change colours (crop); flip (light); nothing.

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
        kind: str = "paper",
        crop_size: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.kind, self.crop_size, self.dtype = kind, crop_size, dtype
        # (v / 255 − mean) / std as one product and one sum.
        self._scale = 1 / (255 * torch.tensor(std, dtype=torch.float32)).view(1, 3, 1, 1)
        self._shift = -(torch.tensor(mean) / torch.tensor(std)).float().view(1, 3, 1, 1)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """What a network learns from in the place of images, uint8 ``(n_images, 3, height, width)``.

        The generator is on the CPU, whatever the device of the images; the same state gives the same result.
        """
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
            side = self.crop_size or images.shape[3]
            images = v2.RandomResizedCrop(side, CROP, ASPECT)(images)
            images = v2.ColorJitter(COLOUR, COLOUR, COLOUR)(images)
        for level, drawn in () if self.kind == "crop" else torch.rand(2, 2).tolist():
            if drawn < 0.5:
                strength = 1 + int(level * LEVELS)
                magnitude = round(30 * strength / LEVELS)
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
