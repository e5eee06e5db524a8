"""Votes that come beside the candidates: a long table of item, annotator and label, matched to rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from propml.jsonable import unboxed
from propml.messages import did_you_mean
from propml.target_checks import is_missing
from propml.targets import Annotations, Candidates

__all__ = ["annotations_of", "finder"]

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
        for name, limit in (("row", len(candidates)), ("annotator", len(votes.names)), ("label", candidates.shape[1])):
            if (most := getattr(votes, name).max(initial=-1)) >= limit:
                raise ValueError(f"votes name {name} {most}, and there are {limit}, counted from 0")
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
    row_of, label_of = finder(candidates.index, "item"), finder(candidates.labels, "label")
    names = {who: number for number, who in enumerate(dict.fromkeys(people))}
    triples: dict[tuple[int, int, int], float] = {}
    for line, (item, who, label) in enumerate(zip(items, people, labels, strict=True)):
        where = f"row {line} of votes: "
        vote = (row_of(item, where), names[who], -1 if is_missing(label) else label_of(label, where))
        triples[vote] = max(confidence[line], triples.get(vote, confidence[line]))
    table = np.array(sorted(triples), dtype=np.int64).reshape(-1, 3)
    told = None if CONFIDENCE not in present else np.array([triples[vote] for vote in sorted(triples)])
    return Annotations(table[:, 0], table[:, 1], table[:, 2], tuple(names), told)


def finder(names: Iterable[Hashable], what: str) -> Callable[[Hashable, str], int]:
    """A function that tells where a name stands, by itself or by its text: files hand numbers over as text."""
    places: dict[Hashable, int | None] = {}
    for place, name in enumerate(map(unboxed, names)):
        for key in {name, str(name)}:
            places[key] = None if key in places else place

    def find(name: Hashable, where: str) -> int:
        key = name if name in places else str(name)
        if key not in places:
            meant = did_you_mean(name, places, "are these the decisions or votes of another audit?")
            raise ValueError(f"{where}there is no {what} {name!r} in what was audited; {meant}")
        if (place := places[key]) is None:
            raise ValueError(f"{where}several {what}s are called {name!r}; audit again with a name of its own for each")
        return place

    return find
