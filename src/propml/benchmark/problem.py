"""From the name of a dataset to what a method is given: features, candidate labels, and the truth to judge by.

A dataset is a known one, or a user's own file: then the experiment says where its true labels stand, and its candidates
if it has some.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import locked
from propml.corruption import SVMConfusions, corrupt
from propml.datasets import Dataset, load
from propml.datasets.catalogue import lookup
from propml.datasets.locations import checksum_of
from propml.devices import cache_dir
from propml.noise import Noise
from propml.range_scaler import RangeScaler
from propml.tables import UserTable, learn_features, open_table, read_table
from propml.tables.arrays import ArffTable, ArrayFile
from propml.tables.dataset import certain
from propml.tables.labels import FlagLabels, labels_in, merged, over_labels, same_spelling
from propml.targets import Candidates

# Mixed into the seed of a subset, so that it does not meet the numbers with which the data itself was drawn.
SUBSET_STREAM = int.from_bytes(b"rows")
SCALINGS = ("unit-range", "none")


@dataclass(frozen=True, eq=False)
class CandidateProblem:
    """What a cell is computed on."""

    X: np.ndarray | sp.csr_array  #: shape (n_samples, n_features), as the file has them
    candidates: Candidates  #: what is trained on
    truth: np.ndarray  #: uint8, (n_samples, n_labels): what test rows are judged by; never given to a method

    def scaled(self, scaling: str) -> np.ndarray | sp.csr_array:
        """Every feature min-max scaled to [-1, 1] over all rows, the paper's protocol, or (``"none"``) as it is."""
        return self.X if scaling == "none" else RangeScaler().fit_transform(self.X)


def has_real_candidates(dataset: str, files: Mapping[str, OwnFile] | None = None) -> bool:
    """Whether the candidates of a dataset, which may be one of the user's own files, come with it."""
    if files and dataset in files:
        return files[dataset].has_candidates
    entry = lookup(dataset)
    # The embedded set draws its candidates itself: they are no more real than others.
    return entry.suite != "embedded" and entry.facts[0].mean_candidates is not None


def load_problem(
    dataset: str,
    noise: Noise | None,
    seed: int,
    *,
    settings: Mapping[str, Any] | None = None,
    rows: int | None = None,
    file: OwnFile | None = None,
    verbose: bool = False,
) -> CandidateProblem:
    """The rows that have a true label, with their candidates; the same for the same arguments.

    Without noise the candidates are those of the file. The seed is that of the corruption, which takes ``settings``
    besides its level, and of the subset where ``rows`` asks for one. ``file`` is what a dataset of the user's own is
    read from. Support vector machines are kept in a cache.

    >>> problem = load_problem("digits-mosaic", Noise("flips", 0.2), seed=0, rows=50)
    >>> problem.X.shape, problem.candidates.shape
    ((50, 256), (50, 10))
    """
    data = load_truth(dataset, seed, rows, file)
    assert data.truth is not None
    if noise is None:
        if data.candidates is None:
            raise ValueError(f"{dataset} has no candidates of its own; give a noise level to make them with")
        return CandidateProblem(data.X, data.candidates, data.truth)
    arguments = {**(settings or {}), **noise.arguments()}
    if noise.kind != "svm":
        candidates = corrupt(noise.kind, data.X, data.truth, labels=data.label_names, random_state=seed, **arguments)
        return CandidateProblem(data.X, candidates, data.truth)
    folder = cache_dir() / "corruption"
    machines = SVMConfusions(random_state=seed, n_jobs=-1, cache_dir=folder, verbose=verbose, **arguments)
    # Methods run side by side on one problem: the first trains the machines, the others wait and read them.
    with locked(folder / f"{data.name}-{data.X.shape[0]}-{seed}.lock"):
        machines.fit(data.X, data.truth)
    return CandidateProblem(data.X, machines.transform(data.truth, labels=data.label_names), data.truth)


def load_truth(dataset: str, seed: int, rows: int | None = None, file: OwnFile | None = None) -> Dataset:
    """The dataset of a problem before its corruption: what kept scores are judged by again."""
    data = load(dataset) if file is None else file.load()
    if not isinstance(data, Dataset) or data.truth is None:
        raise ValueError(f"{dataset} has no table of features with true labels; choose a dataset of tables")
    labelled = data.drop_unlabelled()
    n = labelled.X.shape[0]
    if rows is None or rows >= n:
        return labelled
    return labelled.take(np.sort(np.random.default_rng([seed, SUBSET_STREAM]).choice(n, rows, replace=False)))


# -- a user's own file ------------------------------------------------------------------------------------------------

# Any of these says where candidates stand.
OF_CANDIDATES = ("candidates", "label_columns", "votes")
# Files that are read beside the data, seen from the folder of the experiment.
BESIDE = ("votes", "xml")


@dataclass(frozen=True)
class OwnFile:
    """What an experiment says of a file, and a digest of what the file held when the experiment was read."""

    name: str  #: as the experiment writes it
    folder: Path  #: of the experiment, which paths are seen from
    options: Mapping[str, Any]  #: ``truth``, ``categorical`` and arguments of :func:`propml.tables.read_table`
    digest: str  #: of the file and of those read beside it
    has_candidates: bool  #: otherwise they are made by corrupting the true labels

    @classmethod
    def read(cls, name: str, folder: Path, options: Mapping[str, Any]) -> Self:
        """What an experiment in this folder says of a file, which is read once, so that mistakes are told early."""
        _, _, candidates = _read(folder, name, options)
        return cls(name, folder, options, _digest(folder, name, options), candidates is not None)

    def configuration(self) -> dict[str, Any]:
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
        name, matrix = f"{Path(self.name).name}-{self.digest}", truth.to_matrix(np.uint8)
        labels, features = tuple(map(str, truth.labels)), tuple(map(str, range(X.shape[1])))
        return Dataset(name, X, matrix, candidates, labels, features)


def _read(
    folder: Path, name: str, options: Mapping[str, Any]
) -> tuple[UserTable | ArrayFile, Candidates, Candidates | None]:
    """The file, its true labels, and its candidates over the same labels; no feature is looked at."""
    given = {key: value for key, value in options.items() if key not in ("truth", "categorical")}
    given |= {key: folder / given[key] for key in BESIDE if key in given}
    how = {key: given[key] for key in ("delimiter", "encoding", "file_format") if key in given}
    source = open_table(folder / name, **how, plain="truth" in options)
    if isinstance(source, ArrayFile):
        if named := [key for key in options if key != "file_format"]:
            raise ValueError(f"it has no columns to name: it holds its labels beside a matrix; leave out {named[0]}")
        if source.truth is None:
            raise ValueError("it holds no true labels, and methods are judged by them")
        # What is both true and a candidate is to be corrupted.
        return source, source.truth, None if source.candidates is source.truth else source.candidates
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
