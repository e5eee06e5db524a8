"""What becomes of a column: each treatment is learned from its cells, applied to others, and saved as plain JSON."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from propml.messages import argument
from propml.schema import checked_csr
from propml.tables.cell_lists import shown
from propml.tables.table import Cells
from propml.tables.values import SAMPLE, UNITS, CellError, as_numbers, as_texts, as_vectors

CLIP = 5.0  # so that one wild value does not drown the rest
MOSTLY_ZERO = 0.6  # from this share of zeros on, a zero means "absent" rather than "small", and stays zero
MISSING, OTHER = "(missing)", "(other)"
MOST_TERMS = 5000
# A term in one row teaches nothing about another, one in nearly all rows tells none from another.
FEWEST_ROWS, LARGEST_SHARE = 2, 0.9


@dataclass
class Treatment(ABC):
    """What is done with a column."""

    kind: ClassVar[str]
    name: str

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """The names of the features that it becomes."""

    @abstractmethod
    def apply(self, cells: Cells, notes: list[str]) -> Any:
        """float32 features ``(n_rows, len(features))``; what is worth telling goes into the notes."""

    @abstractmethod
    def sentence(self) -> str:
        """What was done, for the report."""


@dataclass
class Number(Treatment):
    """A number: missing ones become the median (and a feature says so), then it is standardised.

    A column that is mostly zero keeps its zeros: counts go through log(1 + x), and it is divided by the root mean
    square of its other values.
    """

    kind: ClassVar[str] = "number"
    unit: str
    fill: float
    center: float
    scale: float
    n_missing: int = 0
    logarithm: bool = False
    keeps_zeros: bool = False

    @classmethod
    def learn(cls, name: str, values: np.ndarray, unit: str = "number") -> Self:
        """From the values of a column, NaN where missing; at least two of them differ or are missing."""
        missing = np.isnan(values)
        fill, n_missing = float(np.median(values[~missing])), int(missing.sum())
        filled = np.where(missing, fill, values)
        if np.count_nonzero(filled) >= (1 - MOSTLY_ZERO) * len(filled):
            return cls(name, unit, fill, float(filled.mean()), float(filled.std()) or 1.0, n_missing)
        others = filled[filled != 0]
        are_counts = (others > 0).all() and (others == np.round(others)).all() and others.max(initial=0) > 1
        squares = (np.log1p(others) if are_counts else others) ** 2
        scale = float(np.sqrt(squares.mean())) if squares.size else 1.0
        return cls(name, unit, fill, 0.0, scale, n_missing, logarithm=bool(are_counts), keeps_zeros=True)

    @property
    def features(self) -> list[str]:
        return [self.name, f"{self.name} {MISSING}"] if self.n_missing else [self.name]

    def apply(self, cells: Cells, notes: list[str]) -> np.ndarray | sp.csr_array:
        values = as_unit(cells, self.unit)
        if values is None:
            bad = next(row for row in range(len(cells)) if as_unit(cells[row : row + 1], self.unit) is None)
            held = {"date": "dates", "boolean": "yes and no"}.get(self.unit, "numbers")
            told = f"is {shown(cells[bad])}, and the column held {held} in training"
            way = argument("missing", [str(cells[bad]).strip()])
            raise CellError(bad, f"{told}; correct it, leave the cell empty, or give {way}")
        missing = np.isnan(values)
        values[missing] = self.fill
        if self.logarithm:
            values = np.log1p(np.maximum(values, 0))
        values = np.clip((values - self.center) / self.scale, -CLIP, CLIP).astype(np.float32)
        columns = np.column_stack([values, missing.astype(np.float32)]) if self.n_missing else values.reshape(-1, 1)
        return sp.csr_array(columns) if self.keeps_zeros else columns

    def sentence(self) -> str:
        what = {"date": "date, as a number of days", "boolean": "yes or no, as 1 and 0"}.get(self.unit, "number")
        how = "divided by the root mean square of what is not zero" if self.keeps_zeros else "standardised"
        gaps = f"; {self.n_missing} missing became the median {self.fill:g}, marked in a feature of their own"
        return f"{what}, {'log(1 + x), ' if self.logarithm else ''}{how}{gaps if self.n_missing else ''}"


@dataclass
class Category(Treatment):
    """One 0/1 feature per value, for so many of the most frequent values; the others share one."""

    kind: ClassVar[str] = "category"
    values: list[str]
    rest: list[str]
    n_missing: int = 0

    @classmethod
    def learn(cls, name: str, texts: Sequence[str | None], most: int) -> Self:
        """From text, None where missing; a value that occurs once is never one of the frequent ones."""
        counts = Counter(text for text in texts if text is not None)
        ranked = sorted(counts, key=lambda text: (-counts[text], text))
        frequent = [text for text in ranked[:most] if counts[text] > 1]
        return cls(name, frequent, sorted(counts.keys() - set(frequent)), len(texts) - counts.total())

    @property
    def features(self) -> list[str]:
        shared = ([OTHER] if self.rest else []) + ([MISSING] if self.n_missing else [])
        return [f"{self.name} = {value}" for value in self.values] + [f"{self.name} {word}" for word in shared]

    def apply(self, cells: Cells, notes: list[str]) -> sp.csr_array:
        column: dict[str | None, int] = {value: j for j, value in enumerate(self.values)}
        column |= dict.fromkeys(self.rest, len(self.values))
        if self.n_missing:
            column[None] = len(self.values) + bool(self.rest)
        texts = as_texts(cells)
        at = np.array([column.get(text, -1) for text in texts], dtype=np.int32)
        if unseen := Counter(text for text, j in zip(texts, at, strict=True) if j < 0 and text is not None):
            told = f"{unseen.total()} rows have values never seen in training, such as {unseen.most_common(1)[0][0]!r}"
            notes.append(f"column {self.name!r}: {told}; they count as none of the known ones")
        ends = np.concatenate([[0], np.cumsum(at >= 0)])
        ones = np.ones(ends[-1], dtype=np.float32)
        return checked_csr(ones, at[at >= 0], ends, (len(texts), len(self.features)))

    def sentence(self) -> str:
        rest = f", {len(self.rest)} rarer values share one" if self.rest else ""
        gaps = f", {self.n_missing} missing have one of their own" if self.n_missing else ""
        return f"category, {len(self.values)} values as 0/1 features{rest}{gaps}"


@dataclass
class Text(Treatment):
    """TF-IDF of words, or of single characters and pairs where the writing has no blanks (Chinese, Japanese, Thai)."""

    kind: ClassVar[str] = "text"
    terms: list[str]  #: the vocabulary of scikit-learn's vectoriser
    weights: list[float]  #: its inverse document frequencies
    by_character: bool = False

    @classmethod
    def learn(cls, name: str, texts: Sequence[str | None], most: int = MOST_TERMS) -> Self | None:
        """From text, None where missing; no treatment where no term repeats."""
        by_character = cls.writes_without_blanks(texts)
        vectoriser = _vectoriser(by_character, min_df=FEWEST_ROWS, max_df=LARGEST_SHARE, max_features=most)
        try:
            vectoriser.fit(text or "" for text in texts)
        except ValueError:  # scikit-learn's way to say that no term is left
            return None
        return cls(name, vectoriser.get_feature_names_out().tolist(), vectoriser.idf_.tolist(), by_character)

    @staticmethod
    def writes_without_blanks(texts: Sequence[str | None]) -> bool:
        """Whether most letters are of scripts that put no blanks between words.

        >>> Text.writes_without_blanks(["海と夕日", None]), Text.writes_without_blanks(["sea and sunset"])
        (True, False)
        """
        present = [text for text in texts if text]
        letters = [sign for text in present[:: max(1, len(present) // SAMPLE)] for sign in text if sign.isalpha()]
        # Thai to Khmer, and everything from the radicals of Chinese up to, but without, Hangul.
        dense = sum("\u0e00" <= sign <= "\u17ff" or "\u2e80" <= sign < "\uac00" for sign in letters)
        return dense > len(letters) / 2

    @property
    def features(self) -> list[str]:
        return [f"{self.name}: {term}" for term in self.terms]

    def apply(self, cells: Cells, notes: list[str]) -> sp.csr_array:
        vectoriser = _vectoriser(self.by_character, vocabulary=self.terms)
        vectoriser.idf_ = np.asarray(self.weights, dtype=np.float32)
        return sp.csr_array(vectoriser.transform(text or "" for text in as_texts(cells)), dtype=np.float32)

    def sentence(self) -> str:
        return f"text, TF-IDF of {len(self.terms)} {'characters and pairs' if self.by_character else 'words'}"


@dataclass
class Vector(Treatment):
    """A list of numbers of one length in every row, such as an embedding; standardised number by number."""

    kind: ClassVar[str] = "vector"
    center: list[float]
    scale: list[float]
    n_missing: int = 0

    @classmethod
    def learn(cls, name: str, values: np.ndarray) -> Self:
        """From an array ``(n_rows, length)``, NaN where missing."""
        known = np.isfinite(values).all(axis=1)
        deviation = values[known].std(axis=0, dtype=np.float64)
        center = values[known].mean(axis=0, dtype=np.float64)
        return cls(name, center.tolist(), np.where(deviation > 0, deviation, 1.0).tolist(), int((~known).sum()))

    @property
    def features(self) -> list[str]:
        gaps = [f"{self.name} {MISSING}"] if self.n_missing else []
        return [f"{self.name}[{j}]" for j in range(len(self.center))] + gaps

    def apply(self, cells: Cells, notes: list[str]) -> np.ndarray:
        values = as_vectors(cells, len(self.center))
        if values is None:
            raise CellError(0, f"is {shown(cells[0])}, expected a list of {len(self.center)} numbers, as in training")
        scaled = np.clip((values - np.asarray(self.center)) / np.asarray(self.scale), -CLIP, CLIP).astype(np.float32)
        missing = ~np.isfinite(values).all(axis=1)
        scaled[missing] = 0.0
        return np.column_stack([scaled, missing]).astype(np.float32) if self.n_missing else scaled

    def sentence(self) -> str:
        gaps = f"; {self.n_missing} missing became the mean, marked in a feature of their own"
        return f"vector of {len(self.center)} numbers, standardised{gaps if self.n_missing else ''}"


@dataclass
class Matrix(Treatment):
    """The feature matrix of a file that holds one, as it came."""

    kind: ClassVar[str] = "matrix"
    n_features: int

    @property
    def features(self) -> list[str]:
        return [f"{self.name}[{j}]" for j in range(self.n_features)]

    def apply(self, cells: Any, notes: list[str]) -> Any:
        if cells.shape[1] < self.n_features and sp.issparse(cells):
            # A sparse text file names the columns that occur; those at its end may not occur in this one.
            cells = sp.csr_array((cells.data, cells.indices, cells.indptr), shape=(cells.shape[0], self.n_features))
        if cells.shape[1] != self.n_features:
            raise ValueError(f"the file has {cells.shape[1]} features, the model was trained with {self.n_features}")
        return cells

    def sentence(self) -> str:
        return f"matrix of {self.n_features} numbers, as it came"


@dataclass
class LeftOut(Treatment):
    """A column that a model cannot learn from."""

    kind: ClassVar[str] = "left out"
    reason: str

    @property
    def features(self) -> list[str]:
        return []

    def apply(self, cells: Cells, notes: list[str]) -> np.ndarray:
        return np.empty((len(cells), 0), dtype=np.float32)

    def sentence(self) -> str:
        return f"left out: {self.reason}"


def _vectoriser(by_character: bool, **settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    ways = {"analyzer": "char", "ngram_range": (1, 2)} if by_character else {"strip_accents": "unicode"}
    return TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **ways, **settings)


def as_unit(cells: Cells, unit: str) -> np.ndarray | None:
    """The cells as numbers, dates or yes and no."""
    values = UNITS.get(unit, as_numbers)(cells)
    # True and false may come as numbers from one file and as words from another.
    return as_numbers(cells) if values is None and unit == "boolean" else values
