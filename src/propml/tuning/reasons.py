"""Why a trial failed, in one sentence."""

from __future__ import annotations

__all__ = ["MEMORY", "reason"]

MEMORY = "out of memory: leave out the largest networks or batches, or use fewer workers"


def reason(error: BaseException) -> str:
    """The sentence.

    >>> reason(MemoryError()) == MEMORY, reason(ValueError("dropout is 2; it lies in [0, 1)"))
    (True, 'dropout is 2; it lies in [0, 1)')
    """
    if is_memory(error):
        return MEMORY
    text = " ".join(str(error).split())
    if isinstance(error, ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's own error, or one of the ways in which PyTorch says it."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(
        part in words for part in ("out of memory", "can't allocate memory", "not enough memory", "memory limit")
    )
