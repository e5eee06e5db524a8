"""A user's own file: features and candidate labels read from it, cleaned labels written back in the same format."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from propml.datasets.locations import leads_out
from propml.file_errors import reading
from propml.messages import argument
from propml.tables import labels as label_sets
from propml.tables.arrays import ArffTable, ArrayFile
from propml.tables.arrow import ArrowTable
from propml.tables.labels import FlagLabels, States, TextLabels, same_spelling
from propml.tables.sources import Source, open_table
from propml.tables.table import Table, checked_column, choose_columns
from propml.tables.tools import ToolTable
from propml.tables.votes import MODEL_COLUMNS, VoteFile, identifier, read_rules
from propml.targets import CANDIDATE, Candidates

# What the columns of an annotator table are called, unless somebody says otherwise.
VOTES_COLUMNS = ("item", "annotator", "label")


@dataclass(frozen=True, eq=False)
class UserTable:
    """What was read from a user's file."""

    source: Source  #: the file: its columns, or its feature matrix
    candidates: Candidates  #: of the rows that have a candidate label; its index is ``item_ids``
    rows: np.ndarray  #: where these rows stand in the file, ascending
    feature_columns: tuple[str, ...] = ()  #: empty for files that hold a matrix
    explicit_features: bool = False  #: whether somebody named these columns, rather than taking all that are left
    texts: list[str] | None = None  #: what to show of each row
    images: list[str] | None = None  #: the same; a picture that must not be shown is empty
    text_columns: tuple[str, ...] = ()  #: columns that somebody called text
    #: where the candidates stand; None for files that carry them as a matrix
    labels: TextLabels | FlagLabels | VoteFile | None = None
    spellings: Mapping[str, list[str]] = field(default_factory=dict)  #: of labels that were merged, all in the file
    decimal: str | None = None  #: how numbers are written, see :func:`read_table`
    missing: tuple[str, ...] = ()  #: words for a missing value, besides the usual ones
    embed: str | None = None  #: the encoder of the text columns
    notes: list[str] = field(default_factory=list)  #: sentences on what was left out

    @property
    def path(self) -> Path:
        return self.source.path

    @property
    def item_ids(self) -> tuple[str, ...]:
        """One per row: the column of identifiers, or the row numbers in the file."""
        return tuple(map(str, self.candidates.index))

    @property
    def suffix(self) -> str:
        """The ending that names the format of the labels, such as ``.csv`` or ``.csv.gz``."""
        path = self.labels.table.path if isinstance(self.labels, VoteFile) else self.path
        if isinstance(self.source, ArrowTable) and path.is_dir():
            return self.source.suffix
        return "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix


