"""What Pillow does to one image, done to a batch on its device, each image with an amount of its own.

Images are uint8 ``(n_images, 3, height, width)``, and ``amount`` has the shape ``(n_images,)``. What works on values
and colours gives Pillow's bytes, its rounding included. What moves pixels says where each comes from, so that images
that are moved in different ways can be moved at once; it interpolates bilinearly.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "autocontrast",
    "brightness",
    "chosen",
    "color",
    "contrast",
    "crop",
    "equalize",
    "erase",
    "invert",
    "moved",
    "posterize",
    "put",
    "rotate",
    "sent_to",
    "sharpness",
    "shear_x",
    "shear_y",
    "solarize",
    "translate_x",
    "translate_y",
]

GREY = 128  # what comes into view from outside of the image


# -- moving pixels -------------------------------------------------------------------------------------------------


def moved(images: Tensor, places: Tensor, shape: tuple[int, int] | None = None) -> Tensor:
    """Pixel (x, y) becomes what lay at ``places @ (x, y, 1)``, in pixels whose centres are at halves.

    Parameters
    ----------
    places : Tensor, shape (n_images, 2, 3)
        What the functions below give, on the images' device.
    shape : (int, int), optional
        Rows and columns of what comes out; by default the images'.
    """
    height, width = images.shape[2:]
    rows, columns = shape or (height, width)
    x = torch.arange(columns, device=images.device) + 0.5
    y = (torch.arange(rows, device=images.device) + 0.5)[:, None]
    a, b, c, d, e, f = places.reshape(-1, 6)[..., None, None].unbind(dim=1)
    grid = torch.stack([2 * (a * x + b * y + c) / width - 1, 2 * (d * x + e * y + f) / height - 1], dim=-1)
    # Outside of the image grid_sample finds zeros: what it is given is the difference to grey.
    found = F.grid_sample(images.float() - GREY, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return (found + (GREY + 0.5)).to(torch.uint8)


def _places(rows: list[list[Tensor]]) -> Tensor:
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


def shear_x(amount: Tensor, height: int, width: int) -> Tensor:
    """Move row y by ``-amount · y``; the upper left corner stays."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _places([[one, amount, zero], [zero, one, zero]])


def shear_y(amount: Tensor, height: int, width: int) -> Tensor:
    """Move column x by ``-amount · x``; the upper left corner stays."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _places([[one, zero, zero], [amount, one, zero]])


def translate_x(amount: Tensor, height: int, width: int) -> Tensor:
    """Move to the left by a share of the width."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _places([[one, zero, amount * width], [zero, one, zero]])


def translate_y(amount: Tensor, height: int, width: int) -> Tensor:
    """Move up by a share of the height."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _places([[one, zero, zero], [zero, one, amount * height]])


def rotate(amount: Tensor, height: int, width: int) -> Tensor:
    """Turn counter-clockwise about the centre, by degrees."""
    sine, cosine = torch.sin(torch.deg2rad(amount)), torch.cos(torch.deg2rad(amount))
    x, y = width / 2, height / 2
    return _places([[cosine, -sine, x - cosine * x + sine * y], [sine, cosine, y - sine * x - cosine * y]])


def crop(
    images: Tensor, width: Tensor, height: Tensor, degrees: Tensor, x: Tensor, y: Tensor, size: int | None = None
) -> Tensor:
    """The part with centre (x, y), all as shares of the image's sides, turned about its centre.

    It comes out ``size × size`` pixels large, or as large as the image.
    """
    rows, columns = images.shape[2:]
    shape = (rows, columns) if size is None else (size, size)
    across, down = width * (columns / shape[1]), height * (rows / shape[0])  # pixels there for each pixel here
    sine, cosine = torch.sin(torch.deg2rad(degrees)), torch.cos(torch.deg2rad(degrees))
    a, b, d, e = across * cosine, -down * sine, across * sine, down * cosine
    middle_x, middle_y = shape[1] / 2, shape[0] / 2
    across_x, across_y = x * columns - a * middle_x - b * middle_y, y * rows - d * middle_x - e * middle_y
    return moved(images, _places([[a, b, across_x], [d, e, across_y]]), shape)


# -- colours -------------------------------------------------------------------------------------------------------


def brightness(images: Tensor, amount: Tensor) -> Tensor:
    """Between black (0) and the image (1), and beyond."""
    return _blended(torch.zeros((), device=images.device), images, amount)


def color(images: Tensor, amount: Tensor) -> Tensor:
    """Between grey values (0) and the image (1), and beyond."""
    return _blended(_luminance(images).float(), images, amount)


def contrast(images: Tensor, amount: Tensor) -> Tensor:
    """Between the mean grey (0) and the image (1), and beyond."""
    mean = (_luminance(images).double().mean(dim=(2, 3), keepdim=True) + 0.5).floor()
    return _blended(mean.float(), images, amount)


def sharpness(images: Tensor, amount: Tensor) -> Tensor:
    """Between a smoothed image (0) and the image (1), and beyond."""
    smooth = images.float()  # the border stays as it is
    # A kernel of ones with 5 in the middle; a convolution might be computed in TF32, which is too coarse for bytes.
    inner = (9 * F.avg_pool2d(smooth, 3, 1) + 4 * smooth[:, :, 1:-1, 1:-1]) / 13
    smooth[:, :, 1:-1, 1:-1] = (inner + 0.5).floor()
    return _blended(smooth, images, amount)


def _blended(degenerate: Tensor, images: Tensor, amount: Tensor) -> Tensor:
    """``degenerate + amount · (images − degenerate)``, cut off at 0 and 255, without its fraction."""
    mixed = degenerate + amount[:, None, None, None] * (images.float() - degenerate)
    return mixed.clamp_(0, 255).to(torch.uint8)


def _luminance(images: Tensor) -> Tensor:
    """Pillow's grey value (ITU-R 601-2), as int32 ``(n, 1, height, width)``."""
    red, green, blue = images.int().unbind(dim=1)
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16)[:, None]


