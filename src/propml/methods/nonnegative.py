"""Many small non-negative quadratic programs at once, by block principal pivoting.

    x = argmin ½ x'Gx − b'x   subject to x ≥ 0,        one (G, b) per problem

Non-negative least squares is G = A'A, b = A'y; the dual of a support vector machine with squared hinge loss is
G = (yy') ∘ K + I / 2C, b = 1. Each round solves G on the entries that are free, and then frees or fixes all entries
that violate the optimality conditions (x ≥ 0 where free, Gx − b ≥ 0 where fixed). A problem whose violations have not
become fewer for three rounds changes only its last one, which is known to end (Júdice & Pires 1994; Kim & Park 2011).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

# Below this part of the scale of a problem, a violation is rounding.
ROUNDING = 1e-10
# Up to this size all systems are filled up and solved in one call; above, each is cut to its free entries.
SMALL = 32
PATIENCE = 3
MAX_ROUNDS = 500


def nonnegative_quadratic(gram: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """The solutions of a batch of problems.

    Parameters
    ----------
    gram : ndarray, shape (n_problems, size, size)
        Positive definite. A smaller problem is filled up with rows of the identity.
    linear : ndarray, shape (n_problems, size)
        Where it is not positive in a row of the identity, the solution there is 0.

    Returns
    -------
    ndarray, shape (n_problems, size)

    Examples
    --------
    >>> nonnegative_quadratic(np.array([[[2.0, 1.0], [1.0, 2.0]]]), np.array([[2.0, -1.0]]))
    array([[1., 0.]])
    """
    solution, slope = np.zeros_like(linear), -linear
    free = np.zeros(linear.shape, dtype=bool)
    fewest = np.full(len(linear), linear.shape[1] + 1)
    patience = np.full(len(linear), PATIENCE)
    left = np.arange(len(linear))
    for _ in range(MAX_ROUNDS):
        violated = _violations(solution[left], slope[left], free[left], linear[left])
        still = violated.any(axis=1)
        left, violated = left[still], violated[still]
        if not len(left):
            break
        count = violated.sum(axis=1)
        better = count < fewest[left]
        fewest[left] = np.where(better, count, fewest[left])
        patience[left] = np.where(better, PATIENCE, patience[left] - 1)
        free[left] ^= np.where(patience[left, None] >= 0, violated, _last(violated))
        solution[left] = _solved(gram, linear, left, free[left])
        slope[left] = np.matmul(gram[left], solution[left][..., None])[..., 0] - linear[left]
    return np.maximum(solution, 0.0)


def _violations(solution: np.ndarray, slope: np.ndarray, free: np.ndarray, linear: np.ndarray) -> np.ndarray:
    negative = solution < -ROUNDING * np.abs(solution).max(axis=1, keepdims=True)
    descending = slope < -ROUNDING * np.abs(linear).max(axis=1, keepdims=True)
    return np.where(free, negative, descending)


def _last(marks: np.ndarray) -> np.ndarray:
    """Only the last mark of each row."""
    position = marks.shape[1] - 1 - marks[:, ::-1].argmax(axis=1)
    return np.arange(marks.shape[1]) == position[:, None]


def _solved(gram: np.ndarray, linear: np.ndarray, problems: np.ndarray, free: np.ndarray) -> np.ndarray:
    """G x = b on the free entries, 0 elsewhere."""
    if free.shape[1] <= SMALL:
        both = free[:, :, None] & free[:, None, :]
        system = np.where(both, gram[problems], np.eye(free.shape[1]))
        return np.linalg.solve(system, np.where(free, linear[problems], 0.0)[..., None])[..., 0]
    solution = np.zeros(free.shape)
    for row, problem in enumerate(problems):
        places = np.flatnonzero(free[row])
        system = gram[problem].take(places, 0).take(places, 1)
        solution[row, places] = _positive_definite(system, linear[problem, places])
    return solution


def _positive_definite(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    _, solution, failed = scipy.linalg.lapack.dposv(system.T, right, lower=1)
    return np.linalg.lstsq(system, right, rcond=None)[0] if failed else solution
