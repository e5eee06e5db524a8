"""One progress bar for all long work."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, TypeVar

T = TypeVar("T")


class Bar(Protocol):
    """What :func:`progress_bar` hands out."""

    def advance(self, steps: float = 1, note: str = "") -> None: ...


class _Silent:
    def advance(self, steps: float = 1, note: str = "") -> None: ...


@contextmanager
def progress_bar(description: str, total: float, *, show: bool = True, long_steps: bool = False) -> Iterator[Bar]:
    """A bar on the terminal while the block runs; silent when ``show`` is false or standard error is no terminal.

    The time left is guessed from the last seconds; with ``long_steps``, which last longer than that, from all of them.

    >>> with progress_bar("fitting", total=2, show=False) as bar:
    ...     bar.advance()
    """
    if not show or not sys.stderr.isatty():  # a log file wants no moving bar
        yield _Silent()
        return
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
        OverallTimeLeft() if long_steps else TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True, force_terminal=True), transient=True) as live:
        task = live.add_task(description, total=total, note="")

        class Live:
            def advance(self, steps: float = 1, note: str = "") -> None:
                live.update(task, advance=steps, note=note)

        yield Live()


def track(items: Iterable[T], description: str, total: int, *, show: bool = True) -> Iterator[T]:
    """Yield ``items`` and move a bar by one after each."""
    with progress_bar(description, total, show=show) as bar:
        for item in items:
            yield item
            bar.advance()
