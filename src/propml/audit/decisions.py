"""What a person decided on the review page: the CSV in and out, and the labels that follow from it.

A decision accepts or rejects a verdict of the audit, and so says whether an item has a label:

========= ============ ============
verdict   accepted     rejected
========= ============ ============
drop      label goes   label stays
doubtful  label goes   label stays
keep      label stays  label goes
missing   label comes  label does not come
========= ============ ============
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from propml.audit.spreadsheet import neutralised, original
from propml.audit.verdicts import VERDICTS
from propml.benchmark.durable import write_whole
from propml.targets import CANDIDATE, Candidates

if TYPE_CHECKING:
    from propml.audit.report import AuditReport

__all__ = ["Decision", "apply_decisions", "read_decisions", "write_decisions"]

COLUMNS = ("item", "label", "verdict", "decision", "decided_at")
NEEDED = COLUMNS[:4]


@dataclass(frozen=True)
class Decision:
    """One verdict of the audit, accepted or rejected by a person.

    Attributes
    ----------
    item, label : str
        As they stand in the review page.
    accept : bool
    verdict : {"keep", "doubtful", "drop", "missing"}
        What was accepted or rejected.
    decided_at : str
        ISO 8601, or empty.
    line : int or None
        Where it stood in the file, for messages.

    Examples
    --------
    >>> Decision("img-7", "sunset", accept=False, verdict="drop").belongs
    True
    """

    item: str
    label: str
    accept: bool
    verdict: str = "drop"
    decided_at: str = ""
    line: int | None = field(default=None, compare=False, repr=False)

    @property
    def belongs(self) -> bool:
        """Whether the item has the label, by this decision."""
        return self.accept == (self.verdict in ("keep", "missing"))


# -- the file -----------------------------------------------------------------------------------------------------


def read_decisions(path: str | Path) -> list[Decision]:
    """Read the CSV that the review page downloads; rows without a decision are left out.

    Parameters
    ----------
    path : path
        UTF-8, with the columns item, label, verdict and decision (accept or reject), in any order; commas, semicolons
        or tabs between them, since spreadsheets change those. Other columns are ignored.

    Returns
    -------
    list of Decision
        One per item and label, in the order of the file.
    """
    path = Path(path)
    rows = csv.reader(io.StringIO(text := _text(path), newline=""), delimiter=_delimiter(text), strict=True)
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        if missing := [name for name in NEEDED if name not in header]:
            has = f"it has {', '.join(filter(None, header))}" if any(header) else "it is empty"
            raise ValueError(
                f"{path.name} has no column {' and no column '.join(map(repr, missing))} ({has}); "
                f"give it the columns {', '.join(NEEDED)}, as the review page downloads them"
            )
        decisions = []
        for cells in rows:
            if any(cells):
                decisions.append(_decision(cells, header, f"line {rows.line_num} of {path.name}", rows.line_num))
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num} of {path.name} is not CSV: {error}; download the file again") from error
    return list(_one_each(decision for decision in decisions if decision is not None).values())


def write_decisions(decisions: Iterable[Decision], path: str | Path) -> Path:
    """Write decisions as the review page does: cells that a spreadsheet would run begin with an apostrophe."""
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(COLUMNS)
    for each in decisions:
        cells = (each.item, each.label, each.verdict, "accept" if each.accept else "reject", each.decided_at)
        table.writerow([neutralised(cell) for cell in cells])
    write_whole(path, text.getvalue().encode("utf-8-sig"))
    return Path(path)


def _text(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there; download the decisions from the review page and name that file")
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"line {line} of {path.name} is not UTF-8 (byte 0x{content[error.start]:02x}); "
            f'save it as UTF-8 ("CSV UTF-8" in a spreadsheet)'
        ) from error


def _delimiter(text: str) -> str:
    header = text.partition("\n")[0]
    return max(",;\t", key=header.count)


def _decision(cells: Sequence[str], header: Sequence[str], where: str, line: int) -> Decision | None:
    if len(cells) != len(header):
        raise ValueError(f"{where} has {len(cells)} cells and the header {len(header)}; give every line one per column")
    cell = {name: original(text) for name, text in zip(header, cells, strict=True)}
    decision, verdict = cell["decision"].strip().lower(), cell["verdict"].strip().lower()
    if not decision:
        return None
    if decision not in ("accept", "reject"):
        raise ValueError(f"{where}: the decision is {decision!r}; write accept or reject, or leave it empty")
    if verdict not in VERDICTS:
        raise ValueError(f"{where}: the verdict is {verdict!r}; it must be one of {', '.join(VERDICTS)}")
    return Decision(cell["item"], cell["label"], decision == "accept", verdict, cell.get("decided_at", ""), line)


def _one_each(decisions: Iterable[Decision]) -> dict[tuple[str, str], Decision]:
    """By item and label; the same said twice counts once, and a contradiction is an error."""
    found: dict[tuple[str, str], Decision] = {}
    for each in decisions:
        before = found.setdefault((each.item, each.label), each)
        if before.belongs != each.belongs:
            lines = f" (lines {before.line} and {each.line})" if before.line and each.line else ""
            raise ValueError(
                f"item {each.item!r} both has and has not label {each.label!r} by two decisions{lines}; "
                f"remove one of them"
            )
    return found


# -- what follows from it -----------------------------------------------------------------------------------------


def apply_decisions(
    source: AuditReport | Candidates, decisions: Iterable[Decision], *, undecided: Literal["audit", "stay"] = "audit"
) -> Candidates:
    """The candidate labels after a person has decided.

    Parameters
    ----------
    source : AuditReport or Candidates
        What was audited. Candidates carry no verdicts: there, what is undecided stays as it is.
    decisions : iterable of Decision
    undecided : {"audit", "stay"}
        What becomes of a label that nobody decided on: it follows the audit (:meth:`AuditReport.cleaned`), or stays.

    Returns
    -------
    Candidates
        With the rows, label names and votes of ``source``. A row is empty only where a person took its every label.

    Examples
    --------
    >>> c = Candidates.from_lists([["beach", "sunset"], ["beach"]])
    >>> apply_decisions(c, [Decision("0", "sunset", accept=True, verdict="drop")]).to_lists()
    [['beach'], ['beach']]
    """
    if undecided not in ("audit", "stay"):
        raise ValueError(f'undecided is {undecided!r}; choose "audit" or "stay"')
    before = source if isinstance(source, Candidates) else source.candidates
    items = before.index if isinstance(source, Candidates) else source.item_ids
    follow = undecided == "audit" and not isinstance(source, Candidates)
    start = source.cleaned() if follow else before  # type: ignore[union-attr]
    chosen = list(_one_each(decisions).values())
    at = _positions(chosen, items, before.labels)
    belongs = np.array([each.belongs for each in chosen], dtype=bool)
    after = _decided(start.states, at, belongs)
    if follow:
        after = _never_emptied_by_the_audit(after, before.states, at, source.probabilities)  # type: ignore[union-attr]
    return replace(before, states=after)


def _positions(decisions: Sequence[Decision], items: Iterable[Any], labels: Iterable[Hashable]) -> np.ndarray:
    """Row and column of each decision, ``(n_decisions, 2)``."""
    row_of: dict[str, int] = {}
    repeated: dict[str, int] = {}
    for row, item in enumerate(map(str, items)):
        if row_of.setdefault(item, row) != row:
            repeated.setdefault(item, row)
    column_of = {str(name): column for column, name in enumerate(labels)}
    at = []
    for each in decisions:
        where = "" if each.line is None else f"line {each.line}: "
        if each.item in repeated:
            raise ValueError(
                f"{where}item {each.item!r} is the name of rows {row_of[each.item]} and {repeated[each.item]}; "
                f"audit again with ids that name one row each"
            )
        for what, name, known in (("item", each.item, row_of), ("label", each.label, column_of)):
            if name not in known:
                raise ValueError(f"{where}there is no {what} {name!r} in what was audited; {_nearest(name, known)}")
        at.append((row_of[each.item], column_of[each.label]))
    return np.array(at, dtype=np.int64).reshape(-1, 2)


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else "are these the decisions of another audit?"


def _decided(states: sp.csr_array, at: np.ndarray, belongs: np.ndarray) -> sp.csr_array:
    """The states with the decided entries set to candidate or excluded."""
    entries = states.tocoo()
    row, column = (np.asarray(axis, dtype=np.int64) for axis in entries.coords)
    other = ~np.isin(row * states.shape[1] + column, at[:, 0] * states.shape[1] + at[:, 1])
    chosen = at[belongs]
    data = np.concatenate([entries.data[other], np.full(len(chosen), CANDIDATE, dtype=np.int8)])
    rows, columns = np.concatenate([row[other], chosen[:, 0]]), np.concatenate([column[other], chosen[:, 1]])
    return sp.coo_array((data.astype(np.int8), (rows, columns)), shape=states.shape).tocsr()


def _never_emptied_by_the_audit(
    after: sp.csr_array, before: sp.csr_array, at: np.ndarray, probabilities: Any
) -> sp.csr_array:
    """Give an emptied row its most probable label back, if there is one that no person decided on."""
    emptied = np.flatnonzero((np.diff(after.indptr) == 0) & (np.diff(before.indptr) > 0))
    back = []
    for row in emptied:
        left = np.setdiff1d((before[[row]] > 0).indices, at[at[:, 0] == row, 1])
        if left.size:
            back.append((row, max(left, key=lambda column: probabilities[row, column])))
    return _decided(after, np.array(back, dtype=np.int64).reshape(-1, 2), np.ones(len(back), dtype=bool))
