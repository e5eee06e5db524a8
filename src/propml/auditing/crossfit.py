"""What models that never saw a row think of it: cross-fitted scores of every label."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logit

from propml.progress import track
from propml.targets import Candidates

Folds = list[tuple[np.ndarray, np.ndarray]]

# Rows that a model learns from at most, and the labels and feature values in them: more cost time and memory, and the
# ranking hardly gained from them (docs/audit.md, measured by benchmarks/audit_scale.py).
MOST_ROWS, MOST_VALUES, FEWEST_SAMPLED = 100_000, 30_000_000, 20_000
# Of a sample, the share by which a classifier that chooses λ and epochs chooses them.
CHOOSING_SHARE = 0.1
# Rows that are scored at once, and the scores in them, at most.
BLOCK_ROWS, BLOCK_SCORES = 65_536, 50_000_000


def default_auditor(random_state: int, verbose: bool) -> Any:
    """The default classifier with little effort; noise rates are estimated here, not there."""
    from propml.methods.propml import ProPMLClassifier

    return ProPMLClassifier(effort="fast", noise=False, random_state=random_state, verbose=verbose)


def rows_to_learn_from(X: Any, n_labels: int) -> int:
    """How many rows each model learns from at most, by the size of the data alone.

    100 000; fewer where rows are long, counting labels and feature values (of sparse features those that are stored).
    """
    values = X.nnz if sp.issparse(X) else X.size
    per_row = n_labels + values / max(X.shape[0], 1)
    return int(np.clip(MOST_VALUES / per_row, FEWEST_SAMPLED, MOST_ROWS))


def row_groups(X: Any) -> np.ndarray:
    """A number for each row, the same for rows with the same features, ``(n_samples,)``."""
    if sp.issparse(X):
        rows = sp.csr_array(X)
        rows.sum_duplicates()
        spans = map(slice, rows.indptr[:-1], rows.indptr[1:])
        contents = (rows.indices[at].tobytes() + rows.data[at].tobytes() for at in spans)
    else:
        contents = (row.tobytes() for row in np.ascontiguousarray(X))
    seen: dict[int, int] = {}
    # Hashes, since the contents themselves would be the features once more in memory.
    return np.array([seen.setdefault(hash(content), len(seen)) for content in contents], dtype=np.int64)


def split_rows(X: Any, cv: int | Iterable[tuple[Any, Any]], random_state: int) -> Folds:
    """Shuffled folds of nearly equal size; pairs that are given are taken as they are.

    Rows with the same features are held out together: a model that was trained on a copy of a row has seen that row.
    """
    if isinstance(cv, Iterable) and not isinstance(cv, str) and (pairs := list(cv)):
        return [(np.asarray(train), np.asarray(held)) for train, held in pairs]
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or cv < 2:
        raise ValueError(f"cv is {cv!r}; give at least 2 folds, or (train, held-out) pairs of row numbers")
    n_rows = X.shape[0]
    group = row_groups(X)
    if group.max(initial=-1) < 1:  # all rows are copies of one: there is nothing that a model could have seen
        group = np.arange(n_rows)
    sizes = np.bincount(group)
    order = np.random.default_rng([random_state, 8]).permutation(len(sizes))
    n_folds = min(int(cv), len(sizes))
    fold_of_group = np.empty(len(sizes), dtype=np.int64)
    # Cut the shuffled groups where the running count of rows passes the next share.
    middle = np.cumsum(sizes[order]) - sizes[order] / 2
    fold_of_group[order] = np.minimum((middle * n_folds / max(n_rows, 1)).astype(np.int64), n_folds - 1)
    fold = fold_of_group[group]
    parts = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n_folds)]
    return [(train, held) for train, held in parts if len(held) and len(train)]


def held_out_scores(
    model: Any,
    X: Any,
    candidates: Candidates,
    folds: Folds,
    *,
    train_rows: int | None = None,
    random_state: int = 0,
    verbose: bool = False,
) -> np.ndarray:
    """Scores of all labels ``(n_samples, n_labels)``, each row's by a model that was not fitted on it.

    The model is cloned. Where a fold has more than ``train_rows`` rows to learn from, its model learns from so many of
    them, drawn at random. NaN for rows that no fold held out.
    """
    from sklearn.base import clone

    if hasattr(model, "fit_held_out_logits") and train_rows is None:
        own = clone(model).set_params(cv=folds)
        return np.asarray(own.fit_held_out_logits(X, candidates), dtype=np.float32)
    scores = np.full(candidates.shape, np.nan, dtype=np.float32)
    # Most methods cannot learn from unknown labels: they do without the rows that nobody looked at.
    looked_at = np.asarray((candidates.states < 0).sum(axis=1)).ravel() < candidates.shape[1]
    # A bar inside a bar would be drawn over it: a classifier with a bar of its own shows that.
    show = verbose and not getattr(model, "verbose", False)
    for number, (train, held) in enumerate(track(folds, "folds", len(folds), show=show)):
        train = train[looked_at[train]]
        draw = np.random.default_rng([random_state, 9, number])
        if train_rows is not None and len(train) > train_rows:
            train = np.sort(draw.choice(train, train_rows, replace=False))
        fitted = fitted_on(model, X[train], candidates[train], draw)
        step = min(BLOCK_ROWS, max(1, BLOCK_SCORES // candidates.shape[1]))
        for start in range(0, len(held), step):
            block = held[start : start + step]
            scores[block] = label_scores(fitted, X[block], candidates.shape[1])
    return scores


def fitted_on(model: Any, X: Any, candidates: Candidates, draw: np.random.Generator) -> Any:
    """A clone of the model that learned from these rows, a part of which may choose its λ and epochs."""
    from sklearn.base import clone

    from propml.methods.base import CandidateClassifier

    own = clone(model)
    if hasattr(model, "fit_held_out_logits"):
        order = draw.permutation(X.shape[0])
        part = max(1, round(len(order) * CHOOSING_SHARE))
        own.set_params(cv=[(np.sort(order[part:]), np.sort(order[:part]))])
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if isinstance(last, CandidateClassifier):
        return own.fit(X, candidates)
    return own.fit(X, (candidates.to_matrix() > 0).astype(np.int64))


def label_scores(model: Any, X: Any, n_labels: int) -> np.ndarray:
    """What a fitted model says of each label, ``(n_samples, n_labels)``: the higher, the more probable."""
    name = type(model).__name__
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X))
    elif hasattr(model, "predict_proba"):
        shares = model.predict_proba(X)
        if isinstance(shares, list):  # forests and neighbours: P(0) and P(1) of each label, or one of the two
            known = zip(shares, model.classes_, strict=True)
            shares = np.column_stack([own[:, np.asarray(classes) == 1].sum(axis=1) for own, classes in known])
        scores = logit(np.clip(np.asarray(shares, dtype=np.float64), 1e-6, 1 - 1e-6))
    else:
        raise ValueError(f"{name} has neither decision_function nor predict_proba; give a model that scores labels")
    if scores.ndim == 1 and n_labels == 1:
        scores = scores[:, None]
    if scores.shape != (X.shape[0], n_labels):
        expected = f"expected {(X.shape[0], n_labels)}; give a model that scores every label of every row"
        raise ValueError(f"{name} gave scores of shape {scores.shape}, {expected}")
    return scores
