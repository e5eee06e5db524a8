"""Flips: every label that is not true becomes a candidate with a probability, the same for all or one by class."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from propml.corruption.inputs import RandomState, add_labels, clean_labels, generator
from propml.targets import Candidates


def independent_flips(
    truth: Any,
    rate: ArrayLike,
    *,
    random_state: RandomState = 0,
    labels: Iterable[Hashable] | None = None,
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
    rates = _rates(rate, clean)
    rng = generator(random_state)
    # Rows are drawn in order, so the candidates do not depend on the size of the blocks.
    return add_labels(clean, lambda true, rows: ~true & (rng.random(true.shape) < rates))


def class_flips(
    truth: Any,
    rate: float,
    *,
    random_state: RandomState = 0,
    labels: Iterable[Hashable] | None = None,
) -> Candidates:
    """Flip non-true entries at rates that differ between labels: from 0 to ``2 * rate``, in equal steps.

    The mean over the labels is ``rate``. Which label has which rate is drawn, so that it has nothing to do with the
    order of the labels. For rates of your own give a list to :func:`independent_flips`.

    Parameters
    ----------
    truth : array-like of 0/1, shape (n_samples, n_labels)
        Dense, SciPy sparse, DataFrame or :class:`~propml.targets.Candidates`.
    rate : float
        The mean rate, at most 0.5. A single label has it.
    random_state : int, Generator or None
        Decides the order of the rates and the flips.
    labels : iterable, optional
        Names of the labels.

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


def _rates(rate: ArrayLike, clean: Candidates) -> np.ndarray:
    rates = np.asarray(rate, dtype=np.float64)
    if rates.ndim > 1 or (rates.ndim == 1 and rates.shape[0] != clean.shape[1]):
        raise ValueError(
            f"rate has shape {rates.shape}; give one number, or one per label: {clean.shape[1]} of them for this truth"
        )
    outside = np.flatnonzero(~((rates >= 0) & (rates <= 1)))
    if outside.size:
        where = f" for label {clean.labels[outside[0]]!r}" if rates.ndim else ""
        raise ValueError(f"rate is {rates.flat[outside[0]]}{where}; a probability lies between 0 and 1")
    return rates
