"""The small tables of a report: agreement with the paper, chosen λ, time and memory, failures, and runs.

Each is made once, from values and their columns; Markdown and the page print the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

from propml.benchmark.reporting.findings import TOLERANCE, Agreement
from propml.benchmark.reporting.tables import order_settings
from propml.benchmark.results import CellResult
from propml.benchmark.wording import dataset_title, memory, noise_title, seconds, signed
from propml.noise import Setting
from propml.paper.published import published_lams


class Column(NamedTuple):
    """A column: its head, how its values are written, and how the page shows them."""

    head: str
    written: Callable[[Any], str] = str
    look: str = ""  #: a class of the page: "text", "wrap" and "gap" stand left; numbers have none, or their colour
    is_code: bool = False

    @property
    def stands_left(self) -> bool:
        return self.look in ("text", "wrap", "gap")

    def text(self, value: Any) -> str:
        """A value as it is printed; nothing where there is none."""
        return "" if value is None else self.written(value)


class Folded(NamedTuple):
    """A text with more to it, which the page folds away under a summary."""

    text: str
    summary: str
    more: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class PlainTable:
    """Columns, rows of values, and what a reader must know; a table without rows is false."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    legend: str = ""

    def __bool__(self) -> bool:
        return bool(self.rows)


def words(head: str, written: Callable[[Any], str] = str) -> Column:
    """A column of words."""
    return Column(head, written, "text")


def agreement_table(lines: Sequence[Agreement], metric: str) -> PlainTable:
    """Method by method beside the paper; ``metric`` is the title of the one that the mean gain is taken over."""
    columns = [words("Method"), Column("Compared"), Column("Better", look="better"), Column("Close")]
    columns += [Column("Worse", look="worse"), Column("Mean gain", signed)]
    columns += [Column(f"Furthest {side}", look="gap") for side in ("better", "worse")]
    legend = (
        f"All metrics together. Better and worse count numbers that differ by more than {TOLERANCE:g} point; "
        f"a gap is ours minus the paper's. The mean gain is that of {metric}, in points; positive is better."
    )
    return PlainTable(columns, lines, legend)


def lam_table(cells: Sequence[CellResult], *, beside_paper: bool) -> PlainTable:
    """The λ that methods chose, one line per setting and method: median and range over folds and seeds."""
    values: dict[tuple[Setting, str], list[float]] = {}
    for cell in cells:
        for fold in cell.folds:
            for part, lam in _lam_parts(fold.chosen.get("lam")).items():
                values.setdefault((cell.setting, f"{cell.method} {part}".rstrip()), []).append(lam)
    paper = published_lams() if beside_paper else {}
    order = order_settings(setting for setting, _ in values)
    rows = [
        (*setting, method, median(lams), min(lams), max(lams), len(lams), paper.get(setting))
        for (setting, method), lams in sorted(values.items(), key=lambda item: order.index(item[0][0]))
    ]
    digits = "{:.3g}".format
    numbers = [*(Column(head, digits) for head in ("Median", "Least", "Most")), Column("Values")]
    columns = [words("Dataset", dataset_title), Column("Noise", noise_title), words("Method"), *numbers]
    chosen_by_paper = " The paper's λ was chosen on test labels." if paper else ""
    legend = f"Median and range over folds and seeds.{chosen_by_paper}"
    return _without_empty(PlainTable([*columns, Column("Paper", "{:g}".format)], rows, legend))


def _without_empty(table: PlainTable) -> PlainTable:
    """The table without the columns that have no value at all, such as the noise of real candidates."""
    kept = [place for place in range(len(table.columns)) if any(row[place] is not None for row in table.rows)]
    rows = [[row[place] for place in kept] for row in table.rows]
    return PlainTable([table.columns[place] for place in kept], rows, table.legend)


def _lam_parts(lam: Any) -> dict[str, float]:
    """One λ, or one of each part of a mixture; that of its network needs no name.

    >>> _lam_parts(0.1), _lam_parts({"network": 0.1, "linear": None, "forest": 1})
    ({'': 0.1}, {'': 0.1, 'forest': 1.0})
    """
    parts = lam if isinstance(lam, Mapping) else {"": lam}
    return {
        "" if part == "network" else str(part): float(value)
        for part, value in parts.items()
        if isinstance(value, int | float)
    }


def cost_table(cells: Sequence[CellResult], methods: Sequence[str]) -> PlainTable:
    """Seconds and memory, one line per method and device, in the order of ``methods``."""
    groups: dict[tuple[str, str], list[CellResult]] = {}
    for cell in cells:
        groups.setdefault((cell.method, cell.device), []).append(cell)
    order = list(dict.fromkeys([*methods, *(method for method, _ in groups)]))
    datasets = list(dict.fromkeys(setting.dataset for setting in order_settings(cell.setting for cell in cells)))
    rows = []
    for method, device in sorted(groups, key=lambda key: (order.index(key[0]), key[1])):
        own = groups[method, device]
        fits = {name: [cell.seconds_fit for cell in own if cell.dataset == name] for name in datasets}
        rows.append(
            (
                method,
                device,
                len(own),
                sum(cell.seconds_fit for cell in own),
                sum(cell.seconds_predict for cell in own),
                max(cell.peak_bytes for cell in own),
                *(fmean(some) if some else None for some in fits.values()),
            )
        )
    columns = [words("Method"), words("Device"), Column("Cells"), Column("Fit", seconds), Column("Predict", seconds)]
    columns += [Column("Peak", memory), *(Column(dataset_title(name), seconds) for name in datasets)]
    legend = (
        "Fit and predict: all cells together. Peak: the most memory of any cell's process. By dataset: mean time to "
        "fit all folds of a cell."
    )
    return PlainTable(columns, rows, legend)


def failure_table(cells: Sequence[CellResult]) -> PlainTable:
    """What the cells that failed said."""
    columns = [words("Dataset", dataset_title), Column("Noise", noise_title), words("Method"), Column("Seed")]
    columns += [Column("What it said", look="wrap")]
    rows = [
        (cell.dataset, cell.noise, cell.method, cell.seed, Folded(cell.failure.reason, "Trace", cell.failure.trace))
        for cell in cells
        if cell.failure
    ]
    return PlainTable(columns, rows)


def run_table(runs: Sequence[Mapping[str, Any]]) -> PlainTable:
    """The runs that brought the results; all that was recorded of a run is folded away."""
    heads = ("Started (UTC)", "propml", "Commit", "Device")
    columns = [*map(words, heads), Column("Command", look="wrap", is_code=True)]
    rows = []
    for run in runs:
        commit = f"{(run.get('commit') or '')[:10]}{' (changed)' if run.get('dirty') else ''}"
        recorded = "\n".join(f"{name}: {value}" for name, value in flat_facts(run).items())
        command = Folded(str(run.get("command", "")), "Everything that was recorded", recorded)
        rows.append((run.get("started", ""), run.get("propml", ""), commit, run.get("device", ""), command))
    return PlainTable(columns, rows)


def flat_facts(facts: Mapping[str, Any]) -> dict[str, str]:
    """Nested facts on one level, without the empty ones.

    >>> flat_facts({"propml": "1.0", "packages": {"numpy": "2.1"}, "commit": None})
    {'propml': '1.0', 'numpy': '2.1'}
    """
    flat: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            flat |= flat_facts(value)
        elif value is not None and value != "":
            flat[name.replace("_", " ")] = str(value)
    return flat
