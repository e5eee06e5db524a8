"""A user's own file as a dataset of an experiment: where its true labels stand, and its candidates if it has some."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from propml.benchmark.toml_table import TomlTable, frozen, is_integer, is_number
from propml.datasets import Dataset
from propml.datasets.locations import checksum_of
from propml.tables import UserTable, learn_features, open_table, read_table
from propml.tables.arrays import ArffTable, ArrayFile
from propml.tables.labels import FlagLabels, labels_in, merged, same_spelling
from propml.tables.truth import certain, over_labels
from propml.targets import Candidates

# Any of these says where candidates stand.
OF_CANDIDATES = ("candidates", "label_columns", "votes")
# Files that are read beside the data, seen from the folder of the experiment.
BESIDE = ("votes", "xml")
NOT_HERE = ("path", "image", "allow_outside")  # no method looks at pictures of a table
OPTIONS = ("truth", "categorical", *(name for name in inspect.signature(read_table).parameters if name not in NOT_HERE))
# Options that may be lists; the others are texts.
LISTS = ("truth", "categorical", "label_columns", "votes_columns", "features", "ignore", "missing")
OTHERS = {
    "min_votes": (is_integer, "a whole number"),
    "min_confidence": (is_number, "a number"),
    "merge_labels": (lambda value: isinstance(value, bool), "true or false"),
}


@dataclass(frozen=True)
class OwnFile:
    """What an experiment says of a file, and a digest of what the file held when the experiment was read."""

    name: str  #: as the experiment writes it
    folder: Path  #: of the experiment, which paths are seen from
    options: Mapping[str, Any]  #: ``truth``, ``categorical`` and arguments of :func:`propml.tables.read_table`
    digest: str  #: of the file and of those read beside it
    has_candidates: bool  #: otherwise they are made by corrupting the true labels

    def configuration(self) -> dict[str, Any]:
        """What the scores of a cell on this file depend on."""
        return {"digest": self.digest, "options": self.options}

    def load(self) -> Dataset:
        """Features, true labels and candidates of the rows that have a candidate."""
        if _digest(self.folder, self.name, self.options) != self.digest:
            raise ValueError(f"{self.name} was changed after the experiment was read; run the experiment again")
        table, truth, candidates = _read(self.folder, self.name, self.options)
        if isinstance(table, ArrayFile):
            X = table.X
        else:
            X = learn_features(table, categorical=_listed(self.options.get("categorical", ()))).X
            for note in table.notes:
                warnings.warn(f"{self.name}: {note}", stacklevel=2)
        return Dataset(
            f"{Path(self.name).name}-{self.digest}",
            X,
            truth.to_matrix(np.uint8),
            candidates,
            tuple(map(str, truth.labels)),
            tuple(map(str, range(X.shape[1]))),
        )


def own_file(table: TomlTable, name: str, folder: Path) -> OwnFile:
    """A file with its table ``[files."name"]``, checked: it is read once, so that mistakes are told before the run."""
    table.only(OPTIONS, "option")
    for key, value in table.values.items():
        right, words = OTHERS.get(key, (lambda value: isinstance(value, str), "a text"))
        texts = key in LISTS and isinstance(value, list) and all(isinstance(each, str) for each in value)
        if not (right(value) or texts):
            raise table.error(key, f"is {value!r}; {words}{' or a list of texts' * (key in LISTS)} was expected")
    if table.values.get("embed") == "auto":
        raise table.error("embed", 'is "auto", which looks at the labels of all rows; name the encoder')
    options = frozen(table.values)
    try:
        _, _, candidates = _read(folder, name, options)
        digest = _digest(folder, name, options)
    except (ValueError, OSError) as error:
        raise table.error("", f"does not work: {error}") from error
    return OwnFile(name, folder, options, digest, candidates is not None)


def _read(
    folder: Path, name: str, options: Mapping[str, Any]
) -> tuple[UserTable | ArrayFile, Candidates, Candidates | None]:
    """The file, its true labels, and its candidates over the same labels; no feature is looked at."""
    given = {key: value for key, value in options.items() if key not in ("truth", "categorical")}
    given |= {key: folder / given[key] for key in BESIDE if key in given}
    how = {key: given[key] for key in ("delimiter", "encoding", "file_format") if key in given}
    source = open_table(folder / name, **how, plain="truth" in options)
    if isinstance(source, ArrayFile):
        return _read_arrays(source, options)
    truth = options.get("truth")
    if truth is None and not isinstance(source, ArffTable):
        raise ValueError(
            f"truth is missing; methods are judged by true labels, so name their column (truth) or columns of 0 and 1 "
            f"(a list): {name} has {', '.join(source.names)}"
        )
    in_one = truth if isinstance(truth, str) else None
    in_many = None if truth is None or isinstance(truth, str) else truth
    if not any(key in options for key in OF_CANDIDATES):
        table = read_table(folder / name, **given, candidates=in_one, label_columns=in_many)
        return table, certain(table.source, table.candidates), None
    where = labels_in(source, in_one, given.get("sep", ";"), in_many, given.get("xml"), what="true")
    assert where is not None
    given["ignore"] = [*_listed(given.get("ignore", ())), *where.columns]
    table = read_table(folder / name, **given)
    true, merge = where.read(source), options.get("merge_labels", False)
    if isinstance(where, FlagLabels) and isinstance(table.labels, FlagLabels):
        # Two columns cannot have one name: the first of these belongs to the first of those.
        if len(where.columns) != len(table.candidates.labels):
            raise ValueError(
                f"truth names {len(where.columns)} columns and label_columns {len(table.candidates.labels)}; "
                f"name one for each label, in the same order"
            )
        true = Candidates.from_matrix(true.states, table.candidates.labels, empty="ignore")
    true = certain(source, merged(true) if merge else true)[table.rows]
    matched_by = same_spelling if merge else str
    known = {matched_by(label): label for label in (*true.labels, *table.candidates.labels)}
    # A true label that nobody proposed is a label all the same: methods are judged by it, too.
    labels = sorted(known.values(), key=str)
    true, candidates = (
        over_labels(each, labels, lambda row, label: label, matched_by=matched_by) for each in (true, table.candidates)
    )
    return table, true, candidates


def _read_arrays(source: ArrayFile, options: Mapping[str, Any]) -> tuple[ArrayFile, Candidates, Candidates | None]:
    """A matrix of features, which carries its labels; what is both true and a candidate is to be corrupted."""
    if named := [key for key in options if key != "file_format"]:
        raise ValueError(f"it has no columns to name: it holds its labels beside a matrix; leave out {named[0]}")
    if source.truth is None:
        raise ValueError("it holds no true labels, and methods are judged by them")
    return source, source.truth, None if source.candidates is source.truth else source.candidates


def _listed(columns: str | tuple[str, ...]) -> list[str]:
    return [each.strip() for each in columns.split(",")] if isinstance(columns, str) else list(columns)


def _digest(folder: Path, name: str, options: Mapping[str, Any]) -> str:
    """Of the content of all files, wherever they lie; of a folder, of what is in it."""
    digest = hashlib.sha256()
    for place in (name, *(options[key] for key in BESIDE if key in options)):
        path = folder / place
        files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        for each in files:
            digest.update(f"{each.relative_to(path)} {checksum_of(each, 'sha256')}\n".encode())
    return digest.hexdigest()[:16]
