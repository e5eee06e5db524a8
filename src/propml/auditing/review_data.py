"""The columns of the review page: verdicts, items, labels and votes as numbers and short lists."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from propml.auditing.evidence import nearest_true, telling_words
from propml.targets import Candidates

if TYPE_CHECKING:
    from propml.auditing.report import AuditReport

__all__ = ["ReviewData", "reliability_tables", "review_data"]

PAGE_ORDER = ("drop", "doubtful", "missing", "keep")  # verdicts are numbered like this in the page
SCALE = 10_000  # confidence and probability travel as whole numbers up to this


@dataclass
class ReviewData:
    """What the page is built from.

    Attributes
    ----------
    rows : ndarray of int
        The rows of the audited data that are in the page, rising.
    suspects : ndarray of int
        The same, those with the most suspicious label first.
    columns : dict
        What travels as JSON.
    """

    rows: np.ndarray
    suspects: np.ndarray
    columns: dict[str, Any]

    def telling(self, texts: Sequence[str], probabilities: np.ndarray) -> list[list[str]] | None:
        """The words of each verdict's text that speak for its label."""
        row, label = (np.asarray(self.columns[name], dtype=np.int64) for name in ("row", "label"))
        return telling_words(texts, probabilities[self.rows], row, label)

    def nearest(self, vectors: Any) -> dict[int, list[int]]:
        """For each doubtful or dropped verdict the most similar items that have its label."""
        row, label, code = (np.asarray(self.columns[name], dtype=np.int64) for name in ("row", "label", "verdict"))
        judged = np.flatnonzero(code != PAGE_ORDER.index("missing"))
        kept = code[judged] == PAGE_ORDER.index("keep")
        suspicion = -np.asarray(self.columns["probability"])[judged]
        examples = nearest_true(vectors, row[judged], label[judged], kept, suspicion)
        return {int(judged[verdict]): items for verdict, items in examples.items()}


def review_data(report: AuditReport, max_verdicts: int) -> ReviewData:
    """Take from a report what the page shows; beyond ``max_verdicts`` the least suspicious are left out."""
    items, labels = _names("item", report.item_ids), _names("label", report.label_names)
    verdicts = report.verdicts()
    row, label = np.asarray(verdicts.row, dtype=np.int64), np.asarray(verdicts.label, dtype=np.int64)
    code = _codes(verdicts.verdict)
    suspicion = _suspicion(code, np.asarray(verdicts.probability))
    held = np.sort(np.lexsort((-suspicion, code == PAGE_ORDER.index("keep")))[:max_verdicts])
    rows, position = np.unique(row[held], return_inverse=True)
    worst = np.zeros(len(rows))
    np.maximum.at(worst, position, suspicion[held])
    columns = {
        "lead": _lead(len(held), len(row), report.notes()),
        "n_items": len(items),
        "bounded": report.bounded,
        "counts": dict(zip(PAGE_ORDER, np.bincount(code, minlength=len(PAGE_ORDER)).tolist(), strict=True)),
        "items": [items[each] for each in rows.tolist()],
        "labels": labels,
        "row": position.tolist(),
        "label": label[held].tolist(),
        "verdict": code[held].tolist(),
        "probability": _whole(verdicts.probability, held),
    }
    identity = [columns[name] for name in ("items", "labels", "row", "label", "verdict")]
    # The same verdicts on the same items are the same audit, so that decisions survive a page that is written again.
    columns["id"] = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    columns |= _votes(report.candidates, rows, row[held], label[held])
    return ReviewData(rows, rows[np.argsort(-worst, kind="stable")], columns)


def _names(what: str, given: Sequence[Any]) -> list[str]:
    names = [str(name) for name in given]
    if len(set(names)) < len(names):
        first: dict[str, int] = {}
        for place, name in enumerate(names):
            if first.setdefault(name, place) != place:
                raise ValueError(
                    f"{what}s {first[name]} and {place} have the same name {name!r}; "
                    f"decisions go by name, so give every {what} its own"
                )
    return names


def _codes(verdict: Any) -> np.ndarray:
    names = np.asarray(verdict)
    return np.argmax([names == name for name in PAGE_ORDER], axis=0)


def _suspicion(code: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """How likely it is that the label is wrong or, for one that is missing, that it is right."""
    return np.where(code == PAGE_ORDER.index("missing"), probability, 1 - probability)


def _lead(n_held: int, n_verdicts: int, notes: Sequence[str]) -> str:
    lead = "Every label was judged by models that never saw its item. Keep what the item has, drop what it has not; "
    lead += "what you leave alone follows the audit. Your decisions stay in this browser until you download them."
    lead = " ".join([lead, *notes])
    if n_held == n_verdicts:
        return lead
    held, given = (f"{number:,}".replace(",", "\u202f") for number in (n_held, n_verdicts))
    return f"{lead} This page holds the {held} most suspicious of {given} verdicts."


def _whole(values: Any, held: np.ndarray) -> list[int]:
    shares = np.clip(np.asarray(values, dtype=np.float64)[held], 0, 1)
    # What is nearly certain must not look certain.
    inside = np.clip(np.rint(shares * SCALE), 1, SCALE - 1)
    return np.where((shares > 0) & (shares < 1), inside, shares * SCALE).astype(np.int64).tolist()


def _votes(candidates: Candidates, rows: np.ndarray, row: np.ndarray, label: np.ndarray) -> dict[str, Any]:
    """Who voted for each verdict's label, as numbers of sets of annotators: there are far fewer sets than verdicts."""
    annotations, looked = candidates.annotations, candidates.voters
    if annotations is None or looked is None:
        return {"annotators": [], "voter_sets": [], "voters": None, "looked": None}
    n_labels = candidates.shape[1]
    given = annotations.label >= 0
    cast, by = annotations.row[given] * n_labels + annotations.label[given], annotations.annotator[given]
    order = np.argsort(cast, kind="stable")
    cast, by = cast[order], by[order]
    wanted = row * n_labels + label
    starts, ends = np.searchsorted(cast, wanted), np.searchsorted(cast, wanted, side="right")
    numbers: dict[tuple[int, ...], int] = {}
    voters = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        voters.append(numbers.setdefault(tuple(by[start:end].tolist()), len(numbers)))
    return {
        "annotators": [str(name) for name in annotations.names],
        "voter_sets": [list(each) for each in numbers],
        "voters": voters,
        "looked": looked[rows].tolist(),
    }


def reliability_tables(report: AuditReport) -> list[dict[str, Any]]:
    """The reliability of labels and of annotators, for the top of the page."""
    tables = {"label": report.labels("columns"), "annotator": report.annotators("columns")}
    return [
        {"title": f"{by.title()}s", "filters": by} | _table(table) for by, table in tables.items() if len(table[by])
    ]


def _table(told: Mapping[str, Any]) -> dict[str, Any]:
    columns, cells = [], []
    for name, given in told.items():
        values = np.asarray(given)
        columns.append({"name": str(name).replace("_", " "), "kind": _kind(values)})
        cells.append([None if value != value else value for value in values.tolist()])  # NaN is not equal to itself
    cells[0] = [str(value) for value in cells[0]]
    columns[0]["kind"] = "text"
    return {"columns": columns, "rows": [list(row) for row in zip(*cells, strict=True)]}


def _kind(values: np.ndarray) -> str:
    if values.dtype.kind in "iub":
        return "count"
    if values.dtype.kind == "f":
        known = values[~np.isnan(values)]
        return "share" if ((known >= 0) & (known <= 1)).all() else "number"
    return "text"
