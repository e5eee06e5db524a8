"""Stage 2 of PARTICLE: one machine for every pair of labels, and their votes.

The machine of the labels j < k learns to tell the rows where j is credible and k no candidate (j wins) from those
where k is credible and j no candidate. The *virtual label* stands behind all others and separates what is relevant
from what is not: against it, a label wins in the rows where it is credible and loses where it is no candidate.
Pairs of which one side has no row get no machine. A machine is linear and made by LIBSVM,

    min ½ ‖w‖² + C Σ_i max(0, 1 − y_i (w'x_i + b)),      w = Σ_i α_i y_i x_i,  0 ≤ α_i ≤ C

which is given the inner products of its rows: they are known already.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC
from sklearn.utils import gen_batches

from propml.methods.base import Features
from propml.methods.linear_algebra import BLOCK, InnerProducts, dense
from propml.progress import track
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


def pair_problems(
    credible: np.ndarray, candidates: np.ndarray, *, virtual: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The labels of each machine, ``(n_machines, 2)``, and from which rows it learns which signs.

    Machine m has the entries of ``rows`` and ``signs`` from ``start[m]`` up to ``start[m + 1]``. The lower label comes
    first; it wins where the sign is positive. The index of the ``virtual`` label is ``n_labels``.

    >>> credible = np.array([[True, False, False], [False, True, False]])
    >>> pairs, start, rows, signs = pair_problems(credible, credible, virtual=False)
    >>> pairs.tolist(), start.tolist(), rows.tolist(), signs.tolist()
    ([[0, 1]], [0, 2], [0, 1], [1.0, -1.0])
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
    signs = signs[first][chosen]
    # Pairs that know one side only get no machine.
    names, machine, sizes = np.unique(code // n, return_inverse=True, return_counts=True)
    two_sided = np.abs(np.bincount(machine, weights=signs, minlength=len(names))) < sizes
    kept = two_sided[machine]
    pairs = np.column_stack(np.divmod(names[two_sided], n_labels + 1))
    return pairs, np.concatenate([[0], np.cumsum(sizes[two_sided])]), (code % n)[kept], signs[kept]


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
    """The machines of all pairs, as in :data:`MACHINES`; ``n_labels`` counts the virtual label.

    Their ``weights`` are those of the features or, where that takes less room, of the training rows in ``rows``.
    """
    pairs, starts, members, signs = pair_problems(credible, candidates, virtual=virtual)
    entries = np.zeros(len(members))
    bias, accuracy = np.zeros((2, len(pairs)))
    svm = SVC(C=C, kernel="precomputed", tol=tol)
    places = map(slice, starts[:-1], starts[1:])
    for machine, place in enumerate(track(places, "pairs of labels", len(pairs), show=verbose)):
        kernel, own = products.among(members[None, place])[0], entries[place]
        svm.fit(kernel, signs[place])
        own[svm.support_] = svm.dual_coef_[0]
        bias[machine] = svm.intercept_[0]
        accuracy[machine] = (signs[place] * (kernel @ own + bias[machine]) > 0).mean()
    weights = sp.csr_array((entries, members, starts), shape=(len(pairs), products.n_rows), copy=True)
    weights.eliminate_zeros()
    learned = {"pairs": pairs, "accuracy": accuracy, "bias": bias, "n_labels": candidates.shape[1] + virtual}
    used = np.unique(weights.indices)
    rows, weights = products.X[used], weights[:, used]
    stored = rows.nnz if sp.issparse(rows) else rows.size
    if len(pairs) * products.n_features <= stored + weights.nnz:
        return learned | {"weights": dense(weights @ rows), "rows": None}
    return learned | {"weights": sp.csr_array(weights), "rows": rows}


def count_votes(X: Features, machines: dict[str, Any], *, weighted: bool) -> np.ndarray:
    """The votes that each label wins, the virtual one last; a ``weighted`` one counts as its machine's accuracy."""
    pairs, votes = machines["pairs"], np.zeros((X.shape[0], machines["n_labels"]))
    each = machines["accuracy"] if weighted else np.ones(len(pairs))
    shape = (machines["n_labels"], len(pairs))
    lower, upper = (sp.csr_array((each, (side, np.arange(len(pairs)))), shape=shape) for side in pairs.T)
    for rows in gen_batches(X.shape[0], max(1, BLOCK // max(1, len(pairs)))):
        block = X[rows] if machines["rows"] is None else X[rows] @ machines["rows"].T
        decisions = machines["weights"] @ dense(block).T
        decisions += machines["bias"][:, None]
        votes[rows] = (lower @ (decisions > UNDECIDED) + upper @ (decisions < -UNDECIDED)).T
    return votes
