"""Exports of labelling tools: Label Studio, Doccano, Prodigy and Argilla, by what each writes into its JSON.

A tool says of one object of its file what the item is, who proposed which labels for it, and how the object looks with
the labels of an audit. Votes of people are never changed where a tool has a place for those of a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from propml.tables.cell_lists import shown
from propml.tables.json_tables import JsonTable, Record, write_records
from propml.tables.labels import States
from propml.tables.table import MemoryTable, Table
from propml.tables.votes import AUDITOR, VoteFile, identifier
from propml.targets import CANDIDATE

__all__ = ["TOOLS", "ToolTable", "export_in", "tool_of"]


class Vote(NamedTuple):
    """What one annotator proposed for an item, and how sure each proposal is where that is told."""

    annotator: str
    labels: Sequence[str | None]
    confidence: Sequence[float] | None = None


class Outcome(NamedTuple):
    """What an audit leaves of an item: all its labels, those that went, and those that came."""

    labels: list[str]
    went: frozenset[str]
    came: list[str]


class Tool(NamedTuple):
    """How one tool writes an object."""

    recognised: Callable[[Record], bool]  #: whether an object is of this tool
    key: Callable[[Record], Any]  #: what tells its item from others; objects of one key are one item
    item: Callable[[Record], Record]  #: what there is to learn from
    votes: Callable[[Record], Iterable[Vote]]  #: who proposed what
    #: the object with the labels that an audit leaves; the third argument: it is the first of its item
    cleaned: Callable[[Record, Outcome, bool], Record]


class ToolTable(JsonTable):
    """The items of an export by columns, with the votes on them; ``origin`` is where it stands, if not in JSON."""

    def __init__(self, path: Path, records: list[Record], tool: str, origin: Table | None = None) -> None:
        self.tool, self._objects, self._origin = TOOLS[tool], records, origin
        bad = next((row for row, record in enumerate(records) if not self.tool.recognised(record)), None)
        if bad is not None:
            raise ValueError(f"{path}: row {bad} is {shown(records[bad])}, which is no export of {tool}")
        keys = [identifier(self.tool.key(record)) or str(row) for row, record in enumerate(records)]
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        self._keys_of_objects, self._first = keys, set(first.values())
        self.ids = list(dict.fromkeys(keys))
        super().__init__(path, [self.tool.item(records[first[key]]) for key in self.ids])

    def votes(self) -> VoteFile:
        """One row per item, annotator and label."""
        told = [
            (key, who, label, share)
            for key, record in zip(self._keys_of_objects, self._objects, strict=True)
            for who, labels, confidence in self.tool.votes(record)
            for label, share in zip(labels or [None], confidence or repeat(None), strict=False)
        ]
        if not told:
            raise ValueError(f"{self.path} holds no label of anybody, so nothing is there to learn from")
        columns = map(list, zip(*told, strict=True))
        named = dict(zip(("item", "annotator", "label", "confidence"), columns, strict=True))
        return VoteFile(MemoryTable(named, self.path), write_back=self.write)

    def write(self, path: Path, changes: Mapping[str, States], left: Mapping[str, list[Any]]) -> None:
        """The export with the labels that an audit leaves: by item what changes, and all that are left."""
        outcomes = {}
        for item, labels in left.items():
            states = changes.get(item, {})
            came = [name for name, state in states.items() if state == CANDIDATE]
            outcomes[item] = Outcome(list(map(str, labels)), frozenset(states) - set(came), came)
        changed = {
            row: self.tool.cleaned(deepcopy(record), outcomes[key], row in self._first)
            for row, (key, record) in enumerate(zip(self._keys_of_objects, self._objects, strict=True))
            if key in outcomes
        }
        if self._origin is None:
            write_records(self.path, path, changed)
            return
        names = [name for row, new in changed.items() for name in new if new[name] != self._objects[row].get(name)]

        def edit(name: str, start: int, cells: Sequence[Any]) -> Sequence[Any]:
            return [changed[row].get(name) if row in changed else cell for row, cell in enumerate(cells, start)]

        self._origin.copy(path, {name: partial(edit, name) for name in names})


def tool_of(records: Sequence[Record]) -> str | None:
    """The tool that wrote these objects, or None where none did."""
    looked_at = records[:20]
    return next((name for name, tool in TOOLS.items() if all(map(tool.recognised, looked_at))), None)


def export_in(table: Table) -> ToolTable | None:
    """A table with the columns of a tool (Argilla's flat records) as its export; None where it has none."""
    if not is_flat_argilla(table.names):
        return None
    columns = {name: table.cells(name) for name in table.names}
    lists = [cells.tolist() if isinstance(cells, np.ndarray) else cells for cells in columns.values()]
    records = [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
    return ToolTable(table.path, records, "argilla", origin=table)


def _without(names: Sequence[str], outcome: Outcome, is_first: bool) -> list[str]:
    """The labels of a list that stay; what came goes to the first object of an item."""
    kept = [name for name in names if name not in outcome.went]
    return kept + [name for name in outcome.came if is_first and name not in kept]


# -- Label Studio: https://labelstud.io/guide/task_format ----------------------------------------------------------


def _studio_choices(done: Record) -> list[Record]:
    return [each for each in done.get("result") or () if each.get("type") == "choices"]


def _studio_votes(task: Record) -> Iterable[Vote]:
    for done in task["annotations"]:
        if not done.get("was_cancelled"):
            who = done.get("completed_by", "annotator")
            who = who.get("email") or who.get("id") if isinstance(who, dict) else who
            yield Vote(str(who), [name for each in _studio_choices(done) for name in each["value"]["choices"]])


def _studio_cleaned(task: Record, outcome: Outcome, is_first: bool) -> Record:
    """A task to import again: the labels that stay are the prediction of a model, beside what people said."""
    example = next((each for done in task["annotations"] for each in _studio_choices(done)), {})
    names = {name: example.get(name, default) for name, default in (("from_name", "label"), ("to_name", "text"))}
    prediction = {
        "model_version": AUDITOR,
        "result": [{**names, "type": "choices", "value": {"choices": outcome.labels}}],
    }
    before = [each for each in task.get("predictions") or () if isinstance(each, dict)]
    task["predictions"] = [*(each for each in before if each.get("model_version") != AUDITOR), prediction]
    return task


# -- Argilla 2: records.to_json, and the flat records of records.to_datasets and to_list(flatten=True) ---------------

_FLAT = re.compile(r"(.+)\.(responses|suggestion)(?:\.(users|status|score|agent))?")
_ARGILLA_OWN = ("id", "status", "_server_id", "inserted_at", "updated_at")


def is_flat_argilla(names: Iterable[str]) -> bool:
    """Whether these are the names of a flat record: ``QUESTION.responses.users``, ``QUESTION.suggestion.agent``."""
    parts = {match.group(2, 3) for name in names if (match := _FLAT.fullmatch(name))}
    return bool(parts & {("responses", "users"), ("suggestion", "agent")})


def _argilla_nested(record: Record) -> Record:
    """A record as ``records.to_json`` has it."""
    if isinstance(record.get("fields"), dict):
        return record
    nested: Record = {"id": record.get("id"), "fields": {}, "responses": {}, "suggestions": {}}
    for name, value in record.items():
        match = _FLAT.fullmatch(name)
        if match is None and name not in _ARGILLA_OWN:
            nested["fields"][name] = value
        elif match is not None and match[3] is None and value is not None:
            question, what, _ = match.groups()
            own = {part: record.get(f"{name}.{part}") for part in ("users", "status", "score", "agent")}
            if what == "suggestion":
                nested["suggestions"][question] = {"value": value, "score": own["score"], "agent": own["agent"]}
            else:
                people = own["users"] or repeat("user")
                answers = zip(value, people, own["status"] or repeat("submitted"), strict=False)
                nested["responses"][question] = [{"value": v, "user_id": u, "status": s} for v, u, s in answers]
    return nested


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _argilla_question(record: Record) -> str | None:
    """The question that labels answer: the first."""
    return next(iter({**record["responses"], **record["suggestions"]}), None)


def _argilla_votes(record: Record) -> Iterable[Vote]:
    record = _argilla_nested(record)
    question = _argilla_question(record)
    for answer in record["responses"].get(question) or ():
        if (answer.get("status") or "submitted") == "submitted" and answer["value"] is not None:
            yield Vote(str(answer.get("user_id", "user")), list(map(str, _as_list(answer["value"]))))
    suggested = record["suggestions"].get(question)
    if suggested and suggested.get("agent") != AUDITOR:
        labels = list(map(str, _as_list(suggested["value"])))
        scores = _as_list(suggested.get("score"))
        yield Vote(str(suggested.get("agent") or "suggestion"), labels, scores if len(scores) == len(labels) else None)


def _argilla_cleaned(record: Record, outcome: Outcome, is_first: bool) -> Record:
    nested = _argilla_nested(record)
    question = _argilla_question(nested) or "label"
    answers = [*(nested["responses"].get(question) or ()), nested["suggestions"].get(question) or {}]
    takes_one = any(isinstance(answer.get("value"), str) for answer in answers)
    # Where a question takes one label and two stay, nothing is suggested.
    only = outcome.labels[0] if len(outcome.labels) == 1 else None
    suggestion = {"value": only if takes_one else outcome.labels, "score": None, "agent": AUDITOR}
    if nested is record:
        record["suggestions"][question] = suggestion
    else:
        start = f"{question}.suggestion"
        record |= {start: suggestion["value"], f"{start}.score": None, f"{start}.agent": AUDITOR}
    return record


# -- Prodigy: textcat and choice, as db-out writes them ------------------------------------------------------------

_PRODIGY_OWN = ("options", "accept", "answer", "label", "spans", "tokens", "config", "html", "priority", "score")


def _prodigy_votes(task: Record) -> Iterable[Vote]:
    who = str(task.get("_annotator_id") or task.get("_session_id") or "annotator")
    one = [task["label"]] if isinstance(task.get("label"), str) else []
    if task.get("answer", "accept") == "accept":
        yield Vote(who, list(map(str, task.get("accept", one))))
    elif task["answer"] == "reject" and one:
        yield Vote(who, [])


def _prodigy_cleaned(task: Record, outcome: Outcome, is_first: bool) -> Record:
    if "accept" in task:
        task["accept"] = _without(task["accept"], outcome, is_first)
    elif task.get("label") in outcome.went:
        task["answer"] = "reject"
    return task


# -- Doccano: classification, as JSONL, or a zip file with one such file for each annotator ---------------------------

_DOCCANO_OWN = ("id", "label", "username", "annotator", "Comments")


def _doccano_votes(record: Record) -> Iterable[Vote]:
    who = record.get("username") or record.get("annotator") or "annotator"
    if record["label"]:  # every text is there for everybody, also for those who have not looked at it
        yield Vote(str(who), list(map(str, record["label"])))


def _doccano_cleaned(record: Record, outcome: Outcome, is_first: bool) -> Record:
    record["label"] = _without(record["label"], outcome, is_first)
    return record


TOOLS = {
    "label-studio": Tool(
        lambda record: isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list),
        lambda record: record.get("id"),
        lambda record: record["data"],
        _studio_votes,
        _studio_cleaned,
    ),
    "argilla": Tool(
        lambda record: all(isinstance(record.get(name), dict) for name in ("fields", "responses", "suggestions"))
        or is_flat_argilla(record),
        lambda record: record.get("id"),
        lambda record: {**_argilla_nested(record)["fields"], **(record.get("metadata") or {})},
        _argilla_votes,
        _argilla_cleaned,
    ),
    "prodigy": Tool(
        lambda record: "answer" in record and ("_input_hash" in record or "accept" in record),
        lambda record: record.get("_input_hash", record.get("text")),
        lambda record: {k: v for k, v in record.items() if not k.startswith("_") and k not in _PRODIGY_OWN},
        _prodigy_votes,
        _prodigy_cleaned,
    ),
    "doccano": Tool(
        lambda record: {"id", "text", "label"} <= record.keys()
        and isinstance(record["label"], list)
        and all(isinstance(name, str) for name in record["label"]),
        lambda record: record["id"],
        lambda record: {k: v for k, v in record.items() if k not in _DOCCANO_OWN},
        _doccano_votes,
        _doccano_cleaned,
    ),
}  # fmt: skip
