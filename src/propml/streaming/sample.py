"""The first pass: labels are counted, and the rows to learn from are drawn by a hash of each row.

A row is drawn where its hash lies below a threshold. The threshold is that of a random sample, and higher for the rows
of rare labels, so that each label has :data:`ENOUGH` candidates to learn from, or all that there are. Nothing but the
row and the seed decides, so the sample does not depend on how rows lie in files or who reads them.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.auditing.crossfit import rows_to_learn_from
from propml.extras import require
from propml.streaming.folders import BatchTable, Folder, candidates_over, digests, over, read_labels, tables_of
from propml.streaming.work import Job, Run, do_parts, part_name
from propml.tables.files import UserTable, read_table
from propml.tables.labels import same_spelling

LABELS, SAMPLE = "labels.json", "sample.parquet"
# Candidates of a rare label that are drawn; fewer where there are so many labels that they would fill the sample.
ENOUGH = 200
# Models of an audit, each of which judges what the others learn from; only two where labels are many and models large.
# Each learns from as many rows in either case.
FOLDS, FOLDS_OF_MANY, MANY = 5, 2, 2_000
POSITION = "propml_position"


@dataclass(frozen=True)
class Population:
    """What was counted in all rows that have a candidate, and the shares of them that are drawn."""

    labels: tuple[str, ...]
    spelled: dict[str, list[str]]  # the spellings of labels that were merged
    rows: int
    candidates: np.ndarray  # the rows in which each label is a candidate
    known: np.ndarray  # those in which it is not unknown
    share: float  # what is drawn whatever the labels
    thresholds: np.ndarray  # what is drawn of the rows that have a label

    @property
    def many(self) -> bool:
        """Whether there are so many labels that nothing may be of the size rows × labels."""
        return len(self.labels) > MANY

    @property
    def folds(self) -> int:
        return FOLDS_OF_MANY if self.many else FOLDS


def draw_sample(run: Run, job: Job, most: int | None, *, hold_out: bool = False) -> None:
    """Count labels, draw rows and write them into one file, sorted by their hash, which no partitioning changes.

    ``most`` rows and those for rare labels; by default as many as :func:`rows_to_learn_from` says. Where each model
    holds a fold of them out, more.
    """
    out = Folder(job.out)
    there = set(out.names())
    do_parts(run, count_part, job, "counts", len(job.parts))
    if LABELS not in there:
        _write_counts(job, out, most, hold_out)
    do_parts(run, sample_part, job, "sample", len(job.parts))
    if SAMPLE not in there:
        tables = [out.read_table(part_name("sample", number)) for number in range(len(job.parts))]
        with out.writing_table(SAMPLE, tables[0].schema) as write:
            write(require("pyarrow", "data").concat_tables(tables).sort_by(POSITION))


def count_part(job: Job, number: int) -> None:
    """How often each spelling is a candidate, or unknown, in a part."""
    rows, candidates, unknown = 0, Counter[str](), Counter[str]()
    for table in tables_of(Folder(job.data), job.parts[number], job.labels.columns):
        if (given := read_labels(job.labels, table)) is None:
            continue
        given = given[given.sizes() > 0]
        rows += len(given)
        names = [str(name) for name in given.labels]
        for counter, marked in ((candidates, given.states > 0), (unknown, given.states < 0)):
            counter.update(dict(zip(names, np.asarray(marked.sum(axis=0)).ravel().tolist(), strict=True)))
    told = {"rows": rows, "candidates": candidates, "unknown": +unknown}
    Folder(job.out).write(part_name("counts", number), json.dumps(told, ensure_ascii=False).encode())


def sample_part(job: Job, number: int) -> None:
    """The rows of a part that are drawn, with their hash."""
    pyarrow = require("pyarrow", "data")
    population = read_population(job)
    columns = [*job.columns, *job.labels.columns, *([job.id_column] if job.id_column else [])]
    schema = job.schema_of(columns).append(pyarrow.field(POSITION, pyarrow.uint64()))
    with Folder(job.out).writing_table(part_name("sample", number), schema) as write:
        for table in tables_of(Folder(job.data), job.parts[number], columns):
            if (given := candidates_over(population.labels, job.labels, table, job.merges)) is None:
                continue
            contents = table.contents(columns) if job.id_column is None else map(str.encode, table.items(job.id_column))
            position = digests(contents, table.n_rows, job.settings["seed"], "sample")
            marked = sp.csr_array(given.states > 0).astype(np.float64) @ sp.diags_array(population.thresholds)
            share = np.asarray(marked.max(axis=1).todense()).ravel()
            keep = (position <= share * 2.0**64) & (share > 0)
            drawn = pyarrow.Table.from_batches([table.batch]).filter(pyarrow.array(keep))
            write(drawn.append_column(POSITION, pyarrow.array(position[keep])))


def read_population(job: Job) -> Population:
    """What the first pass counted."""
    told = json.loads(Folder(job.out).read(LABELS))
    candidates, known = np.array(told["candidates"]), np.array(told["known"])
    share = min(1.0, told["drawn"] / told["rows"])
    label_of = {same_spelling(name): name for name in told["labels"]} if job.merges else {}
    spelled: dict[str, list[str]] = {name: [] for name in label_of.values()}
    for name in told["spellings"] if job.merges else ():
        spelled[label_of[same_spelling(name)]].append(name)
    enough = min(ENOUGH, max(1, told["drawn"] // len(candidates)))
    thresholds = np.clip(enough / np.maximum(candidates, 1), share, 1.0)
    return Population(tuple(told["labels"]), spelled, told["rows"], candidates, known, share, thresholds)


def read_sample(job: Job) -> UserTable:
    """The sample as a table, with its candidates over the labels of all rows."""
    out = Folder(job.out)
    table = out.read_table(SAMPLE).drop_columns([POSITION])
    source: Any = BatchTable(table.combine_chunks().to_batches()[0], Path(out.where(SAMPLE)))
    labels = read_population(job).labels
    kept = {name: value for name, value in job.reading.items() if name not in ("ignore", "features", "file_format")}
    read = read_table(source, **kept, features=list(job.columns) if job.reading.get("features") else None)
    given = over(read.candidates, labels, job.labels, source, "which was not counted", job.merges)
    return replace(read, candidates=replace(given, index=read.item_ids), spellings={})


def sampled(job: Job) -> dict[str, Any]:
    """What was drawn, in numbers for a report."""
    population, out = read_population(job), Folder(job.out)
    with out.open(SAMPLE) as handle:
        drawn = require("pyarrow.parquet", "data").read_metadata(handle).num_rows
    more = population.thresholds > population.share
    names = np.array(population.labels)[more].tolist()
    return {
        "rows": job.n_rows,
        "rows_with_candidates": population.rows,
        "rows_drawn": drawn,
        "share": round(population.share, 8),
        "labels_drawn_more_often": dict(zip(names, np.round(population.thresholds[more], 8).tolist(), strict=True)),
    }


def _write_counts(job: Job, out: Folder, most: int | None, hold_out: bool) -> None:
    """The counts of all parts together, over labels in their order: of columns, or by name; and the rows to draw."""
    rows, candidates, unknown = 0, Counter[str](), Counter[str]()
    for number in range(len(job.parts)):
        told = json.loads(out.read(part_name("counts", number)))
        rows += told["rows"]
        candidates.update(told["candidates"])
        unknown.update(told["unknown"])
    if not rows:
        raise ValueError(f"{job.data}: no row has a candidate label, so nothing is left to learn from")
    names = list(job.reading.get("label_columns") or sorted(candidates))
    spelled: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (-candidates[name], name)):
        spelled.setdefault(same_spelling(name) if job.merges else name, []).append(name)
    groups = {own[0]: own for own in spelled.values()}  # the most frequent spelling is the label
    labels = [name for name in names if name in groups]
    # Of a label with two spellings a row may have both: then it counts twice here.
    by_label = [min(rows, sum(candidates[own] for own in groups[name])) for name in labels]
    known = [max(1, rows - sum(unknown[own] for own in groups[name])) for name in labels]
    many = len(labels) > MANY
    if most is None:
        # What a model of many labels learns from is as long as the candidates of a row.
        of_row = sum(by_label) // rows if many else len(labels)
        most = rows_to_learn_from(np.broadcast_to(np.float32(0), (1, job.width)), of_row)
    folds = FOLDS_OF_MANY if many else FOLDS
    drawn = round(most * folds / (folds - 1)) if hold_out else most
    told = {"spellings": names, "labels": labels, "rows": rows, "candidates": by_label, "known": known, "drawn": drawn}
    out.write(LABELS, json.dumps(told, ensure_ascii=False).encode())
