"""``propml benchmark compare``: two methods, or one before and after a change, dataset by dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from propml.benchmark.comparison import PairedComparison
    from propml.benchmark.store import ResultStore


def compare(
    folder: Annotated[Path, typer.Argument(help="Results folder that holds what is judged.")],
    other: Annotated[
        Path | None, typer.Argument(help="Results folder of what it is judged by, such as those before a change.")
    ] = None,
    of: Annotated[str, typer.Option(metavar="METHOD", help="What is judged, by its name in the tables.")] = (
        "ProPML default"
    ),
    against: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="What it is judged by; the same method where two folders are given."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="What to compare; may be repeated.", show_default="average_precision")
    ] = None,
) -> None:
    """By how much one method is better than another, dataset by dataset, with a sign test over the datasets.

    Settings of one dataset are not independent: its noises are averaged, and the test counts datasets.
    A gain is in percent and positive where the judged one is better, also of losses.

    Example: [bold]propml benchmark compare results/ground-quick --against 'Extra trees' --metric OF1[/bold]

    Before and after a change: [bold]propml benchmark compare results/after results/before[/bold]
    """
    from propml.benchmark.comparison import compare_pairs

    judged, judge = _store(folder), None if other is None else _store(other)
    for name in metric or ["average_precision"]:
        _print(compare_pairs(judged, of, against, other=judge, metric=name))


def _store(folder: Path) -> ResultStore:
    from propml.benchmark.store import ResultStore

    if not (folder / "results.jsonl").is_file():
        raise FileNotFoundError(f"{folder} holds no results; give a folder that `propml benchmark run` has filled")
    return ResultStore(folder)


def _print(pair: PairedComparison) -> None:
    from propml.paper.metric_names import metric_of

    arrow = "↑" if metric_of(pair.metric).higher_is_better else "↓"
    names = (pair.of, pair.against) if pair.of != pair.against else ("after", "before")
    table = Table(
        title=escape(f"{metric_of(pair.metric).title} {arrow}, percent: {pair.of} against {pair.against}"),
        title_justify="left",
    )
    table.add_column("dataset", no_wrap=True)
    for column in ("settings", *names, "gain", "wins", "losses"):
        table.add_column(escape(column), justify="right")
    for each in pair.datasets:
        counts = (str(each.settings), f"{each.of:.2f}", f"{each.against:.2f}", f"{each.gain:+.2f}")
        table.add_row(each.dataset, *counts, str(each.wins), str(each.losses))
    Console().print(table)
    typer.echo(
        f"mean gain over {len(pair.datasets)} datasets: {pair.gain:+.2f}; better on {pair.won}, worse on "
        f"{pair.lost}, sign test p = {pair.p_value:.3g}; fitting takes {pair.times_as_long:.2f} × as long"
    )
    if pair.left_out:
        typer.echo(f"left out: {pair.left_out} cells that only one of the two has")
