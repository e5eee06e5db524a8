"""A report on disk: ``arrays.npz`` and ``report.json`` in one folder, with checksums and without pickle."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from propml.audit.reliability import Reliability
from propml.durable import write_whole
from propml.targets import Annotations, Candidates

if TYPE_CHECKING:
    from propml.audit.report import AuditReport

__all__ = ["read_report", "write_report"]

# Raised when an older reader could not make sense of a newer file.
FORMAT = 1
REPORT, ARRAYS = "report.json", "arrays.npz"


def write_report(report: AuditReport, folder: Path) -> None:
    """Write both files, each as a whole."""
    from propml import __version__

    candidates = report.candidates
    states = sp.csr_array(candidates.states)
    arrays = {"data": states.data, "indices": states.indices, "indptr": states.indptr}
    # Excluded labels of complete candidates have probability 0: what is stored is enough.
    arrays["probabilities"] = report.probabilities if report.incomplete else _stored(report.probabilities, states)
    told: dict[str, Any] = {
        "format": FORMAT,
        "propml": __version__,
        "shape": list(candidates.shape),
        "labels": _names(candidates.labels),
        "index": None if _is_counted(candidates.index) else _names(candidates.index),
        "incomplete": report.incomplete,
        "settings": report.settings,
        "annotators": None,
        "reliability": None,
    }
    if candidates.annotations is not None:
        told["annotators"] = _names(candidates.annotations.names)
        arrays |= {f"votes_{name}": getattr(candidates.annotations, name) for name in ("row", "annotator", "label")}
    if report.reliability is not None:
        told["reliability"] = _names(report.reliability.annotators)
        arrays |= {f"rate_{name}": getattr(report.reliability, name) for name in _rate_names()}
    content = io.BytesIO()
    kept: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    np.savez(content, **kept)
    told["arrays_sha256"] = hashlib.sha256(content.getbuffer()).hexdigest()
    told["sha256"] = _digest(told)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / ARRAYS, content.getvalue())
    write_whole(folder / REPORT, (json.dumps(told, ensure_ascii=False, indent=1) + "\n").encode())


def read_report(folder: Path) -> dict[str, Any]:
    """The arguments of an ``AuditReport``, or an error that says what is wrong with the files."""
    told = _read_json(folder / REPORT)
    arrays = _read_arrays(folder / ARRAYS, told["arrays_sha256"])
    try:
        return _arguments(told, arrays)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise ValueError(f"the report in {folder} does not hold what it should ({error}); save it again") from error


def _arguments(told: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    shape = tuple(told["shape"])
    states = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
    index: Sequence[Hashable] | np.ndarray
    index = np.arange(shape[0]) if told["index"] is None else tuple(told["index"])
    annotations = None
    if told["annotators"] is not None:
        row, annotator, label = (arrays[f"votes_{name}"] for name in ("row", "annotator", "label"))
        annotations = Annotations(row, annotator, label, tuple(told["annotators"]))
    reliability = None
    if told["reliability"] is not None:
        rates = {name: arrays[f"rate_{name}"] for name in _rate_names()}
        reliability = Reliability(annotators=tuple(told["reliability"]), **rates)
    probabilities = arrays["probabilities"]
    if not told["incomplete"]:
        dense = np.zeros(shape, dtype=np.float32)
        dense[np.repeat(np.arange(shape[0]), np.diff(states.indptr)), states.indices] = probabilities
        probabilities = dense
    return {
        "candidates": Candidates(states, tuple(told["labels"]), index, annotations),
        "probabilities": probabilities,
        "incomplete": told["incomplete"],
        "reliability": reliability,
        "settings": told["settings"],
    }


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no report in {path.parent}; give the folder that AuditReport.save wrote")
    try:
        told = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} was cut short or is no report ({error}); save it again") from error
    if not isinstance(told, dict) or "format" not in told or "sha256" not in told:
        raise ValueError(f"{path} was not written by AuditReport.save; give the folder of a saved report")
    if not isinstance(told["format"], int) or told["format"] > FORMAT:
        raise ValueError(
            f"{path} was written by propml {told.get('propml')} in format {told['format']}, this version reads up to "
            f"{FORMAT}; install a newer propml"
        )
    if _digest({name: value for name, value in told.items() if name != "sha256"}) != told["sha256"]:
        raise ValueError(f"{path} was changed after it was saved (its checksum does not match); save it again")
    return told


def _read_arrays(path: Path, digest: str) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing beside {REPORT}; copy the whole folder")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{path} was cut short or changed (its checksum does not match); save the report again")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read ({error}); save the report again") from error


def _stored(probabilities: np.ndarray, states: sp.csr_array) -> np.ndarray:
    row = np.repeat(np.arange(states.shape[0]), np.diff(states.indptr))
    return probabilities[row, states.indices].astype(np.float32)


def _is_counted(index: Any) -> bool:
    return isinstance(index, np.ndarray) and np.array_equal(index, np.arange(len(index)))


def _names(names: Any) -> list[Any]:
    """Names as JSON has them: what is no text, number or truth value becomes text."""
    plain = (name.item() if isinstance(name, np.generic) else name for name in names)
    return [name if isinstance(name, str | int | float | bool) else str(name) for name in plain]


def _rate_names() -> list[str]:
    return [field.name for field in dataclasses.fields(Reliability) if field.name != "annotators"]


def _digest(told: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
