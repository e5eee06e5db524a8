"""The work of a run: what it was asked, kept in its folder; its steps part by part, in this process or on Ray."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from propml import file_errors
from propml.extras import require, versions
from propml.jsonable import jsonable
from propml.messages import argument
from propml.progress import progress_bar
from propml.streaming.folders import Folder, Part, look_into, tables_of
from propml.tables.arrow import class_names
from propml.tables.files import feature_columns
from propml.tables.labels import FlagLabels, labels_in
from propml.tables.table import checked_column, choose_columns

PLAN = "plan.json"
# What the steps of a run write, where that is no table.
ENDINGS = {"counts": ".json", "features": ".json", "models": ".safetensors", "noise": ".json"}
# How often Ray tries a part again whose worker or machine died.
RETRIES = 3
# Arguments of :func:`propml.tables.read_table` that need all rows at once, or are for other files.
NOT_STREAMED = ("votes", "embed", "image", "xml", "delimiter", "encoding")

Work = Callable[["Job", int], Any]
Run = Callable[[Work, "Job", Iterable[int]], Iterator[tuple[int, Any]]]


@dataclass(frozen=True)
class Job:
    """All that a worker must know."""

    data: str
    out: str  # empty where nothing is written
    parts: tuple[Part, ...]
    schema: Any
    columns: tuple[str, ...]  # what becomes features
    width: int  # how many numbers these are before text and categories become some
    labels: Any  # where they stand: TextLabels or FlagLabels; a run that predicts has none
    reading: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    model: bytes = b""  # a saved one

    @property
    def id_column(self) -> str | None:
        return self.reading.get("id_column")

    @property
    def merges(self) -> bool:
        """Whether labels are one that differ in case or blanks only."""
        return bool(self.reading.get("merge_labels"))

    @property
    def n_rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def kept(self) -> list[str]:
        """The columns that are written with other labels: identifiers and labels."""
        return [*([self.id_column] if self.id_column else []), *self.labels.columns]

    @property
    def kept_schema(self) -> Any:
        """The fields of these; where there are no identifiers, rows are called by file and number."""
        pyarrow = require("pyarrow", "data")
        item = [] if self.id_column else [pyarrow.field("item", pyarrow.string())]
        return pyarrow.schema([*item, *self.schema_of(self.kept)])

    def schema_of(self, columns: Iterable[str]) -> Any:
        """The fields of these columns."""
        return require("pyarrow", "data").schema([self.schema.field(name) for name in columns])


def begin(
    kind: str,
    data: str,
    out: str | None,
    *,
    reading: Mapping[str, Any],
    settings: Mapping[str, Any],
    columns: Iterable[str] | None = None,
    former_id: str | None = None,
    keep_plan: bool = True,
) -> Job:
    """Look at the folder that is to be read, and keep a plan of the run in the one that is to be written.

    ``columns`` are those that a saved model reads, by default what ``reading`` names or leaves; ``former_id`` is the
    column of identifiers if none is named and this one is there.
    """
    folder = _checked_source(data, out, reading)
    schema, parts, fingerprint = look_into(folder)
    head = next(tables_of(folder, parts[0], schema.names))
    plain = {name: value for name, value in reading.items() if name not in NOT_STREAMED}
    if former_id in head.names:
        plain["id_column"] = reading.get("id_column") or former_id
    labels = None
    if kind != "predict":
        where = (reading.get("candidates"), reading["sep"], reading.get("label_columns"))
        labels = labels_in(head, *where, what="true" if kind == "evaluate" else "candidate")
    if isinstance(labels, FlagLabels):
        plain["label_columns"] = list(labels.columns)
    taken = {*(labels.columns if labels else ()), plain.get("id_column")}
    if columns is None:
        ignored = choose_columns(head, reading["ignore"]) if reading.get("ignore") else ()
        columns = feature_columns(head, reading.get("features"), {*taken, *ignored}, reading.get("text"))
    chosen = tuple(columns)
    for name in filter(None, {*chosen, *taken}):
        checked_column(head, name)
    told = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    if numbered := [name for name in class_names(told) if name in {*chosen, *taken}]:
        raise ValueError(
            f"{data}: column {numbered[0]!r} holds numbers of classes whose names stand elsewhere in the file, which a "
            f"stream does not read; write the names into the column"
        )
    width = sum(
        np.shape(cells)[1] if isinstance(cells, np.ndarray) and cells.ndim == 2 else 1
        for cells in map(head.cells, chosen)
    )
    place = "" if out is None else Folder(out).place
    job = Job(folder.place, place, parts, schema, chosen, width, labels, plain, dict(settings))
    if out is not None and keep_plan:
        _keep_plan(kind, job, fingerprint)
    return job


def _checked_source(data: str, out: str | None, reading: Mapping[str, Any]) -> Folder:
    """The folder that is read, if nothing is written into it, or asked for that needs all rows at once."""
    if asked := next((name for name in NOT_STREAMED if reading.get(name) is not None), None):
        raise ValueError(
            f"{argument(asked)} does not go with {argument('stream')}, which reads Parquet files with labels in their "
            f"columns; leave it out, or take a part of the rows that fits into memory"
        )
    if reading.get("file_format") not in (None, "parquet"):
        raise ValueError(f"a stream is of Parquet files, and {reading['file_format']!r} was asked for; convert them")
    folder = Folder(data)
    if not folder.is_url and not Path(folder.place).is_dir():
        there = "is a file" if Path(folder.place).exists() else "does not exist"
        raise NotADirectoryError(f"{data} {there}; {argument('stream')} reads a folder of Parquet files")
    if out is not None and f"{Folder(out).place}/".startswith(f"{folder.place.rstrip('/')}/"):
        raise ValueError(f"{out} lies in {data}, where what is written would be read as data; write to another folder")
    return folder


def _keep_plan(kind: str, job: Job, fingerprint: str) -> None:
    """Write down what is done here, or refuse to go on with what was something else."""
    asked = {
        "kind": kind,
        "data": job.data,
        "input": fingerprint,
        "rows": job.n_rows,
        "parts": len(job.parts),
        "columns": list(job.columns),
        "reading": job.reading,
        "settings": job.settings,
        "versions": versions(),
    }
    plan = jsonable(asked, lossy=True)
    plan["digest"] = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    folder = Folder(job.out)
    names = folder.names()
    if PLAN in names:
        with file_errors.reading(folder.where(PLAN), "plan of a run", "write to another folder"):
            before = json.loads(folder.read(PLAN))
            same = before["digest"] == plan["digest"]
        if not same:
            differs = next((name for name in plan if plan[name] != before.get(name)), "digest")
            raise ValueError(
                f"{folder.place} holds a run of something else: its {differs} differs; write to another folder, or "
                f"remove this one"
            )
        return
    if names:
        raise ValueError(f"{folder.place} is not empty, and holds no run to go on with; write to another folder")
    folder.write(PLAN, (json.dumps(plan, ensure_ascii=False, indent=2) + "\n").encode())


def part_name(step: str, number: int) -> str:
    """What the result of a part is called.

    >>> part_name("verdicts", 3), part_name("noise", 0)
    ('verdicts/part-00003.parquet', 'noise/part-00000.json')
    """
    return f"{step}/part-{number:05d}{ENDINGS.get(step, '.parquet')}"


def do_parts(run: Run, work: Work, job: Job, step: str, count: int) -> list[Any]:
    """Do a step for those of its parts that have written no file of its name yet; what these return, in their order."""
    there = {f"{step}/{name}" for name in Folder(job.out).names(step)} if job.out else ()
    left = [number for number in range(count) if part_name(step, number) not in there]
    found = {}
    with progress_bar(step, count, long_steps=True) as bar:
        bar.advance(count - len(left))
        for number, told in run(work, job, left):
            found[number] = told
            bar.advance()
    return [found[number] for number in left]


@contextmanager
def workers(address: str | None) -> Iterator[Run]:
    """Where parts are worked on: in this process, or as tasks of a Ray cluster; ``"local"`` starts one here.

    Every part is worked on by one thread: how a product of matrices is shared among threads changes its last bits.
    """
    if address is None:
        yield _here
        return
    from propml.benchmark.executors import join

    ray, ours = join(address)
    try:
        yield partial(_on_ray, ray)
    finally:
        if ours:
            ray.shutdown()


def _here(work: Work, job: Job, numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
    for number in numbers:
        yield number, _with_one_thread(work, job, number)


def _on_ray(ray: Any, work: Work, job: Job, numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
    task = ray.remote(_with_one_thread).options(max_retries=RETRIES, num_cpus=1)
    sent, waiting = ray.put(job), iter(numbers)
    running: dict[Any, int] = {}
    try:
        while True:
            # Twice as many as run at once, so that no worker waits for this process; the cluster may grow.
            most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
            while len(running) < most and (number := next(waiting, None)) is not None:
                running[task.remote(work, sent, number)] = number
            if not running:
                return
            (ready, *_), _ = ray.wait(list(running), num_returns=1)
            yield running.pop(ready), ray.get(ready)
    except ray.exceptions.RayTaskError as error:  # what the work itself raised, as it would have here
        raise error.cause from None
    except ray.exceptions.RayError as error:
        told = f"Ray gave a part up ({error}); what is finished is kept: run the same command again"
        raise ValueError(told) from error
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _with_one_thread(work: Work, job: Job, number: int) -> Any:
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            return work(job, number)
    finally:
        torch.set_num_threads(before)
