"""Labels that differ in case or blanks only: told, merged on request, and written back as they were spelled."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from propml.targets import Annotations, Candidates

__all__ = ["alike", "merged", "same_spelling", "told_alike"]

_MOST_TOLD = 5


def same_spelling(name: Hashable) -> str:
    """What two spellings of one label have in common.

    >>> same_spelling("New  York ") == same_spelling("new york")
    True
    """
    return " ".join(str(name).split()).casefold()


def alike(names: Iterable[Hashable]) -> list[list[str]]:
    """The names that differ in case or blanks only, in groups.

    >>> alike(["cat", "Cat", "dog"])
    [['Cat', 'cat']]
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(map(str, names)):
        groups.setdefault(same_spelling(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def told_alike(groups: list[list[str]]) -> str:
    """Such groups in a sentence; of many, the first."""
    sentences = [f"{', '.join(map(repr, group[:-1]))} and {group[-1]!r}" for group in groups[:_MOST_TOLD]]
    return "; ".join(sentences) + (f"; and {len(groups) - _MOST_TOLD} more" if len(groups) > _MOST_TOLD else "")


def merged(given: Candidates, min_votes: int = 1) -> Candidates:
    """Every label in its most frequent spelling; where votes tell the candidates, ``given`` has all with one vote."""
    counts = np.asarray((given.states > 0).sum(axis=0)).ravel()
    best: dict[str, int] = {}
    for j in sorted(range(len(counts)), key=lambda j: (-counts[j], str(given.labels[j]))):
        best.setdefault(same_spelling(given.labels[j]), j)
    kept = sorted(best.values())
    place = {same_spelling(given.labels[j]): m for m, j in enumerate(kept)}
    column = np.array([place[same_spelling(name)] for name in given.labels])
    together = sp.csr_array((np.ones(len(column), np.int32), (np.arange(len(column)), column)))
    candidate = (given.states > 0).astype(np.int32) @ together > 0
    unknown = (given.states < 0).astype(np.int32) @ together > 0
    made = replace(
        given,
        states=sp.csr_array(2 * candidate.astype(np.int8) - unknown.astype(np.int8)).sign().astype(np.int8),
        labels=tuple(given.labels[j] for j in kept),
        annotations=_merged_votes(given.annotations, column),
    )
    if min_votes > 1 and made.votes is not None:
        made = replace(made, states=sp.csr_array(made.votes >= min_votes).astype(np.int8))
    return made


def _merged_votes(votes: Annotations | None, column: np.ndarray) -> Annotations | None:
    if votes is None:
        return None
    if votes.confidence is not None:
        votes = votes.entries(np.argsort(-votes.confidence, kind="stable"))
    label = np.where(votes.label < 0, -1, column[votes.label])
    # Somebody who gave a label in two spellings gave it once, as sure as the surer of the two.
    (_, _, label), first = np.unique(np.stack([votes.row, votes.annotator, label]), axis=1, return_index=True)
    return replace(votes.entries(first), label=label)
