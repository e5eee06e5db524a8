"""Columns of mixed types → a feature matrix; what was done with each column is remembered, told and kept as JSON."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING as REQUIRED
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, get_type_hints

import numpy as np
import scipy.sparse as sp

from propml.messages import argument, renamed_argument
from propml.progress import track
from propml.schema import check_schema, schema_of
from propml.tables.arrays import ArrayFile
from propml.tables.cell_lists import shown
from propml.tables.embeddings import Embedded, preferred
from propml.tables.files import UserTable
from propml.tables.leaks import leaks
from propml.tables.sources import Source
from propml.tables.table import Cells, Table, as_table, choose_columns, quoted_names
from propml.tables.treatments import Category, LeftOut, Matrix, Number, Text, Treatment, Vector
from propml.tables.values import UNITS, CellError, as_texts, as_vectors, holds_codes, odd_among_numbers, plain_cells

MOST_CATEGORIES = 50  # values of a category with a feature of their own
# Text rather than categories: so many words in a cell on average, and so many different cells for each row.
WORDS_OF_TEXT, DIFFERENT_TEXTS = 3, 0.2
# From this share of different cells on, a column is text or an identifier; from this share of numbers on, what is none
# is a slip or a missing value.
NEARLY_ALL = 0.9
FEWEST_COVERED = 0.1  # text that shares words with other rows in fewer rows than this is an identifier
FEWEST_COUNTED = 20  # a column that counts its rows is told from a short row of numbers by its length
DENSE_FROM = 0.4  # above this share of values that are not zero, a dense matrix is smaller than a sparse one
_WORD = re.compile(r"\w\w+")


@dataclass(frozen=True)
class Features:
    """How columns become features.

    Examples
    --------
    >>> learned = Features.learn({"price": [1.0, 2.0, None, 4.0], "city": ["Rome", "Oslo", "Rome", "Oslo"]})
    >>> learned.X.shape, learned.features.names
    ((4, 4), ['price', 'price (missing)', 'city = Oslo', 'city = Rome'])
    >>> print(learned.features)
    price: number, standardised; 1 missing became the median 2, marked in a feature of their own
    city: category, 2 values as 0/1 features
    """

    treatments: list[Treatment]  #: one per column, in order

    @classmethod
    def learn(
        cls,
        source: Source | Any,
        columns: Sequence[str] | None = None,
        *,
        rows: np.ndarray | None = None,
        text: Collection[str] = (),
        categorical: Collection[str] = (),
        encoders: Mapping[str, str] | None = None,
        explicit: bool = False,
        decimal: str | None = None,
        missing: Collection[str] = (),
        verbose: bool = False,
    ) -> "Learned":
        """Look at the columns, decide what becomes of each, and do it.

        Parameters
        ----------
        source : Table, ArrayFile, DataFrame or mapping of str to cells
        columns : sequence of str, optional
            By default all.
        rows : ndarray of int, optional
            Learn from these only, and return their features only.
        text, categorical : collections of str
            Columns that somebody knows to be text or categories, whatever they look like.
        encoders : mapping of str to str, optional
            Text columns that become embeddings, and the encoder (or the column of vectors) of each.
        explicit : bool
            Somebody named these columns: one that merely counts its rows is kept.
        decimal, missing
            How numbers and missing values are written, as in :func:`read_table`.
        verbose : bool
            Show a progress bar.
        """
        if isinstance(source, ArrayFile):
            matrix = Matrix("X", source.X.shape[1])
            return Learned(cls([matrix]), source.X if rows is None else source.X[rows])
        table = as_table(source)
        rows = np.arange(table.n_rows) if rows is None else rows
        names = list(table.names if columns is None else columns)
        treatments: list[Treatment] = []
        parts, notes = [], []
        for name in track(names, "reading columns", len(names), show=verbose):
            asked = "text" if name in text else "category" if name in categorical else None
            encoder = (encoders or {}).get(name)
            treatment: Treatment
            with _column(table, name, rows, decimal, missing) as cells:
                if encoder is None:
                    treatment = treatment_of(name, cells, asked=asked, explicit=explicit)
                elif encoder in table.names:
                    treatment = LeftOut(name, f"its embedding is the column {encoder!r}")
                else:
                    treatment = Embedded.of(name, cells, encoder)
                if asked is None and isinstance(treatment, Category | Text | LeftOut) and not holds_codes(cells):
                    notes += _notes_on_numbers(table, cells, treatment, rows)
                treatments.append(treatment)
                parts.append(treatment.apply(cells, []))
        features = cls(treatments)
        if not features.names:
            reasons = "; ".join(f"{treatment.name!r} {treatment.sentence()}" for treatment in treatments)
            raise ValueError(f"{table.path}: no column is left that a model could learn from ({reasons})")
        return Learned(features, _joined(parts), notes)

    def apply(
        self,
        source: Source | Any,
        *,
        rows: np.ndarray | None = None,
        decimal: str | None = None,
        missing: Collection[str] = (),
        verbose: bool = False,
    ) -> Any:
        """The features of another table, and notes on what was strange in it; the arguments are those of ``learn``.

        Returns
        -------
        X : ndarray or csr_array of float32, shape (n_rows, n_features)
        notes : list of str
        """
        notes: list[str] = []
        is_matrix = isinstance(self.treatments[0], Matrix)
        if is_matrix != isinstance(source, ArrayFile):
            trained, given = ("a matrix of features", "columns") if is_matrix else ("columns", "a matrix")
            raise ValueError(f"the model was trained on {trained}, and {getattr(source, 'path', 'this')} holds {given}")
        if isinstance(source, ArrayFile):
            X = self.treatments[0].apply(source.X, notes)
            return (X if rows is None else X[rows]), notes
        table = as_table(source)
        rows = np.arange(table.n_rows) if rows is None else rows
        used = [treatment for treatment in self.treatments if treatment.features]
        if absent := [treatment.name for treatment in used if treatment.name not in table.names]:
            told = f"{table.path} has no column {absent[0]!r}, from which the model learned"
            raise ValueError(f"{told}; it has {quoted_names(table.names)}")
        parts = []
        for treatment in track(used, "reading columns", len(used), show=verbose):
            with _column(table, treatment.name, rows, decimal, missing) as cells:
                parts.append(treatment.apply(cells, notes))
        return _joined(parts), notes

    @property
    def names(self) -> list[str]:
        """The name of every feature."""
        return [name for treatment in self.treatments for name in treatment.features]

    def describe(self) -> dict[str, str]:
        """For every column what was done with it."""
        return {treatment.name: treatment.sentence() for treatment in self.treatments}

    def __str__(self) -> str:
        return "\n".join(f"{name}: {sentence}" for name, sentence in self.describe().items())

    def to_json(self) -> list[dict[str, Any]]:
        """The treatments as plain values."""
        return [{"kind": treatment.kind, **asdict(treatment)} for treatment in self.treatments]

    @classmethod
    def from_json(cls, stored: list[dict[str, Any]]) -> Self:
        """What :meth:`to_json` was asked of; a ``ValueError`` where it is anything else."""
        check_schema(stored, [{"kind": str, "name": str, str: object}], "columns")
        return cls([_treatment_from_json(column) for column in stored])


@dataclass(frozen=True)
class Learned:
    """Treatments with the features that they were learned on."""

    features: Features
    X: np.ndarray | sp.csr_array
    notes: list[str] = field(default_factory=list)  #: sentences on what is worth a look


@renamed_argument("show", "verbose")
def learn_features(table: UserTable, *, categorical: Sequence[str] = (), verbose: bool = False) -> Learned:
    """The features of the rows that a user's file has candidates for."""
    source = table.source
    if categorical and isinstance(source, ArrayFile):
        raise ValueError(f"{table.path} has no columns to name with {argument('categorical')}: it holds a matrix")
    learned = Features.learn(
        source,
        table.feature_columns,
        rows=table.rows if len(table.rows) < source.n_rows else None,
        text=table.text_columns,
        categorical=() if isinstance(source, ArrayFile) else choose_columns(source, categorical),
        encoders=_encoders(table),
        explicit=table.explicit_features,
        decimal=table.decimal,
        missing=table.missing,
        verbose=verbose,
    )
    table.notes.extend([*learned.notes, *leaks(table, learned.features.treatments, learned.X)])
    return learned


