"""What a report is made from: the numbers, and all that is known of how they came about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propml.benchmark.report.wording import ORACLE_SUFFIX
from propml.benchmark.results import Result, Setting

if TYPE_CHECKING:
    from propml.benchmark.store import Chosen, Failure, ResultStore, Timing


@dataclass(frozen=True)
class Measured:
    """The content of a results folder; everything but the results may be missing.

    Attributes
    ----------
    results : sequence of Result
    failures : sequence of Failure
        Cells that raised, with what they said.
    timings : sequence of Timing
    chosen : sequence of Chosen
        What each fold selected, such as λ.
    settings : mapping of str to sequence of mapping
        By experiment, what the numbers of its cells depend on: :meth:`propml.benchmark.cell.Cell.configuration`.
    provenance : sequence of mapping
        The runs that brought the results: versions, commit, device.
    """

    results: Sequence[Result]
    failures: Sequence[Failure] = ()
    timings: Sequence[Timing] = ()
    chosen: Sequence[Chosen] = ()
    settings: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    provenance: Sequence[Mapping[str, Any]] = ()

    def experiments(self) -> list[str]:
        """The experiments that something is known of, in the order in which they come."""
        names = [row.experiment for row in self.results] + [row.experiment for row in self.failures]
        return list(dict.fromkeys(names))

    def cells(self) -> set[tuple[Setting, str]]:
        """The settings and methods that there is a number or a failure of."""
        done = {(Setting(row.dataset, row.noise), row.method) for row in self.results}
        return done | {(Setting(row.dataset, row.noise), row.method) for row in self.failures}

    def of(self, experiment: str) -> Measured:
        """The part that belongs to one experiment."""
        return replace(
            self,
            results=[row for row in self.results if row.experiment == experiment],
            failures=[row for row in self.failures if row.experiment == experiment],
            timings=[row for row in self.timings if row.experiment == experiment],
            chosen=[row for row in self.chosen if row.experiment == experiment],
            settings={experiment: self.settings.get(experiment, ())},
        )

    def fixed_lams(self) -> frozenset[str]:
        """Methods whose λ was given, not chosen."""
        return frozenset(
            cell["name"] for cell in self._configurations() if isinstance(cell["params"].get("lam"), int | float)
        )

    def tuned(self) -> frozenset[str]:
        """Methods that were tuned on test labels, as their settings or their names tell."""
        by_name = {row.method for row in self.results if row.method.endswith(ORACLE_SUFFIX)}
        return frozenset(by_name | {cell["name"] for cell in self._configurations() if cell["selection"] == "oracle"})

    def corruption(self) -> str | None:
        """What made the candidates of all cells; None where that is not known, or not the same."""
        found = {
            "flips" if cell.get("kind") == "images" else cell.get("candidates", {}).get("corruption")
            for cell in self._configurations()
        } - {None}
        return found.pop() if len(found) == 1 else None

    def title_and_note(self, experiment: str) -> tuple[str, str]:
        """What the file of an experiment said of it when it was last run; the name itself where that is not known."""
        runs = [run for run in self.provenance if run.get("experiment") == experiment]
        return (runs[-1]["title"], runs[-1]["note"]) if runs else (experiment, "")

    def _configurations(self) -> list[Mapping[str, Any]]:
        return [cell for cells in self.settings.values() for cell in cells]


def gather(source: str | Path | ResultStore | Measured | Iterable[Result]) -> Measured:
    """Take in a results folder, an open store, or bare results.

    Parameters
    ----------
    source : path, ResultStore, Measured or iterable of Result
    """
    if isinstance(source, Measured):
        return source
    from propml.benchmark.store import ResultStore

    if isinstance(source, str | Path):
        if not Path(source).is_dir():
            raise FileNotFoundError(f"there is no results folder {source}; `propml benchmark run` makes one")
        source = ResultStore(source)
    if isinstance(source, ResultStore):
        results = source.results()
        return Measured(
            results=results,
            failures=source.failures(),
            timings=source.timings(),
            chosen=source.chosen(),
            settings={name: list(source.settings(name).values()) for name in {row.experiment for row in results}},
            provenance=source.provenance(),
        )
    return Measured(list(source))
