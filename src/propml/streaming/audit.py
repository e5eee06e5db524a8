"""``propml audit --stream``: rows are judged part by part, by models of a sample that never saw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from propml.auditing.noise import AssumedNoise, given_shares
from propml.auditing.verdicts import VERDICTS, Verdicts, cleaned_candidates
from propml.extras import require
from propml.streaming.folders import Folder
from propml.streaming.judging import fit_fold, fit_rates, judge_of, learn_columns
from propml.streaming.rows import BatchTable, LabelSet, tables_of
from propml.streaming.sample import draw_sample, read_population
from propml.streaming.summary import Streamed, Tally, report
from propml.streaming.work import Job, begin, do_parts, part_name, workers
from propml.tables.files import as_spelled
from propml.tables.labels import States, changes_between

__all__ = ["labels_written", "stream_audit"]


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
    settings = {
        "noise": noise,
        "incomplete": incomplete,
        "categorical": categorical,
        "params": dict(params or {}),
        "train_rows": train_rows,
        "seed": seed,
    }
    job = begin("audit", data, out, reading=reading, settings=settings)
    with workers(ray_address) as run:
        draw_sample(run, job, train_rows, hold_out=True)
        population = read_population(job)
        given_shares(noise, population.labels.labels)  # a slip in it is better told before the training
        do_parts(run, learn_columns, job, "features", 1)
        do_parts(run, fit_fold, job, "models", population.folds)
        do_parts(run, fit_rates, job, "noise", 1)
        do_parts(run, judge_part, job, "verdicts", len(job.parts))
    return report(job, judge_of(job))


def judge_part(job: Job, number: int) -> None:
    """Verdicts on the rows of a part, its labels without those that are dropped, and its most suspicious rows."""
    parquet = require("pyarrow.parquet", "data")
    judge, out = judge_of(job), Folder(job.out)
    assert job.labels is not None
    labels = judge.population.labels
    tally = Tally.empty(job, len(labels.labels))
    # The outermost file is the last to get its name, which says that the part is finished.
    with (
        out.writing(part_name("verdicts", number)) as verdict_file,
        out.writing(part_name("cleaned", number)) as cleaned_file,
        out.writing(part_name("suspicious", number)) as tally_file,
        parquet.ParquetWriter(verdict_file, _verdict_schema()) as tell,
        parquet.ParquetWriter(cleaned_file, job.kept_schema) as write,
    ):
        for table in tables_of(Folder(job.data), job.parts[number], [*job.columns, *job.kept]):
            items, changes = table.items(job.id_column), {}
            if (given := labels.candidates(job.labels, table)) is not None:
                rows = np.flatnonzero(given.sizes() > 0)
                given = given[rows]
                X, strange = judge.features.apply(table, rows, job.reading)
                tally.notes = tally.notes or strange
                verdicts = judge.verdicts(X, given, job.settings["seed"], job.settings["incomplete"])
                kind = np.argmax([verdicts.verdict == name for name in VERDICTS], axis=0)
                tell.write_table(_verdict_table(verdicts, kind, [items[row] for row in rows], labels.labels))
                changes = changes_between(given, cleaned_candidates(given, verdicts), rows.tolist())
                tally.add(job, table, verdicts, kind, items, rows)
            write.write_table(labels_written(job, table, items, changes, labels))
        tally.write(tally_file)


def _verdict_schema() -> Any:
    pyarrow = require("pyarrow", "data")
    word, share = pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), pyarrow.float32()
    kinds = {"item": pyarrow.string(), "label": word, "verdict": word, "confidence": share, "probability": share}
    return pyarrow.schema(list(kinds.items()))


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
    job: Job, table: BatchTable, items: Sequence[str], changes: Mapping[int, States], of: LabelSet
) -> Any:
    """The identifiers and label columns of a batch after these changes; cells that stay are as they were."""
    pyarrow = require("pyarrow", "data")
    assert job.labels is not None
    edits = job.labels.edits({row: as_spelled(states, of.spelled) for row, states in changes.items()})
    columns = {name: table.batch.column(name) for name in job.kept} | ({} if job.id_column else {"item": items})
    for name, edit in edits.items():
        columns[name] = pyarrow.array(edit(0, columns[name].to_pylist()), job.schema.field(name).type)
    return pyarrow.table([columns[name] for name in job.kept_schema.names], schema=job.kept_schema)