def _treatment_from_json(stored: dict[str, Any]) -> Treatment:
    """A saved treatment; what it divides by and what it looks up must make sense."""
    kinds: dict[str, Any] = {t.kind: t for t in (Number, Category, Text, Vector, Embedded, Matrix, LeftOut)}
    values = dict(stored)
    kind = values.pop("kind", None)
    if kind not in kinds:
        raise ValueError(f"a column is treated as {kind!r}, which this version of propml does not know")
    types = get_type_hints(kinds[kind])
    # What has a default may be missing: a model that was saved before the field was there.
    optional = {own.name: "?" if own.default is not REQUIRED else "" for own in fields(kinds[kind])}
    check_schema(values, {name + optional[name]: schema_of(types[name]) for name in optional}, "a column")
    terms, center, scale = (values.get(name, 1) for name in ("terms", "center", "scale"))
    if np.shape(values.get("weights", 1)) != np.shape(terms) or np.shape(center) != np.shape(scale):
        raise ValueError(f"column {values['name']!r} has lists of different lengths")
    named = [*values.get("values", ()), *values.get("terms", ())]
    if len(set(named)) < len(named) or 0 in np.ravel(scale):
        raise ValueError(f"column {values['name']!r} names a value twice, or is divided by 0")
    return kinds[kind](**values)


