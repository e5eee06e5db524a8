"""What people decided on the review page: the CSV in and out, several reviewers, and the labels that follow from it."""

import csv
import io
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from propml.atomic_files import write_whole
from propml.auditing.annotator_model import finder
from propml.auditing.report import AuditReport
from propml.auditing.verdicts import VERDICTS, best_of_row, candidate_cells, with_cells
from propml.file_errors import reading
from propml.output import neutralised, original
from propml.targets import Candidates

COLUMNS = ("item", "label", "verdict", "decision", "decided_at", "note")
NEEDED = COLUMNS[:4]
WORDS = ("drop", "keep")  # whether a label belongs, as files say it
# Files of earlier versions accept or reject the verdict; to accept one of these is to say that the item has the label.
SAYS_TRUE = ("keep", "missing")
#: What becomes of labels that nobody decided on.
Undecided = Literal["verdict", "keep", "drop"]


@dataclass(frozen=True)
class Decision:
    """Whether an item has a label, as a person says; both are named as on the review page.

    ``verdict`` is what the audit said, or empty for a label that it did not speak of; ``decided_at`` is ISO 8601, or
    empty; ``line`` is where it stood in the file, for messages.
    """

    item: str
    label: str
    belongs: bool
    verdict: str = ""
    decided_at: str = ""
    note: str = ""
    line: int | None = field(default=None, compare=False, repr=False)


def read_decisions(path: str | Path) -> list[Decision]:
    """Read the CSV that the review page downloads; rows without a decision are left out.

    Parameters
    ----------
    path : path
        UTF-8, with the columns item, label, verdict and decision (keep or drop), in any order; commas, semicolons or
        tabs between them, since spreadsheets change those. Other columns are ignored. In older files a decision is
        accept or reject, and is about the verdict.

    Returns
    -------
    list of Decision
        One per item and label, in the order of the file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there; download the decisions from the review page and name that file")
    with reading(path, "list of decisions", "download it again"):
        return decisions_in(path.read_bytes(), str(path))


def decisions_in(content: bytes, name: str) -> list[Decision]:
    """The decisions in the content of such a file; ``name`` is for messages."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise ValueError(
            f'line {line} of {name} is not UTF-8 (byte 0x{byte:02x}); save it as UTF-8 ("CSV UTF-8" in a spreadsheet)'
        ) from error
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        rows.fieldnames = [column.strip().lower() for column in rows.fieldnames or ()]
        if missing := [column for column in NEEDED if column not in rows.fieldnames]:
            lacks, has = " and no column ".join(map(repr, missing)), ", ".join(rows.fieldnames) or "none"
            needs = f"give it the columns {', '.join(NEEDED)}, as the review page downloads them"
            raise ValueError(f"{name} has no column {lacks} (it has {has}); {needs}")
        filled = (row for row in rows if any(row.values()))  # a spreadsheet may leave rows of empty cells
        read = (_decision(row, f"line {rows.line_num} of {name}", rows.line_num) for row in filled)
        return list(_one_each(filter(None, read)).values())
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num} of {name} is not CSV: {error}; download the file again") from error


def write_decisions(decisions: Iterable[Decision], path: str | Path) -> Path:
    """Write decisions as the review page does: cells that a spreadsheet would run begin with an apostrophe."""
    return _write(path, ((e.item, e.label, e.verdict, WORDS[e.belongs], e.decided_at, e.note) for e in decisions))


def write_conflicts(conflicts: Iterable[Decision], reviews: Mapping[str, Sequence[Decision]], path: str | Path) -> Path:
    """Write one row for each label that people disagree on: no decision, and a note that says who says what."""
    rows = {(each.item, each.label): each.verdict for each in conflicts}
    said: dict[tuple[str, str], list[str]] = {name: [] for name in rows}
    for who, review in reviews.items():
        for each in review:
            if (each.item, each.label) in said:
                note = f" ({each.note})" if each.note else ""
                said[each.item, each.label].append(f"{Path(who).stem}: {WORDS[each.belongs]}{note}")
    return _write(path, ((*name, verdict, "", "", "; ".join(said[name])) for name, verdict in rows.items()))


def _write(path: str | Path, rows: Iterable[Iterable[str]]) -> Path:
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(COLUMNS)
    table.writerows([neutralised(cell) for cell in row] for row in rows)
    write_whole(path, text.getvalue().encode("utf-8-sig"))
    return Path(path)


def _decision(row: dict[Any, Any], where: str, line: int) -> Decision | None:
    if None in row or None in row.values():  # more cells than columns, or fewer
        raise ValueError(f"{where} has more or fewer cells than the header; give every line one per column")
    cell = {column: original(text) for column, text in row.items()}
    decision, verdict = cell["decision"].strip().lower(), cell["verdict"].strip().lower()
    if not decision:
        return None
    about_verdict = decision in ("accept", "reject")
    if decision not in WORDS and not about_verdict:
        raise ValueError(f"{where}: the decision is {decision!r}; write keep or drop, or leave it empty")
    if verdict not in VERDICTS and (verdict or about_verdict):
        raise ValueError(f"{where}: the verdict is {verdict!r}; it must be one of {', '.join(VERDICTS)}")
    belongs = (decision == "accept") == (verdict in SAYS_TRUE) if about_verdict else decision == "keep"
    remarks = (cell.get("decided_at", ""), cell.get("note", ""))
    return Decision(cell["item"], cell["label"], belongs, verdict, *remarks, line)


