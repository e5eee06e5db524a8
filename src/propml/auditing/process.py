"""``propml.audit``: scores, probabilities and reliability, put together into a report."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from propml.auditing import annotator_model
from propml.auditing.annotator_model import Reliability, Votes, annotations_of, fit_annotators, reliability_of
from propml.auditing.crossfit import Folds, default_auditor, held_out_scores, rows_to_learn_from, split_rows
from propml.auditing.decisions import Decision, apply_decisions, cell_positions
from propml.auditing.noise import CERTAIN, AssumedNoise, NoiseModel, fit_noise, given_shares, reviewed_rates
from propml.auditing.report import AuditReport
from propml.folds import row_blocks
from propml.jsonable import jsonable
from propml.tables.features import Features
from propml.targets import Candidates, as_candidates

# Rows × labels at most: scores and probabilities of so many cells take 8 GB, and the models more.
MOST_CELLS = 10**9


def audit(
    X: Any,
    candidates: Any,
    *,
    noise: AssumedNoise = "auto",
    incomplete: bool = False,
    votes: Any = None,
    reviewed: Iterable[Decision] = (),
    model: Any = None,
    cv: int | Iterable[tuple[Any, Any]] = 5,
    train_rows: int | Literal["auto"] | None = "auto",
    random_state: int = 0,
    verbose: bool = False,
) -> AuditReport:
    """Find the candidate labels that are wrong. No model judges a row that it was trained on, or a copy of one.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame, shape (n_samples, n_features); or a list of texts
        Columns of text, categories and dates, and missing values, become features as in ``propml audit``
        (:mod:`propml.tables.features`), for models of your own too.
    candidates : candidate labels
        Anything that :func:`propml.targets.as_candidates` takes. Votes are used where there are some
        (:meth:`Candidates.from_votes <propml.targets.Candidates.from_votes>`).
    noise : {"auto", "uniform", "by-label", "confusions"}, float or mapping
        How false candidates arise. "uniform": every false label is proposed at the same rate. "by-label": each label
        has its own rate. "confusions": false labels look like true ones. "auto" drops only what is false under all
        three. A number is the share of candidates that is false; a mapping gives a share for each label. See
        :mod:`propml.auditing.noise`.
    incomplete : bool
        Whether true labels may be missing from the candidates. The report then names labels that are probably missing.
        By default, every true label of a row is assumed to be among its candidates.
    votes : table, optional
        Who proposed what, where ``candidates`` does not hold it: a DataFrame or mapping with the columns ``item``,
        ``annotator`` and ``label`` (none where somebody looked and saw nothing), maybe with ``confidence``, or
        :class:`~propml.targets.Annotations`.
    reviewed : iterable of Decision
        Decisions that a person has made (:func:`propml.auditing.decisions.read_decisions`). Rejected labels are
        excluded, confirmed labels are candidates. Models learn from these decisions, which also correct P(true) of all
        other labels. The report estimates how many errors are left.
    model : classifier, optional
        The classifier that scores labels; it is cloned. By default a fast :class:`~propml.ProPMLClassifier`. Any method
        of this package works, and any multi-label classifier with scikit-learn's interface, such as a random forest.
    cv : int, or iterable of (train, held-out) index pairs
        Folds. Rows with the same features are held out together.
    train_rows : int, "auto" or None
        How many rows each model trains on, drawn from those that it does not judge. "auto": all, at most 100 000, and
        fewer where rows are long (see :func:`propml.auditing.crossfit.rows_to_learn_from`). None: all. Every row is
        judged in any case. If models train on a sample, its size is in the report's settings.
    random_state : int
        For the folds and the default model.
    verbose : bool
        Show progress.

    Examples
    --------
    >>> from propml.datasets import digits_mosaic
    >>> data = digits_mosaic(200)
    >>> report = audit(data.X, data.candidates)
    >>> report.cleaned().shape
    (200, 10)
    """
    given = as_candidates(candidates, empty="ignore")
    given_shares(noise, given.labels)  # a slip in it is better told now than after the training
    features = _features(X, len(given))
    annotations = annotations_of(votes, given)
    given = replace(given, annotations=annotations)
    told = None if annotations is None else Votes(given)
    several = told is not None and bool((told.voters > 1).any())
    _check_candidates(given, several)
    folds = split_rows(features, cv, random_state)
    auditor = default_auditor(random_state, verbose) if model is None else model
    most = _most_rows(train_rows, features, given, folds)
    decided = list(reviewed)
    after = apply_decisions(given, decided) if decided else given
    scores = np.full(given.shape, np.nan, dtype=np.float32)
    if folds and _excludes(after):  # otherwise a model has nothing to learn: one row, or nothing excluded
        scores = held_out_scores(
            auditor, features, after, folds, train_rows=most, random_state=random_state, verbose=verbose
        )
    # By what was proposed: where people took labels away says how they look, not how often false ones are proposed.
    rates = fit_noise(scores, given, noise, incomplete=incomplete)
    at = cell_positions(decided, given.index, given.labels)
    truth = np.array([decision.belongs for decision in decided], dtype=bool)
    was = np.array([given.states[row, label] > 0 for row, label in at.tolist()], dtype=bool)
    rates = reviewed_rates(rates, scores, at[was], truth[was])
    settings = {
        "model": type(auditor).__name__,
        "params": jsonable(auditor.get_params(deep=False), lossy=True),
        "folds": len(folds),
        "train_rows": most,
        "random_state": random_state,
    }
    reliability = None
    if told is not None and several:
        probabilities, reliability = _from_votes(scores, given, rates, told, incomplete, at, truth)
    else:
        probabilities = from_candidates(scores, given, rates, incomplete)
        if told is not None:
            blocks = ((rows, probabilities[rows].astype(np.float64)) for rows in row_blocks(*given.shape))
            reliability = reliability_of(told, ((rows, np.nan_to_num(truth)) for rows, truth in blocks))
        least, largest = (np.round(share, 4).tolist() for share in rates.false_shares())
        settings["noise"] = {"assumed": jsonable(noise, lossy=True), "false_least": least, "false_most": largest}
    if decided:
        probabilities[at[:, 0], at[:, 1]] = truth
        settings["reviewed"] = {"true": int(truth.sum()), "false": int((~truth).sum())}
    return AuditReport(after, probabilities, incomplete=incomplete, reliability=reliability, settings=settings)


def _features(X: Any, n_rows: int) -> Any:
    """A matrix of finite numbers."""
    from sklearn.utils import check_array

    n_given = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_given != n_rows:
        raise ValueError(f"X has {n_given} rows and the candidate labels {n_rows}; give one row of X for each")
    if columns := _mixed_columns(X):
        learned = Features.learn(columns)
        for note in learned.notes:
            warnings.warn(note, stacklevel=3)
        X = learned.X
    features = check_array(
        X, accept_sparse="csr", dtype=(np.float64, np.float32), input_name="X", ensure_all_finite=False
    )
    finite = np.isfinite(features.data if sp.issparse(features) else features)
    if not finite.all():
        first = np.unravel_index(finite.argmin(), finite.shape)[0]
        row = np.searchsorted(features.indptr, first, side="right") - 1 if sp.issparse(features) else first
        how = "fill in what is missing, for instance with scikit-learn's SimpleImputer(add_indicator=True)"
        raise ValueError(f"X has NaN or infinity, first in row {row}; {how}")
    return sp.csr_array(features) if sp.issparse(features) else features


def _mixed_columns(X: Any) -> dict[str, Any] | None:
    """The columns of a table that is not all numbers; a list of texts is one column."""
    if not hasattr(X, "columns"):
        is_text = getattr(X, "ndim", 1) == 1 and all(cell is None or isinstance(cell, str) for cell in X)
        return {"text": list(X)} if is_text else None
    columns = {str(name): X[name].to_numpy() for name in X.columns}
    kinds = {own.dtype.kind for own in columns.values()}
    gaps = any(own.dtype.kind == "f" and np.isnan(own).any() for own in columns.values())
    return columns if gaps or not kinds <= set("biuf") else None


def _check_candidates(candidates: Candidates, several: bool) -> None:
    n_rows, n_labels = candidates.shape
    if n_rows * n_labels > MOST_CELLS:
        size = f"{n_rows} rows and {n_labels} labels make {n_rows * n_labels:.1e} cells"
        how = "leave out labels that are candidates nowhere, or audit fewer rows at a time"
        raise ValueError(f"{size}, and an audit takes up to {MOST_CELLS:.0e}; {how}")
    if not (candidates.states.data > 0).any():
        raise ValueError("no row has a candidate label, so there is nothing to audit; check how they were made")
    if not _excludes(candidates) and not several:
        raise ValueError(
            "no label is excluded in any row, so a model cannot learn what false labels look like; leave out the "
            "labels that a row surely does not have, or give the votes of several annotators"
        )


def _excludes(candidates: Candidates) -> bool:
    """Whether any label is excluded anywhere; what is not stored is."""
    return candidates.states.nnz < candidates.shape[0] * candidates.shape[1]


def _most_rows(asked: int | Literal["auto"] | None, X: Any, candidates: Candidates, folds: Folds) -> int | None:
    """How many rows each model learns from, where that is fewer than its fold has; None where it is all of them."""
    if asked is None:
        return None
    if asked != "auto" and (isinstance(asked, bool) or not isinstance(asked, int | np.integer) or asked < 1):
        raise ValueError(f'train_rows is {asked!r}; give a number of rows, "auto", or None for all of them')
    most = rows_to_learn_from(X, candidates.shape[1]) if asked == "auto" else int(asked)
    return most if any(len(train) > most for train, _ in folds) else None


def _from_votes(
    scores: np.ndarray,
    candidates: Candidates,
    rates: NoiseModel,
    votes: Votes,
    incomplete: bool,
    at: np.ndarray,
    known: np.ndarray,
) -> tuple[np.ndarray, Reliability]:
    """P(true) and rates from several annotators, the scores and reviewed cells together."""
    seen = np.flatnonzero(votes.voters > 0)
    learned = np.union1d(seen[:: len(seen) // annotator_model.MOST_ROWS + 1], np.intersect1d(seen, at[:, 0]))
    inside = np.isin(at[:, 0], learned)
    place = np.column_stack([np.searchsorted(learned, at[inside, 0]), at[inside, 1]])
    model = fit_annotators(rates.logits(scores[learned]), Votes(candidates[learned]), place, known[inside])
    probabilities = np.zeros(candidates.shape, dtype=np.float32)

    def judged() -> Iterator[tuple[slice, np.ndarray]]:
        for rows in row_blocks(*candidates.shape):
            states = candidates.states[rows].toarray()
            truth = model.posterior(rates.logits(scores[rows]), votes, rows)
            inside = (at[:, 0] >= rows.start) & (at[:, 0] < rows.stop)
            truth[at[inside, 0] - rows.start, at[inside, 1]] = known[inside]
            # Where nobody voted, that a label is a candidate is all there is.
            alone = (states > 0) & (votes.voters[rows, None] == 0)
            believed = np.where(alone, rates.of_candidates(scores[rows]), truth)
            probabilities[rows] = believed if incomplete else _only_candidates(believed, states)
            yield rows, truth

    return probabilities, reliability_of(votes, judged())


def from_candidates(scores: np.ndarray, candidates: Candidates, rates: NoiseModel, incomplete: bool) -> np.ndarray:
    """P(true) of every candidate and, where candidates may be incomplete, of all other labels."""
    probabilities = np.zeros(candidates.shape, dtype=np.float32)
    for rows in row_blocks(*candidates.shape):
        states = candidates.states[rows].toarray()
        truth = rates.of_candidates(scores[rows])
        if incomplete:
            truth = np.where(states > 0, truth, rates.of_others(scores[rows]))
        truth = np.maximum(truth, 1 - CERTAIN)
        probabilities[rows] = truth if incomplete else _only_candidates(truth, states)
    return probabilities


def _only_candidates(truth: np.ndarray, states: np.ndarray) -> np.ndarray:
    return np.where(states > 0, truth, np.where(states < 0, np.nan, 0.0))
