"""The border at which files come in: whatever goes wrong while one is read becomes one error that names it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FileError(ValueError):
    """A file that cannot be used: the message names the file, what is wrong with it and what to do."""


@contextmanager
def reading(path: str | Path, what: str, remedy: str = "copy it again, or make it again") -> Iterator[None]:
    """Turn any exception inside the block into a :class:`FileError` that names the file.

    A damaged file can make a parser raise anything: ``KeyError``, ``struct.error``, ``RecursionError``. Errors of the
    system (no such file, no permission, disk full) and missing extras pass unchanged: they are not about the content.
    ``what`` the file was taken for, such as "npz file", and the ``remedy`` become part of the message.

    >>> with reading("labels.json", "list of labels", "export it again"):
    ...     {}["labels"]
    Traceback (most recent call last):
    ...
    propml.file_errors.FileError: labels.json is not a readable list of labels (KeyError: 'labels'); export it again
    """
    try:
        yield
    except (ImportError, FileNotFoundError):
        raise
    except FileError as error:
        if str(path) in str(error):
            raise
        raise FileError(f"{path}: {error}") from error
    except MemoryError as error:
        raise FileError(f"{path} needs more memory than this machine has; {remedy}") from error
    except Exception as error:
        # EINVAL is about the content: a damaged file sends its parser to a position that no file has.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        if isinstance(error, ValueError) and str(path) in str(error):  # a sentence of our own
            raise FileError(str(error)) from error
        raise FileError(f"{path} is not a readable {what} ({_reason(error)}); {remedy}") from error


def _reason(error: Exception) -> str:
    """One line: the message where it speaks for itself, the type where it does not."""
    message = " ".join(str(error).split())[:200]
    if message and isinstance(error, ValueError | OSError):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
