"""Ctrl-C or SIGTERM in the middle of long work: one sentence that says what is kept and how to go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup


class Terminated(KeyboardInterrupt):
    """SIGTERM: all that is done about Ctrl-C is done about it too."""


class StoppableGroup(TyperGroup):
    """Commands of which each ends with a sentence when it is stopped, if only with this one."""

    def invoke(self, ctx: Any) -> Any:
        with told_when_stopped("what was not finished is not there; run the same command again"):
            return super().invoke(ctx)


def exit_code(stop: KeyboardInterrupt) -> int:
    """What a shell expects of a command that a signal ended: 128 and its number.

    >>> exit_code(KeyboardInterrupt()), exit_code(Terminated())
    (130, 143)
    """
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


@contextmanager
def hears_sigterm() -> Iterator[None]:
    """While the block runs, SIGTERM stops it as Ctrl-C does; a second one does not stop what the first one began."""

    def stop(*_: Any) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def told_when_stopped(sentence: str) -> Iterator[None]:
    """End the command with a sentence where it is interrupted."""
    try:
        yield
    except KeyboardInterrupt as stop:
        typer.echo(f"\nstopped: {sentence}", err=True)
        raise typer.Exit(exit_code(stop)) from None
