"""Candidate labels: the one concept that everything else in this package speaks.

Every entry of an ``(n_samples, n_labels)`` target is in one of three states: ``CANDIDATE`` (1: proposed, may be
true), ``EXCLUDED`` (0: surely not true) or ``UNKNOWN`` (-1: nobody looked; carries no loss).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, KeysView, Sequence, ValuesView
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from propml import target_checks as checks
from propml.target_checks import CANDIDATE, EXCLUDED, UNKNOWN, Annotations, column_of, is_missing, label_names

if TYPE_CHECKING:
    import torch

__all__ = [
    "CANDIDATE",
    "EXCLUDED",
    "UNKNOWN",
    "Annotations",
    "Candidates",
    "Empty",
    "Features",
    "LabelsLike",
    "MatrixLike",
    "as_candidates",
]

#: What to do with a row that has no candidate and no unknown label.
Empty: TypeAlias = Literal["error", "ignore", "drop"]
#: An array, a tensor, a DataFrame or a sparse matrix.
MatrixLike: TypeAlias = "npt.ArrayLike | sp.sparray | sp.spmatrix"
#: Features, ``(n_samples, n_features)``.
Features: TypeAlias = MatrixLike
#: All that :func:`as_candidates` takes: a 0/1 matrix, the label names of each row, or one class per row.
LabelsLike: TypeAlias = "Candidates | MatrixLike | Iterable[Any]"


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidate labels of ``n_samples`` rows, over labels that have names.

    Build one with a ``from_…`` method, or with :func:`as_candidates`, which looks at what it is given.

    Attributes
    ----------
    states : csr_array of int8, shape (n_samples, n_labels)
        1 where a label is a candidate, -1 where it is unknown; what is not stored is excluded.
    labels : tuple
        One name per column.
    index : tuple or ndarray
        One identifier per row: the items of an annotator table, otherwise the positions of the rows in the input
        (which differ from 0, 1, 2, … after ``empty="drop"`` and after a selection).
    annotations : Annotations or None
        The votes that an annotator table held.

    Examples
    --------
    >>> c = Candidates.from_lists([["beach", "sunset"], ["beach"]])
    >>> c.labels
    ('beach', 'sunset')
    >>> c.to_matrix()
    array([[1, 1],
           [1, 0]], dtype=int8)
    """

    states: sp.csr_array
    labels: tuple[Hashable, ...]
    index: Sequence[Hashable] | np.ndarray
    annotations: Annotations | None = None

    @classmethod
    def from_matrix(
        cls, matrix: MatrixLike, labels: Iterable[Hashable] | None = None, *, empty: Empty = "error"
    ) -> Candidates:
        """From 0/1 entries (-1: unknown), one column per label.

        Parameters
        ----------
        matrix : array-like, shape (n_samples, n_labels)
            NumPy (what is masked is unknown), SciPy sparse, torch, pandas or polars.
        labels : iterable, optional
            Names of the columns; by default those of the DataFrame, or 0, 1, 2, …
        empty : {"error", "ignore", "drop"}
            What to do with a row that has no candidate and no unknown label.
        """
        states = sp.csr_array(matrix) if sp.issparse(matrix) else checks.dense_matrix(matrix)
        names = label_names(getattr(matrix, "columns", None) if labels is None else labels, range(states.shape[1]))
        if len(names) != states.shape[1]:
            raise ValueError(f"the matrix has {states.shape[1]} columns and {len(names)} label names were given")
        return cls._make(checks.check_states(states, names), names, empty)

    @classmethod
    def from_lists(
        cls, rows: Iterable[Any], labels: Iterable[Hashable] | None = None, *, empty: Empty = "error"
    ) -> Candidates:
        """From one list, tuple or set of label names per row (``None``, NaN or NA: no candidates).

        Without ``labels`` the names that occur become the columns, sorted.
        """
        names_of_rows: list[tuple[Hashable, ...]] = []
        for i, row in enumerate(rows):
            if is_missing(row):
                row = ()
            if isinstance(row, str) or not isinstance(row, Iterable):
                raise ValueError(
                    f"row {i} is {row!r}, expected a list or set of label names; "
                    f"for delimited text use Candidates.from_text, for one class per row Candidates.from_classes"
                )
            names_of_rows.append(tuple(row))
        names = label_names(labels, {name for row in names_of_rows for name in row})
        column = {name: j for j, name in enumerate(names)}
        # A name that a row gives twice is one candidate.
        columns = [sorted({column_of(name, column, i) for name in row}) for i, row in enumerate(names_of_rows)]
        ends = np.cumsum([0, *map(len, columns)])
        at = np.array([j for row in columns for j in row], dtype=np.int32)
        states = sp.csr_array((np.ones(len(at), np.int8), at, ends), (len(columns), len(names)))
        return cls._make(states, names, empty)

    @classmethod
    def from_text(
        cls, column: Iterable[Any], sep: str = ";", labels: Iterable[Hashable] | None = None, *, empty: Empty = "error"
    ) -> Candidates:
        """From one delimited text per row, such as ``"beach;sunset"``; blanks around names are dropped."""
        if not sep:
            raise ValueError('sep is empty; give the character that stands between two labels, such as ";"')
        rows = []
        for i, cell in enumerate(column):
            if is_missing(cell):
                cell = ""
            if not isinstance(cell, str):
                raise ValueError(f"row {i} is {cell!r}, expected text with labels separated by {sep!r}")
            rows.append([name for part in cell.split(sep) if (name := part.strip())])
        return cls.from_lists(rows, labels, empty=empty)

    @classmethod
    def from_votes(
        cls,
        items: Iterable[Hashable],
        annotators: Iterable[Hashable],
        proposed: Iterable[Hashable | None],
        *,
        min_votes: int = 1,
        labels: Iterable[Hashable] | None = None,
        empty: Empty = "error",
    ) -> Candidates:
        """From a long annotator table: three columns of equal length, one row per proposal.

        Parameters
        ----------
        items, annotators, proposed : iterables of equal length
            Which item, who, and the label that was proposed; ``None``, NaN or NA where the annotator saw nothing.
            A proposal made twice by one annotator counts once.
        min_votes : int
            How many annotators must propose a label before it is a candidate.

        Returns
        -------
        Candidates
            One row per item, in the order of first appearance; the votes are kept (:attr:`votes`, :attr:`voters`).
        """
        items, annotators, proposed = list(items), list(annotators), list(proposed)
        if not len(items) == len(annotators) == len(proposed):
            raise ValueError(
                f"an annotator table needs columns of equal length, got {len(items)} items, "
                f"{len(annotators)} annotators and {len(proposed)} labels"
            )
        if min_votes < 1:
            raise ValueError(f"min_votes is {min_votes}; a candidate needs at least one vote")
        seen = [None if is_missing(p) else p for p in proposed]
        names = label_names(labels, {name for name in seen if name is not None})
        column = {name: j for j, name in enumerate(names)}
        row_of = {item: i for i, item in enumerate(dict.fromkeys(items))}
        annotator_of = {who: a for a, who in enumerate(dict.fromkeys(annotators))}
        triples = sorted(
            {
                (row_of[item], annotator_of[who], -1 if name is None else column_of(name, column, i))
                for i, (item, who, name) in enumerate(zip(items, annotators, seen, strict=True))
            }
        )
        table = np.array(triples, dtype=np.int64).reshape(-1, 3)
        annotations = Annotations(table[:, 0], table[:, 1], table[:, 2], tuple(annotator_of))
        states = sp.csr_array(annotations.counts((len(row_of), len(names))) >= min_votes).astype(np.int8)
        return cls._make(states, names, empty, tuple(row_of), annotations)

    @classmethod
    def from_classes(cls, y: npt.ArrayLike, labels: Iterable[Hashable] | None = None) -> Candidates:
        """From a 1-D class vector: every row has one candidate, its class."""
        given: Any = y
        if checks.is_torch(given):
            given = given.detach().cpu().numpy()
        # As objects, what is missing in a list does not become text; and what is masked becomes None in a list.
        values = given if isinstance(given, np.ndarray) else np.asarray(given, dtype=object)
        if values.ndim != 1:
            raise ValueError(f"a class vector has one dimension, got shape {values.shape}")
        classes = values.tolist()
        checks.check_classes(classes)
        return cls.from_lists([(value,) for value in classes], labels)

    @classmethod
    def _make(
        cls,
        states: sp.csr_array,
        labels: tuple[Hashable, ...],
        empty: Empty,
        index: Sequence[Hashable] | np.ndarray | None = None,
        annotations: Annotations | None = None,
    ) -> Candidates:
        n_samples, n_labels = states.shape
        if n_samples == 0 or n_labels == 0:
            what = "rows" if n_samples == 0 else "labels"
            raise ValueError(f"candidate labels of shape {states.shape}: there are no {what}; give at least one")
        if empty not in ("error", "ignore", "drop"):
            raise ValueError(f'empty is {empty!r}; choose "error", "ignore" or "drop"')
        made = cls(states, labels, np.arange(n_samples) if index is None else index, annotations)
        bare = np.flatnonzero(np.diff(states.indptr) == 0)
        if empty == "ignore" or not bare.size:
            return made
        if empty == "error":
            more = f" (and {bare.size - 1} more rows)" if bare.size > 1 else ""
            raise ValueError(f'row {bare[0]}{more} has no candidate label; drop it, or pass empty="ignore" or "drop"')
        if bare.size == n_samples:
            raise ValueError("no row has a candidate label; nothing is left after dropping rows without one")
        return made[np.setdiff1d(np.arange(n_samples), bare)]

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_samples, n_labels)``."""
        return self.states.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """What :meth:`to_matrix` gives, for scikit-learn's splitters."""
        if copy is False:
            raise ValueError("candidate labels are stored sparse; a dense array of them is always a copy")
        return self.to_matrix(np.int8 if dtype is None else dtype)

    @property
    def has_unknown(self) -> bool:
        """Whether any entry is unknown."""
        return bool((self.states.data < 0).any())

    @property
    def votes(self) -> sp.csr_array | None:
        """How many annotators proposed each label, ``(n_samples, n_labels)``; ``None`` without an annotator table."""
        return None if self.annotations is None else self.annotations.counts(self.shape)

    @property
    def voters(self) -> np.ndarray | None:
        """How many annotators looked at each row, ``(n_samples,)``; ``None`` without an annotator table."""
        if self.annotations is None:
            return None
        looked = np.unique(np.stack([self.annotations.row, self.annotations.annotator]), axis=1)
        return np.bincount(looked[0], minlength=len(self))

    def sizes(self) -> np.ndarray:
        """The number of candidates of each row, ``(n_samples,)``."""
        return np.asarray((self.states > 0).sum(axis=1)).ravel()

    def missing_from(self, truth: MatrixLike) -> np.ndarray:
        """The rows in which a true label is excluded, so that the set does not contain the truth.

        Parameters
        ----------
        truth : array-like of 0/1, shape (n_samples, n_labels)
        """
        true = sp.csr_array(truth) if sp.issparse(truth) else sp.csr_array(np.asarray(truth))
        if true.shape != self.shape:
            raise ValueError(f"truth has shape {true.shape}, the candidate labels {self.shape}")
        possible = (self.states != 0).astype(np.int8)
        return np.flatnonzero(np.asarray(((true != 0).astype(np.int8) - possible > 0).sum(axis=1)).ravel())

    def __getitem__(self, rows: Any) -> Candidates:
        """The given rows: a slice, positions or a boolean mask."""
        picked = np.atleast_1d(np.arange(len(self))[rows])
        index: Sequence[Hashable] | np.ndarray
        index = self.index[picked] if isinstance(self.index, np.ndarray) else tuple(self.index[i] for i in picked)
        annotations = None if self.annotations is None else self.annotations.take(picked, len(self))
        return Candidates(self.states[picked], self.labels, index, annotations)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        return self.labels == other.labels and self.shape == other.shape and (self.states != other.states).nnz == 0

    def __repr__(self) -> str:
        unknown = f", {int((self.states.data < 0).sum())} unknown entries" if self.has_unknown else ""
        per_row = self.sizes().sum() / max(1, len(self))
        return f"Candidates({len(self)} rows, {self.shape[1]} labels, {per_row:.2f} per row{unknown})"

    def to_matrix(self, dtype: Any = np.int8) -> np.ndarray:
        """Dense ``(n_samples, n_labels)`` of 1, 0 and, for unknown, -1 (which needs a signed type)."""
        if self.has_unknown and np.dtype(dtype).kind in "ub":
            raise ValueError(f"unknown entries are -1, which {np.dtype(dtype)} cannot hold; ask for int8")
        return self.states.toarray().astype(dtype, copy=False)

    def to_sparse(self) -> sp.csr_array:
        """Sparse int8 ``(n_samples, n_labels)`` of 1 and, for unknown, -1."""
        return self.states.copy()

    def to_torch(self, device: Any = None) -> torch.Tensor:
        """Dense int8 tensor ``(n_samples, n_labels)``, as the losses take it."""
        import torch

        return torch.as_tensor(self.to_matrix(), device=device)

    def to_lists(self) -> list[list[Hashable]]:
        """The candidate names of each row; unknown labels are left out."""
        marked = sp.csr_array(self.states > 0)
        marked.sort_indices()
        return [[self.labels[j] for j in part] for part in np.split(marked.indices, marked.indptr[1:-1])]

    def to_text(self, sep: str = ";") -> list[str]:
        """One delimited text per row."""
        if clash := [name for name in self.labels if sep in str(name)]:
            raise ValueError(f"label {clash[0]!r} contains the separator {sep!r}; choose another sep")
        return [sep.join(map(str, names)) for names in self.to_lists()]

    def to_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
        """A DataFrame with one int8 column per label."""
        from propml.extras import require

        frame = require(library, "data").DataFrame
        matrix = self.to_matrix()
        if library == "pandas":
            return frame(matrix, columns=list(self.labels), index=list(self.index))
        return frame({str(name): matrix[:, j] for j, name in enumerate(self.labels)})

    def to_classes(self) -> np.ndarray:
        """The class of each row, where every row has exactly one candidate."""
        if (other := np.flatnonzero(self.sizes() != 1)).size:
            raise ValueError(f"row {other[0]} has {self.sizes()[other[0]]} candidates; a class needs exactly one")
        return checks.names_array([names[0] for names in self.to_lists()])


