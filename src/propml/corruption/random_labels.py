"""False labels by chance: every label that is not true with a probability, or a fixed number of them in each row."""

from collections.abc import Hashable, Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from propml.corruption.inputs import RandomState, add_labels, clean_labels, generator, highest_spare, probabilities_each
from propml.corruption.most_probable import SLACK
from propml.targets import Candidates


def independent_flips(
    truth: Any, rate: ArrayLike, *, random_state: RandomState = 0, labels: Iterable[Hashable] | None = None
) -> Candidates:
    """Flip each non-true entry to "candidate" with probability ``rate``; a true label is never dropped.

    The protocol of the vision experiments: drawn once, before training. A row gains
    ``rate * (n_labels - number of true labels)`` false labels on average: with 80 labels and ``rate=0.2``, five times
    as many false labels as true ones.

    Parameters
    ----------
    truth : array-like of 0/1, shape (n_samples, n_labels)
        Dense, SciPy sparse, DataFrame or :class:`~propml.targets.Candidates`.
    rate : float or array-like, shape (n_labels,)
        Probability of a flip, one for all labels or one per label.
    random_state : int, Generator or None
        The same seed gives the same candidates.
    labels : iterable, optional
        Names of the labels.

    Examples
    --------
    >>> independent_flips([[1, 0, 0], [0, 1, 0]], rate=1.0).to_matrix()
    array([[1, 1, 1],
           [1, 1, 1]], dtype=int8)
    """
    clean = clean_labels(truth, labels)
    rates = probabilities_each("rate", rate, clean.labels, "label")
    rng = generator(random_state)
    # Rows are drawn in order, so the candidates do not depend on the size of the blocks.
    return add_labels(clean, lambda true, rows: ~true & (rng.random(true.shape) < rates))


def class_flips(
    truth: Any, rate: float, *, random_state: RandomState = 0, labels: Iterable[Hashable] | None = None
) -> Candidates:
    """Flip non-true entries at rates that differ between labels: from 0 to ``2 * rate``, in equal steps.

    The mean over the labels is ``rate``. Which label has which rate is drawn, so that it has nothing to do with the
    order of the labels. For rates of your own give a list to :func:`independent_flips`.

    Parameters
    ----------
    rate : float
        The mean rate, at most 0.5. A single label has it.
    truth, random_state, labels
        As in :func:`independent_flips`; the seed also decides the order of the rates.

    Examples
    --------
    >>> class_flips([[0, 0, 0]] * 1000, rate=0.5).to_matrix().mean(axis=0).round(1)
    array([1. , 0.5, 0. ])
    """
    if not 0 <= rate <= 0.5:
        raise ValueError(f"rate is {rate!r}; rates go up to twice this mean, so give a number between 0 and 0.5")
    clean = clean_labels(truth, labels)
    rng = generator(random_state)
    n_labels = clean.shape[1]
    rates = np.linspace(0, 2 * rate, n_labels) if n_labels > 1 else np.full(n_labels, float(rate))
    return independent_flips(clean, rng.permutation(rates), random_state=rng)


def fixed_count(
    truth: Any,
    count: int,
    *,
    mode: Literal["fill", "add"] = "fill",
    random_state: RandomState = 0,
    labels: Iterable[Hashable] | None = None,
) -> Candidates:
    """Add random labels up to, or in, a fixed number per row.

    Parameters
    ----------
    count : int
        The number of labels.
    mode : {"fill", "add"}
        ``"fill"``: a row with fewer than ``count`` true labels is filled up to ``count`` candidates ("avg. #CLs" in the
        papers); a row with more keeps what it has. ``"add"``: every row gains ``count`` labels. Where a row has too few
        spare labels, it takes all of them.
    truth, random_state, labels
        As in :func:`independent_flips`.

    Examples
    --------
    >>> fixed_count([[1, 0, 0, 0], [1, 1, 1, 0]], 2).sizes()
    array([2, 3])
    >>> fixed_count([[1, 0, 0, 0], [1, 1, 1, 0]], 2, mode="add").sizes()
    array([3, 4])
    """
    if mode not in ("fill", "add"):
        raise ValueError(f'mode is {mode!r}; choose "fill" (up to count labels) or "add" (count more labels)')
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise ValueError(f"count is {count!r}; give the number of labels as an integer that is not negative")
    clean = clean_labels(truth, labels)
    wanted = np.maximum(count - clean.sizes(), 0) if mode == "fill" else np.full(len(clean), count)
    return _add_random(clean, wanted, random_state)


def fixed_fraction(
    truth: Any, fraction: float, *, random_state: RandomState = 0, labels: Iterable[Hashable] | None = None
) -> Candidates:
    """Add ``floor(fraction * spare labels)`` random labels to each row, the rule of DeNo.

    Parameters
    ----------
    fraction : float
        Between 0 and 1: how much of the labels that are not true become candidates.
    truth, random_state, labels
        As in :func:`independent_flips`.

    Examples
    --------
    >>> fixed_fraction([[1, 0, 0, 0, 0], [1, 1, 1, 0, 0]], 0.5).sizes()
    array([3, 4])
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction is {fraction!r}; give a number between 0 and 1")
    clean = clean_labels(truth, labels)
    wanted = np.floor(fraction * (clean.shape[1] - clean.sizes()) + SLACK).astype(np.int64)
    return _add_random(clean, wanted, random_state)


def _add_random(clean: Candidates, wanted: np.ndarray, random_state: RandomState) -> Candidates:
    rng = generator(random_state)
    return add_labels(clean, lambda true, rows: highest_spare(true, rng.random(true.shape), wanted[rows]))
