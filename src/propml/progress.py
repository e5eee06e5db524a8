"""One progress bar for all long work."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Bar(Protocol):
    """What :func:`progress_bar` hands out."""

    def advance(self, steps: float = 1, note: str = "") -> None: ...


class _Silent:
    def advance(self, steps: float = 1, note: str = "") -> None: ...


# Without being asked for, a bar appears where work will take longer than this, judged after the first second.
LONG, FIRST_LOOK = 10.0, 1.0


@contextmanager
def progress_bar(
    description: str, total: float, *, show: bool | None = True, long_steps: bool = False
) -> Iterator[Bar]:
    """A bar while the block runs, where a person watches: in a terminal or a notebook.

    Parameters
    ----------
    description : str
    total : float
        How far :meth:`Bar.advance` will go.
    show : bool or None
        ``None`` shows the bar only once the work turns out to take longer than ten seconds.
    long_steps : bool
        The time left is guessed from the last seconds; with steps that last longer than that, from all of them.

    Examples
    --------
    >>> with progress_bar("fitting", total=2, show=False) as bar:
    ...     bar.advance()
    """
    if show is False or not is_watched():  # a log file wants no moving bar
        yield _Silent()
        return
    bar = _Live(description, total, long_steps, waits=show is None)
    try:
        yield bar
    finally:
        bar.close()


def is_watched() -> bool:
    """Whether standard error is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class _Live:
    """A bar of rich, made when it is first needed."""

    def __init__(self, description: str, total: float, long_steps: bool, waits: bool) -> None:
        self.description, self.total, self.long_steps = description, total, long_steps
        self.began, self.done = time.monotonic(), 0.0
        self.live: Any = None
        self.task: Any = None
        if not waits:
            self._open()

    def advance(self, steps: float = 1, note: str = "") -> None:
        self.done += steps
        if self.live is None:
            elapsed = time.monotonic() - self.began
            if elapsed < FIRST_LOOK or elapsed * self.total < LONG * self.done:
                return
            self._open()
        self.live.update(self.task, completed=self.done, note=note)

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            ProgressColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class OverallTimeLeft(ProgressColumn):
            def render(self, task: Task) -> Text:
                if not task.completed or task.elapsed is None or task.remaining is None:
                    return Text("-:--:--", style="progress.remaining")
                seconds = task.elapsed / task.completed * task.remaining
                return Text(str(timedelta(seconds=int(seconds))), style="progress.remaining")

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            OverallTimeLeft() if self.long_steps else TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        console = Console(stderr=True, force_terminal=sys.stderr.isatty() or None)
        self.live = Progress(*columns, console=console, transient=True)
        self.live.start()
        self.task = self.live.add_task(self.description, total=self.total, note="")


def track(items: Iterable[T], description: str, total: int, *, show: bool = True) -> Iterator[T]:
    """Yield ``items`` and move a bar by one after each."""
    with progress_bar(description, total, show=show) as bar:
        for item in items:
            yield item
            bar.advance()
