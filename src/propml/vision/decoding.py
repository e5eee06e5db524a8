"""Image files as bytes of one size, of every format, depth and orientation whose meaning is known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from propml.extras import require
from propml.file_errors import FileError
from propml.unpacking import VARIABLE, limit_in_environment

# Formats that Pillow decodes by itself. EPS is not among them: Pillow hands it to Ghostscript, which runs programs.
FORMATS = (
    "AVIF", "BMP", "DDS", "DIB", "GIF", "ICO", "JPEG", "JPEG2000", "MPO", "PCX", "PNG", "PPM", "QOI", "SGI", "TGA",
    "TIFF", "WEBP", "XBM", "XPM",
)  # fmt: skip


def images_below(folder: Path) -> list[Path]:
    """The files of :data:`FORMATS` in a folder and below it, by their endings, sorted."""
    Image: Any = require("PIL.Image", "vision")
    Image.init()
    known = {suffix for suffix, kind in Image.EXTENSION.items() if kind in FORMATS}
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in known and file.is_file())


def find_images(paths: Iterable[str | Path], *, once: bool = True) -> tuple[Path, ...]:
    """The given files, and the image files below the given folders, sorted within each; no file twice if ``once``."""
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            if not (inside := images_below(path)):
                raise ValueError(f"there is no image in {path} or below it")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise FileNotFoundError(f"there is no file or folder {path}")
    if not files:
        raise ValueError("no image was given; name image files or folders")
    return tuple(dict.fromkeys(files) if once else files)


def pixels_of(item: Any, size: int) -> np.ndarray:
    """A file, or an array ``(height, width, 3)``, as uint8 ``(size, size, 3)``."""
    if isinstance(item, np.ndarray):
        return _resized(require("PIL.Image", "vision").fromarray(item), size)
    return decode_image(item, size)


def open_image(file: str | Path | IO[bytes]) -> Any:
    """An image of one of :data:`FORMATS`, opened by Pillow; one that is too large to be meant is refused.

    Too large are more pixels than Pillow warns of, 89 million. ``PROPML_UNPACK_GIB`` sets another limit, at three bytes
    for a pixel.
    """
    Image: Any = require("PIL.Image", "vision")
    Image.init()
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and (allowed := limit_in_environment()) is not None:
        limit = allowed // 3
        Image.MAX_IMAGE_PIXELS = max(limit, Image.MAX_IMAGE_PIXELS)  # Pillow has no other way to be told
    opened = Image.open(file, formats=[name for name in FORMATS if name in Image.OPEN])
    if limit is not None and opened.width * opened.height > limit:
        opened.close()
        raise FileError(
            f"it has {opened.width} × {opened.height} pixels, and {limit} are allowed; make it smaller or, if you "
            f"trust it, set {VARIABLE} in the environment to the GiB that it may take, such as 8"
        )
    return opened


def decode_image(path: str | Path, size: int) -> np.ndarray:
    """One image file as uint8 ``(size, size, 3)``: upright, RGB, on white where transparent, resized bilinearly."""
    ImageOps = require("PIL.ImageOps", "vision")
    with open_image(path) as opened:
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
        grey = np.asarray(image)
        if grey.min() < 0 or grey.max() > 0xFFFF:
            raise ValueError(
                f"its pixels go from {grey.min()} to {grey.max()}, beyond 16 bits, so that black and white are not "
                f"known; save it with 8 or 16 bits"
            )
        # Mode "I" may be of 8, 16 or 32 bits, which only the values tell; of PPM and PNG Pillow makes 16 bits.
        deep = image.mode != "I" or kind in ("PPM", "PNG") or grey.max() > 0xFF
        return Image.fromarray((grey >> 8 if deep else grey).astype(np.uint8)).convert("RGB")
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA"):
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _resized(image: Any, size: int) -> np.ndarray:
    if image.size != (size, size):
        image = image.resize((size, size), require("PIL.Image", "vision").Resampling.BILINEAR)
    return np.asarray(image)
