"""Files of the command line: clean labels in (``.npz``), candidates out (``.npz`` or ``.csv``)."""

import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from propml.atomic_files import replacing
from propml.corruption.annotators import vote_table
from propml.datasets.array_files import load_arrays, names_in
from propml.file_errors import reading
from propml.tables.text import write_csv
from propml.targets import Candidates

SUFFIXES = (".npz", ".csv")


def read_clean(path: str | Path) -> tuple[np.ndarray | None, np.ndarray, tuple[Hashable, ...] | None]:
    """The arrays ``X``, ``truth`` and ``label_names`` of an ``.npz`` file; X and names may be missing."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; give an .npz file with the arrays X and truth")
    with reading(path, "npz file of plain arrays", "save it with numpy.savez, without objects"):
        arrays = load_arrays(path)
        if "truth" not in arrays:
            raise ValueError(
                f"{path} holds no array named truth; save it with numpy.savez(path, X=features, truth=labels)"
            )
        truth = arrays["truth"]
        if truth.ndim != 2 or truth.dtype.kind not in "biuf" or 0 in truth.shape:
            given = f"truth has shape {truth.shape} and type {truth.dtype}"
            raise ValueError(f"{path}: {given}, expected 0/1 of shape (n_samples, n_labels)")
        return arrays.get("X"), truth, names_in(arrays, "label_names", truth.shape[1], path)


def check_output(path: str | Path) -> Path:
    """The path, if something can be written there; said before the long work, not after it."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} ends in {path.suffix!r}; candidates are written as {' or '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; make it first, or choose another --out")
    return path


def write_candidates(path: str | Path, candidates: Candidates, rows: np.ndarray, settings: Mapping[str, Any]) -> None:
    """Write candidates; ``rows`` says where each stood in the data, ``settings`` how they were made.

    An ``.npz`` holds ``candidates`` (int8, ``(n_samples, n_labels)``, -1 where unknown), ``label_names``, ``rows``,
    ``settings`` (JSON), ``seed`` and, from annotators, ``votes``. A ``.csv`` has the columns ``row`` and ``candidates``
    (names separated by ``;``); rows that nobody looked at are left out.
    """
    path = check_output(path)
    if path.suffix.lower() == ".csv":
        if clash := [name for name in candidates.labels if ";" in str(name)]:
            raise ValueError(
                f"label {clash[0]!r} contains ';', which separates labels in a .csv; write an .npz instead"
            )
        unseen = np.asarray((candidates.states < 0).sum(axis=1)).ravel() > 0
        lines = zip(rows.tolist(), candidates.to_text(";"), unseen, strict=True)
        write_csv(path, ["row", "candidates"], ([row, names] for row, names, nobody in lines if not nobody))
        return
    arrays: dict[str, Any] = {
        "candidates": candidates.to_matrix(np.int8),
        "label_names": np.array([str(name) for name in candidates.labels]),
        "rows": rows,
        "settings": np.array(json.dumps(dict(settings))),
        "seed": np.array(settings.get("seed", -1)),
    }
    if candidates.votes is not None:
        arrays["votes"] = candidates.votes.toarray()
    with replacing(path) as beside, beside.open("wb") as file:
        np.savez_compressed(file, **arrays)


def write_votes(path: str | Path, candidates: Candidates, rows: np.ndarray) -> None:
    """Write the long table of votes: ``item``, ``annotator``, ``label`` (empty where nothing was proposed)."""
    table = vote_table(candidates)
    row_of = dict(zip(candidates.index, rows.tolist(), strict=True))
    votes = zip(*table.values(), strict=True)
    write_csv(Path(path), list(table), ([row_of[item], *vote] for item, *vote in votes))
