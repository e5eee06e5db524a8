"""What goes into a corruption, checked once: clean labels, features, a seed; and how labels are added to clean ones.

Labels are read in blocks of rows, so that large label spaces fit in memory.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from propml.folds import row_blocks
from propml.target_checks import form_of
from propml.targets import Candidates, as_candidates

RandomState: TypeAlias = int | np.random.Generator | None

# Mixed into every seed: data that was itself drawn with seed 0 must not meet the same numbers again in its corruption.
STREAM = int.from_bytes(b"corruption")


def clean_labels(truth: Any, labels: Iterable[Hashable] | None = None) -> Candidates:
    """The true labels as sets that are certain; rows without a true label are legal, unknown entries are not."""
    truth = list(truth) if isinstance(truth, Iterator) else truth
    clean = as_candidates(truth, labels, empty="ignore")
    if not isinstance(truth, Candidates) and set(clean.labels) <= {0, 1} and form_of(truth) == "classes":
        raise ValueError("truth is one row of 0 and 1; give [truth], or Candidates.from_classes(truth) for classes")
    if clean.has_unknown:
        at = clean.states.tocoo()
        first = np.flatnonzero(at.data < 0)[0]
        row, label = at.coords[0][first], clean.labels[at.coords[1][first]]
        raise ValueError(
            f"row {row}, label {label!r} of the truth is unknown (-1); write 1 where it is true, 0 elsewhere"
        )
    return clean


def uncorrupted(truth: Any, *, random_state: RandomState = 0, labels: Iterable[Hashable] | None = None) -> Candidates:
    """The true labels as candidates, and nothing else: what noise is compared with.

    The arguments are those of :func:`independent_flips`; the seed changes nothing.
    """
    return clean_labels(truth, labels)


def dense_features(X: Any, clean: Candidates) -> np.ndarray:
    """The features as float64, ``(n_samples, n_features)``; sparse ones become dense, since scaling leaves no zeros."""
    features = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False, input_name="X")
    if sp.issparse(features):
        features = features.toarray()
    bad = np.argwhere(~np.isfinite(features))
    if bad.size:
        row, column = bad[0]
        raise ValueError(f"row {row}, feature {column} of X is {features[row, column]}; fill or drop such values first")
    if len(features) != len(clean):
        raise ValueError(f"X has {len(features)} rows and the truth {len(clean)}; give one row of labels per row of X")
    return features


def probabilities_each(name: str, value: ArrayLike, owners: Sequence[Hashable], owner: str) -> np.ndarray:
    """A probability for each label or annotator, ``(n_owners,)``, from one number or from one for each."""
    rates = np.asarray(value, dtype=np.float64)
    if rates.ndim > 1 or (rates.ndim == 1 and len(rates) != len(owners)):
        raise ValueError(f"{name} has shape {rates.shape}; give one number, or one per {owner}: {len(owners)} of them")
    each = np.broadcast_to(rates, (len(owners),)).copy()
    outside = np.flatnonzero(~((each >= 0) & (each <= 1)))
    if outside.size:
        whose = f" of {owner} {owners[outside[0]]!r}" if rates.ndim else ""
        raise ValueError(f"{name}{whose} is {each[outside[0]]}; a probability lies between 0 and 1")
    return each


def generator(random_state: RandomState) -> np.random.Generator:
    """A NumPy generator from a seed, from a generator (used as it is) or from fresh entropy (``None``)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is not None and (not isinstance(random_state, int | np.integer) or random_state < 0):
        raise ValueError(f"random_state is {random_state!r}; give a whole number from 0 on, a NumPy generator or None")
    return np.random.default_rng(None if random_state is None else [int(random_state), STREAM])


def seed_of(random_state: RandomState) -> int:
    """An integer seed: the one that was given, or one drawn from the generator."""
    rng = generator(random_state)  # which refuses what is no seed
    return int(random_state) if isinstance(random_state, int | np.integer) else int(rng.integers(2**31))


def add_labels(clean: Candidates, choose: Callable[[np.ndarray, slice], np.ndarray]) -> Candidates:
    """Candidate sets: the true labels and those that ``choose`` marks in a dense block of them and its rows."""
    blocks = []
    for rows in row_blocks(*clean.shape):
        true = clean.states[rows].toarray() > 0
        blocks.append(sp.csr_array(true | choose(true, rows)))
    states = sp.csr_array(sp.vstack(blocks, format="csr")).astype(np.int8)
    return replace(clean, states=states, annotations=None)


def highest_spare(true: np.ndarray, scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mark in row i the ``counts[i]`` labels of highest score that are not true, or all; ties go to the lower index."""
    order = np.argsort(np.where(true, np.inf, -scores), axis=1, kind="stable")
    counts = np.minimum(counts, (~true).sum(axis=1))
    marked = np.zeros_like(true)
    np.put_along_axis(marked, order, np.arange(true.shape[1]) < counts[:, None], axis=1)
    return marked