def _encoders(table: UserTable) -> dict[str, str]:
    """The encoder of the text column that was asked for; ``auto`` leaves the choice to held-out candidates."""
    if table.embed is None or isinstance(table.source, ArrayFile):
        return {}
    (name,) = table.text_columns
    if table.embed != "auto":
        return {name: table.embed}
    with _column(table.source, name, table.rows, None, table.missing) as cells:
        words = Text.learn(name, as_texts(cells))
        best, told = preferred(cells, table.candidates.states, None if words is None else words.apply(cells, []))
    how = "is read by its words" if best is None else f"is embedded by {best}"
    table.notes.append(f"column {name!r} {how}; {told}")
    return {} if best is None else {name: best}


def treatment_of(name: str, cells: Cells, *, asked: str | None = None, explicit: bool = False) -> Treatment:
    """What becomes of a column, from its cells and from what somebody asked for (``"text"``, ``"category"``)."""
    if asked is None or (isinstance(cells, np.ndarray) and cells.ndim == 2):
        if (vectors := as_vectors(cells)) is not None:
            if not vectors.shape[1]:
                return LeftOut(name, "its cells are lists of different lengths")
            return Vector.learn(name, vectors) if np.isfinite(vectors).all(axis=1).any() else _constant(name, 0)
        if any(isinstance(cell, list | dict | bytes | np.ndarray) for cell in cells[:100]):
            return LeftOut(name, "its cells are neither numbers nor text")
        for unit, convert in UNITS.items():
            if not (unit == "number" and holds_codes(cells)) and (values := convert(cells)) is not None:
                return _of_numbers(name, values, unit, explicit)
    texts = as_texts(cells)
    present = [text for text in texts if text is not None]
    different = len(set(present))
    if different == 0 or (different == 1 and len(present) == len(texts)):
        return _constant(name, different)
    if asked == "category" or (asked is None and not _reads_like_text(present, different)):
        return Category.learn(name, texts, MOST_CATEGORIES)
    treatment = Text.learn(name, texts)
    if treatment is not None and asked is not None:
        return treatment
    if treatment is not None and (np.diff(treatment.apply(texts, []).indptr) > 0).mean() >= FEWEST_COVERED:
        return treatment
    return LeftOut(name, f"nearly every value is different and few share a word, such as {present[0]!r}")


