"""Images decoded once: resized, as bytes, in one memory-mapped file that the next runs open in no time.

A cache lies in a folder named after everything it depends on: the files, their sizes and times, and the side in pixels.
While it is being made, the folder has another name and a journal of the blocks that are on the disk, so that a run that
was killed goes on where it stopped; a folder under its final name is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib.format import open_memmap

from propml.atomic_files import locked, write_whole
from propml.devices import usable_cores
from propml.progress import progress_bar
from propml.vision.decoding import pixels_of
from propml.vision.sources import ImageSource

__all__ = ["CachedImages", "build_cache", "decode_images", "may_pass", "no_image", "no_images"]

# Raised when pixels come out otherwise than before, so that older caches are not taken for these.
FORMAT = 2
BLOCK = 256  # images between two lines of the journal

OnError = Literal["skip", "error"]
# The start of each block of images that is done, and why rows of it failed.
Blocks = Iterator[tuple[int, dict[int, str]]]


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
        if not self.skipped:
            return f"{len(self)} images"
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
    if size < 1:
        raise ValueError(f"size is {size}; give the side of the images in pixels")
    if on_error not in ("skip", "error"):
        raise ValueError(f'on_error is {on_error!r}; choose "skip" or "error"')
    if not len(source):
        raise ValueError(f"{source.name} has no images")
    decode = partial(_decode, source, on_error=on_error, workers=workers, verbose=verbose)
    if folder is None or _are_pixels(source, size):
        cached = decode_images(source, size, on_error=on_error, workers=workers, verbose=verbose)
    else:
        place = Path(folder) / f"{source.name}-{source.split}-{size}px-{_key(source, size)}"
        place.parent.mkdir(parents=True, exist_ok=True)
        # One process decodes, the others wait and then find the work done.
        with locked(place.with_name(f".{place.name}.lock")):
            if not (place / "index.json").is_file() or _can_be_read_now(place, source, size):
                _make(source, size, place, decode)
        cached = _opened(place, size)
    if cached.skipped and on_error == "error":
        raise no_image(*cached.skipped[0])
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
    starts = range(0, len(source), BLOCK)
    done = dict(_decode(source, images, starts, on_error=on_error, workers=workers, verbose=verbose))
    kept, skipped = _kept(source, done)
    return CachedImages(images[kept] if skipped else images, kept, skipped)


def _decode(
    source: ImageSource, images: np.ndarray, starts: Any, *, on_error: OnError, workers: int | None, verbose: bool
) -> Blocks:
    """Fill ``images`` block by block; yields the start of each block that is done and why rows of it failed."""
    size = images.shape[1]
    blocks = [range(start, min(start + BLOCK, len(source))) for start in starts]

    def one(row: int) -> tuple[int, str] | None:
        try:
            images[row] = pixels_of(source.items[row], size)
        except MemoryError:
            raise
        except Exception as error:  # a damaged file can break its decoder in any way
            why = "there is no such file" if isinstance(error, FileNotFoundError) else str(error) or repr(error)
            return row, why
        return None

    with (
        ThreadPoolExecutor(workers or usable_cores()) as pool,
        progress_bar(f"decoding {source.name} {source.split}", sum(map(len, blocks)), show=verbose) as bar,
    ):
        for rows in blocks:
            with warnings.catch_warnings():  # here, as the filters are those of all threads
                warnings.filterwarnings("ignore", module="PIL")
                failed = dict(found for found in pool.map(one, rows) if found is not None)
            if failed and on_error == "error":
                row, why = next(iter(failed.items()))
                raise no_image(source.name_of(row), why)
            bar.advance(len(rows))
            yield rows.start, failed


def _make(source: ImageSource, size: int, place: Path, decode: Callable[..., Blocks]) -> None:
    """Decode into a folder beside the place, from where an earlier run stopped, and move it there when it is whole."""
    beside = place.with_name(f"{place.name}.partial")
    beside.mkdir(exist_ok=True)
    journal, decoded, shape = beside / "journal.jsonl", beside / "decoded.npy", (len(source), size, size, 3)
    done = _read_journal(journal) if decoded.is_file() else {}
    images = np.load(decoded, mmap_mode="r+") if done else open_memmap(decoded, "w+", np.uint8, shape)
    missing = [start for start in range(0, len(source), BLOCK) if start not in done]
    written = bool(done)
    try:
        with journal.open("a" if done else "w", encoding="utf-8") as log:
            for start, failed in decode(images, missing):
                images.flush()  # the pixels are on the disk before the journal says so
                done[start] = failed
                if not any(map(may_pass, failed.values())):
                    log.write(json.dumps({"start": start, "failed": failed}) + "\n")
                    log.flush()
                    written = True
    except ValueError:
        if not written:  # nothing that a start without --strict could go on from
            shutil.rmtree(beside, ignore_errors=True)
        raise
    kept, skipped = _kept(source, done)
    if skipped:
        whole = open_memmap(beside / "images.npy", "w+", np.uint8, (len(kept), *shape[1:]))
        for start in range(0, len(kept), BLOCK):  # they may not fit in memory all at once
            whole[start : start + BLOCK] = images[kept[start : start + BLOCK]]
        whole.flush()
        decoded.unlink()
    else:
        os.replace(decoded, beside / "images.npy")
    write_whole(beside / "index.json", json.dumps({"kept": kept.tolist(), "skipped": skipped}).encode())
    journal.unlink()
    shutil.rmtree(place, ignore_errors=True)
    os.replace(beside, place)


def _read_journal(journal: Path) -> dict[int, dict[int, str]]:
    """The blocks that are done; a line that was cut short by a kill is as good as not there."""
    done: dict[int, dict[int, str]] = {}
    for line in journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        done[int(entry["start"])] = {int(row): why for row, why in entry["failed"].items()}
    return done


def _kept(source: ImageSource, done: dict[int, dict[int, str]]) -> tuple[np.ndarray, tuple[tuple[str, str], ...]]:
    """The rows that were read, and the names of the others with the reasons, from what is known of each block."""
    failed = {row: why for block in done.values() for row, why in block.items()}
    kept = np.setdiff1d(np.arange(len(source)), list(failed))
    return kept, tuple((source.name_of(row), why) for row, why in sorted(failed.items()))


def _are_pixels(source: ImageSource, size: int) -> bool:
    """Whether there is nothing to decode and nothing to resize."""
    return isinstance(source.items, np.ndarray) and source.items.shape[1:3] == (size, size)


def may_pass(why: str) -> bool:
    """Whether the system failed and not the file: Python puts the number of such an error in front of its text."""
    return why.startswith("[Errno ")


def _can_be_read_now(place: Path, source: ImageSource, size: int) -> bool:
    """Whether an image is missing from a cache only because the system failed when it was made."""
    index = _index(place)
    skipped = np.setdiff1d(np.arange(len(source)), index["kept"])
    again = [row for row, (_, why) in zip(skipped, index["skipped"], strict=True) if may_pass(why)]
    return any(len(decode_images(source.take([row]), size, workers=1, verbose=False)) for row in again)


def _index(place: Path) -> dict[str, Any]:
    return json.loads((place / "index.json").read_text(encoding="utf-8"))


def _opened(place: Path, size: int) -> CachedImages:
    index = _index(place)
    kept = np.array(index["kept"], dtype=np.int64)
    try:
        images = np.load(place / "images.npy", mmap_mode="r")
        if images.shape != (len(kept), size, size, 3):
            raise ValueError(f"its images have the shape {images.shape}")
    except (OSError, ValueError) as error:
        raise ValueError(f"the image cache {place} is damaged ({error}); delete that folder and run again") from error
    return CachedImages(images, kept, tuple((str(path), str(why)) for path, why in index["skipped"]), place)


def _key(source: ImageSource, size: int) -> str:
    """Of everything that the pixels depend on: a file that was replaced is another file."""
    digest = hashlib.sha256(f"{FORMAT} {size} {len(source)}".encode())
    if isinstance(source.items, np.ndarray):
        digest.update(f"{source.items.shape}".encode())
        digest.update(np.ascontiguousarray(source.items).data)
        return digest.hexdigest()[:16]
    for path in source.items:
        try:
            seen = os.stat(path)
            state = f"{seen.st_size}\0{seen.st_mtime_ns}"
        except OSError:
            state = "missing"
        digest.update(os.fsencode(os.path.abspath(path)) + f"\0{state}\n".encode())
    return digest.hexdigest()[:16]


def no_image(name: str, why: str) -> ValueError:
    """What to raise where every image must be readable, and this one is not."""
    return ValueError(f"the image {name} cannot be read ({why}); repair it, or leave it out")


def no_images(source: ImageSource, skipped: Sequence[tuple[str, str]]) -> ValueError:
    """What to raise where none of the images can be read."""
    (name, why), of = skipped[0], "" if source.name == "images" else f" of {source.name}"
    return ValueError(f"none of the {len(skipped)} images{of} can be read; {name}: {why}")
