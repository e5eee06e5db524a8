"""How many false labels each row gets, which (the most probable ones), and what a corruption really did.

The papers say "a false/true ratio of 50, 100, 150 %" and round the number of each row down. Where most rows have one
true label this turns 50 % into almost nothing and 150 % into 100 % (:func:`realised_levels` tells what it becomes);
the roundings that keep the ratio stand beside it.
"""

from collections.abc import Hashable, Iterable
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from propml.corruption.inputs import RandomState, add_labels, clean_labels, generator, highest_spare
from propml.targets import Candidates, as_candidates

Rounding: TypeAlias = Literal["paper", "exact", "stochastic"]

# 0.29 * 100 is 28.999… in floating point and means 29.
SLACK = 1e-9


def add_most_probable(
    truth: Any,
    probabilities: np.ndarray,
    ratio: float,
    rounding: Rounding = "paper",
    *,
    random_state: RandomState = 0,
    labels: Iterable[Hashable] | None = None,
) -> Candidates:
    """Add to each row its most probable labels that are not true, ``ratio`` false ones for each true one.

    Parameters
    ----------
    probabilities : ndarray, shape (n_samples, n_labels)
        How plausible each label is for each row; only the order within a row matters (with ``"exact"``, also
        the order between rows). Ties: lower index first.
    ratio : float
        False labels per true label: 0.5, 1.0 and 1.5 in the paper.
    rounding : {"paper", "exact", "stochastic"}
        With t true labels in a row, ``"paper"`` adds ``floor(ratio * t)``. ``"exact"`` adds those, and hands out
        what is missing to ``round(ratio * all true labels)`` one by one to the rows that were rounded down, the most
        probable label first. ``"stochastic"`` rounds up at random, with the fraction as the probability. A row that
        has too few spare labels takes all of them (and ``"exact"`` makes up for it in other rows).
    truth, random_state, labels
        As in :func:`independent_flips`; only "stochastic" looks at the seed.

    Examples
    --------
    >>> truth = [[1, 0, 0], [1, 1, 0]]
    >>> plausible = np.array([[0.9, 0.1, 0.4], [0.8, 0.7, 0.2]])
    >>> add_most_probable(truth, plausible, ratio=0.5).to_matrix()
    array([[1, 0, 0],
           [1, 1, 1]], dtype=int8)
    >>> add_most_probable(truth, plausible, ratio=0.5, rounding="exact").to_matrix()
    array([[1, 0, 1],
           [1, 1, 1]], dtype=int8)
    """
    clean = clean_labels(truth, labels)
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if probabilities.shape != clean.shape:
        shapes = f"the probabilities have shape {probabilities.shape} and the truth {clean.shape}"
        raise ValueError(f"{shapes}; give one number per row and label")
    if len(bad := np.argwhere(~np.isfinite(probabilities))):
        row, column = bad[0]
        value = probabilities[row, column]
        raise ValueError(f"the probability of row {row}, label {clean.labels[column]!r} is {value}; give finite ones")
    counts = false_counts(clean, probabilities, ratio, rounding, random_state)
    return add_labels(clean, lambda true, rows: highest_spare(true, probabilities[rows], counts[rows]))


def false_counts(
    clean: Candidates, probabilities: np.ndarray, ratio: float, rounding: Rounding, random_state: RandomState = 0
) -> np.ndarray:
    """The number of false labels of each row, ``(n_samples,)``."""
    if not (np.isfinite(ratio) and ratio >= 0):
        raise ValueError(f"ratio is {ratio!r}; give the number of false labels per true label, such as 0.5, 1.0 or 1.5")
    if rounding not in get_args(Rounding):
        raise ValueError(f'rounding is {rounding!r}; choose "paper", "exact" or "stochastic"')
    sizes = clean.sizes()
    wanted, spare = ratio * sizes, clean.shape[1] - sizes
    if rounding == "stochastic":
        wanted = wanted + generator(random_state).random(len(clean))
    counts = np.minimum(np.floor(wanted + SLACK).astype(np.int64), spare)
    if rounding != "exact":
        return counts
    left = round(ratio * int(sizes.sum())) - int(counts.sum())
    ranked = -np.sort(np.where(clean.to_matrix(bool), np.inf, -probabilities), axis=1)
    cut_short = wanted - counts > SLACK
    while left > 0 and (rows := np.flatnonzero((sizes > 0) & (counts < spare))).size:
        following = ranked[rows, counts[rows]]
        # Rows that rounding down cut short come first; others only make up for rows that had no spare label.
        chosen = rows[np.lexsort((-following, ~cut_short[rows]))[:left]]
        counts[chosen] += 1
        left -= chosen.size
    return counts


class Realised(NamedTuple):
    """The outcome of a corruption."""

    ratio: float  # false candidates / true labels, over the whole set
    mean_size: float  # candidates per row
    untouched: float  # share of the rows whose candidates are exactly the true labels
    missed: float  # share of the true labels that are not candidates: 0 but for simulated annotators


def realised_ratio(truth: Any, candidates: Any) -> Realised:
    """Compare candidates with the true labels that they were made from.

    Parameters
    ----------
    truth : array-like of 0/1, shape (n_samples, n_labels)
    candidates : Candidates or array-like of 0/1, shape (n_samples, n_labels)
        Unknown entries do not count as candidates.

    Examples
    --------
    >>> realised_ratio([[1, 0, 0], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]])
    Realised(ratio=0.5, mean_size=1.5, untouched=0.5, missed=0.0)
    """
    true = clean_labels(truth).states
    if not isinstance(candidates, Candidates):
        candidates = as_candidates(candidates, empty="ignore")
    proposed = (candidates.states > 0).astype(np.int8)
    if proposed.shape != true.shape:
        raise ValueError(
            f"candidates have shape {proposed.shape}, the truth {true.shape}; give the same rows and labels"
        )
    n_true = int(true.sum(dtype=np.int64))
    if n_true == 0:
        raise ValueError("the truth has no true label in any row, so there is no false/true ratio")
    shared = int(true.multiply(proposed).sum(dtype=np.int64))
    n_proposed = int(proposed.sum(dtype=np.int64))
    touched = np.diff(((proposed - true) != 0).tocsr().indptr) > 0
    return Realised(
        ratio=(n_proposed - shared) / n_true,
        mean_size=n_proposed / true.shape[0],
        untouched=float(1 - touched.mean()),
        missed=(n_true - shared) / n_true,
    )


def realised_levels(truth: Any, ratios: Iterable[float] = (0.5, 1.0, 1.5)) -> dict[float, Realised]:
    """What the paper's rounding makes of each asked ratio; it depends on the number of true labels only.

    Examples
    --------
    >>> one_label_each = np.eye(4, dtype=int)
    >>> {asked: level.ratio for asked, level in realised_levels(one_label_each).items()}
    {0.5: 0.0, 1.0: 1.0, 1.5: 1.0}
    """
    clean = clean_labels(truth)
    same = np.zeros(clean.shape)
    return {ratio: realised_ratio(clean, add_most_probable(clean, same, ratio)) for ratio in ratios}
