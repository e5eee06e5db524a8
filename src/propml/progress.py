"""One progress bar for all long work."""

import math
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

# Without being asked for, a bar appears where work will take longer than this, judged after the first second.
LONG, FIRST_LOOK = 10.0, 1.0


class Bar:
    """What :func:`progress_bar` hands out: a bar of rich, made when it is first needed."""

    def __init__(self, description: str, total: float, long_steps: bool, show: bool | None) -> None:
        self.description, self.total, self.long_steps, self.show = description, total, long_steps, show
        self.began, self.done = time.monotonic(), 0.0
        self.live: Any = None
        self.task: Any = None
        if show:
            self._open()

    def advance(self, steps: float = 1, note: str = "") -> None:
        """Go on by so many steps."""
        self.done += steps
        if self.live is None:
            elapsed = time.monotonic() - self.began
            if self.show is False or elapsed < FIRST_LOOK or elapsed * self.total < LONG * self.done:
                return
            self._open()
        self.live.update(self.task, completed=self.done, note=note)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.live = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True, force_terminal=sys.stderr.isatty() or None),
            transient=True,
            speed_estimate_period=math.inf if self.long_steps else 30.0,
        )
        self.live.start()
        self.task = self.live.add_task(self.description, total=self.total, note="")
        if self.long_steps:
            self.live.update(self.task, advance=1e-9)  # rich times from its first sample: the first step counts, too


@contextmanager
def progress_bar(
    description: str, total: float, *, show: bool | None = True, long_steps: bool = False
) -> Iterator[Bar]:
    """A bar while the block runs, where a person watches: in a terminal or a notebook.

    With ``show=None`` it appears only once the work turns out to take longer than ten seconds. The time left is guessed
    from the last seconds; with ``long_steps``, which last longer than that, from all of them.
    """
    bar = Bar(description, total, long_steps, show if is_watched() else False)  # a log file wants no moving bar
    try:
        yield bar
    finally:
        if bar.live is not None:
            bar.live.stop()


def is_watched() -> bool:
    """Whether standard error is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def track(items: Iterable[T], description: str, total: int, *, show: bool = True) -> Iterator[T]:
    """Yield ``items`` and move a bar by one after each."""
    with progress_bar(description, total, show=show) as bar:
        for item in items:
            yield item
            bar.advance()
