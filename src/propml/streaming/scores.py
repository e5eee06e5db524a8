"""Scores and verdicts of the cells that say something: candidates and, where some may be missing, the best others.

Nothing here is of the size rows × labels where there are many labels. A row's verdicts depend on its own cells only.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.auditing.crossfit import label_scores
from propml.auditing.noise import CERTAIN, NoiseModel
from propml.auditing.verdicts import Verdicts, give_verdicts
from propml.methods.many_labels import ManyLabelClassifier
from propml.targets import Candidates

__all__ = ["BLOCK", "in_blocks", "judge_rows", "scores_of_labels", "telling_cells"]

# Models score so many rows at once, the last block filled up with zeros: the last bits of a product of matrices depend
# on their shapes, and so would verdicts on where a file ends.
BLOCK = 1024
# Of many labels, so many excluded ones of a row are looked at for one that is missing, those with the highest scores.
BEST = 100
# What a noise model knows of each label.
BY_LABEL = ("level", "share", "rate", "most", "lost", "noticed")


def in_blocks(score: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """The scores of all rows, computed in blocks of one size."""
    parts = []
    for start in range(0, X.shape[0], BLOCK):
        block = X[start : start + BLOCK]
        if (short := BLOCK - block.shape[0]) and sp.issparse(X):
            block = sp.vstack([block, sp.csr_array((short, X.shape[1]), dtype=X.dtype)], format="csr")
        elif short:
            block = np.concatenate([block, np.zeros((short, X.shape[1]), dtype=X.dtype)])
        parts.append(score(block)[: BLOCK - short])
    return np.concatenate(parts)


def scores_of_labels(model: Any, X: Any, labels: np.ndarray, n_labels: int) -> np.ndarray:
    """What a model says of some of its ``n_labels`` labels, ``(n_samples, len(labels))``."""
    if not isinstance(model, ManyLabelClassifier):
        return in_blocks(partial(label_scores, model, n_labels=n_labels), X)[:, labels]
    network = model.network_
    logits = _hidden_layer(model, X) @ network["table"][labels].T + network["bias"][labels]
    return network["slope"] * logits + network["offset"]


def _scores_of_cells(model: Any, X: Any, cells: sp.csr_array) -> np.ndarray:
    """What a model says of the stored cells, one after the other."""
    row, label = _rows_of(cells), cells.indices
    if not isinstance(model, ManyLabelClassifier):
        return in_blocks(partial(label_scores, model, n_labels=cells.shape[1]), X)[row, label]
    network = model.network_
    # Cell by cell: a product of matrices would compute all labels, and rounds by the rows beside a row.
    logits = (_hidden_layer(model, X)[row] * network["table"][label]).sum(axis=1) + network["bias"][label]
    return network["slope"] * logits + network["offset"]


def _hidden_layer(model: ManyLabelClassifier, X: Any) -> np.ndarray:
    """The last hidden layer, ``(n_samples, width)``: what the network says if its table of labels is the identity."""
    width = model.network_["table"].shape[1]
    inner = copy(model)
    inner.labels_ = tuple(range(width))
    identity = {"table": np.eye(width, dtype=np.float32), "bias": np.zeros(width, dtype=np.float32)}
    inner.network_ = model.network_ | identity | {"slope": 1.0, "offset": 0.0}
    return in_blocks(inner.decision_function, X).astype(np.float32)


def telling_cells(model: Any, X: Any, states: sp.csr_array, incomplete: bool) -> sp.csr_array:
    """The states of all candidates and, where true labels may be missing, of the best excluded labels, stored as 0.

    These are all of the labels, or of many the :data:`BEST` with the highest scores.
    """
    given = sp.csr_array(states).sorted_indices()
    if not incomplete:
        return given
    n_rows, n_labels = given.shape
    others = np.broadcast_to(np.arange(n_labels), given.shape)
    if isinstance(model, ManyLabelClassifier):
        others = in_blocks(lambda block: model.predict_top(block, min(BEST, n_labels))[0], X)
    row = np.repeat(np.arange(n_rows), others.shape[1])
    mark = 4  # far from the states, so that both can be told from their sum
    cells = sp.csr_array((np.full(row.size, mark, np.int8), (row, others.ravel())), shape=given.shape) + given
    cells.data[cells.data >= mark - 1] -= mark
    return cells


def judge_rows(model: Any, rates: NoiseModel, X: Any, given: Candidates, incomplete: bool) -> Verdicts:
    """The verdicts on some rows by a model that saw none of them."""
    cells = telling_cells(model, X, given.states, incomplete)
    scores = _scores_of_cells(model, X, cells)
    own = replace(rates, **{name: getattr(rates, name)[cells.indices] for name in BY_LABEL})
    truth = own.of_candidates(scores)
    if incomplete:
        truth = np.where(cells.data > 0, truth, own.of_others(scores))
    # Rows moved together, so that the k-th column is the k-th cell of each row: verdicts look at rows, not at labels.
    row = _rows_of(cells)
    column = np.arange(cells.nnz) - cells.indptr[row]
    shape = (len(given), int(np.diff(cells.indptr).max()))
    moved = sp.csr_array((cells.data, column, cells.indptr), shape=shape)
    together = Candidates(moved, tuple(range(shape[1])), given.index)
    probabilities = np.zeros(shape, dtype=np.float32)
    probabilities[row, column] = np.maximum(truth, 1 - CERTAIN)
    told = give_verdicts(probabilities, together, incomplete=incomplete)
    return replace(told, label=cells.indices[cells.indptr[told.row] + told.label].astype(np.int64))


def _rows_of(cells: sp.csr_array) -> np.ndarray:
    return np.repeat(np.arange(cells.shape[0]), np.diff(cells.indptr))
