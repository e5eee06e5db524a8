"""Processes that work for this one: deaf to Ctrl-C, which this one hears for them, and gone when this one is gone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

__all__ = ["end_of", "start_worker"]


def start_worker(target: Callable[..., None], arguments: Sequence[Any], environment: Mapping[str, str] = {}) -> Any:
    """Start a process that does this and nothing else; ``environment`` are variables besides those of this process.

    It is spawned, and must be able to import ``target``: a script that gets here must keep its own work under
    ``if __name__ == "__main__":``.
    """
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_live, args=(target, *arguments), name="propml-worker")
    with _environment(environment), _deaf_to_interrupts():
        process.start()
    return process


def end_of(code: int | None) -> str:
    """How a process ended, in words.

    >>> end_of(3)
    'it ended with exit code 3'
    """
    if code is None or code >= 0:
        return f"it ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"it was ended by {name}{hint}"


def _live(target: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=_die_with_parent, daemon=True).start()
    target(*arguments)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ctrl-C reaches the whole group: a process that starts in the block does not hear it, this one does afterwards."""
    resource_tracker.ensure_running()  # when it starts, it takes the mask away
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Other environment variables while the block runs; a process that starts in it keeps them."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
