"""``propml audit --stream``: rows are judged part by part, by models of a sample that never saw them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from propml.auditing.noise import AssumedNoise, given_shares
from propml.auditing.process import from_candidates
from propml.auditing.report import AuditReport
from propml.auditing.review import render_review
from propml.auditing.verdicts import VERDICTS, Verdicts, cleaned_candidates, give_verdicts
from propml.extras import require, versions
from propml.jsonable import jsonable
from propml.streaming.folders import Folder
from propml.streaming.judging import fit_fold, fit_rates, judge_of, learn_columns
from propml.streaming.rows import BatchTable, tables_of
from propml.streaming.sample import draw_sample, read_population, read_sample, sampled
from propml.streaming.work import Job, begin, do_parts, part_name, workers
from propml.tables.labels import Changes
from propml.tables.spellings import Merged
from propml.targets import Candidates

__all__ = ["Streamed", "stream_audit"]

FOLDS = 5
PAGE, REPORT = "review.html", "report.json"
# Rows on the page, and columns of them where there is no text.
PAGE_ROWS, SHOWN_COLUMNS = 2_000, 6
ITEM, SUSPICION, LABELS, TRUE, CANDIDATE = (
    f"propml_{name}" for name in ("item", "suspicion", "labels", "true", "candidate")
)
# P(true) is added up in whole numbers of this size: a sum of fractions depends on their order.
UNIT = 2.0**-24


class Streamed(NamedTuple):
    """What an audit of a stream found.

    Attributes
    ----------
    counts : dict
        Verdicts of each kind.
    notes : list of str
    files : list of str
        What was written, in the order in which one looks at it.
    worst : AuditReport
        The rows on the page, the most suspicious ones.
    columns : dict
        What became of every column.
    """

    rows: int
    counts: dict[str, int]
    notes: list[str]
    files: list[str]
    worst: AuditReport
    columns: dict[str, str]


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
        "folds": FOLDS,
    }
    job = begin("audit", data, out, reading=reading, settings=settings)
    with workers(ray_address) as run:
        draw_sample(run, job, train_rows, spare=FOLDS / (FOLDS - 1))
        given_shares(noise, read_population(job).labels.labels)  # a slip in it is better told before the training
        do_parts(run, learn_columns, job, "features", 1, ending=".json", told="learning columns")
        do_parts(run, fit_fold, job, "models", FOLDS, ending=".safetensors", told="training")
        do_parts(run, fit_rates, job, "noise", 1, ending=".json", told="noise")
        do_parts(run, judge_part, job, "verdicts", len(job.parts), told="judging")
    return _report(job)


def judge_part(job: Job, number: int) -> None:
    """Verdicts on the rows of a part, its labels without those that are dropped, and its most suspicious rows."""
    pyarrow, parquet = require("pyarrow", "data"), require("pyarrow.parquet", "data")
    judge, out = judge_of(job), Folder(job.out)
    names = judge.population.labels.labels
    assert job.labels is not None
    kept = [*([job.id_column] if job.id_column else []), *job.labels.columns]
    item = [] if job.id_column else [pyarrow.field("item", pyarrow.string())]
    schema = pyarrow.schema([*item, *job.schema_of(kept)])
    counts, true = np.zeros((len(names), len(VERDICTS)), dtype=np.int64), np.zeros(len(names), dtype=np.int64)
    worst: list[Any] = []
    notes: list[str] = []
    # Verdicts get their name after the others, and say by it that the part is finished.
    with (
        out.writing(part_name("verdicts", number)) as told,
        out.writing(part_name("cleaned", number)) as cleaned,
        parquet.ParquetWriter(told, _verdict_schema()) as tell,
        parquet.ParquetWriter(cleaned, schema) as write,
    ):
        for table in tables_of(Folder(job.data), job.parts[number], [*job.columns, *kept]):
            items = table.items(job.id_column)
            columns = {name: table.batch.column(name) for name in kept} | ({} if job.id_column else {"item": items})
            if (merged := judge.population.labels.merged(job.labels, table)) is not None:
                rows = np.flatnonzero(merged.candidates.sizes() > 0)
                given = merged[rows].candidates
                X, strange = judge.features.apply(table, rows, job.reading)
                notes = notes or strange
                incomplete = job.settings["incomplete"]
                truth = from_candidates(judge.scores(X, job.settings["seed"]), given, judge.rates, incomplete)
                verdicts = give_verdicts(truth, given, incomplete=incomplete)
                kind = np.argmax([verdicts.verdict == name for name in VERDICTS], axis=0)
                np.add.at(counts, (verdicts.label, kind), 1)
                judged = verdicts.verdict != "missing"
                np.add.at(true, verdicts.label[judged], np.rint(verdicts.probability[judged] / UNIT).astype(np.int64))
                tell.write_table(_verdict_table(verdicts, [items[row] for row in rows], names))
                columns |= _edited(job, table, merged[rows], cleaned_candidates(given, verdicts), rows)
                worst = [_worst(job, table, verdicts, items, rows), *worst]
                worst = [_most_suspicious(worst)]
            write.write_table(pyarrow.table([columns[name] for name in schema.names], schema=schema))
        statistics = {"counts": counts.tolist(), "true": true.tolist(), "notes": notes[:1]}
        page = _most_suspicious([*worst, _page_schema(job).empty_table()])
        page = page.replace_schema_metadata({"propml": json.dumps(statistics)})
        with out.writing(part_name("suspicious", number)) as file:
            parquet.write_table(page, file)


def _verdict_schema() -> Any:
    pyarrow = require("pyarrow", "data")
    word = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    share = pyarrow.float32()
    return pyarrow.schema(
        {"item": pyarrow.string(), "label": word, "verdict": word, "confidence": share, "probability": share}
    )


def _verdict_table(verdicts: Verdicts, items: list[str], names: Sequence[str]) -> Any:
    pyarrow = require("pyarrow", "data")
    words = [
        pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes.astype(np.int32)), pyarrow.array(list(known)))
        for codes, known in (
            (verdicts.label, names),
            (np.argmax([verdicts.verdict == name for name in VERDICTS], axis=0), VERDICTS),
        )
    ]
    shares = [np.asarray(share, dtype=np.float32) for share in (verdicts.confidence, verdicts.probability)]
    return pyarrow.table([pyarrow.array(items).take(pyarrow.array(verdicts.row)), *words, *shares], _verdict_schema())


def _edited(job: Job, table: BatchTable, merged: Merged, after: Candidates, rows: np.ndarray) -> dict[str, Any]:
    """The label columns of a batch without what is dropped; cells that stay are as they were."""
    pyarrow = require("pyarrow", "data")
    before = merged.spelled
    after = merged.split(after) if merged.candidates is not merged.spelled else after
    assert job.labels is not None
    return {
        name: pyarrow.array(edit(0, table.batch.column(name).to_pylist()), job.schema.field(name).type)
        for name, edit in job.labels.edits(Changes.between(before, after, rows)).items()
    }


def _page_schema(job: Job) -> Any:
    pyarrow = require("pyarrow", "data")
    own = {ITEM: pyarrow.string(), SUSPICION: pyarrow.float32(), LABELS: pyarrow.list_(pyarrow.int32())}
    own |= {TRUE: pyarrow.list_(pyarrow.float32()), CANDIDATE: pyarrow.list_(pyarrow.bool_())}
    return pyarrow.schema([*job.schema_of(_shown(job)), *(pyarrow.field(name, kind) for name, kind in own.items())])


def _shown(job: Job) -> list[str]:
    """The columns that the page shows."""
    text = job.reading.get("text")
    return [text] if text else list(job.columns[:SHOWN_COLUMNS])


def _worst(job: Job, table: BatchTable, verdicts: Verdicts, items: list[str], rows: np.ndarray) -> Any:
    """The rows with a label that is doubtful, dropped or missing, as the page needs them."""
    pyarrow = require("pyarrow", "data")
    missing = verdicts.verdict == "missing"
    suspicion = np.where(missing, verdicts.probability, 1 - verdicts.probability)
    suspicion[verdicts.verdict == "keep"] = 0.0
    of_row = np.zeros(len(rows))
    np.maximum.at(of_row, verdicts.row, suspicion)
    chosen = np.argsort(-of_row, kind="stable")[:PAGE_ROWS]
    chosen = np.sort(chosen[of_row[chosen] > 0])
    ends = np.searchsorted(verdicts.row, np.arange(len(rows) + 1))
    spans = [slice(ends[row], ends[row + 1]) for row in chosen]
    own = [
        [items[row] for row in rows[chosen]],
        of_row[chosen].astype(np.float32),
        *([column[span].tolist() for span in spans] for column in (verdicts.label, verdicts.probability, ~missing)),
    ]
    at = pyarrow.array(rows[chosen])
    return pyarrow.table([*(table.batch.column(name).take(at) for name in _shown(job)), *own], schema=_page_schema(job))


def _most_suspicious(tables: list[Any]) -> Any:
    pyarrow = require("pyarrow", "data")
    order = [(SUSPICION, "descending"), (ITEM, "ascending")]
    return pyarrow.concat_tables(tables).sort_by(order).slice(0, PAGE_ROWS).combine_chunks()


class _Page(AuditReport):
    """The most suspicious rows, with notes and a table of labels that are about all rows."""

    def __init__(self, told: dict[str, Any], counts: np.ndarray, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self._told, self._counts = told, counts

    def notes(self) -> list[str]:
        return self._notes(self._counts[:, VERDICTS.index("drop")], self._told["candidates"])

    def labels(self, library: Any = "columns") -> Any:
        return self._told


def _report(job: Job) -> Streamed:
    """The page and the numbers of all parts, from what each of them left."""
    parquet, out = require("pyarrow.parquet", "data"), Folder(job.out)
    judge = judge_of(job)
    counts: Any = 0
    true: Any = 0
    notes: list[str] = []
    page = _page_schema(job).empty_table()
    for number in range(len(job.parts)):
        with out.open(part_name("suspicious", number)) as file:
            part = parquet.read_table(file)
        statistics = json.loads(part.schema.metadata[b"propml"])
        counts, true = counts + np.array(statistics["counts"]), true + np.array(statistics["true"])
        notes += statistics["notes"]
        page = _most_suspicious([page, part.replace_schema_metadata()])
    told = _label_table(judge.population.labels.labels, counts, true, job.settings["incomplete"])
    least, most = judge.rates.false_shares()
    told |= {"false_least": least, "false_most": most}
    sample = read_sample(job)
    drawn = sampled(job, sample)
    settings = {
        "model": "ProPMLClassifier",
        "folds": FOLDS,
        "noise": {"assumed": job.settings["noise"], "false_least": least, "false_most": most},
    }
    worst = _Page(
        told,
        counts,
        *_matrices(page, judge.population.labels.labels),
        incomplete=job.settings["incomplete"],
        settings=settings,
    )
    without = job.n_rows - judge.population.rows
    described = judge.features.features.describe()
    learned = json.loads(out.read(part_name("features", 0, ".json")))
    notes = [
        *([f"{without} rows have no candidate label: they are not judged, and stay as they are"] if without else []),
        f"models learned from {drawn['rows_drawn']} of {job.n_rows} rows, none of which they judge",
        *learned["notes"],
        *worst.notes(),
        *notes[:1],
    ]
    totals = dict(zip(VERDICTS, counts.sum(axis=0).tolist(), strict=True))
    if len(page):
        text = job.reading.get("text")
        shown = {"texts": page[text].to_pylist()} if text else {"features": page.select(_shown(job)).to_pandas()}
        html = render_review(worst, **shown, title=f"The {len(page)} most suspicious of {job.n_rows} rows")
        out.write(PAGE, html.encode())
    summary = {
        "rows": job.n_rows,
        "sample": drawn,
        "verdicts": totals,
        "labels": told,
        "columns": described,
        "notes": notes,
        "settings": job.settings,
        "reading": job.reading,
        "versions": versions(),
    }
    out.write(REPORT, (json.dumps(jsonable(summary, lossy=True), ensure_ascii=False, indent=2) + "\n").encode())
    files = [*([PAGE] if len(page) else []), REPORT, "verdicts", "cleaned"]
    return Streamed(job.n_rows, totals, notes, [out.where(name) for name in files], worst, described)


def _label_table(names: Sequence[str], counts: np.ndarray, true: np.ndarray, incomplete: bool) -> dict[str, Any]:
    kinds = {name: counts[:, j] for j, name in enumerate(VERDICTS) if name != "missing" or incomplete}
    candidates = counts[:, : VERDICTS.index("missing")].sum(axis=1)
    share = np.divide(true * UNIT, candidates, out=np.full(len(names), np.nan), where=candidates > 0)
    return {"label": list(names), "candidates": candidates, "share_true": share, **kinds}


def _matrices(page: Any, names: Sequence[str]) -> tuple[Candidates, np.ndarray]:
    """Candidates and P(true) of the rows on the page."""
    lengths = [len(labels) for labels in page[LABELS].to_pylist()]
    row = np.repeat(np.arange(len(page)), lengths)
    label, truth, given = (
        page[name].combine_chunks().flatten().to_numpy(zero_copy_only=False) for name in (LABELS, TRUE, CANDIDATE)
    )
    shape = (len(page), len(names))
    probabilities = np.zeros(shape, dtype=np.float32)
    probabilities[row, label] = truth
    given = given.astype(bool)
    states = sp.csr_array((np.ones(int(given.sum()), dtype=np.int8), (row[given], label[given])), shape=shape)
    return Candidates(states, tuple(names), tuple(page[ITEM].to_pylist())), probabilities