def _one_each(decisions: Iterable[Decision]) -> dict[tuple[str, str], Decision]:
    """By item and label; the same said twice counts once, and a contradiction is an error."""
    by_cell: dict[tuple[str, str], Decision] = {}
    for each in decisions:
        before = by_cell.setdefault((each.item, each.label), each)
        if before.belongs != each.belongs:
            lines = f" (lines {before.line} and {each.line})" if before.line and each.line else ""
            both = f"item {each.item!r} both has and has not label {each.label!r} by two decisions{lines}"
            raise ValueError(f"{both}; remove one of them")
    return by_cell


def merge_decisions(reviews: Iterable[Iterable[Decision]]) -> tuple[list[Decision], list[Decision]]:
    """Bring together what several people decided: the majority counts, and where there is none nothing is decided.

    Returns what is agreed, and the decisions that contradict each other and are as many on either side.
    """
    said: dict[tuple[str, str], list[Decision]] = {}
    for review in reviews:
        for name, decision in _one_each(review).items():
            said.setdefault(name, []).append(decision)
    agreed, conflicts = [], []
    for each in said.values():
        margin = sum(1 if decision.belongs else -1 for decision in each)
        if margin:
            agreed.append(next(decision for decision in each if decision.belongs == (margin > 0)))
        else:
            conflicts += each
    return agreed, conflicts


def apply_decisions(
    source: AuditReport | Candidates, decisions: Iterable[Decision], *, undecided: Undecided = "verdict"
) -> Candidates:
    """The candidate labels after a person has decided.

    Parameters
    ----------
    source : AuditReport or Candidates
        What was audited. Candidates carry no verdicts: there, what is undecided stays as it is.
    decisions : iterable of Decision
    undecided : {"verdict", "keep", "drop"}
        What becomes of labels that nobody decided on: they follow the audit (:meth:`AuditReport.cleaned`); all stay as
        they were and none is added; or only those stay that the audit keeps, and none is added.

    Returns
    -------
    Candidates
        With the rows, label names and votes of ``source``. A row is empty only where a person took its every label.

    Examples
    --------
    >>> c = Candidates.from_lists([["beach", "sunset"], ["beach"]])
    >>> apply_decisions(c, [Decision("0", "sunset", belongs=False)]).to_lists()
    [['beach'], ['beach']]
    """
    if undecided not in get_args(Undecided):
        raise ValueError(f'undecided is {undecided!r}; choose "verdict", "keep" or "drop"')
    before, items = (source, source.index) if isinstance(source, Candidates) else (source.candidates, source.item_ids)
    chosen = list(_one_each(decisions).values())
    n_labels = before.shape[1]
    cells = cell_positions(chosen, items, before.labels) @ (n_labels, 1)
    belongs = np.array([each.belongs for each in chosen], dtype=bool)
    if isinstance(source, Candidates) or undecided == "keep":
        return with_cells(before, cells, belongs)
    if undecided == "verdict":
        start = source.cleaned()
    else:
        told = source.verdicts()
        doubted = told[np.isin(told.verdict, ("drop", "doubtful"))]
        start = with_cells(before, doubted.row * n_labels + doubted.label, np.zeros(len(doubted), dtype=bool))
    after = with_cells(start, cells, belongs)
    # The audit empties no row: it gets its most probable label back, if there is one that no person decided on.
    was = candidate_cells(before)
    left = was[(after.sizes() == 0)[was // n_labels] & ~np.isin(was, cells)]
    row, label = np.divmod(left, n_labels)
    back = left[best_of_row(row, source.probabilities[row, label])]
    return with_cells(after, back, np.ones(len(back), dtype=bool))


class Reviewed(NamedTuple):
    """How many verdicts a person decided on, and what became of all others: candidates and missing labels."""

    decided: int
    went: int
    stayed: int
    came: int
    stayed_out: int

    @property
    def undecided(self) -> int:
        """How many verdicts nobody decided on."""
        return self.went + self.stayed + self.came + self.stayed_out

    def __str__(self) -> str:
        sentence = f"{self.decided} verdicts decided, {self.undecided} undecided"
        if not self.undecided:
            return sentence
        missing = f", {self.came} missing ones were added, {self.stayed_out} were not"
        sentence += f": of these {self.went} labels went, {self.stayed} stayed"
        return sentence + missing if self.came or self.stayed_out else sentence


def review_counts(report: AuditReport, decisions: Iterable[Decision], after: Candidates) -> Reviewed:
    """Count what :func:`apply_decisions` made of a report, with the candidates that it returned."""
    verdicts, n_labels = report.verdicts(), after.shape[1]
    at = cell_positions(list(_one_each(decisions).values()), report.item_ids, report.candidates.labels)
    cell = verdicts.row * n_labels + verdicts.label
    undecided = ~np.isin(cell, at @ (n_labels, 1))
    there, missing = np.isin(cell, candidate_cells(after)), verdicts.verdict == "missing"
    counts = ((undecided & (missing == new) & (there == has)).sum() for new in (False, True) for has in (new, not new))
    return Reviewed(len(at), *map(int, counts))


def cell_positions(decisions: Iterable[Decision], items: Iterable[Any], labels: Iterable[Hashable]) -> np.ndarray:
    """Row and column of each decision, ``(n_decisions, 2)``; an item or label that is not there is an error."""
    row_of, column_of = finder(items, "item"), finder(labels, "label")
    at = []
    for each in decisions:
        where = "" if each.line is None else f"line {each.line}: "
        at.append((row_of(each.item, where), column_of(each.label, where)))
    return np.array(at, dtype=np.int64).reshape(-1, 2)
