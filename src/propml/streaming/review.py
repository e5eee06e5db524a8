"""``propml audit --apply`` for a stream: the labels that a person's decisions leave, part by part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from propml import file_errors
from propml.auditing.decisions import (
    Decision,
    Reviewed,
    Undecided,
    apply_decisions,
    cell_positions,
    merge_decisions,
    read_decisions,
    review_counts,
    write_conflicts,
)
from propml.auditing.report import AuditReport
from propml.extras import require
from propml.progress import progress_bar
from propml.streaming.audit import labels_written
from propml.streaming.folders import Folder, look_into
from propml.streaming.rows import tables_of
from propml.streaming.sample import read_population
from propml.streaming.work import PLAN, Job, begin, part_name, workers
from propml.tables.labels import States, changes_between
from propml.targets import Candidates

__all__ = ["stream_apply"]

CONFLICTS, REVIEWED = "conflicts.csv", "reviewed"
# Rows that decisions are applied to at once, with the labels that occur in them.
ROWS = 1024


def stream_apply(
    out: str,
    decisions: str | Path | Sequence[str | Path],
    *,
    undecided: Undecided = "verdict",
    ray_address: str | None = None,
) -> tuple[str, Reviewed, str | None]:
    """Write the labels of all rows as they are after a person's decisions, one Parquet file for each part.

    Parameters
    ----------
    out : str
        The folder that :func:`~propml.streaming.audit.stream_audit` filled. What was audited is read again, and must
        not have changed.
    decisions : path, or several
        The CSV that the review page downloads; of several people one each.
    undecided : {"verdict", "keep", "drop"}
        What becomes of labels that nobody decided on, see :func:`propml.auditing.decisions.apply_decisions`.
    ray_address : str, optional
        A Ray cluster, or ``"local"``.

    Returns
    -------
    folder : str
        ``reviewed`` in ``out``: the identifier and the label columns of every row.
    counts : Reviewed
        How many verdicts were decided, and what became of the others.
    conflicts : str or None
        ``conflicts.csv``, where people contradict each other: what nobody has decided then.
    """
    folder = Folder(out)
    paths = [decisions] if isinstance(decisions, str | Path) else list(decisions)
    reviews = {str(path): read_decisions(path) for path in paths}
    decided, conflicts = merge_decisions(reviews.values())
    with file_errors.reading(folder.where(PLAN), "plan of a run", "audit again"):
        plan = json.loads(folder.read(PLAN))
        data, settings = plan["data"], plan["settings"]
        asked = {"decided": decided, "undecided": undecided, "incomplete": settings["incomplete"]}
    if look_into(Folder(data)).fingerprint != plan["input"]:
        raise ValueError(f"{data} was changed since it was audited; audit it again")
    if len(folder.names("verdicts")) < plan["parts"]:
        raise ValueError(f"the audit in {out} is not finished; run the same command again first")
    job = begin("audit", data, out, reading=plan["reading"], settings=asked, keep_plan=False)
    _check_names(decided, job)
    found: list[tuple[Reviewed, list[str]]] = []
    with workers(ray_address) as run, progress_bar("applying", len(job.parts), long_steps=True) as bar:
        for _, told in run(apply_part, job, range(len(job.parts))):
            found.append(told)
            bar.advance()
    there = {item for _, items in found for item in items}
    if lost := next((each for each in decided if each.item not in there), None):
        cell_positions([lost], there, [lost.label])  # raises the sentence on an item that is not there
    if conflicts:
        with TemporaryDirectory() as beside:
            written = write_conflicts(conflicts, reviews, Path(beside, CONFLICTS))
            folder.write(CONFLICTS, written.read_bytes())
    counts = Reviewed(*(sum(values) for values in zip(*(told for told, _ in found), strict=True)))
    return folder.where(REVIEWED), counts, folder.where(CONFLICTS) if conflicts else None


def _check_names(decided: Sequence[Decision], job: Job) -> None:
    """Refuse decisions on labels that no row has, before anything is written."""
    cell_positions(decided, dict.fromkeys(each.item for each in decided), read_population(job).labels.labels)


def apply_part(job: Job, number: int) -> tuple[Reviewed, list[str]]:
    """Write the labels of a part; what became of its verdicts, and the items in it that somebody decided on."""
    parquet = require("pyarrow.parquet", "data")
    assert job.labels is not None
    labels = read_population(job).labels
    decided: dict[str, list[Decision]] = {}
    for each in job.settings["decided"]:
        decided.setdefault(each.item, []).append(each)
    tables = list(tables_of(Folder(job.data), job.parts[number], job.kept))
    given = [labels.candidates(job.labels, table) for table in tables]
    sizes = [np.zeros(0, np.int64) if own is None else own.sizes() for own in given]
    verdicts = _Told(job, number, np.concatenate([own[own > 0] for own in sizes]))
    counts, there, start = np.zeros(len(Reviewed._fields), np.int64), [], 0
    with (
        Folder(job.out).writing(part_name(REVIEWED, number)) as file,
        parquet.ParquetWriter(file, job.kept_schema) as write,
    ):
        for table, own in zip(tables, sizes, strict=True):
            items, rows = table.items(job.id_column), np.flatnonzero(own > 0)
            changes: dict[int, States] = {}
            for first in range(0, len(rows), ROWS):
                chosen = rows[first : first + ROWS]
                names = [items[row] for row in chosen]
                mine = [each for name in dict.fromkeys(names) for each in decided.get(name, ())]
                report = verdicts.report(start + first, names, mine)
                after = apply_decisions(report, mine, undecided=job.settings["undecided"])
                counts += review_counts(report, mine, after)
                changes |= changes_between(report.candidates, after, chosen.tolist())
            start += len(rows)
            there += [item for item in items if item in decided]
            write.write_table(labels_written(job, table, items, changes, labels))
    return Reviewed(*counts.tolist()), there


class _Told:
    """The verdicts on a part, and the row of each: the candidates of all rows are there, one after the other."""

    def __init__(self, job: Job, number: int, sizes: np.ndarray) -> None:
        pyarrow, parquet = require("pyarrow", "data"), require("pyarrow.parquet", "data")
        with Folder(job.out).open(part_name("verdicts", number)) as file:
            table = parquet.read_table(file)
        words = table["label"].cast(pyarrow.string()).dictionary_encode().combine_chunks()
        self.words, self.label = words.dictionary.to_pylist(), words.indices.to_numpy()
        self.probability = table["probability"].to_numpy()
        self.incomplete = job.settings["incomplete"]
        self.candidate = table["verdict"].cast(pyarrow.string()).to_numpy() != "missing"
        self.row = np.empty(len(table), dtype=np.int64)
        self.row[self.candidate] = np.repeat(np.arange(len(sizes)), sizes)
        # A missing label stands before or after a candidate of its row.
        item, others = table["item"].to_numpy(), np.flatnonzero(~self.candidate)
        before = np.maximum.accumulate(np.where(self.candidate, np.arange(len(item)), -1))[others]
        follows = (before >= 0) & (item[others] == item[before])
        self.row[others] = np.where(follows, self.row[before], np.where(before >= 0, self.row[before] + 1, 0))

    def report(self, start: int, items: Sequence[str], decided: Sequence[Decision]) -> AuditReport:
        """The verdicts on the rows from ``start`` on, over the labels that they or these decisions name."""
        span = slice(*np.searchsorted(self.row, [start, start + len(items)]))
        own, label = np.unique(self.label[span], return_inverse=True)
        names = dict.fromkeys([*(self.words[code] for code in own), *(each.label for each in decided)])
        row, candidate, shape = self.row[span] - start, self.candidate[span], (len(items), len(names))
        states = sp.csr_array((np.ones(candidate.sum(), np.int8), (row[candidate], label[candidate])), shape=shape)
        probabilities = np.zeros(shape, dtype=np.float32)
        probabilities[row, label] = self.probability[span]
        candidates = Candidates(states, tuple(names), tuple(items))
        return AuditReport(candidates, probabilities, incomplete=self.incomplete)
