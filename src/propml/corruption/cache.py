"""Arrays that took long to compute, kept on disk under a key made of everything they depend on."""

import hashlib
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np


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
    if path.exists():
        try:
            return _read(path, key, shape)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            warnings.warn(f"the cache file {path} cannot be used ({error}); it is computed again", stacklevel=2)
    values = np.asarray(compute(), dtype=np.float64)
    _write(path, key, values)
    return values


def _read(path: Path, key: str, shape: tuple[int, ...]) -> np.ndarray:
    with np.load(path, allow_pickle=False) as stored:
        values, told_key, checksum = stored["values"], str(stored["key"]), str(stored["checksum"])
    if told_key != key or values.shape != shape or values.dtype != np.float64:
        raise ValueError("it holds another array than its name says")
    if checksum != _checksum(values):
        raise ValueError("its content does not match its checksum")
    return values


def _write(path: Path, key: str, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its place and then moved: a reader, or a run that was killed, never sees half a file.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-", suffix=".npz")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, values=values, key=np.array(key), checksum=np.array(_checksum(values)))
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _checksum(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()
