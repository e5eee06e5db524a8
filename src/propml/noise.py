"""Noise: which corruption made the candidate labels of a dataset, and how much of it there is.

In code a level is what the corruption takes: a fraction, a rate, a number of labels. Files, commands and titles write
the fractions of false labels per true label in percent, as the paper does.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Kind(NamedTuple):
    """What a level is to a corruption: its argument (none: it has no level), the most of it, and how it is written."""

    argument: str = ""
    most: float = float("inf")
    percent: bool = False


# By the names of :data:`propml.corruption.CORRUPTIONS`.
KINDS: dict[str, Kind] = {
    "svm": Kind("ratio", percent=True),
    "neighbours": Kind("ratio", percent=True),
    "flips": Kind("rate", 1.0),
    "class-flips": Kind("rate", 0.5),
    "count": Kind("count"),
    "fraction": Kind("fraction", 1.0),
    "annotators": Kind("false_positive_rate", 1.0),
    "none": Kind(),
}


class Noise(NamedTuple):
    """One of the :data:`KINDS` of noise at one level; ``named`` where its experiment has several kinds.

    >>> Noise("svm", 0.5).title, Noise("flips", 0.2).title, Noise("flips", 0.2, named=True).title
    ('50 %', '0.2', 'flips 0.2')
    """

    kind: str
    level: float = 0.0
    named: bool = False

    @classmethod
    def read(cls, written: float | str, kind: str | None = None) -> Noise:
        """The noise that a file or a command writes; without a kind, numbers above 1 are percent: they are no rates.

        >>> Noise.read(50), Noise.read("flips 0.2")
        (Noise(kind='svm', level=0.5, named=False), Noise(kind='flips', level=0.2, named=True))
        """
        named = isinstance(written, str)
        if isinstance(written, str):
            kind, _, number = written.partition(" ")
            written = float(number or 0)
        kind = kind or ("svm" if written > 1 else "flips")
        return cls(kind, written / 100 if KINDS[kind].percent else float(written), named)

    @property
    def amount(self) -> float:
        """The number that files and titles write."""
        # Fifteen digits: 1.005 is written as 100.5, and not as 100.49999999999999.
        return float(f"{100 * self.level:.15g}") if KINDS[self.kind].percent else self.level

    @property
    def written(self) -> float | str:
        """What files hold: the number, or the name."""
        return str(self) if self.named else self.amount

    def __str__(self) -> str:
        """What commands take."""
        if not self.named:
            return f"{self.amount:g}"
        return f"{self.kind} {self.amount:g}" if KINDS[self.kind].argument else self.kind

    @property
    def title(self) -> str:
        """The number with its unit, or the name."""
        return f"{self} %" if KINDS[self.kind].percent and not self.named else str(self)

    def arguments(self) -> dict[str, Any]:
        """What the level gives the corruption.

        >>> Noise("svm", 0.5).arguments(), Noise("count", 3.0).arguments(), Noise("none").arguments()
        ({'ratio': 0.5}, {'count': 3}, {})
        """
        argument = KINDS[self.kind].argument
        level = int(self.level) if argument == "count" else self.level
        return {argument: level} if argument else {}


class Setting(NamedTuple):
    """A row of a table: one dataset at one noise level, or with the candidates that it brings (None)."""

    dataset: str
    noise: Noise | None


def noise_order(noise: Noise | None) -> tuple[int, float]:
    """To sort by: real candidates first, then kind by kind, each from little to much.

    >>> sorted([Noise("flips", 0.2), Noise("svm", 1.0), None, Noise("svm", 0.5)], key=noise_order)[:2]
    [None, Noise(kind='svm', level=0.5, named=False)]
    """
    return (-1, 0.0) if noise is None else (list(KINDS).index(noise.kind), noise.level)
