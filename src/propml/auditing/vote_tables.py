"""Votes that come beside the candidates: a long table of item, annotator and label, matched to rows and columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from propml.jsonable import unboxed
from propml.target_checks import is_missing
from propml.targets import Annotations, Candidates

__all__ = ["annotations_of"]

COLUMNS = ("item", "annotator", "label")
CONFIDENCE = "confidence"


def annotations_of(votes: Any, candidates: Candidates) -> Annotations | None:
    """The votes on these candidates: those given, or those that the candidates hold.

    Parameters
    ----------
    votes : DataFrame or mapping with the columns item, annotator, label and maybe confidence; Annotations; or None
        An item is named as in ``candidates.index``: by default the row's number. A missing confidence is 1.

    Examples
    --------
    >>> candidates = Candidates.from_lists([["cat", "dog"], ["dog"]])
    >>> table = {"item": [0, 0, 1], "annotator": ["eve", "tom", "tom"], "label": ["cat", "dog", None]}
    >>> annotations_of(table, candidates).label
    array([ 0,  1, -1])
    """
    if votes is None:
        return candidates.annotations
    if isinstance(votes, Annotations):
        _check_range(votes, candidates)
        return votes
    if not isinstance(votes, Mapping) and not hasattr(votes, "columns"):
        raise ValueError(
            f"votes is a {type(votes).__name__}; give a DataFrame or mapping with the columns {', '.join(COLUMNS)}"
        )
    present = list(votes.columns if hasattr(votes, "columns") else votes)
    if lacking := [name for name in COLUMNS if name not in present]:
        raise ValueError(f"votes has no column {lacking[0]!r}; it needs {', '.join(COLUMNS)}, and has {present}")
    items, people, labels = ([unboxed(cell) for cell in votes[name]] for name in COLUMNS)
    sure = votes[CONFIDENCE] if CONFIDENCE in present else [1.0] * len(items)
    confidence = [1.0 if is_missing(cell) else float(cell) for cell in sure]
    if not len(items) == len(people) == len(labels) == len(confidence):
        raise ValueError(f"votes has {len(items)} items, {len(people)} annotators and {len(labels)} labels")
    row_of = _positions(candidates.index, "item")
    label_of = _positions(candidates.labels, "label")
    names = {who: number for number, who in enumerate(dict.fromkeys(people))}
    triples: dict[tuple[int, int, int], float] = {}
    for line, (item, who, label) in enumerate(zip(items, people, labels, strict=True)):
        seen = -1 if is_missing(label) else _place(label, label_of, line, "label")
        vote = (_place(item, row_of, line, "item"), names[who], seen)
        triples[vote] = max(confidence[line], triples.get(vote, confidence[line]))
    table = np.array(sorted(triples), dtype=np.int64).reshape(-1, 3)
    told = None if CONFIDENCE not in present else np.array([triples[vote] for vote in sorted(triples)])
    return Annotations(table[:, 0], table[:, 1], table[:, 2], tuple(names), told)


def _check_range(votes: Annotations, candidates: Candidates) -> None:
    limits = (("row", len(candidates)), ("annotator", len(votes.names)), ("label", candidates.shape[1]))
    for name, limit in limits:
        values = getattr(votes, name)
        if len(values) and values.max() >= limit:
            raise ValueError(f"votes name {name} {values.max()}, and there are {limit}, counted from 0")


def _positions(names: Any, what: str) -> dict[Hashable, int]:
    """Where each name stands, also under its text: files hand numbers over as text."""
    places: dict[Hashable, int] = {}
    for place, name in enumerate(names):
        places.setdefault(str(unboxed(name)), place)
    for place, name in enumerate(names):
        if places.setdefault(unboxed(name), place) != place:
            raise ValueError(f"{what} {name!r} stands there twice, so votes on it cannot be matched; name each its own")
    return places


def _place(name: Hashable, places: dict[Hashable, int], line: int, what: str) -> int:
    if name not in places and str(name) not in places:
        raise ValueError(f"row {line} of votes has the {what} {name!r}, which the candidate labels do not have")
    return places[name] if name in places else places[str(name)]
