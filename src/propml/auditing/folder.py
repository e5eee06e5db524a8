"""An audit as a folder of files: verdicts, reliability, cleaned labels, the page to review them, and what was asked."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from propml import file_errors
from propml.atomic_files import replacing_files, write_whole
from propml.auditing import decisions as review
from propml.auditing.evidence import N_FEATURES
from propml.auditing.model_card import file_digest, json_bytes
from propml.auditing.report import REPORT_FILE, AuditReport
from propml.auditing.review import write_review
from propml.extras import versions
from propml.file_errors import FileError
from propml.jsonable import jsonable
from propml.schema import Schema, check_schema
from propml.tables.arrays import ArrayFile
from propml.tables.features import Features
from propml.tables.files import UserTable, read_table, write_cleaned
from propml.tables.sources import FORMATS, LISTS, like, write_rows

REPORT, SETTINGS = "report", "audit.json"
PAGE, VERDICTS, LABELS, ANNOTATORS = "review.html", "verdicts.csv", "labels.csv", "annotators.csv"
CLEANED, REVIEWED, CONFLICTS, DECIDED = "cleaned", "reviewed", "conflicts.csv", "decided.csv"
# Everything else that stands in the folder; the ending of labels is that of the file that was audited.
OUTPUTS = {PAGE, VERDICTS, LABELS, ANNOTATORS, DECIDED, *(f"verdicts{ending}" for ending in LISTS)} | {
    f"{stem}{ending}{packed}" for stem in (CLEANED, REVIEWED) for ending in (*FORMATS, ".npy") for packed in ("", ".gz")
}
RECORD: Schema = {"data": str, "reading": {str: object}, "sha256": {str: str}, "report_sha256": str, str: object}
RECORD |= {"files": {PAGE: str, str: str}, "own_sha256": str}


def write_audit(
    folder: str | Path,
    report: AuditReport,
    table: UserTable,
    features: Features,
    *,
    reading: Mapping[str, Any],
    settings: Mapping[str, Any],
    X: Any = None,
    decided: Sequence[review.Decision] = (),
) -> list[Path]:
    """Write everything that an audit tells; returns the files, in the order in which one looks at them.

    ``reading`` has the arguments of :func:`propml.tables.files.read_table`, ``settings`` what else was asked for, ``X``
    what was learned from, and ``decided`` what a person decided before, which the report knows.
    """
    folder = Path(folder)
    files = _files_read(table.path, reading)
    check_sources(folder, *files.values())
    try:
        before = _read_settings(folder)["files"]
    except (FileError, OSError):
        before = {}
    verdicts = {name: own for name, own in report.to_frame("columns").items() if name not in ("votes", "voters")}
    tables = {VERDICTS: verdicts}
    if (too := like(table.path, Path(VERDICTS))).suffix in LISTS:  # a format that has lists and numbers
        tables[too.name] = verdicts
    tables[LABELS] = report.labels("columns")
    if table.candidates.annotations is not None:
        tables[ANNOTATORS] = report.annotators("columns")
    with replacing_files(folder, SETTINGS) as beside:
        report.save(beside / REPORT)
        made = [
            write_review(report, beside / PAGE, title=f"Audit of {table.path.name}", vectors=X, **_shown(table)),
            write_cleaned(table, report.cleaned(), beside / f"{CLEANED}{table.suffix}"),
            *(_write_columns(beside / name, columns) for name, columns in tables.items()),
        ]
        if decided:
            made.append(review.write_decisions(decided, beside / DECIDED))
        record = {
            "data": str(table.path),
            "reading": jsonable(reading, lossy=True),
            "settings": jsonable(settings, lossy=True),
            "judged_by": jsonable(report.settings, lossy=True),
            "sha256": {what: file_digest(Path(file)) for what, file in files.items()},
            "rows": len(table.candidates),
            "rows_in_file": table.source.n_rows,
            "labels": len(table.candidates.labels),
            "columns": features.describe(),
            "notes": [*table.notes, *report.notes()],
            "versions": versions(),
            "report_sha256": file_digest(beside / REPORT / REPORT_FILE),
            "files": {path.name: file_digest(path) for path in made},
        }
        write_whole(beside / SETTINGS, json_bytes({**record, "own_sha256": _own_digest(record)}))
    for name in (before.keys() & OUTPUTS) - record["files"].keys():
        if _is_unchanged(folder / name, before[name]):
            (folder / name).unlink()
    return [*(folder / path.name for path in made), folder / SETTINGS]


def apply_review(
    folder: str | Path,
    decisions: str | Path | Sequence[str | Path],
    *,
    data: str | Path | None = None,
    votes: str | Path | None = None,
    xml: str | Path | None = None,
    undecided: review.Undecided = "verdict",
) -> tuple[Path, review.Reviewed, Path | None]:
    """Write the labels as they are after a person's decisions, in the format that came in.

    ``decisions`` is the CSV that the review page downloads, or one of each person; ``data``, ``votes`` and ``xml`` say
    where the files that were audited are now, if they were moved. Returns the new file, the counts, and the list of
    what people contradict each other in, where they do, which the page loads.
    """
    folder = Path(folder)
    paths = [decisions] if isinstance(decisions, str | Path) else list(decisions)
    reviews = {str(path): review.read_decisions(path) for path in paths}
    record = read_audit(folder, data=data, votes=votes, xml=xml)
    report = AuditReport.load(folder / REPORT)
    # The page, from which decisions come, need not be there any more; another one is of another audit.
    pages = ((folder / REPORT / REPORT_FILE, record["report_sha256"]), (folder / PAGE, record["files"][PAGE]))
    for path, digest in pages:
        if path.exists() and not _is_unchanged(path, digest):
            raise FileError(f"{folder / SETTINGS} does not belong to {path}; audit again")
    with file_errors.reading(folder / SETTINGS, "record of an audit", "audit again"):
        table = read_table(record["data"], **record["reading"])
    if tuple(report.item_ids) != table.item_ids or report.candidates.labels != table.candidates.labels:
        raise FileError(f"{folder / REPORT / REPORT_FILE} does not belong to {table.path}; audit again")
    path, beside = folder / f"{REVIEWED}{table.suffix}", folder / CONFLICTS
    check_not_read([path, beside], [*_files_read(record["data"], record["reading"]).values(), *paths])
    _check_not_link([path, beside])
    for source, own in reviews.items():
        with file_errors.reading(source, "list of decisions on this audit", "download it from the page of this audit"):
            review.cell_positions(own, report.item_ids, report.candidates.labels)
    decided, conflicts = review.merge_decisions(reviews.values())
    after = review.apply_decisions(report, decided, undecided=undecided)
    if conflicts:
        review.write_conflicts(conflicts, reviews, beside)
    written = write_cleaned(table, after, path)
    return written, review.review_counts(report, decided, after), beside if conflicts else None


def read_audit(
    folder: str | Path,
    *,
    data: str | Path | None = None,
    votes: str | Path | None = None,
    xml: str | Path | None = None,
) -> dict[str, Any]:
    """Read what an audit was asked, and check that the files that it read, which may have moved, are the same."""
    folder = Path(folder)
    record = _read_settings(folder)
    files = _files_read(record["data"], record["reading"])
    for what, file in _files_read(data, {"votes": votes, "xml": xml}).items():
        if what not in files:
            raise ValueError(f"the audit in {folder} had no {what}; leave out {file}")
        files[what] = file
    for what, file in files.items():
        if not Path(file).exists():
            name = "DATA" if what == "data" else f"--{what}"
            raise FileNotFoundError(
                f"{file}, which was audited, is not there any more; name it where it is now ({name})"
            )
        if file_digest(Path(file)) != record["sha256"].get(what):
            raise ValueError(f"{file} is not the file that was audited, or was changed since; audit it again")
    return {**record, "data": files.pop("data"), "reading": record["reading"] | files}


def _read_settings(folder: Path) -> dict[str, Any]:
    """What an audit wrote down, whole and unchanged."""
    path = folder / SETTINGS
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no audit in {folder}, or it was stopped half-way; name the folder that `propml audit` wrote"
        )
    with file_errors.reading(path, "record of an audit", "audit again"):
        content = json.loads(path.read_bytes())
        check_schema(content, RECORD, "it")
        if content.pop("own_sha256") != _own_digest(content):
            raise ValueError("it was changed after the audit: its checksum does not match")
    return content


def _own_digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _is_unchanged(path: Path, digest: str) -> bool:
    """Whether a file, and no link to one, is the one with this digest."""
    return path.is_file() and not path.is_symlink() and file_digest(path) == digest


def _files_read(data: Any, reading: Mapping[str, Any]) -> dict[str, str]:
    """The files that an audit reads, by what they are."""
    files = {"data": data, "votes": reading.get("votes"), "xml": reading.get("xml")}
    return {what: str(file) for what, file in files.items() if file is not None}


def _shown(table: UserTable) -> dict[str, Any]:
    """What the page shows of each row: its text, its picture, or its first columns."""
    if table.images is not None:
        beside = table.path.parent
        return {"texts": table.texts, "images": [str(beside / name) if name else None for name in table.images]}
    if table.texts is not None:
        return {"texts": table.texts}
    if isinstance(table.source, ArrayFile):
        return {"features": table.source.X[table.rows] if len(table.rows) < table.source.n_rows else table.source.X}
    columns = {name: table.source.cells(name) for name in table.feature_columns[:N_FEATURES]}
    return {"features": {name: [cells[row] for row in table.rows] for name, cells in columns.items()}}


def _write_columns(path: Path, columns: Mapping[str, Any]) -> Path:
    """Write a table; shares have four digits, and nothing stands where one is not known."""
    number = str if path.suffix == ".csv" else float

    def cells(column: Any) -> Iterable[Any]:
        if getattr(column, "dtype", None) not in (np.float32, np.float64):
            return column
        return (number(f"{cell:.4f}") if cell == cell else "" for cell in column)

    write_rows(path, list(columns), zip(*map(cells, columns.values()), strict=True))
    return path


def check_sources(folder: str | Path, *files: str | Path | None) -> None:
    """Refuse to audit files that an audit in this folder would write over, and to write through links in it."""
    written = [path for path in Path(folder).glob("*") if path.name.lower() in OUTPUTS]
    check_not_read(written, files)
    _check_not_link([*written, Path(folder, SETTINGS), Path(folder, REPORT)])


def check_folder(folder: str | Path) -> None:
    """Refuse a folder that is a file, or that could not be made or written to; nothing is made here."""
    folder = Path(folder)
    there = next(path for path in (folder, *folder.parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is not a folder, so nothing can be written to {folder}; choose another")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} may not be written to, so {folder} cannot be used; choose another folder")


def check_not_read(written: Iterable[Path], read: Iterable[str | Path | None]) -> None:
    """Refuse to write over a file that is read, by whichever name."""
    sources = [path for name in read if name is not None and (path := Path(name)).exists()]
    for path in written:
        if path.exists() and any(path.samefile(source) for source in sources):
            raise ValueError(f"{path} is read here and would be overwritten; write to another place")


def _check_not_link(written: Iterable[Path]) -> None:
    """Refuse to write through a link: what it leads to is not ours to replace."""
    for path in written:
        if path.is_symlink():
            raise ValueError(f"{path} is a link, and would be written over; remove it, or write to another place")
