"""Stage 2 of PARTICLE: one machine for every pair of labels, and their votes.

The machine of the labels j < k learns to tell the rows where j is credible and k no candidate (j wins) from those
where k is credible and j no candidate. The *virtual label* stands behind all others and separates what is relevant
from what is not: against it, a label wins in the rows where it is credible and loses where it is no candidate.
Pairs of which one side has no row get no machine. A machine is linear and made by LIBSVM,

    min ½ ‖w‖² + C Σ_i max(0, 1 − y_i (w'x_i + b)),      w = Σ_i α_i y_i x_i,  0 ≤ α_i ≤ C

which is given the inner products of its rows: they are known already.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC

from propml.methods.base import Features
from propml.methods.linear_algebra import BLOCK, InnerProducts, dense
from propml.progress import progress_bar
from propml.schema import Array, Schema

# Decisions nearer to 0 than this are rounding: the machine does not vote.
UNDECIDED = 1e-9

#: What :func:`train_pairs` returns. A label that met another one twice could win more votes than there are labels.
MACHINES: Schema = {
    "pairs": Array("iu", "machines", 2, right=lambda pairs: len(np.unique(np.sort(pairs), axis=0)) == len(pairs)),
    "accuracy": Array("f", "machines"),
    "bias": Array("f", "machines"),
    "n_labels": int,
    "weights": Array("f", "machines", "inputs", sparse=True),
    "rows": (None, Array("f", "inputs", "features", sparse=True)),
}


class Problems(NamedTuple):
    """The rows of each machine, one machine after the other.

    Attributes
    ----------
    start : ndarray of int, shape (n_machines + 1,)
        Machine m has the entries from ``start[m]`` up to ``start[m + 1]``.
    rows : ndarray of int, shape (n_entries,)
    signs : ndarray of -1.0 and 1.0, shape (n_entries,)
    """

    start: np.ndarray
    rows: np.ndarray
    signs: np.ndarray


def pair_problems(credible: np.ndarray, candidates: np.ndarray, *, virtual: bool) -> tuple[np.ndarray, Problems]:
    """The labels of each machine, ``(n_machines, 2)``, and the rows from which it learns.

    The lower label comes first; it wins where the sign is positive. With ``virtual`` the virtual label takes part,
    whose index is ``n_labels``.

    >>> credible = np.array([[True, False, False], [False, True, False]])
    >>> pairs, problems = pair_problems(credible, credible, virtual=False)
    >>> pairs.tolist(), problems.rows.tolist(), problems.signs.tolist()
    ([[0, 1]], [0, 1], [1.0, -1.0])
    """
    n, n_labels = candidates.shape
    row, winner = np.nonzero(credible)
    place, loser = np.nonzero(~candidates[row])
    row, winner = row[place], winner[place]
    if virtual:
        sure, relevant = np.nonzero(credible)
        empty, irrelevant = np.nonzero(~credible & ~candidates)
        row = np.concatenate([row, sure, empty])
        winner = np.concatenate([winner, relevant, np.full(len(irrelevant), n_labels)])
        loser = np.concatenate([loser, np.full(len(relevant), n_labels), irrelevant])
    apart = winner != loser
    row, winner, loser = row[apart], winner[apart], loser[apart]
    signs = np.where(winner < loser, 1.0, -1.0)
    pair = np.minimum(winner, loser) * (n_labels + 1) + np.maximum(winner, loser)
    # A credible label outside the candidates can put a row on both sides: it stays on the positive one.
    first = np.argsort(-signs, kind="stable")
    code, chosen = np.unique(pair[first] * n + row[first], return_index=True)
    return _with_both_sides(code // n, code % n, signs[first][chosen], n_labels)


def _with_both_sides(
    pair: np.ndarray, row: np.ndarray, signs: np.ndarray, n_labels: int
) -> tuple[np.ndarray, Problems]:
    """Machines from entries that are sorted by pair, without those that know one side only."""
    names, machine, sizes = np.unique(pair, return_inverse=True, return_counts=True)
    balance = np.bincount(machine, weights=signs, minlength=len(names))
    two_sided = np.abs(balance) < sizes
    kept = two_sided[machine]
    start = np.concatenate([[0], np.cumsum(sizes[two_sided])])
    pairs = np.column_stack(np.divmod(names[two_sided], n_labels + 1))
    return pairs, Problems(start, row[kept], signs[kept])


def train_pairs(
    products: InnerProducts,
    credible: np.ndarray,
    candidates: np.ndarray,
    C: float,
    tol: float,
    *,
    virtual: bool,
    verbose: bool = False,
) -> dict[str, Any]:
    """Train the machines of all pairs.

    They are ``pairs`` (n_machines, 2), ``accuracy`` and ``bias`` (n_machines,), ``n_labels`` with the virtual one, and
    ``weights``: of the features (n_machines, n_features), or, where that would take more room, of the training rows in
    ``rows`` (n_machines, n_rows).
    """
    pairs, problems = pair_problems(credible, candidates, virtual=virtual)
    entries = np.zeros(len(problems.rows))
    bias, accuracy = np.zeros((2, len(pairs)))
    svm = SVC(C=C, kernel="precomputed", tol=tol)
    with progress_bar("pairs of labels", total=len(pairs), show=verbose) as bar:
        for machine in range(len(pairs)):
            place = slice(problems.start[machine], problems.start[machine + 1])
            signs, kernel = problems.signs[place], products.among(problems.rows[None, place])[0]
            svm.fit(kernel, signs)
            own = np.zeros(len(signs))
            own[svm.support_] = svm.dual_coef_[0]
            entries[place], bias[machine] = own, svm.intercept_[0]
            accuracy[machine] = (signs * (kernel @ own + bias[machine]) > 0).mean()
            bar.advance()
    weights = sp.csr_array((entries, problems.rows, problems.start), shape=(len(pairs), products.n_rows), copy=True)
    weights.eliminate_zeros()
    learned = {"pairs": pairs, "accuracy": accuracy, "bias": bias, "n_labels": candidates.shape[1] + virtual}
    used = np.unique(weights.indices)
    rows, weights = products.X[used], weights[:, used]
    stored = rows.nnz if sp.issparse(rows) else rows.size
    if len(pairs) * products.n_features <= stored + weights.nnz:
        return learned | {"weights": dense(weights @ rows), "rows": None}
    return learned | {"weights": sp.csr_array(weights), "rows": rows}


def count_votes(X: Features, machines: dict[str, Any], *, weighted: bool) -> np.ndarray:
    """The votes that each label wins against the others, ``(n_samples, n_labels)``, the virtual label last.

    A ``weighted`` vote counts as much as the accuracy of its machine, any other 1.
    """
    pairs, votes = machines["pairs"], np.zeros((X.shape[0], machines["n_labels"]))
    each = machines["accuracy"] if weighted else np.ones(len(pairs))
    places = np.arange(len(pairs))
    shape = (machines["n_labels"], len(pairs))
    lower, upper = (sp.csr_array((each, (pairs[:, side], places)), shape=shape) for side in (0, 1))
    step = max(1, BLOCK // max(1, len(pairs)))
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        if machines["rows"] is not None:
            block = block @ machines["rows"].T
        decisions = machines["weights"] @ dense(block).T
        decisions += machines["bias"][:, None]
        won = lower @ (decisions > UNDECIDED) + upper @ (decisions < -UNDECIDED)
        votes[start : start + step] = won.T
    return votes
