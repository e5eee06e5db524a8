"""What the parts of an audit leave: counts by label and the most suspicious rows; the report and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from propml.auditing.report import AuditReport
from propml.auditing.review import write_review
from propml.auditing.verdicts import VERDICTS, Verdicts
from propml.extras import require, versions
from propml.jsonable import jsonable
from propml.streaming.folders import BatchTable, Folder
from propml.streaming.judging import Judge
from propml.streaming.sample import sampled
from propml.streaming.work import Job, part_name
from propml.targets import Candidates

PAGE, REPORT = "review.html", "report.json"
# Rows on the page, columns of them where there is no text, and sentences about all rows.
PAGE_ROWS, SHOWN_COLUMNS, MOST_NOTES = 2_000, 6, 20
ITEM, SUSPICION, LABELS, TRUE, CANDIDATE = (
    f"propml_{name}" for name in ("item", "suspicion", "labels", "true", "candidate")
)
# P(true) is added up in whole numbers of this size: a sum of fractions depends on their order.
UNIT = 2.0**-24
MISSING = VERDICTS.index("missing")


class Streamed(NamedTuple):
    """What an audit of a stream found; ``worst`` are the rows on the page, and ``columns`` what became of each."""

    rows: int
    counts: dict[str, int]
    notes: list[str]
    files: list[str]
    worst: AuditReport
    columns: dict[str, str]


@dataclass
class Tally:
    """What was found so far: verdicts ``(n_labels, 4)`` by kind, P(true) added up, and the most suspicious rows."""

    counts: np.ndarray
    true: np.ndarray
    page: Any
    notes: list[str] = field(default_factory=list)

    @classmethod
    def empty(cls, job: Job, n_labels: int) -> Tally:
        counts = np.zeros((n_labels, len(VERDICTS)), dtype=np.int64)
        return cls(counts, counts[:, 0].copy(), _page_schema(job).empty_table())

    def add(
        self, job: Job, table: BatchTable, verdicts: Verdicts, kind: np.ndarray, items: list[str], rows: np.ndarray
    ) -> None:
        """Count the verdicts on these rows of a batch, and keep the most suspicious; ``kind`` numbers the verdicts."""
        pyarrow = require("pyarrow", "data")
        np.add.at(self.counts, (verdicts.label, kind), 1)
        given, probability = kind != MISSING, verdicts.probability
        np.add.at(self.true, verdicts.label[given], np.rint(probability[given] / UNIT).astype(np.int64))
        suspicion = np.where(given, 1 - probability, probability)
        suspicion[kind == VERDICTS.index("keep")] = 0.0
        of_row = np.zeros(len(rows))
        np.maximum.at(of_row, verdicts.row, suspicion)
        chosen = np.argsort(-of_row, kind="stable")[:PAGE_ROWS]
        chosen = np.sort(chosen[of_row[chosen] > 0])
        ends = np.searchsorted(verdicts.row, np.arange(len(rows) + 1))
        spans = [slice(ends[row], ends[row + 1]) for row in chosen]
        at = pyarrow.array(rows[chosen])
        columns = [
            *(table.batch.column(name).take(at) for name in _shown(job)),
            [items[row] for row in rows[chosen]],
            of_row[chosen].astype(np.float32),
            *([column[span].tolist() for span in spans] for column in (verdicts.label, probability, given)),
        ]
        self.page = _most_suspicious(self.page, pyarrow.table(columns, schema=_page_schema(job)))

    def include(self, other: Tally) -> None:
        """Add what another part found."""
        self.counts, self.true = self.counts + other.counts, self.true + other.true
        self.notes = self.notes or other.notes
        self.page = _most_suspicious(self.page, other.page)

    def write(self, out: Folder, name: str) -> None:
        told = json.dumps({"counts": self.counts.tolist(), "true": self.true.tolist(), "notes": self.notes[:1]})
        page = self.page.replace_schema_metadata({"propml": told})
        with out.writing_table(name, page.schema) as write:
            write(page)

    @classmethod
    def read(cls, out: Folder, name: str) -> Tally:
        page = out.read_table(name)
        told = json.loads(page.schema.metadata[b"propml"])
        return cls(np.array(told["counts"]), np.array(told["true"]), page.replace_schema_metadata(), told["notes"])


def _page_schema(job: Job) -> Any:
    pyarrow = require("pyarrow", "data")
    own = {ITEM: pyarrow.string(), SUSPICION: pyarrow.float32(), LABELS: pyarrow.list_(pyarrow.int32())}
    own |= {TRUE: pyarrow.list_(pyarrow.float32()), CANDIDATE: pyarrow.list_(pyarrow.bool_())}
    return pyarrow.schema([*job.schema_of(_shown(job)), *(pyarrow.field(name, kind) for name, kind in own.items())])


def _shown(job: Job) -> list[str]:
    """The columns that the page shows."""
    text = job.reading.get("text")
    return [text] if text else list(job.columns[:SHOWN_COLUMNS])


def _most_suspicious(*pages: Any) -> Any:
    pyarrow = require("pyarrow", "data")
    order = [(SUSPICION, "descending"), (ITEM, "ascending")]
    return pyarrow.concat_tables(pages).sort_by(order).slice(0, PAGE_ROWS).combine_chunks()


class _Page(AuditReport):
    """Some rows, with notes and a table of labels that are about all rows."""

    def __init__(self, told: dict[str, Any], notes: list[str], *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self._told, self._about_all = told, notes

    def notes(self) -> list[str]:
        return self._about_all

    def labels(self, library: Any = "columns") -> Any:
        return self._told


def report(job: Job, judge: Judge) -> Streamed:
    """The page and the numbers of all parts, from what each of them left."""
    out, names, incomplete = Folder(job.out), judge.population.labels, job.settings["incomplete"]
    tally = Tally.empty(job, len(names))
    for number in range(len(job.parts)):
        tally.include(Tally.read(out, part_name("suspicious", number)))
    page = _once(tally.page)
    candidates = tally.counts[:, :MISSING].sum(axis=1)
    share = np.divide(tally.true * UNIT, candidates, out=np.full(len(names), np.nan), where=candidates > 0)
    told: dict[str, Any] = {"label": list(names), "candidates": candidates, "share_true": share}
    told |= {name: tally.counts[:, j] for j, name in enumerate(VERDICTS) if j != MISSING or incomplete}
    told["false_least"], told["false_most"] = judge.rates.false_shares()
    worst = _page_report(job, judge, page, told)
    drawn, columns = sampled(job), judge.features.features.describe()
    without = job.n_rows - judge.population.rows
    notes = [
        *([f"{without} rows have no candidate label: they are not judged, and stay as they are"] if without else []),
        f"models learned from {drawn['rows_drawn']} of {job.n_rows} rows, none of which they judge",
        *judge.features.notes,
        *worst.notes(),
        *tally.notes,
    ]
    counts = dict(zip(VERDICTS, tally.counts.sum(axis=0).tolist(), strict=True))
    found = {"rows": job.n_rows, "sample": drawn, "verdicts": counts, "labels": told, "columns": columns}
    asked = {"notes": notes, "settings": job.settings, "reading": job.reading, "versions": versions()}
    if len(page):
        text = job.reading.get("text")
        shown = {"texts": page[text].to_pylist()} if text else {"features": page.select(_shown(job)).to_pandas()}
        title = f"The {len(page)} most suspicious of {job.n_rows} rows"
        with TemporaryDirectory() as folder:
            out.write(PAGE, write_review(worst, Path(folder) / PAGE, **shown, title=title).read_bytes())
    content = json.dumps(jsonable(found | asked, lossy=True), ensure_ascii=False, indent=2)
    out.write(REPORT, f"{content}\n".encode())
    files = [*([PAGE] if len(page) else []), REPORT, "verdicts", "cleaned"]
    return Streamed(job.n_rows, counts, notes, [out.where(name) for name in files], worst, columns)


def _page_report(job: Job, judge: Judge, page: Any, told: dict[str, Any]) -> _Page:
    """The rows on the page; of many labels, over those that occur there."""
    settings = {"model": type(judge.models[0]).__name__, "folds": len(judge.models)}

    def over(chosen: np.ndarray, notes: list[str], items: Sequence[str], *verdicts: np.ndarray) -> _Page:
        own = {name: np.asarray(column)[chosen] for name, column in told.items()}
        noise = {"assumed": job.settings["noise"]} | {name: own[name] for name in ("false_least", "false_most")}
        how = {"incomplete": job.settings["incomplete"], "settings": settings | {"noise": noise}}
        return _Page(own, notes, *matrices(own["label"].tolist(), items, *verdicts), **how)

    everywhere, none = np.arange(len(told["label"])), np.zeros(0, dtype=bool)
    at = none.astype(np.int64)
    notes = over(everywhere, [], [], at, at, none, none)._notes(told["drop"], told["candidates"])
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES:] = [f"{len(notes) - MOST_NOTES} more labels lose most of their candidates: see {REPORT}."]
    row = np.repeat(np.arange(len(page)), [len(labels) for labels in page[LABELS].to_pylist()])
    label, truth, given = (
        page[name].combine_chunks().flatten().to_numpy(zero_copy_only=False) for name in (LABELS, TRUE, CANDIDATE)
    )
    chosen = np.unique(label) if judge.population.many else everywhere
    items = page[ITEM].to_pylist()
    return over(chosen, notes, items, row, np.searchsorted(chosen, label), given.astype(bool), truth)


def _once(page: Any) -> Any:
    """The first row of each item: decisions go by name, and nobody has looked whether all identifiers differ."""
    first = {item: row for row, item in reversed(list(enumerate(page[ITEM].to_pylist())))}
    return page.take(sorted(first.values()))


def matrices(
    names: Sequence[str],
    items: Sequence[str],
    row: np.ndarray,
    label: np.ndarray,
    candidate: np.ndarray,
    probability: np.ndarray,
) -> tuple[Candidates, np.ndarray]:
    """Candidates and P(true) of some rows from their verdicts, over the labels of these names."""
    shape = (len(items), len(names))
    probabilities = np.zeros(shape, dtype=np.float32)
    probabilities[row, label] = probability
    ones = np.ones(np.count_nonzero(candidate), dtype=np.int8)
    states = sp.csr_array((ones, (row[candidate], label[candidate])), shape=shape)
    return Candidates(states, tuple(names), tuple(items)), probabilities
