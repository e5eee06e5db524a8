"""Images decoded once: resized, as bytes, in one memory-mapped file that the next runs open in no time.

A cache lies in a folder named after everything it depends on: the files, their sizes and times, and the side in pixels.
Its index says up to which image it is done, so that a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib.format import open_memmap

from propml.atomic_files import locked, write_whole
from propml.devices import usable_cores
from propml.file_errors import reading
from propml.progress import progress_bar, track
from propml.vision.decoding import pixels_of
from propml.vision.sources import ImageSource

# Raised when pixels come out otherwise than before, so that older caches are not taken for these.
FORMAT = 2
BLOCK = 256  # images that a killed run may have to decode again

OnError = Literal["skip", "error"]


@dataclass(frozen=True, eq=False)
class CachedImages:
    """Decoded images; ``truth[kept]`` are the true labels of ``images``."""

    images: np.ndarray  # uint8, (n_kept, size, size, 3), perhaps memory-mapped
    kept: np.ndarray  # the row of the source that each image is; ascending
    skipped: tuple[tuple[str, str], ...] = ()  # the images that could not be read, and why
    path: Path | None = None  # the folder on the disk

    def __len__(self) -> int:
        return len(self.images)

    def describe(self) -> str:
        """One sentence: how many images there are, and which are missing."""
        named = "; ".join(f"{path} ({why})" for path, why in self.skipped[:5])
        more = f"; and {len(self.skipped) - 5} more" if len(self.skipped) > 5 else ""
        return f"{len(self)} images; {len(self.skipped)} could not be read and are left out: {named}{more}"


def build_cache(
    source: ImageSource,
    size: int,
    folder: str | Path | None,
    *,
    on_error: OnError = "skip",
    workers: int | None = None,
    verbose: bool = True,
) -> CachedImages:
    """Decode every image and resize it to a square, as the paper does, or open what was decoded before.

    Caches are kept in ``folder``; ``None`` decodes into memory. An image that is missing or damaged is skipped, or is
    an error. There is one decoding thread per core, unless ``workers`` says otherwise: Pillow frees Python's lock.
    """
    if on_error not in ("skip", "error"):
        raise ValueError(f'on_error is {on_error!r}; choose "skip" or "error"')
    if not len(source):
        raise ValueError(f"{source.name} has no images")
    if folder is None or _are_pixels(source, size):
        cached = decode_images(source, size, on_error=on_error, workers=workers, verbose=verbose)
    else:
        place = Path(folder) / f"{source.name}-{source.split}-{size}px-{_key(source, size)}"
        # One process decodes, the others wait and then find the work done.
        with locked(place.with_name(f".{place.name}.lock")):
            cached = _cached(place, source, size, on_error, workers, verbose)
    if cached.skipped and on_error == "error":
        raise _no_image(*cached.skipped[0])
    if not len(cached):
        raise no_images(source, cached.skipped)
    return cached


def decode_images(
    source: ImageSource, size: int, *, on_error: OnError = "skip", workers: int | None = None, verbose: bool = True
) -> CachedImages:
    """Decode into memory, see :func:`build_cache`; there may be nothing left of the images."""
    if _are_pixels(source, size):
        return CachedImages(np.asarray(source.items), np.arange(len(source)))
    images = np.empty((len(source), size, size, 3), dtype=np.uint8)

    def failed(row: int) -> str | None:
        try:
            images[row] = pixels_of(source.items[row], size)
        except MemoryError:
            raise
        except FileNotFoundError:
            return "there is no such file"
        except Exception as error:  # a damaged file can break its decoder in any way
            return str(error) or repr(error)
        return None

    skipped = {}
    with ThreadPoolExecutor(workers or usable_cores()) as pool, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")  # here, as the filters are those of all threads
        found = enumerate(pool.map(failed, range(len(source))))
        for row, why in track(found, f"decoding {source.name} {source.split}", len(source), show=verbose):
            if why is not None:
                skipped[row] = why
                if on_error == "error":
                    pool.shutdown(cancel_futures=True)
                    raise _no_image(source.name_of(row), why)
    kept = np.setdiff1d(np.arange(len(source)), list(skipped))
    named = tuple((source.name_of(row), why) for row, why in skipped.items())
    return CachedImages(images[kept] if skipped else images, kept, named)


def _cached(
    place: Path, source: ImageSource, size: int, on_error: OnError, workers: int | None, verbose: bool
) -> CachedImages:
    """The images of a folder; what is not in it yet is decoded, block by block. What could be read stands in front."""
    index: dict[str, Any] = {"done": 0, "kept": [], "skipped": []}
    if (place / "index.json").is_file():
        known = json.loads((place / "index.json").read_text(encoding="utf-8"))
        known.setdefault("done", len(source))  # those of older versions are whole
        if _can_be_read_now(known, source, size):
            shutil.rmtree(place)
        else:
            index = known
    left = range(index["done"], len(source), BLOCK)
    title = f"decoding {source.name} {source.split}"
    with progress_bar(title, len(source) - index["done"], show=verbose and bool(left)) as bar:
        for start in left:
            block = source.take(slice(start, start + BLOCK))
            made = decode_images(block, size, on_error=on_error, workers=workers, verbose=False)
            place.mkdir(parents=True, exist_ok=True)
            images = open_memmap(place / "images.npy", "r+" if start else "w+", np.uint8, (len(source), size, size, 3))
            n_kept = len(index["kept"])
            images[n_kept : n_kept + len(made)] = made.images
            images.flush()  # the pixels are on the disk before the index says so
            index["kept"] += (start + made.kept).tolist()
            index["skipped"] += made.skipped
            index["done"] = start + len(block)
            write_whole(place / "index.json", json.dumps(index).encode())
            bar.advance(len(block))
    kept = np.array(index["kept"], dtype=np.int64)
    with reading(place, "image cache", "delete that folder and run again"):
        images = np.load(place / "images.npy", mmap_mode="r")[: len(kept)]
        if images.shape != (len(kept), size, size, 3):
            raise ValueError(f"its images have the shape {images.shape}")
    return CachedImages(images, kept, tuple((path, why) for path, why in index["skipped"]), place)


def _are_pixels(source: ImageSource, size: int) -> bool:
    """Whether there is nothing to decode and nothing to resize."""
    return isinstance(source.items, np.ndarray) and source.items.shape[1:3] == (size, size)


def _can_be_read_now(index: dict[str, Any], source: ImageSource, size: int) -> bool:
    """Whether an image is missing from a cache only because the system failed when it was made."""
    skipped = zip(np.setdiff1d(np.arange(index["done"]), index["kept"]), index["skipped"], strict=True)
    # Python puts the number of an error of the system in front of its text.
    again = [row for row, (_, why) in skipped if why.startswith("[Errno ")]
    return bool(again) and len(decode_images(source.take(again), size, verbose=False)) > 0


def _key(source: ImageSource, size: int) -> str:
    """Of everything that the pixels depend on: a file that was replaced is another file."""
    digest = hashlib.sha256(f"{FORMAT} {size} {len(source)}".encode())
    if isinstance(source.items, np.ndarray):
        digest.update(str(source.items.shape).encode())
        digest.update(np.ascontiguousarray(source.items).data)
        return digest.hexdigest()[:16]
    for path in source.items:
        state = "missing"
        with suppress(OSError):
            seen = os.stat(path)
            state = f"{seen.st_size}\0{seen.st_mtime_ns}"
        digest.update(os.fsencode(os.path.abspath(path)) + f"\0{state}\n".encode())
    return digest.hexdigest()[:16]


def _no_image(name: str, why: str) -> ValueError:
    """What to raise where every image must be readable, and this one is not."""
    return ValueError(f"the image {name} cannot be read ({why}); repair it, or leave it out")


def no_images(source: ImageSource, skipped: Sequence[tuple[str, str]]) -> ValueError:
    """What to raise where none of the images can be read."""
    (name, why), of = skipped[0], "" if source.name == "images" else f" of {source.name}"
    return ValueError(f"none of the {len(skipped)} images{of} can be read; {name}: {why}")
