"""One progress bar for all long work."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")


class Bar(Protocol):
    """What :func:`progress_bar` hands out."""

    def advance(self, steps: float = 1, note: str = "") -> None: ...


class _Silent:
    def advance(self, steps: float = 1, note: str = "") -> None: ...


@contextmanager
def progress_bar(description: str, total: float, *, show: bool = True) -> Iterator[Bar]:
    """A bar on the terminal while the block runs; silent when ``show`` is false or standard error is no terminal.

    >>> with progress_bar("fitting", total=2, show=False) as bar:
    ...     bar.advance()
    """
    if not show or not sys.stderr.isatty():  # a log file wants no moving bar
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
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