def read_table(
    path: str | Path,
    *,
    candidates: str | None = None,
    sep: str = ";",
    label_columns: str | Sequence[str] | None = None,
    votes: str | Path | None = None,
    votes_columns: Sequence[str] = VOTES_COLUMNS,
    min_votes: int = 1,
    min_confidence: float = 0.0,
    merge_labels: bool = False,
    features: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] = (),
    id_column: str | None = None,
    text: str | None = None,
    embed: str | None = None,
    image: str | None = None,
    allow_outside: bool = False,
    xml: str | Path | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    missing: str | Sequence[str] = (),
    file_format: str | None = None,
) -> UserTable:
    """Read features and candidate labels from a user's file.

    Rows without a candidate label are left out; a note says how many. The cleaned file keeps them as they were.

    Parameters
    ----------
    path : path, or a table in memory
        What :func:`~propml.tables.sources.open_table` reads; npz, svmlight, ``.mat`` and exports of labelling tools
        carry their labels.
    candidates : str, optional
        The column of delimited text or of lists; in JSON a path such as ``meta.tags``.
    sep : str
        Separator between the labels of a cell; empty if every cell holds one label, which may be a whole number.
    label_columns : str or sequence of str, optional
        Columns of 0 and 1 instead: names, names separated by commas, or patterns such as ``y_*``.
    votes : path, optional
        A long table of item, annotator and label instead, or beside ``candidates``; a cell may be a list of labels,
        as in the answers of a language model. Needs ``id_column``. Or the label matrix of rules (npy, npz: items by
        rules, -1 abstains), whose rows are those of the data.
    votes_columns : sequence of three str
        Names of these columns in that table.
    min_votes : int
        How many votes make a label a candidate, if candidates come from ``votes`` alone.
    min_confidence : float
        Ignore votes whose ``confidence`` is below this.
    merge_labels : bool
        Merge labels that differ only in case or blanks; by default a note names them.
    features : str or sequence of str, optional
        Feature columns, given like ``label_columns``; by default all columns without another role.
    ignore : str or sequence of str
        Columns that are not features.
    id_column : str, optional
        A column of unique identifiers.
    text, image : str, optional
        Columns to show; a text column is also a feature, an image column holds paths, seen from the file's folder.
    embed : str, optional
        How to represent the text column, if not by its words: an encoder (``"wordllama"``, ``"minilm"``, a
        name or folder of sentence-transformers or model2vec), a column of lists of numbers, or ``"auto"``.
    allow_outside : bool
        Show images outside that folder, too: those that ``..``, a path from the root or a link lead to.
    xml : path, optional
        For ARFF: the Mulan header that names the labels; by default the ``.xml`` beside it, where there is one.
    delimiter, encoding : str, optional
        For CSV and TSV.
    decimal : {",", "."}, optional
        The decimal sign of numbers that contain commas; the other sign groups thousands.
    missing : str or sequence of str
        Words for a missing value in feature columns, besides the usual ones (``NA``, ``?``, …).
    file_format : str, optional
        The format, if neither the file's name nor its content shows it: ``"jsonl"``, ``"label-studio"``, …
    """
    notes: list[str] = []
    plain = bool(candidates or label_columns or votes)
    source = open_table(path, delimiter=delimiter, encoding=encoding, file_format=file_format, plain=plain)
    if isinstance(source, ArrayFile):
        _check_votes_options(votes, votes_columns, min_votes, True)
        named = candidates or label_columns or votes or features or ignore or id_column or text or embed or image or xml
        if named or decimal or missing:
            raise ValueError(f"{source.path} has no columns to name: it holds its labels beside a matrix of features")
        if source.candidates is None:
            raise ValueError(f"{source.path} holds no candidate labels; see the documentation for their names")
        given, rows = source.candidates, np.arange(source.n_rows)
        given = replace(given, index=tuple(map(str, rows.tolist())))
        given, rows, spellings = _labelled(source, given, rows, merge_labels, 1, notes)
        return UserTable(source, given, rows, spellings=spellings, notes=notes)
    ids = source.ids if isinstance(source, ToolTable) and id_column is None else _identifiers(source, id_column)
    beside = None if votes is None else _open_votes(votes, votes_columns, id_column, ids)
    if isinstance(source, ToolTable):
        with reading(source.path, "export of a labelling tool"):
            beside = source.votes()
        text = "text" if text is None and "text" in source.names else text
    if embed is not None and text is None:
        raise ValueError(f"{argument('embed', embed)} is for a column of text; name it with {argument('text')}")
    where = label_sets.labels_in(source, candidates, sep, label_columns, xml, needed=beside is None)
    _check_votes_options(beside, votes_columns, min_votes, where is not None)
    if where is not None:
        with reading(source.path, "table of labels"):
            given, rows = replace(where.read(source), index=tuple(ids)), np.arange(source.n_rows)
        if beside is not None:
            voted, at, _ = beside.read(ids, min_confidence=min_confidence)
            given = label_sets.with_votes(given, voted, at, same_spelling if merge_labels else str)
    else:
        assert beside is not None
        given, rows, notes = beside.read(ids, 1 if merge_labels else min_votes, min_confidence)
        if given.annotations is not None and len(given.annotations.names) < 2:
            given = replace(given, annotations=None)  # one annotator cannot be compared with anybody
    taken = {*(where.columns if where else ()), id_column, image, *(choose_columns(source, ignore) if ignore else ())}
    columns = feature_columns(source, features, taken, text, needed=image is None)
    given, rows, spellings = _labelled(source, given, rows, merge_labels, min_votes, notes)
    images = _shown(source, image, rows)
    return UserTable(
        source,
        given,
        rows,
        feature_columns=tuple(columns),
        explicit_features=features is not None,
        texts=_shown(source, text, rows),
        images=images if images is None or allow_outside else _without_outside(source, images, notes),
        text_columns=(text,) if text is not None else (),
        labels=where or beside,
        spellings=spellings,
        decimal=decimal,
        missing=(missing,) if isinstance(missing, str) else tuple(missing),
        embed=embed,
        notes=notes,
    )


def write_cleaned(table: UserTable, cleaned: Candidates, path: str | Path) -> Path:
    """Write the file again with these labels: same format, same columns, same rows; only labels differ.

    Parameters
    ----------
    table : UserTable
        As it was read; the file is read again and must still be there.
    cleaned : Candidates
        The labels of the rows in ``table.candidates``, in the same order.
    path : path
        Where to write; an annotator table is written as one, without the votes for labels that were dropped.
    """
    path = Path(path)
    names = table.item_ids if isinstance(table.labels, VoteFile) else table.rows.tolist()
    differ = label_sets.changes_between(table.candidates, cleaned, names)
    changes = {row: as_spelled(states, table.spellings) for row, states in differ.items()}
    if isinstance(table.source, ArrayFile):
        table.source.copy(path, changes)
    elif isinstance(table.labels, VoteFile):
        table.labels.write(path, changes, dict(zip(names, cleaned.to_lists(), strict=True)))
    else:
        assert table.labels is not None
        table.source.copy(path, table.labels.edits(changes))
    return path


