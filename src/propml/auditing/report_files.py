"""A report on disk: one file with a checksum and without pickle, ``report.safetensors`` in a folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from propml.auditing.annotator_model import Reliability
from propml.file_errors import reading
from propml.persistence import from_json_array, json_array, read_state, write_state
from propml.schema import Array, Schema, check_schema
from propml.targets import Annotations, Candidates

if TYPE_CHECKING:
    from propml.auditing.report import AuditReport

__all__ = ["REPORT_FILE", "read_audit_report", "write_audit_report"]

REPORT_FILE, KIND = "report.safetensors", "AuditReport"
VOTES = ("row", "annotator", "label")
RATES = [field.name for field in dataclasses.fields(Reliability) if field.name != "annotators"]


def _are_shares(probabilities: np.ndarray) -> bool:
    return not ((probabilities < 0) | (probabilities > 1)).any()


STORED: Schema = {
    "told": Array("u", "characters"),
    # One entry per place and in order: probabilities are stored beside them.
    "states": Array("i", "rows", "labels", sparse=True, least=-1, most=1, right=lambda m: m.has_canonical_format),
    "probabilities": (
        Array("f", "entries", finite=False, right=_are_shares),
        Array("f", "rows", "labels", finite=False, right=_are_shares),
    ),
    "votes": (
        None,
        {
            "row": Array("iu", "votes", least=0),
            "annotator": Array("iu", "votes", least=0),
            "label": Array("iu", "votes", least=-1),
            "confidence?": Array("f", "votes"),
        },
    ),
    "rates": (None, {n: Array("iuf", "labels" if "label" in n else "annotators", finite=False) for n in RATES}),
}
NAMES: Schema = [(str, int, float, bool)]
TOLD: Schema = {
    "labels": NAMES,
    "index": (None, NAMES),
    "incomplete": bool,
    "settings": {
        "reviewed?": {"true": int, "false": int},
        "noise?": {"assumed": object, "false_least": [(int, float)], "false_most": [(int, float)]},
        str: object,
    },
    "annotators": (None, NAMES),
    "reliability": (None, NAMES),
}


def write_audit_report(report: AuditReport, folder: Path) -> None:
    """Write the file as a whole."""
    candidates, rates = report.candidates, report.reliability
    states = sp.csr_array(candidates.states, copy=True)
    states.sum_duplicates()
    record = {
        "labels": _names(candidates.labels),
        "index": None if _is_counted(candidates.index) else _names(candidates.index),
        "incomplete": report.incomplete,
        "settings": report.settings,
        "annotators": None if candidates.annotations is None else _names(candidates.annotations.names),
        "reliability": None if rates is None else _names(rates.annotators),
    }
    votes = candidates.annotations
    state = {
        "told": json_array(record),
        "states": states,
        # Excluded labels of complete candidates have probability 0: what is stored is enough.
        "probabilities": report.probabilities if report.incomplete else _stored(report.probabilities, states),
        "votes": None if votes is None else _votes(votes),
        "rates": None if rates is None else {name: np.asarray(getattr(rates, name)) for name in RATES},
    }
    write_state(folder / REPORT_FILE, KIND, state)


def read_audit_report(folder: Path) -> dict[str, Any]:
    """The arguments of an ``AuditReport``, or an error that says what is wrong with the file."""
    path = folder / REPORT_FILE
    if not path.is_file():
        raise FileNotFoundError(f"there is no report in {folder}; give the folder that AuditReport.save wrote")
    with reading(path, "report of an audit", "save it again"):
        kind, state = read_state(path)
        if kind != KIND:
            raise ValueError(f"it holds a {kind}")
        record = from_json_array(state["told"])
        check_schema(record, TOLD, "the report")
        sizes = {"labels": len(set(record["labels"]))}
        for what, names in (("rows", "index"), ("annotators", "reliability")):
            if record[names] is not None:
                sizes[what] = len(record[names])
        check_schema(state, STORED, "the report", sizes)
        for name in ("false_least", "false_most"):
            if len(record["settings"].get("noise", {}).get(name, record["labels"])) != len(record["labels"]):
                raise ValueError(f"{name} has not one share for each label")
        return _arguments(record, state)


def _arguments(record: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    states, probabilities, votes, rates = (state[name] for name in ("states", "probabilities", "votes", "rates"))
    index: Sequence[Hashable] | np.ndarray
    index = np.arange(states.shape[0]) if record["index"] is None else tuple(record["index"])
    annotations = None
    if record["annotators"] is not None:
        row, annotator, label = (votes[name] for name in VOTES)
        annotations = Annotations(row, annotator, label, tuple(record["annotators"]), votes.get("confidence"))
        sizes = (states.shape[0], len(record["annotators"]), states.shape[1])
        for name, most in zip(VOTES, sizes, strict=True):
            if votes[name].max(initial=-1) >= most:
                raise ValueError(f"votes are of {name} {votes[name].max()}, and there are {most}")
    if not record["incomplete"]:
        dense = np.zeros(states.shape, dtype=np.float32)
        dense[np.repeat(np.arange(states.shape[0]), np.diff(states.indptr)), states.indices] = probabilities
        probabilities = dense
    return {
        "candidates": Candidates(states, tuple(record["labels"]), index, annotations),
        "probabilities": probabilities,
        "incomplete": record["incomplete"],
        "reliability": None if rates is None else Reliability(annotators=tuple(record["reliability"]), **rates),
        "settings": record["settings"],
    }


def _votes(votes: Annotations) -> dict[str, np.ndarray]:
    names = VOTES if votes.confidence is None else (*VOTES, "confidence")
    return {name: np.asarray(getattr(votes, name)) for name in names}


def _stored(probabilities: np.ndarray, states: sp.csr_array) -> np.ndarray:
    row = np.repeat(np.arange(states.shape[0]), np.diff(states.indptr))
    return probabilities[row, states.indices].astype(np.float32)


def _is_counted(index: Any) -> bool:
    return isinstance(index, np.ndarray) and np.array_equal(index, np.arange(len(index)))


def _names(names: Any) -> list[Any]:
    """Names as JSON has them: what is no text, number or truth value becomes text."""
    plain = (name.item() if isinstance(name, np.generic) else name for name in names)
    return [name if isinstance(name, str | int | float | bool) else str(name) for name in plain]
