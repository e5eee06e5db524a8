"""Exports of labelling tools: Label Studio, Doccano, Prodigy and Argilla, by what each writes into its JSON.

A tool says of one object of its file what the item is, who proposed which labels for it, and how the object looks with
the labels of an audit. Votes of people are never changed where a tool has a place for those of a model.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from propml.tables.cell_lists import shown
from propml.tables.json_tables import JsonTable, Record, write_records
from propml.tables.labels import States
from propml.tables.table import MemoryTable, Table
from propml.tables.votes import AUDITOR, VoteFile, identifier
from propml.targets import CANDIDATE

#: An annotator, the labels that they proposed for an item, and how sure each proposal is where that is told.
Vote: TypeAlias = tuple[str, Sequence[str | None], Sequence[float] | None]


class Tool(NamedTuple):
    """How one tool writes an object."""

    recognised: Callable[[Record], bool]  #: whether an object is of this tool
    key: Callable[[Record], Any]  #: what tells its item from others; objects of one key are one item
    item: Callable[[Record], Record]  #: what there is to learn from
    votes: Callable[[Record], Iterable[Vote]]  #: who proposed what
    #: changes an object after an audit: all labels that are left of its item, those that went, those that it gets
    clean: Callable[[Record, list[str], set[str], list[str]], None]


class ToolTable(JsonTable):
    """The items of an export by columns, with the votes on them; ``origin`` is where it stands, if not in JSON."""

    def __init__(self, path: Path, records: list[Record], tool: str, origin: Table | None = None) -> None:
        self.tool, self._objects, self._origin = TOOLS[tool], records, origin
        bad = next((row for row, record in enumerate(records) if not self.tool.recognised(record)), None)
        if bad is not None:
            raise ValueError(f"{path}: row {bad} is {shown(records[bad])}, which is no export of {tool}")
        self._items = [identifier(self.tool.key(record)) or str(row) for row, record in enumerate(records)]
        first: dict[str, int] = {}
        for row, item in enumerate(self._items):
            first.setdefault(item, row)
        self.ids, self._first = list(first), set(first.values())
        super().__init__(path, [self.tool.item(records[row]) for row in first.values()])

    def votes(self) -> VoteFile:
        """One row per item, annotator and label."""
        told = [
            (key, who, label, share)
            for key, record in zip(self._items, self._objects, strict=True)
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
        changed = {}
        for row, (item, record) in enumerate(zip(self._items, self._objects, strict=True)):
            if item in left:
                states = changes.get(item, {})
                came = [name for name, state in states.items() if state == CANDIDATE]
                changed[row] = deepcopy(record)
                added = came if row in self._first else []  # what came goes to the first object of an item
                self.tool.clean(changed[row], list(map(str, left[item])), states.keys() - set(came), added)
        if self._origin is None:
            write_records(self.path, path, changed)
            return
        names = [name for row, new in changed.items() for name in new if new[name] != self._objects[row].get(name)]

        def edit(name: str, start: int, cells: Sequence[Any]) -> Sequence[Any]:
            return [changed[row].get(name) if row in changed else cell for row, cell in enumerate(cells, start)]

        self._origin.copy(path, {name: partial(edit, name) for name in names})


def tool_of(records: Sequence[Record]) -> str | None:
    """The tool that wrote these objects, or None where none did."""
    return next((name for name, tool in TOOLS.items() if all(map(tool.recognised, records[:20]))), None)


def export_in(table: Table) -> ToolTable | None:
    """A table with the columns of a tool (Argilla's flat records) as its export; None where it has none."""
    if not is_flat_argilla(table.names):
        return None
    columns = {name: table.cells(name) for name in table.names}
    lists = [cells.tolist() if isinstance(cells, np.ndarray) else cells for cells in columns.values()]
    records = [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
    return ToolTable(table.path, records, "argilla", origin=table)


def _edited(names: Sequence[str], went: set[str], came: list[str]) -> list[str]:
    kept = [name for name in names if name not in went]
    return kept + [name for name in came if name not in kept]


# -- Label Studio: https://labelstud.io/guide/task_format ----------------------------------------------------------


def _studio_choices(done: Record) -> list[Record]:
    return [each for each in done.get("result") or () if each.get("type") == "choices"]


def _studio_votes(task: Record) -> Iterable[Vote]:
    for done in task["annotations"]:
        if not done.get("was_cancelled"):
            who = done.get("completed_by", "annotator")
            who = who.get("email") or who.get("id") if isinstance(who, dict) else who
            yield str(who), [name for each in _studio_choices(done) for name in each["value"]["choices"]], None


def _clean_studio(task: Record, labels: list[str], went: set[str], came: list[str]) -> None:
    """A task to import again: the labels that stay are the prediction of a model, beside what people said."""
    example = next((each for done in task["annotations"] for each in _studio_choices(done)), {})
    names = {name: example.get(name, default) for name, default in (("from_name", "label"), ("to_name", "text"))}
    result = {**names, "type": "choices", "value": {"choices": labels}}
    before = [each for each in task.get("predictions") or () if isinstance(each, dict)]
    others = [each for each in before if each.get("model_version") != AUDITOR]
    task["predictions"] = [*others, {"model_version": AUDITOR, "result": [result]}]


# -- Argilla 2: records.to_json, and the flat records of records.to_datasets and to_list(flatten=True) ---------------

_FLAT = re.compile(r"(.+)\.(responses|suggestion)(?:\.(users|status|score|agent))?")
_ARGILLA_OWN = ("id", "status", "_server_id", "inserted_at", "updated_at")


def is_flat_argilla(names: Iterable[str]) -> bool:
    """Whether these are the names of a flat record: ``QUESTION.responses.users``, ``QUESTION.suggestion.agent``."""
    return any(name.endswith((".responses.users", ".suggestion.agent")) for name in names)


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
            yield str(answer.get("user_id", "user")), list(map(str, _as_list(answer["value"]))), None
    suggested = record["suggestions"].get(question)
    if suggested and suggested.get("agent") != AUDITOR:
        labels = list(map(str, _as_list(suggested["value"])))
        scores = _as_list(suggested.get("score"))
        yield str(suggested.get("agent") or "suggestion"), labels, scores if len(scores) == len(labels) else None


def _clean_argilla(record: Record, labels: list[str], went: set[str], came: list[str]) -> None:
    nested = _argilla_nested(record)
    question = _argilla_question(nested) or "label"
    answers = [*(nested["responses"].get(question) or ()), nested["suggestions"].get(question) or {}]
    takes_one = any(isinstance(answer.get("value"), str) for answer in answers)
    # Where a question takes one label and two stay, nothing is suggested.
    value = labels if not takes_one else labels[0] if len(labels) == 1 else None
    if nested is record:
        record["suggestions"][question] = {"value": value, "score": None, "agent": AUDITOR}
    else:
        start = f"{question}.suggestion"
        record |= {start: value, f"{start}.score": None, f"{start}.agent": AUDITOR}


# -- Prodigy: textcat and choice, as db-out writes them ------------------------------------------------------------

_PRODIGY_OWN = ("options", "accept", "answer", "label", "spans", "tokens", "config", "html", "priority", "score")


def _prodigy_votes(task: Record) -> Iterable[Vote]:
    who = str(task.get("_annotator_id") or task.get("_session_id") or "annotator")
    one = [task["label"]] if isinstance(task.get("label"), str) else []
    if task.get("answer", "accept") == "accept":
        yield who, list(map(str, task.get("accept", one))), None
    elif task["answer"] == "reject" and one:
        yield who, [], None


def _clean_prodigy(task: Record, labels: list[str], went: set[str], came: list[str]) -> None:
    if "accept" in task:
        task["accept"] = _edited(task["accept"], went, came)
    elif task.get("label") in went:
        task["answer"] = "reject"


# -- Doccano: classification, as JSONL, or a zip file with one such file for each annotator ---------------------------

_DOCCANO_OWN = ("id", "label", "username", "annotator", "Comments")


def _doccano_votes(record: Record) -> Iterable[Vote]:
    who = record.get("username") or record.get("annotator") or "annotator"
    if record["label"]:  # every text is there for everybody, also for those who have not looked at it
        yield str(who), list(map(str, record["label"])), None


def _clean_doccano(record: Record, labels: list[str], went: set[str], came: list[str]) -> None:
    record["label"] = _edited(record["label"], went, came)


TOOLS = {
    "label-studio": Tool(
        lambda record: isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list),
        lambda record: record.get("id"),
        lambda record: record["data"],
        _studio_votes,
        _clean_studio,
    ),
    "argilla": Tool(
        lambda record: all(isinstance(record.get(name), dict) for name in ("fields", "responses", "suggestions"))
        or is_flat_argilla(record),
        lambda record: record.get("id"),
        lambda record: {**_argilla_nested(record)["fields"], **(record.get("metadata") or {})},
        _argilla_votes,
        _clean_argilla,
    ),
    "prodigy": Tool(
        lambda record: "answer" in record and ("_input_hash" in record or "accept" in record),
        lambda record: record.get("_input_hash", record.get("text")),
        lambda record: {k: v for k, v in record.items() if not k.startswith("_") and k not in _PRODIGY_OWN},
        _prodigy_votes,
        _clean_prodigy,
    ),
    "doccano": Tool(
        lambda record: {"id", "text", "label"} <= record.keys()
        and isinstance(record["label"], list)
        and all(isinstance(name, str) for name in record["label"]),
        lambda record: record["id"],
        lambda record: {k: v for k, v in record.items() if k not in _DOCCANO_OWN},
        _doccano_votes,
        _clean_doccano,
    ),
}  # fmt: skip
