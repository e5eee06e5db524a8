"""Image files as bytes of one size, of every format, depth and orientation whose meaning is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from propml.extras import require

__all__ = ["decode_image", "pixels_of"]


def pixels_of(item: Any, size: int) -> np.ndarray:
    """A file, or an array ``(height, width, 3)``, as uint8 ``(size, size, 3)``."""
    if isinstance(item, np.ndarray):
        return _resized(require("PIL.Image", "vision").fromarray(item), size)
    return decode_image(item, size)


def decode_image(path: str | Path, size: int) -> np.ndarray:
    """One image file as uint8 ``(size, size, 3)``: upright, RGB, on white where transparent, resized bilinearly."""
    Image, ImageOps = require("PIL.Image", "vision"), require("PIL.ImageOps", "vision")
    with Image.open(path) as opened:
        # A JPEG that is much too large is decoded at a fraction of its size; twice the side leaves the rest to us.
        opened.draft("RGB", (2 * size, 2 * size))
        opened.load()
        try:
            upright = ImageOps.exif_transpose(opened)
        except MemoryError:
            raise
        except Exception:  # pixels are there, so what is broken is what the camera wrote about them
            upright = opened
        return _resized(_rgb(upright, opened.format), size)


def _rgb(image: Any, kind: str | None) -> Any:
    Image = require("PIL.Image", "vision")
    if image.mode == "F":
        raise ValueError("its pixels are fractions, whose black and white are not known; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        return Image.fromarray(_eight_bits(np.asarray(image), image.mode, kind)).convert("RGB")
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA"):
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _eight_bits(grey: np.ndarray, mode: str, kind: str | None) -> np.ndarray:
    """Grey values of more than 8 bits; those of mode ``"I"`` may be of 8, 16 or 32, which only they themselves tell."""
    if grey.min() < 0 or grey.max() > 0xFFFF:
        raise ValueError(
            f"its pixels go from {grey.min()} to {grey.max()}, beyond 16 bits, so that black and white are not known; "
            f"save it with 8 or 16 bits"
        )
    deep = mode != "I" or kind in ("PPM", "PNG") or grey.max() > 0xFF  # of these two, Pillow makes 16 bits
    return (grey >> 8 if deep else grey).astype(np.uint8)


def _resized(image: Any, size: int) -> np.ndarray:
    if image.size != (size, size):
        image = image.resize((size, size), require("PIL.Image", "vision").Resampling.BILINEAR)
    return np.asarray(image)