def as_candidates(y: LabelsLike, labels: Iterable[Hashable] | None = None, *, empty: Empty = "error") -> Candidates:
    """Candidate labels from whatever the user has.

    A 2-D array, sparse matrix, tensor or DataFrame is a 0/1 matrix; a list of lists of numbers too. A list of sets, or
    of lists of text, holds label names. One dimension of numbers or text is a class vector (use
    :meth:`Candidates.from_text` for delimited text).

    >>> as_candidates([{"cat"}, {"cat", "dog"}])
    Candidates(2 rows, 2 labels, 1.50 per row)
    >>> as_candidates([[1, 0], [1, 1]])
    Candidates(2 rows, 2 labels, 1.50 per row)
    """
    if isinstance(y, Candidates):
        if labels is not None and tuple(labels) != y.labels:
            raise ValueError("the candidate labels already carry other label names than the ones given")
        return Candidates._make(y.states, y.labels, empty, y.index, y.annotations)
    given: Any = list(y) if isinstance(y, Iterator | KeysView | ValuesView) else y
    form = checks.form_of(given)
    if form == "classes":
        found = Candidates.from_classes(given, labels)
        checks.warn_of_delimited(found.labels)
        return found
    if form == "names":
        return Candidates.from_lists(given, labels, empty=empty)
    return Candidates.from_matrix(given if checks.has_columns(given) else list(given), labels, empty=empty)
