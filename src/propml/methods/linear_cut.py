"""Where the scores of a row are cut: at a linear function of them, regressed on the cuts that suit the training rows.

    cut(f) = [f, 1] c,   c = argmin Σ_i (cut(f_i) − best_i)²,   P(j | f) = σ(4 (f_j − cut(f)))

A. Elisseeff, J. Weston: "A Kernel Method for Multi-Labelled Classification", NIPS 2001, cut their Rank-SVM so.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from propml.methods.ridge import with_bias


def regressed_cut(scores: np.ndarray, marked: np.ndarray, *, released: bool = False) -> np.ndarray:
    """The regression of the best cuts on the scores, ``(n_labels + 1,)``; the last entry is its bias.

    Takes the same as :func:`best_cuts`.
    """
    return np.linalg.lstsq(with_bias(scores), best_cuts(scores, marked, released=released), rcond=None)[0]


def cut_probabilities(scores: np.ndarray, cut_coef: np.ndarray) -> np.ndarray:
    """Probabilities ``(n_samples, n_labels)``, 0.5 for a score at the cut of its row.

    >>> cut_probabilities(np.array([[0.6, 0.2]]), np.array([1.0, 0.0, 0.0])).round(2)
    array([[0.5 , 0.17]])
    """
    cuts = with_bias(scores) @ cut_coef
    return expit(4.0 * (scores - cuts[:, None]))


def best_cuts(scores: np.ndarray, marked: np.ndarray, *, released: bool = False) -> np.ndarray:
    """For each row the cut with the fewest errors; the lowest of several.

    Cuts are tried half-way between neighbouring scores, and 0.1 below the lowest and above the highest of them.

    Parameters
    ----------
    scores : ndarray, shape (n_samples, n_labels)
    marked : ndarray of bool, shape (n_samples, n_labels)
    released : bool
        Where everything is marked, go 0.1 below the score of the *first label* instead of the lowest: a slip of the
        code that was released with PML-NI.

    Returns
    -------
    ndarray, shape (n_samples,)

    Examples
    --------
    >>> best_cuts(np.array([[0.1, 0.8, 0.4]]), np.array([[False, True, False]])).round(3)
    array([0.6])
    """
    order = np.argsort(scores, axis=1, kind="stable")
    rising, wanted = np.take_along_axis(scores, order, axis=1), np.take_along_axis(marked, order, axis=1)
    lowest = scores[:, :1] if released else rising[:, :1]
    cuts = np.hstack([lowest - 0.1, (rising[:, 1:] + rising[:, :-1]) / 2, rising[:, -1:] + 0.1])
    # Each score that a cut passes on its way up is one error more where it is marked, one less where it is not.
    change = np.cumsum(np.where(wanted, 1, -1), axis=1)
    errors = np.hstack([np.zeros((len(scores), 1), dtype=change.dtype), change])
    return cuts[np.arange(len(scores)), errors.argmin(axis=1)]
