"""Where λ lies: the scale on which the two terms of the loss pull alike."""

import numpy as np

from propml.targets import Candidates

# λ is tried so far to both sides of the balanced one.
SPREAD = (1 / 3, 1.0, 3.0)


def balanced_lam(candidates: Candidates, order: float = 1.0) -> float:
    """The λ at which the pull on the candidates of an average row equals the push on its excluded labels.

    At p = 1/2 everywhere the candidates of a row are pulled with total strength ``|S|^(1 - order) / 2`` (ProPML has
    order 1, BCE order 0) and its excluded labels are pushed with ``λ (C - |S|) / 2``. Hence λ falls with the number of
    labels: 1/3 for 6 labels of which 3 are candidates, 1/200 for 205 of which 5 are.

    >>> round(balanced_lam(Candidates.from_matrix([[1, 1, 1, 0, 0, 0]])), 4)
    0.3333
    """
    sizes = candidates.sizes()
    pull = np.where(sizes > 0, np.maximum(sizes, 1.0) ** (1 - order), 0.0).mean()
    unknown = (np.diff(candidates.states.indptr) - sizes).mean()  # stored, and not as candidates
    excluded = candidates.shape[1] - sizes.mean() - unknown
    return float(pull / max(excluded, 1 / len(candidates)))


def lam_grid(candidates: Candidates, order: float = 1.0, spread: tuple[float, ...] = SPREAD) -> list[float]:
    """The λ that ``lam="auto"`` tries: multiples of the balanced one."""
    return [factor * balanced_lam(candidates, order) for factor in spread]
