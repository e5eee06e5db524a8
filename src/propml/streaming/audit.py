"""``propml audit --stream`` judges rows by models of a sample that never saw them; ``--apply`` applies decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from propml import file_errors
from propml.auditing import decisions as review
from propml.auditing.noise import AssumedNoise, given_shares
from propml.auditing.report import AuditReport
from propml.auditing.verdicts import VERDICTS, Verdicts, cleaned_candidates
from propml.extras import require
from propml.streaming.folders import BatchTable, Folder, candidates_over, look_into, tables_of
from propml.streaming.judging import fit_fold, fit_rates, judge_of, learn_columns
from propml.streaming.sample import draw_sample, read_population
from propml.streaming.summary import Streamed, Tally, matrices, report
from propml.streaming.work import PLAN, Job, begin, do_parts, part_name, workers
from propml.tables.files import as_spelled
from propml.tables.labels import States, changes_between

CONFLICTS, REVIEWED = "conflicts.csv", "reviewed"
# Rows that decisions are applied to at once, with the labels that occur in them.
ROWS = 1024


def stream_audit(
    data: str,
    out: str,
    *,
    reading: Mapping[str, Any],
    noise: AssumedNoise = "auto",
    incomplete: bool = False,
    categorical: Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    train_rows: int | None = None,
    seed: int = 0,
    ray_address: str | None = None,
) -> Streamed:
    """Audit a folder of Parquet files that need not fit into memory; what is finished is not done again.

    Parameters
    ----------
    data, out : str
        Paths or URLs of the folder to read, and of the one to write, which is empty or holds this very run.
    reading : mapping
        The arguments of :func:`propml.tables.read_table` that say where labels, features and identifiers stand.
    noise, incomplete
        As in :func:`propml.audit`.
    categorical : sequence of str, optional
        Columns whose numbers are codes.
    params : mapping, optional
        Arguments of the classifier that differ from those of the default audit.
    train_rows : int, optional
        Rows that each model learns from; those drawn for rare labels are added.
    seed : int
        For the sample, the folds and the models.
    ray_address : str, optional
        A Ray cluster, or ``"local"``; by default parts are worked on in this process, one after the other.
    """
    if train_rows is not None and train_rows < 1:
        raise ValueError(f"train_rows is {train_rows}, and all rows would not fit into memory; give a number of rows")
    settings = {"noise": noise, "incomplete": incomplete, "categorical": categorical, "params": dict(params or {})}
    settings |= {"train_rows": train_rows, "seed": seed}
    job = begin("audit", data, out, reading=reading, settings=settings)
    with workers(ray_address) as run:
        draw_sample(run, job, train_rows, hold_out=True)
        population = read_population(job)
        given_shares(noise, population.labels)  # a slip in it is better told before the training
        do_parts(run, learn_columns, job, "features", 1)
        do_parts(run, fit_fold, job, "models", population.folds)
        do_parts(run, fit_rates, job, "noise", 1)
        do_parts(run, judge_part, job, "verdicts", len(job.parts))
    return report(job, judge_of(job))


def judge_part(job: Job, number: int) -> None:
    """Verdicts on the rows of a part, its labels without those that are dropped, and its most suspicious rows."""
    judge, out = judge_of(job), Folder(job.out)
    population = judge.population
    tally = Tally.empty(job, len(population.labels))
    # The outermost file is the last to get its name, which says that the part is finished.
    with (
        out.writing_table(part_name("verdicts", number), _verdict_schema()) as tell,
        out.writing_table(part_name("cleaned", number), job.kept_schema) as write,
    ):
        for table in tables_of(Folder(job.data), job.parts[number], [*job.columns, *job.kept]):
            items, changes = table.items(job.id_column), {}
            if (given := candidates_over(population.labels, job.labels, table, job.merges)) is not None:
                rows = np.flatnonzero(given.sizes() > 0)
                given = given[rows]
                X, strange = judge.features.apply(table, rows, job.reading)
                tally.notes = tally.notes or strange
                verdicts = judge.verdicts(X, given, job.settings["seed"], job.settings["incomplete"])
                kind = np.argmax([verdicts.verdict == name for name in VERDICTS], axis=0)
                tell(_verdict_table(verdicts, kind, [items[row] for row in rows], population.labels))
                changes = changes_between(given, cleaned_candidates(given, verdicts), rows.tolist())
                tally.add(job, table, verdicts, kind, items, rows)
            write(labels_written(job, table, items, changes, population.spelled))
        tally.write(out, part_name("suspicious", number))


def _verdict_schema() -> Any:
    pyarrow = require("pyarrow", "data")
    word, share = pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), pyarrow.float32()
    columns = {"item": pyarrow.string(), "label": word, "verdict": word, "confidence": share, "probability": share}
    return pyarrow.schema(columns)


def _verdict_table(verdicts: Verdicts, kind: np.ndarray, items: list[str], names: Sequence[str]) -> Any:
    pyarrow = require("pyarrow", "data")
    words = [
        pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes.astype(np.int32)), pyarrow.array(known))
        for codes, known in ((verdicts.label, names), (kind, VERDICTS))
    ]
    shares = [share.astype(np.float32) for share in (verdicts.confidence, verdicts.probability)]
    columns = [pyarrow.array(items).take(pyarrow.array(verdicts.row)), *words, *shares]
    return pyarrow.table(columns, schema=_verdict_schema())


def labels_written(
    job: Job, table: BatchTable, items: Sequence[str], changes: Mapping[int, States], spelled: Mapping[str, list[str]]
) -> Any:
    """The identifiers and label columns of a batch after these changes; cells that stay are as they were."""
    pyarrow = require("pyarrow", "data")
    edits = job.labels.edits({row: as_spelled(states, spelled) for row, states in changes.items()})
    columns = {name: table.batch.column(name) for name in job.kept} | ({} if job.id_column else {"item": items})
    for name, edit in edits.items():
        columns[name] = pyarrow.array(edit(0, columns[name].to_pylist()), job.schema.field(name).type)
    return pyarrow.table([columns[name] for name in job.kept_schema.names], schema=job.kept_schema)


def stream_apply(
    out: str,
    decisions: str | Path | Sequence[str | Path],
    *,
    undecided: review.Undecided = "verdict",
    ray_address: str | None = None,
) -> tuple[str, review.Reviewed, str | None]:
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
    reviews = {str(path): review.read_decisions(path) for path in paths}
    decided, conflicts = review.merge_decisions(reviews.values())
    with file_errors.reading(folder.where(PLAN), "plan of a run", "audit again"):
        plan = json.loads(folder.read(PLAN))
        data, incomplete = plan["data"], plan["settings"]["incomplete"]
    _, _, fingerprint = look_into(Folder(data))
    if fingerprint != plan["input"]:
        raise ValueError(f"{data} was changed since it was audited; audit it again")
    if len(folder.names("verdicts")) < plan["parts"]:
        raise ValueError(f"the audit in {out} is not finished; run the same command again first")
    asked = {"decided": decided, "undecided": undecided, "incomplete": incomplete}
    job = begin("audit", data, out, reading=plan["reading"], settings=asked, keep_plan=False)
    # Are these labels of this audit? Whether the items are, the parts tell.
    review.cell_positions(decided, dict.fromkeys(each.item for each in decided), read_population(job).labels)
    with workers(ray_address) as run:
        found = do_parts(run, apply_part, job, "applying", len(job.parts))
    there = {item for _, items in found for item in items}
    if lost := next((each for each in decided if each.item not in there), None):
        review.cell_positions([lost], there, [lost.label])  # raises the sentence on an item that is not there
    if conflicts:
        with TemporaryDirectory() as beside:
            written = review.write_conflicts(conflicts, reviews, Path(beside, CONFLICTS))
            folder.write(CONFLICTS, written.read_bytes())
    counts = review.Reviewed(*(sum(values) for values in zip(*(told for told, _ in found), strict=True)))
    return folder.where(REVIEWED), counts, folder.where(CONFLICTS) if conflicts else None


def apply_part(job: Job, number: int) -> tuple[review.Reviewed, list[str]]:
    """Write the labels of a part; what became of its verdicts, and the items in it that somebody decided on."""
    population = read_population(job)
    decided: dict[str, list[review.Decision]] = {}
    for each in job.settings["decided"]:
        decided.setdefault(each.item, []).append(each)
    tables = list(tables_of(Folder(job.data), job.parts[number], job.kept))
    given = [candidates_over(population.labels, job.labels, table, job.merges) for table in tables]
    sizes = [np.zeros(0, np.int64) if own is None else own.sizes() for own in given]
    verdicts = _Told(job, number, np.concatenate([own[own > 0] for own in sizes]))
    counts, there, start = np.zeros(len(review.Reviewed._fields), np.int64), [], 0
    with Folder(job.out).writing_table(part_name(REVIEWED, number), job.kept_schema) as write:
        for table, own in zip(tables, sizes, strict=True):
            items, rows = table.items(job.id_column), np.flatnonzero(own > 0)
            changes: dict[int, States] = {}
            for first in range(0, len(rows), ROWS):
                chosen = rows[first : first + ROWS]
                names = [items[row] for row in chosen]
                mine = [each for name in dict.fromkeys(names) for each in decided.get(name, ())]
                report = verdicts.report(start + first, names, mine)
                after = review.apply_decisions(report, mine, undecided=job.settings["undecided"])
                counts += review.review_counts(report, mine, after)
                changes |= changes_between(report.candidates, after, chosen.tolist())
            start += len(rows)
            there += [item for item in items if item in decided]
            write(labels_written(job, table, items, changes, population.spelled))
    return review.Reviewed(*counts.tolist()), there


class _Told:
    """The verdicts on a part, and the row of each: the candidates of all rows are there, one after the other."""

    def __init__(self, job: Job, number: int, sizes: np.ndarray) -> None:
        table = Folder(job.out).read_table(part_name("verdicts", number))
        words = table["label"].cast("string").dictionary_encode().combine_chunks()
        self.words, self.label = words.dictionary.to_pylist(), words.indices.to_numpy()
        self.probability = table["probability"].to_numpy()
        self.incomplete = job.settings["incomplete"]
        self.candidate = table["verdict"].cast("string").to_numpy() != "missing"
        self.row = np.empty(len(table), dtype=np.int64)
        self.row[self.candidate] = np.repeat(np.arange(len(sizes)), sizes)
        # A missing label stands before or after a candidate of its row.
        item, others = table["item"].to_numpy(), np.flatnonzero(~self.candidate)
        before = np.maximum.accumulate(np.where(self.candidate, np.arange(len(item)), -1))[others]
        follows = (before >= 0) & (item[others] == item[before])
        self.row[others] = np.where(follows, self.row[before], np.where(before >= 0, self.row[before] + 1, 0))

    def report(self, start: int, items: Sequence[str], decided: Sequence[review.Decision]) -> AuditReport:
        """The verdicts on the rows from ``start`` on, over the labels that they or these decisions name."""
        span = slice(*np.searchsorted(self.row, [start, start + len(items)]))
        own, label = np.unique(self.label[span], return_inverse=True)
        names = dict.fromkeys([*(self.words[code] for code in own), *(each.label for each in decided)])
        verdicts = (self.row[span] - start, label, self.candidate[span], self.probability[span])
        return AuditReport(*matrices(tuple(names), items, *verdicts), incomplete=self.incomplete)
