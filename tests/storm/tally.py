"""What a storm tried, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts of one kind of trial.

    Attributes
    ----------
    what : str
        One row of the table, such as "damaged files: npz".
    tried : int
    failed : int
        Crashes, wrong numbers, exceptions of a type that nobody expects.
    lost : int
        Results that were lost, doubled or changed.
    examples : list of str
        The first failures, each with what is needed to repeat it.
    """

    what: str
    tried: int = 0
    failed: int = 0
    lost: int = 0
    examples: list[str] = field(default_factory=list)

    def fail(self, example: str, *, lost: bool = False) -> None:
        """Count a failure and keep the first few of them."""
        self.lost += lost
        self.failed += not lost
        if len(self.examples) < 10:
            self.examples.append(example)
