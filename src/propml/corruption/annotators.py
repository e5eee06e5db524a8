"""Simulated annotators: people who miss some true labels and see some that are not there."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from propml.corruption.inputs import RandomState, clean_labels, generator, probabilities_each
from propml.folds import row_blocks
from propml.jsonable import unboxed
from propml.targets import UNKNOWN, Annotations, Candidates


def simulated_annotators(
    truth: Any,
    sensitivity: ArrayLike,
    false_positive_rate: ArrayLike,
    *,
    coverage: ArrayLike = 1.0,
    n_annotators: int | None = None,
    min_votes: int = 1,
    names: Sequence[Hashable] | None = None,
    random_state: RandomState = 0,
    labels: Iterable[Hashable] | None = None,
) -> Candidates:
    """Let annotators label each row; a label that enough of them propose is a candidate.

    Unlike the other corruptions this one can lose true labels. A row that was looked at and in which no label has
    enough votes has no candidates: drop it before training (``Candidates.sizes() == 0``), or ask for fewer votes. A
    row that nobody looked at (possible only with ``coverage`` below 1) is unknown in every label.

    Parameters
    ----------
    sensitivity : float or array-like, shape (n_annotators,)
        Probability that an annotator proposes a label that is true.
    false_positive_rate : float or array-like, shape (n_annotators,)
        Probability that an annotator proposes a label that is not true.
    coverage : float or array-like, shape (n_annotators,)
        Probability that an annotator looks at a row at all.
    n_annotators : int, optional
        Needed where all of the above are single numbers.
    min_votes : int
        How many annotators must propose a label before it is a candidate.
    names : sequence, optional
        Names of the annotators; ``annotator-1``, ``annotator-2``, … by default.
    truth, random_state, labels
        As in :func:`~propml.corruption.independent_flips`; each annotator draws on their own, so one more does not
        change the others.

    Returns
    -------
    Candidates
        With ``votes`` and ``annotations``; :func:`vote_table` gives them as a long table.

    Examples
    --------
    >>> candidates = simulated_annotators([[1, 0, 0], [0, 1, 1]], sensitivity=[1, 1, 0], false_positive_rate=0)
    >>> candidates.votes.toarray()
    array([[2, 0, 0],
           [0, 2, 2]])
    """
    clean = clean_labels(truth, labels)
    who = _annotator_count(n_annotators, names, sensitivity, false_positive_rate, coverage)
    if isinstance(min_votes, bool) or not isinstance(min_votes, int | np.integer) or not 1 <= min_votes <= who:
        raise ValueError(f"min_votes is {min_votes!r}; choose between 1 and the number of annotators, {who}")
    people = tuple(f"annotator-{a + 1}" for a in range(who)) if names is None else tuple(names)
    given = {"sensitivity": sensitivity, "false_positive_rate": false_positive_rate, "coverage": coverage}
    rates = [probabilities_each(name, value, people, "annotator") for name, value in given.items()]
    streams = generator(random_state).spawn(who)
    entries = [_label_rows(clean, rng, *rate) for rng, rate in zip(streams, zip(*rates, strict=True), strict=True)]
    annotator = np.repeat(np.arange(who), [len(row) for row, _ in entries])
    row, label = (np.concatenate(part) for part in zip(*entries, strict=True))
    order = np.lexsort((label, annotator, row))
    annotations = Annotations(row[order], annotator[order], label[order], people)
    voted = replace(clean, annotations=annotations)
    states = sp.csr_array(annotations.counts(clean.shape) >= min_votes).astype(np.int8)
    unseen = np.flatnonzero(voted.voters == 0)
    if unseen.size:
        rows, columns = np.repeat(unseen, clean.shape[1]), np.tile(np.arange(clean.shape[1]), unseen.size)
        states = states + sp.csr_array((np.full(rows.size, UNKNOWN, np.int8), (rows, columns)), shape=clean.shape)
    return replace(voted, states=states)


def vote_table(candidates: Candidates) -> dict[str, list[Hashable | None]]:
    """The votes as a long table: columns ``item``, ``annotator`` and ``label`` of equal length.

    ``label`` is ``None`` where an annotator looked at an item and proposed nothing. The columns go into
    ``pandas.DataFrame`` or back into :meth:`Candidates.from_votes <propml.targets.Candidates.from_votes>` as they are.

    Examples
    --------
    >>> candidates = simulated_annotators([[1, 0]], sensitivity=[1, 0], false_positive_rate=0, labels=["cat", "dog"])
    >>> vote_table(candidates)
    {'item': [0, 0], 'annotator': ['annotator-1', 'annotator-2'], 'label': ['cat', None]}
    """
    votes = candidates.annotations
    if votes is None:
        raise ValueError("these candidates hold no votes; only annotator tables and simulated annotators have them")
    return {
        "item": [unboxed(candidates.index[i]) for i in votes.row],
        "annotator": [votes.names[a] for a in votes.annotator],
        "label": [None if j < 0 else candidates.labels[j] for j in votes.label],
    }


def _label_rows(
    clean: Candidates, rng: np.random.Generator, sensitivity: float, false_positive_rate: float, coverage: float
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels that one annotator proposes; label -1 where they looked and proposed nothing."""
    looked = rng.random(len(clean)) < coverage
    rows, labels = [], []
    for block in row_blocks(*clean.shape):
        true = clean.states[block].toarray() > 0
        proposed = rng.random(true.shape) < np.where(true, sensitivity, false_positive_rate)
        proposed &= looked[block, None]
        row, label = np.nonzero(proposed)
        nothing = np.flatnonzero(looked[block] & ~proposed.any(axis=1))
        rows += [row + block.start, nothing + block.start]
        labels += [label, np.full(nothing.size, -1)]
    return np.concatenate(rows), np.concatenate(labels)


def _annotator_count(n_annotators: int | None, names: Sequence[Hashable] | None, *values: ArrayLike) -> int:
    told = {len(np.asarray(value)) for value in values if np.ndim(value) == 1}
    told |= {len(names)} if names is not None else set()
    told |= {n_annotators} if n_annotators is not None else set()
    count = min(told, default=0)
    if len(told) != 1 or count < 1:
        raise ValueError(
            f"the number of annotators is {' and '.join(map(str, sorted(told))) or 'not given'}; "
            f"give n_annotators (at least 1), names and lists of rates of one length"
        )
    if names is not None and len(set(names)) < count:
        raise ValueError("two annotators have the same name; give each their own")
    return count
