"""Ctrl-C in the middle of long work: one sentence that says what is kept and how to go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

__all__ = ["STOPPED", "told_when_stopped"]

STOPPED = 130  # what a shell expects of a command that Ctrl-C ended


@contextmanager
def told_when_stopped(sentence: str) -> Iterator[None]:
    """End the command with a sentence where it is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nstopped: {sentence}", err=True)
        raise typer.Exit(STOPPED) from None