def _of_numbers(name: str, values: np.ndarray, unit: str, explicit: bool) -> Treatment:
    present = values[~np.isnan(values)]
    if not len(present) or (len(present) == len(values) and (present == present[0]).all()):
        return _constant(name, len(present))
    if not explicit and len(present) == len(values) >= FEWEST_COUNTED and (np.diff(present) == 1).all():
        return LeftOut(name, "it counts the rows")
    return Number.learn(name, values, unit)


@contextmanager
def _column(
    table: Table, name: str, rows: np.ndarray, decimal: str | None, missing: Collection[str]
) -> Iterator[Cells]:
    """The cells of some rows, ascending; the place of one that does not fit is named as the file counts it."""
    cells = table.cells(name)
    if len(rows) < len(cells):
        cells = cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows]
    try:
        yield plain_cells(cells, decimal, missing)
    except CellError as error:
        raise ValueError(f"{table.where(int(rows[error.row]), name)} {error}") from None


def _notes_on_numbers(table: Table, cells: Cells, treatment: Treatment, rows: np.ndarray) -> list[str]:
    """Refuse a column that is nearly all numbers and was not read as such; tell of one that mostly is."""
    if (odd := odd_among_numbers(cells)) is None:
        return []
    share, odd_rows, with_commas = odd
    name, first = treatment.name, odd_rows[0]
    told = f"{table.where(int(rows[first]), name)} is {shown(cells[first])}, "
    if with_commas:
        told += "a number with a comma"
        comma, point = argument("decimal", ","), argument("decimal", ".")
        ways = f"{comma} if a fraction begins there, {point} if it groups thousands"
    else:
        words = list(dict.fromkeys(str(cells[row]).strip() for row in odd_rows))[:3]
        told += f"and {share:.0%} of its cells are numbers"
        ways = f"{argument('missing', words)} if that is a missing value"
    if share >= NEARLY_ALL:
        others = f"{argument('categorical', [name])} if the cells are names, or {argument('ignore', [name])}"
        raise ValueError(f"{told}; give {ways}, {others}")
    became = "left out" if isinstance(treatment, LeftOut) else f"read as {treatment.kind}"
    return [f"{told}: the column is {became}; give {ways}"]


def _constant(name: str, different: int) -> LeftOut:
    return LeftOut(name, "all its values are the same" if different else "it is empty")


def _reads_like_text(present: Sequence[str], different: int) -> bool:
    if different >= NEARLY_ALL * len(present):
        return True
    sample = present[:: max(1, len(present) // 1000)]
    words = sum(len(_WORD.findall(text)) for text in sample) / len(sample)
    if Text.writes_without_blanks(sample):
        words = sum(map(len, sample)) / len(sample) / 2  # about two characters to a word
    return words >= WORDS_OF_TEXT and different >= DIFFERENT_TEXTS * len(present)


def _joined(parts: list[Any]) -> np.ndarray | sp.csr_array:
    """The features side by side: dense where most are not zero, and sparse otherwise; parts are freed on the way."""
    shape = (parts[0].shape[0], sum(part.shape[1] for part in parts))
    filled = sum(part.nnz if sp.issparse(part) else np.count_nonzero(part) for part in parts)
    if filled < DENSE_FROM * shape[0] * shape[1]:
        return sp.csr_array(sp.hstack([sp.csr_array(part) for part in parts if part.shape[1]], format="csr"))
    joined = np.empty(shape, dtype=np.float32)
    start = 0
    for i, part in enumerate(parts):
        joined[:, start : start + part.shape[1]] = part.toarray() if sp.issparse(part) else part
        start += part.shape[1]
        parts[i] = None
    return joined