def as_spelled(states: States, spellings: Mapping[str, list[str]]) -> States:
    """A label that goes goes in every spelling; one that comes has its most frequent spelling."""
    return {
        name: state
        for label, state in states.items()
        for name in ([label] if state == CANDIDATE else spellings.get(label, [label]))
    }


def _check_votes_options(votes: object, columns: Sequence[str], least: int, has_candidates: bool) -> None:
    """Refuse what is said of votes where that would change nothing."""
    if votes is None and tuple(columns) != VOTES_COLUMNS:
        named = ", ".join(columns)
        raise ValueError(f"{named} are columns of an annotator table; give it with {argument('votes')}")
    if least != 1 and (votes is None or has_candidates):
        why = "no votes were given" if votes is None else "here the data names its candidates"
        raise ValueError(f"{least} votes are to make a label a candidate, and {why}; leave out {argument('min_votes')}")


def _open_votes(path: str | Path, columns: Sequence[str], id_column: str | None, ids: Sequence[str]) -> VoteFile:
    if Path(path).suffix.lower() in (".npy", ".npz"):
        return read_rules(Path(path), ids)
    if id_column is None:
        way = f"say with {argument('id_column')} which column of the data identifies them"
        raise ValueError(f"{path} names items; {way}")
    if len(columns) != 3:
        raise ValueError(f"an annotator table has the columns item, annotator and label, and {list(columns)} was given")
    table = open_table(path)
    if isinstance(table, ArrayFile | ArffTable):
        raise ValueError(f"{path} is not an annotator table; give a CSV, TSV, JSON, Excel or Parquet file")
    is_model = tuple(columns) == VOTES_COLUMNS and set(MODEL_COLUMNS) <= set(table.names)
    item, annotator, label = MODEL_COLUMNS if is_model else columns
    return VoteFile(table, item, annotator, label)


def _identifiers(table: Table, id_column: str | None) -> list[str]:
    if id_column is None:
        return [str(row) for row in range(table.n_rows)]
    ids = [identifier(cell) for cell in table.cells(id_column)]
    first = {item: row for row, item in reversed(list(enumerate(ids)))}
    for row, item in enumerate(ids):
        if not item or first[item] != row:
            told = f"{table.where(row, id_column)} is {f'{item!r}, as in row {first[item]}' if item else 'empty'}"
            ways = f"give every row an identifier of its own, or leave out {argument('id_column')}: rows are numbered"
            raise ValueError(f"{told}; {ways}")
    return ids


def feature_columns(
    table: Table,
    features: str | Sequence[str] | None,
    taken: Collection[str | None],
    text: str | None = None,
    *,
    needed: bool = True,
) -> list[str]:
    """The columns that somebody asked for, or all that are not taken; none only where ``needed`` is false."""
    if features is None:
        columns = [name for name in table.names if name not in taken]
    else:
        columns = choose_columns(table, features)
        if text is not None and text not in columns:
            columns.append(checked_column(table, text))
        if clash := [name for name in columns if name in taken]:
            raise ValueError(f"{table.path}: column {clash[0]!r} is named as a feature and as something else")
    if not columns and needed:
        raise ValueError(f"{table.path}: no column is left for the features")
    return columns


def _labelled(
    source: Source, given: Candidates, rows: np.ndarray, merge: bool, min_votes: int, notes: list[str]
) -> tuple[Candidates, np.ndarray, dict[str, list[str]]]:
    """The rows that have a candidate, with spellings merged or told; where they stand; and what was merged."""
    notes += label_sets.told_alike(given.labels, merge=merge)
    spellings = {name: group for group in label_sets.alike(given.labels) if merge for name in group}
    given = label_sets.merged(given, min_votes) if merge else given
    has = given.sizes() > 0
    if not has.any():
        raise ValueError(f"{source.path}: no row has a candidate label, so nothing is left to learn from")
    if without := source.n_rows - int(has.sum()):
        rows_have = "row has" if without == 1 else "rows have"
        notes.append(f"{without} {rows_have} no candidate label: left out; a cleaned file keeps such rows as they are")
    return (given, rows, spellings) if has.all() else (given[has], rows[has], spellings)


def _without_outside(table: Table, paths: Sequence[str], notes: list[str]) -> list[str]:
    """The paths of pictures, empty for those that are outside the folder of the table."""
    outside = [path for path in paths if path and leads_out(table.path.parent, path)]
    if outside:
        pictures = "picture lies" if len(outside) == 1 else "pictures lie"
        told = f"{len(outside)} {pictures} outside the folder of {table.path.name} and will not be shown"
        notes.append(f"{told}, first {outside[0]!r}; show them with {argument('allow_outside', True)}")
    hidden = set(outside)
    return ["" if path in hidden else path for path in paths]


def _shown(table: Table, column: str | None, rows: np.ndarray) -> list[str] | None:
    if column is None:
        return None
    cells = table.cells(checked_column(table, column))
    return ["" if cells[row] is None else str(cells[row]) for row in rows]
