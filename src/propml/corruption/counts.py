"""Random false labels in fixed numbers: protocols that other papers of the field use."""

from collections.abc import Hashable, Iterable
from typing import Any, Literal

import numpy as np

from propml.corruption.inputs import RandomState, add_labels, clean_labels, generator, highest_spare
from propml.targets import Candidates


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
    truth : array-like of 0/1, shape (n_samples, n_labels)
        Dense, SciPy sparse, DataFrame or :class:`~propml.targets.Candidates`.
    count : int
        The number of labels.
    mode : {"fill", "add"}
        ``"fill"``: a row with fewer than ``count`` true labels is filled up to ``count`` candidates ("avg. #CLs" in the
        papers); a row with more keeps what it has. ``"add"``: every row gains ``count`` labels. Where a row has too few
        spare labels, it takes all of them.
    random_state : int, Generator or None
        The same seed gives the same candidates.
    labels : iterable, optional
        Names of the labels.

    Examples
    --------
    >>> fixed_count([[1, 0, 0, 0], [1, 1, 1, 0]], 2).sizes()
    array([2, 3])
    >>> fixed_count([[1, 0, 0, 0], [1, 1, 1, 0]], 2, mode="add").sizes()
    array([3, 4])
    """
    if mode not in ("fill", "add"):
        raise ValueError(
            f'mode is {mode!r}; choose "fill" (up to count candidates) or "add" (count more than are true)'
        )
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise ValueError(f"count is {count!r}; give the number of labels as an integer that is not negative")
    clean = clean_labels(truth, labels)
    wanted = np.maximum(count - clean.sizes(), 0) if mode == "fill" else np.full(len(clean), count)
    return _add_random(clean, wanted, random_state)


def fixed_fraction(
    truth: Any,
    fraction: float,
    *,
    random_state: RandomState = 0,
    labels: Iterable[Hashable] | None = None,
) -> Candidates:
    """Add ``floor(fraction * spare labels)`` random labels to each row, the rule of DeNo.

    Parameters
    ----------
    truth : array-like of 0/1, shape (n_samples, n_labels)
        Dense, SciPy sparse, DataFrame or :class:`~propml.targets.Candidates`.
    fraction : float
        Between 0 and 1: how much of the labels that are not true become candidates.
    random_state : int, Generator or None
        The same seed gives the same candidates.
    labels : iterable, optional
        Names of the labels.

    Examples
    --------
    >>> fixed_fraction([[1, 0, 0, 0, 0], [1, 1, 1, 0, 0]], 0.5).sizes()
    array([3, 4])
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction is {fraction!r}; give a number between 0 and 1")
    clean = clean_labels(truth, labels)
    # 1e-9: 0.29 * 100 is 28.999… in floating point and means 29.
    wanted = np.floor(fraction * (clean.shape[1] - clean.sizes()) + 1e-9).astype(np.int64)
    return _add_random(clean, wanted, random_state)


def _add_random(clean: Candidates, wanted: np.ndarray, random_state: RandomState) -> Candidates:
    rng = generator(random_state)
    return add_labels(clean, lambda true, rows: highest_spare(true, rng.random(true.shape), wanted[rows]))