# -- values: every one of the 256 has a new one ----------------------------------------------------------------------


def invert(images: Tensor, amount: Tensor) -> Tensor:
    """The negative; the amount plays no part."""
    return 255 - images


def posterize(images: Tensor, amount: Tensor) -> Tensor:
    """Keep so many of the eight bits."""
    dropped = (8 - amount.round()).to(torch.uint8)[:, None, None, None]
    return (images >> dropped) << dropped


def solarize(images: Tensor, amount: Tensor) -> Tensor:
    """The negative of the values from a threshold on."""
    return torch.where(images < amount[:, None, None, None], images, 255 - images)


def autocontrast(images: Tensor, amount: Tensor) -> Tensor:
    """Stretch each channel from 0 to 255; the amount plays no part."""
    low = images.amin(dim=(2, 3), keepdim=True).double()
    span = images.amax(dim=(2, 3), keepdim=True) - low
    scale = 255.0 / span.clamp(min=1)
    stretched = (images * scale - low * scale).clamp_(0, 255).to(torch.uint8)
    return torch.where(span > 0, stretched, images)


def equalize(images: Tensor, amount: Tensor) -> Tensor:
    """Make all values of each channel equally frequent; the amount plays no part."""
    n, channels, height, width = images.shape
    flat = images.reshape(n * channels, height * width).long()
    histogram = torch.zeros(n * channels, 256, dtype=torch.int64, device=images.device)
    histogram.scatter_add_(1, flat, torch.ones_like(flat))
    last = histogram.gather(1, flat.amax(dim=1, keepdim=True))  # how often the highest value occurs
    step = (height * width - last) // 255
    before = histogram.cumsum(dim=1) - histogram
    table = ((step // 2 + before) // step.clamp(min=1)).clamp(max=255)
    table = torch.where(step > 0, table, torch.arange(256, device=images.device))
    return table.gather(1, flat).to(torch.uint8).view_as(images)


# -- covering --------------------------------------------------------------------------------------------------------


def erase(images: Tensor, centre: Tensor, side: Tensor, fill: Tensor) -> Tensor:
    """Cover a square; what of it lies outside of the image is lost.

    Parameters
    ----------
    centre : Tensor, shape (n_images, 2)
        Row and column as shares of height and width.
    side : Tensor, shape (n_images,)
        In pixels; like Pillow's rectangle, the square includes both ends.
    fill : Tensor of uint8, shape (n_images, 3) or (3,)
    """
    covered = None
    for dim, length in enumerate(images.shape[2:]):
        position = torch.arange(length, device=images.device)
        distance = (position - (centre[:, dim, None] * length).floor()).abs()
        inside = distance <= (side / 2).floor()[:, None]
        covered = inside[:, :, None] if covered is None else covered & inside[:, None, :]
    return torch.where(covered[:, None], fill.expand(len(images), 3)[:, :, None, None], images)  # type: ignore[index]


# -- some of the images ------------------------------------------------------------------------------------------------


def chosen(images: Tensor, rows: Tensor) -> Tensor:
    """The images of these rows, in this order."""
    if (words := _words(images)) is None:
        return images.index_select(0, rows)
    _, channels, height, width = images.shape
    found = words.index_select(0, rows).view(torch.uint8)
    return found.view(len(rows), height, width, channels).permute(0, 3, 1, 2)


def put(images: Tensor, rows: Tensor, changed: Tensor) -> None:
    """Write changed images into these rows."""
    changed = changed.contiguous(memory_format=torch.channels_last)
    words, new = _words(images), _words(changed)
    if words is None or new is None:
        images.index_copy_(0, rows, changed)
    else:
        words.index_copy_(0, rows, new)


def _words(images: Tensor) -> Tensor | None:
    """Images with channels last as rows of eight bytes each, which are copied faster than one byte at a time."""
    flat, n_bytes = images.permute(0, 2, 3, 1), images.shape[1:].numel()
    if not flat.is_contiguous() or n_bytes % 8 or images.storage_offset() % 8:
        return None
    return flat.reshape(len(images), n_bytes).view(torch.int64)


# -- amounts -----------------------------------------------------------------------------------------------------------


def sent_to(values: Tensor, device: torch.device) -> Tensor:
    """The values on a device, without waiting for what it is doing."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)
