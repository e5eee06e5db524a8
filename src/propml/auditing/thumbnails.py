"""Small pictures of items as text, to stand inside a page."""

from __future__ import annotations

import base64
import importlib.util
import io
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from propml.extras import require
from propml.vision.decoding import open_image

__all__ = ["thumbnails"]

SIZE = 192  # pixels on the longer side: sharp at 6rem on a screen of double density
TINY = 64  # smaller pictures are enlarged, pixel by pixel


def thumbnails(images: Any, rows: Iterable[int], size: int = SIZE) -> dict[int, str]:
    """Thumbnails of the given rows, as what follows ``data:image/`` in an address.

    Parameters
    ----------
    images : sequence, one entry per row
        Paths, encoded bytes, PIL images, arrays ``(height, width)`` or ``(height, width, 3 or 4)``; ``None`` for none.
    rows : iterable of int

    Returns
    -------
    dict from row to text
        Without the rows whose picture is missing or cannot be read (a warning names the first); empty where Pillow is
        not installed.
    """
    if importlib.util.find_spec("PIL") is None:
        return {}
    encoded: dict[int, str] = {}
    unreadable: list[str] = []
    for row in rows:
        if images[row] is None:
            continue
        try:
            with warnings.catch_warnings():  # of Pillow, on what it could read all the same
                warnings.filterwarnings("ignore", module="PIL")
                encoded[row] = _embedded(_small(images[row], size))
        except MemoryError:
            raise
        except Exception as why:  # a damaged file can break its decoder in any way
            unreadable.append(f"that of row {row}: {why or repr(why)}")
    if unreadable:
        warnings.warn(f"{len(unreadable)} pictures cannot be shown, first {unreadable[0]}", stacklevel=2)
    return encoded


def _small(image: Any, size: int) -> Any:
    """A copy in RGB that fits the size."""
    Image = require("PIL.Image", "vision")
    if isinstance(image, str | Path | bytes):
        with open_image(io.BytesIO(image) if isinstance(image, bytes) else image) as opened:
            opened.draft("RGB", (2 * size, 2 * size))  # a JPEG is decoded at a fraction of its size
            return _small(require("PIL.ImageOps", "vision").exif_transpose(opened), size)
    if not isinstance(image, Image.Image):
        image = Image.fromarray(_pixels(np.asarray(image)))
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        image = Image.fromarray(_pixels(np.asarray(image, dtype=np.float64)))
    image = image.convert("RGBA") if "transparency" in image.info or "A" in image.mode else image.convert("RGB")
    if image.mode == "RGBA":
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image).convert("RGB")
    if max(image.size) <= TINY:
        times = size // max(image.size)
        return image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    image.thumbnail((size, size))
    return image


def _pixels(values: np.ndarray) -> np.ndarray:
    """Grey or colour values as bytes; numbers that are not bytes are stretched unless they lie in [0, 1]."""
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if values.ndim not in (2, 3) or values.size == 0:
        raise ValueError(
            f"an array of shape {values.shape} is not a picture; give (height, width) or (height, width, 3)"
        )
    if values.dtype == np.uint8:
        return values
    values = np.nan_to_num(values.astype(np.float64))
    low, high = min(values.min(), 0.0), max(values.max(), 1.0)
    return np.round(255 * (values - low) / (high - low)).astype(np.uint8)


def _embedded(image: Any) -> str:
    """PNG where there are few colours, as in drawings and enlarged pixels; otherwise JPEG."""
    buffer = io.BytesIO()
    kind = "jpeg" if image.getcolors(maxcolors=64) is None else "png"
    image.save(buffer, kind, quality=75, optimize=True)
    return f"{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
