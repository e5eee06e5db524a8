"""Arrays that took long to compute, kept on disk under a key made of everything they depend on."""

import functools
import hashlib
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from propml.atomic_files import replacing


def content_key(arrays: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> str:
    """SHA-256 over the names, types, shapes and bytes of the arrays, and over the settings."""
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode())
    for name, array in arrays.items():
        digest.update(f"|{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def cached_array(
    folder: str | os.PathLike[str], key: str, shape: tuple[int, ...], compute: Callable[[], np.ndarray]
) -> np.ndarray:
    """The float64 array stored under ``key``; computed and stored where there is none, or where the file is damaged.

    Where nothing can be stored there is a warning, and the array all the same.

    Parameters
    ----------
    folder : path
        Made where it does not exist.
    key : str
        From :func:`content_key`.
    shape : tuple of int
        What the array must look like.
    compute : callable
        Called without arguments where the array is not at hand.
    """
    path = Path(folder) / f"{key}.npz"
    try:
        with np.load(path, allow_pickle=False) as stored:
            values, told = stored["values"], (str(stored["key"]), str(stored["checksum"]))
        if values.shape != shape or values.dtype != np.float64 or told != (key, _checksum(values)):
            raise ValueError("it holds another array than its name and its checksum say")
        return values
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # what is wrong with the folder is told where the array is to be stored
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        warnings.warn(f"the cache file {path} cannot be used ({error}); it is computed again", stacklevel=2)
    values = np.asarray(compute(), dtype=np.float64)
    try:
        with replacing(path) as beside, beside.open("wb") as file:
            np.savez_compressed(file, values=values, key=np.array(key), checksum=np.array(_checksum(values)))
    except OSError as error:
        _tell_once(str(folder), str(error.strerror or error))
    return values


@functools.cache  # Python's own memory of warnings is lost whenever somebody changes their filters
def _tell_once(folder: str, why: str) -> None:
    warnings.warn(
        f"nothing can be kept in the cache folder {folder} ({why}), so the same is computed again next time; "
        f"make room there, or choose another folder",
        stacklevel=3,
    )


def _checksum(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()
