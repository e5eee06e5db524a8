"""What an audit found: probabilities, verdicts, cleaned labels and reliability, as tables and on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from propml.auditing.annotator_model import Reliability, annotations_of
from propml.auditing.verdicts import DROP_BELOW, KEEP_ABOVE, VERDICTS, Verdicts, cleaned_candidates, give_verdicts
from propml.extras import require
from propml.file_errors import reading
from propml.jsonable import unboxed
from propml.messages import argument
from propml.persistence import from_json_array, json_array, read_state, write_state
from propml.schema import Array, Schema, check_schema
from propml.targets import Annotations, Candidates

#: ``"columns"`` is a dictionary of columns, for which nothing else must be installed.
Library = Literal["pandas", "polars", "columns"]

# Above this share of candidates that may be false it is said why nothing is dropped.
TELLING = 0.1
NOTES_SHOWN = 4

REPORT_FILE, KIND = "report.safetensors", "AuditReport"
RATES = [rate.name for rate in fields(Reliability) if rate.name != "annotators"]
SHARES: dict[str, Any] = {"finite": False, "right": lambda shares: not ((shares < 0) | (shares > 1)).any()}
VOTES: Schema = {name: Array("iu", "votes", least=0) for name in ("row", "annotator")}
VOTES |= {"label": Array("iu", "votes", least=-1), "confidence?": Array("f", "votes")}
STORED: Schema = {
    "told": Array("u", "characters"),
    # One entry per place and in order: probabilities are stored beside them.
    "states": Array("i", "rows", "labels", sparse=True, least=-1, most=1, right=lambda m: m.has_canonical_format),
    "probabilities": (Array("f", "entries", **SHARES), Array("f", "rows", "labels", **SHARES)),
    "votes": (None, VOTES),
    "rates": (None, {n: Array("iuf", "labels" if "label" in n else "annotators", finite=False) for n in RATES}),
}
NAMES: Schema = [(str, int, float, bool)]
TOLD: Schema = {
    "labels": NAMES,
    "index": (None, NAMES),
    "incomplete": bool,
    "settings": {
        "reviewed?": {"true": int, "false": int},
        "noise?": {"assumed": object, "false_least": [(int, float)], "false_most": [(int, float)]},
        str: object,
    },
    "annotators": (None, NAMES),
    "reliability": (None, NAMES),
}


@dataclass(eq=False, repr=False)
class AuditReport:
    """Verdicts on candidate labels; made by :func:`propml.audit`.

    Parameters
    ----------
    candidates : Candidates
        What was audited, with its votes.
    probabilities : ndarray of float32, shape (n_samples, n_labels)
        P(label is true), from models that did not see the row. Where candidates are complete: 0 for excluded labels and
        NaN for unknown ones.
    incomplete : bool
        Whether true labels may be missing from the candidates.
    reliability : Reliability, optional
        Of the annotators; there is none without votes.
    settings : mapping
        The model and the folds, as plain values.

    Attributes
    ----------
    label_names, item_ids : tuple of str
        Columns and rows by name; rows are numbered unless the candidates name them.
    """

    candidates: Candidates
    probabilities: np.ndarray
    _: KW_ONLY
    incomplete: bool = False
    reliability: Reliability | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    _judged: dict[tuple[float, ...], Verdicts] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.settings = dict(self.settings or {})
        if self.probabilities.shape != self.candidates.shape:
            shapes = f"shape {self.probabilities.shape}, the candidates {self.candidates.shape}"
            raise ValueError(f"probabilities have {shapes}; give one for each row and label")

    @cached_property
    def label_names(self) -> Sequence[str]:
        return tuple(map(str, self.candidates.labels))

    @cached_property
    def item_ids(self) -> Sequence[str]:
        index = self.candidates.index
        return tuple(map(str, index.tolist() if isinstance(index, np.ndarray) else index))

    @cached_property
    def _false_shares(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Least and largest share of each label's candidates that may be false; there is none where votes tell more."""
        if (noise := self.settings.get("noise")) is None:
            return None
        least, most = (np.asarray(noise[name], dtype=np.float64) for name in ("false_least", "false_most"))
        return least, most

    @property
    def bounded(self) -> bool:
        """Whether P(true) is an upper bound: the data allow that more candidates are false than it assumes."""
        shares = self._false_shares
        return shares is not None and bool((shares[1] > shares[0] + 0.01).any())

    @cached_property
    def errors_left(self) -> float:
        """How many of the candidates are probably false, those that a person confirmed aside."""
        verdicts = self.verdicts()
        return float((1 - verdicts.probability[verdicts.verdict != "missing"]).sum())

    def notes(self) -> list[str]:
        """What to know before one believes the verdicts, in sentences."""
        told = self.labels("columns")
        return self._notes(told["drop"], told["candidates"])

    def _notes(self, dropped: np.ndarray, candidates: np.ndarray) -> list[str]:
        """From how many candidates each label has, and how many of them would be dropped."""
        notes = []
        if looked := self.settings.get("reviewed"):
            n, others = looked["true"] + looked["false"], int(candidates.sum()) - looked["true"]
            notes.append(
                f"A person reviewed {n} labels, and {looked['false']} of them were false; of the other {others} about "
                f"{self.errors_left:.0f} probably are."
            )
        elif self._false_shares is not None and candidates.any():
            least, most = (np.average(share, weights=candidates) for share in self._false_shares)
            assumed = argument("noise", self.settings["noise"]["assumed"])
            notes.append(f"{least:.0%} to {most:.0%} of the candidates are false, by {assumed}.")
            if self.bounded:
                notes.append("P(true) is an upper bound: it assumes as few false candidates as the data allow.")
            if not dropped.any() and most > TELLING:
                notes.append(
                    "Nothing is dropped: scores cannot tell false labels from true labels that are hard to predict. "
                    f"If you know how false labels arise, say so with {argument('noise')}."
                )
        for label in np.flatnonzero(dropped > candidates / 2).tolist():
            notes.append(
                f"{self.label_names[label]!r}: {dropped[label]} of {candidates[label]} candidates would be dropped; "
                f"look at some of them first."
            )
        return notes

    def verdicts(self, *, drop_below: float = DROP_BELOW, keep_above: float = KEEP_ABOVE) -> Verdicts:
        """Keep, doubtful or drop for every candidate, and missing labels where candidates may be incomplete.

        Parameters
        ----------
        drop_below, keep_above : float
            The cuts on P(true); by default 0.5 and 0.75.
        """
        cuts = {"drop_below": drop_below, "keep_above": keep_above}
        if (key := tuple(cuts.values())) not in self._judged:
            self._judged[key] = give_verdicts(self.probabilities, self.candidates, incomplete=self.incomplete, **cuts)
        return self._judged[key]

    def cleaned(self, *, drop_below: float = DROP_BELOW) -> Candidates:
        """The candidates without the dropped ones and with the missing ones; the best candidate of a row stays.

        Parameters
        ----------
        drop_below : float
            Drop what is less probable than this.
        """
        verdicts = self.verdicts(drop_below=drop_below, keep_above=max(drop_below, KEEP_ABOVE))
        return cleaned_candidates(self.candidates, verdicts)

    def to_frame(self, library: Library = "pandas") -> Any:
        """One row per verdict: item, label, verdict, confidence, probability; with votes also votes and voters."""
        return _frame(self._columns(self.verdicts()), library)

    def worst(self, n: int = 20, library: Library = "pandas") -> Any:
        """The candidate labels that are least probable, as :meth:`to_frame` has them, the worst first."""
        verdicts = self.verdicts()
        verdicts = verdicts[verdicts.verdict != "missing"]
        return _frame(self._columns(verdicts[np.argsort(verdicts.probability, kind="stable")[: max(n, 0)]]), library)

    def labels(self, library: Library = "pandas") -> Any:
        """One row per label: its candidates, the estimated share of true ones, and the verdicts.

        Without votes also the least and the largest share of its candidates that may be false. With votes the share of
        looks at rows in which the label is true, and is not, that proposed it.
        """
        verdicts, n_labels = self.verdicts(), len(self.label_names)
        judged = verdicts[verdicts.verdict != "missing"]
        candidates = np.bincount(judged.label, minlength=n_labels)
        true = np.bincount(judged.label, judged.probability, minlength=n_labels)
        share = np.divide(true, candidates, out=np.full(n_labels, np.nan), where=candidates > 0)
        columns = {"label": list(self.label_names), "candidates": candidates, "share_true": share}
        for name in VERDICTS if self.incomplete else VERDICTS[:3]:
            columns[name] = np.bincount(verdicts.label[verdicts.verdict == name], minlength=n_labels)
        if self._false_shares is not None:
            columns["false_least"], columns["false_most"] = self._false_shares
        if self.reliability is not None:
            columns["sensitivity"] = self.reliability.label_sensitivity
            columns["false_positive_rate"] = self.reliability.label_false_positive_rate
        return _frame(columns, library)

    def annotators(self, library: Library = "pandas") -> Any:
        """One row per annotator: items, votes, sensitivity, false-positive rate, precision and agreement with others.

        The truth behind these rates is the audit's own estimate. Empty without votes.
        """
        people = [str(name) for name in self.reliability.annotators] if self.reliability else []
        rates = {name: getattr(self.reliability, name, []) for name in RATES if "label" not in name}
        return _frame({"annotator": people, **rates}, library)

    def _columns(self, verdicts: Verdicts) -> dict[str, Any]:
        items, labels = self.item_ids, self.label_names
        columns: dict[str, Any] = {
            "item": [items[row] for row in verdicts.row.tolist()],
            "label": [labels[label] for label in verdicts.label.tolist()],
            "verdict": verdicts.verdict.astype(object),
            "confidence": verdicts.confidence,
            "probability": verdicts.probability,
        }
        votes, voters = self.candidates.votes, self.candidates.voters
        if votes is not None and voters is not None:
            columns["votes"] = np.asarray(votes[verdicts.row, verdicts.label]).ravel()
            columns["voters"] = voters[verdicts.row]
        return columns

    def save(self, folder: str | Path) -> None:
        """Write the report into a folder: ``report.safetensors``, no pickle."""
        votes, rates = self.candidates.annotations, self.reliability
        states = sp.csr_array(self.candidates.states, copy=True)
        states.sum_duplicates()
        index = self.candidates.index
        counted = isinstance(index, np.ndarray) and np.array_equal(index, np.arange(len(index)))
        record = {
            "labels": _plain(self.candidates.labels),
            "index": None if counted else _plain(index),
            "incomplete": self.incomplete,
            "settings": self.settings,
            "annotators": None if votes is None else _plain(votes.names),
            "reliability": None if rates is None else _plain(rates.annotators),
        }
        # Excluded labels of complete candidates have probability 0: those of the others are enough.
        kept = self.probabilities if self.incomplete else self.probabilities[states.tocoo().coords].astype(np.float32)
        state = {"told": json_array(record), "states": states, "probabilities": kept, "votes": None, "rates": None}
        if votes is not None:
            cast = {name: getattr(votes, name) for name in ("row", "annotator", "label", "confidence")}
            state["votes"] = {name: each for name, each in cast.items() if each is not None}
        if rates is not None:
            state["rates"] = {name: getattr(rates, name) for name in RATES}
        write_state(Path(folder, REPORT_FILE), KIND, state)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what :meth:`save` wrote; a file that was cut short or changed is refused."""
        path = Path(folder, REPORT_FILE)
        if not path.is_file():
            raise FileNotFoundError(f"there is no report in {folder}; give the folder that AuditReport.save wrote")
        with reading(path, "report of an audit", "save it again"):
            kind, state = read_state(path)
            if kind != KIND:
                raise ValueError(f"it holds a {kind}")
            record = from_json_array(state["told"])
            check_schema(record, TOLD, "the report")
            sizes = {"labels": len(set(record["labels"]))}
            named = {"rows": record["index"], "annotators": record["reliability"]}
            sizes |= {what: len(names) for what, names in named.items() if names is not None}
            check_schema(state, STORED, "the report", sizes)
            for name in ("false_least", "false_most"):
                if len(record["settings"].get("noise", {}).get(name, record["labels"])) != len(record["labels"]):
                    raise ValueError(f"{name} has not one share for each label")
            states, probabilities, votes, rates = (state[name] for name in STORED if name != "told")
            index = np.arange(states.shape[0]) if record["index"] is None else tuple(record["index"])
            candidates = Candidates(states, tuple(record["labels"]), index)
            if record["annotators"] is not None:
                cast = Annotations(**votes, names=tuple(record["annotators"]))
                candidates = replace(candidates, annotations=annotations_of(cast, candidates))
            if not record["incomplete"]:
                stored, probabilities = probabilities, np.zeros(states.shape, dtype=np.float32)
                probabilities[states.tocoo().coords] = stored
            reliability = None if rates is None else Reliability(tuple(record["reliability"]), **rates)
            known = {name: record[name] for name in ("incomplete", "settings")}
            return cls(candidates, probabilities, reliability=reliability, **known)

    def __repr__(self) -> str:
        counts = self.verdicts().counts()
        shape = f"{len(self.item_ids)} rows, {len(self.label_names)} labels"
        shape += f", {sum(counts.values()) - counts['missing']} candidates"
        if self.reliability:
            shape += f", {len(self.reliability.annotators)} annotators"
        kinds = ", ".join(f"{counts[name]} {name}" for name in (VERDICTS if self.incomplete else VERDICTS[:3]))
        judge = str(self.settings.get("model", "a model"))
        if folds := self.settings.get("folds"):
            judge += f", {folds} folds"
        if learned_from := self.settings.get("train_rows"):
            judge += f" of {learned_from} rows to learn from"
        judge += "; see worst(), to_frame(), cleaned(), labels(), annotators()"
        return "\n  ".join([f"AuditReport: {shape}", kinds, *self.notes()[:NOTES_SHOWN], f"judged by {judge}"])


def _frame(columns: Mapping[str, Any], library: Library) -> Any:
    if library == "columns":
        return dict(columns)
    if library not in ("pandas", "polars"):
        raise ValueError(f'library is {library!r}; choose "pandas", "polars" or "columns"')
    if library == "polars":
        columns = {name: value if isinstance(value, list) else value.tolist() for name, value in columns.items()}
    return require(library, "data").DataFrame(dict(columns))


def _plain(names: Any) -> list[Any]:
    """Names as JSON has them: what is no text, number or truth value becomes text."""
    return [name if isinstance(name, str | int | float | bool) else str(name) for name in map(unboxed, names)]
