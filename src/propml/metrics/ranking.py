"""Ranking metrics, example by example: average precision, coverage, ranking loss and one-error.

For row ``i`` let ``P`` be its true labels, ``N`` the others, ``C`` their number together, and ``r(j)`` the rank of
label ``j`` by falling score, 1 at the top. The metrics are functions of the ranks of the true labels alone.

Which rows count is said by ``rows``:

- ``"valid"``: rows with at least one true and one false label, the only ones where a ranking can be right or wrong;
- ``"labelled"``: rows with at least one true label;
- ``"all"``: every row. A row without true labels then has average precision 1 and ranking loss 0 (as in scikit-learn),
  one-error 1 (its top label is not true) and last rank 0, hence coverage ``-1/C`` (as in the MATLAB functions).

How labels with equal scores are ordered is said by ``ties``:

- ``"first"`` / ``"last"``: the lower / the higher label index ranks first;
- ``"best"`` / ``"worst"``: true labels / false labels rank first;
- ``"mean"``: the mean of the metric under ``"first"`` and ``"last"``, so that a constant score earns nothing;
- ``"paper"``: what the MATLAB functions of the field do: ``"last"`` for average precision and coverage, ``"worst"`` for
  ranking loss (a tie is an error), ``"best"`` for one-error (any tied maximum may be true).

All values are fractions; multiply by 100 to compare with published tables.

References
----------
Zhang and Zhou, "A review on multi-label learning algorithms", IEEE TKDE 2014, section 2.2.
"""

from typing import Any, Literal, TypeAlias

import numpy as np

from propml.metrics.inputs import truth_and_scores
from propml.metrics.ranks import RankedTruth, Ties, rank_truth, tie_orders

RowRule: TypeAlias = Literal["valid", "labelled", "all"]

RANKING_METRICS = ("average_precision", "coverage", "ranking_loss", "one_error")


def average_precision(truth: Any, scores: Any, *, rows: RowRule = "valid", ties: Ties = "mean") -> float:
    """Example-wise average precision: how pure the ranking is down to each true label.

    ``mean_i (1/|P|) sum_{j in P} |{k in P : r(k) <= r(j)}| / r(j)``, higher is better.

    Parameters
    ----------
    truth : 0/1 array-like, tensor, sparse matrix or Candidates, shape (n_samples, n_labels)
    scores : array-like or tensor, shape (n_samples, n_labels)
    rows : {"valid", "labelled", "all"}
    ties : {"mean", "first", "last", "best", "worst", "paper"}

    Examples
    --------
    >>> average_precision([[1, 0, 1]], [[0.9, 0.5, 0.1]])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    return _measure("average_precision", truth, scores, rows, ties)


def coverage(
    truth: Any, scores: Any, *, rows: RowRule = "labelled", ties: Ties = "mean", normalize: bool = True
) -> float:
    """How far down the ranking one must go to cover all true labels.

    ``mean_i (max_{j in P} r(j) - 1) / C``, lower is better; parameters as in :func:`average_precision`.

    Parameters
    ----------
    normalize : bool
        Whether to divide by the number of labels ``C``; older papers do not.

    Examples
    --------
    >>> coverage([[1, 0, 1]], [[0.9, 0.5, 0.1]], normalize=False)
    2.0
    """
    ranked = rank_truth(*truth_and_scores(truth, scores), tie_orders("coverage", ties))
    value = mean_over_rows("coverage", ranked, rows, ties)
    return value if normalize else value * ranked.n_labels


def ranking_loss(truth: Any, scores: Any, *, rows: RowRule = "valid", ties: Ties = "mean") -> float:
    """The share of (true, false) label pairs that are ranked the wrong way round.

    ``mean_i |{(j, k) in P x N : r(j) > r(k)}| / (|P| |N|)``, lower is better; parameters as in
    :func:`average_precision`. A tied pair counts 1/2 under ``ties="mean"`` and 1 under ``"worst"`` and ``"paper"``.

    Examples
    --------
    >>> ranking_loss([[1, 0, 1]], [[0.9, 0.5, 0.1]])
    0.5
    """
    return _measure("ranking_loss", truth, scores, rows, ties)


def one_error(truth: Any, scores: Any, *, rows: RowRule = "valid", ties: Ties = "mean") -> float:
    """The share of rows whose top label is not true.

    ``mean_i [argmin_j r(j) not in P]``, lower is better; parameters as in :func:`average_precision`.

    Examples
    --------
    >>> one_error([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]])
    0.5
    """
    return _measure("one_error", truth, scores, rows, ties)


def n_tied_rows(truth: Any, scores: Any) -> int:
    """The number of rows in which a true and a false label share a score, so that the tie rule matters.

    >>> n_tied_rows([[1, 0, 1], [1, 0, 0]], [[0.5, 0.5, 0.1], [0.9, 0.5, 0.5]])
    1
    """
    return int(rank_truth(*truth_and_scores(truth, scores), ()).tied.sum())


def mean_over_rows(metric: str, ranked: RankedTruth, rows: str, ties: str) -> float:
    """The value of one of :data:`RANKING_METRICS` from ranks that are known already."""
    values = [_row_values(metric, ranked, order) for order in tie_orders(metric, ties)]
    return float(np.mean(values, axis=0)[_used_rows(metric, ranked, rows)].mean())


def _measure(metric: str, truth: Any, scores: Any, rows: str, ties: str) -> float:
    orders = tie_orders(metric, ties)
    return mean_over_rows(metric, rank_truth(*truth_and_scores(truth, scores), orders), rows, ties)


def _row_values(metric: str, ranked: RankedTruth, order: str) -> np.ndarray:
    ranks, n_true = ranked.by_order[order], ranked.n_true
    if metric == "average_precision":
        return np.where(n_true > 0, ranks.precision_sum / np.maximum(n_true, 1), 1.0)
    if metric == "coverage":
        return (ranks.last_rank - 1) / ranked.n_labels
    if metric == "ranking_loss":
        # a true label at rank r with t true ones down to it has r - t false ones above it
        wrong_pairs = ranks.rank_sum - n_true * (n_true + 1) / 2
        return wrong_pairs / np.maximum(n_true * (ranked.n_labels - n_true), 1)
    return 1 - ranks.top_is_true


def _used_rows(metric: str, ranked: RankedTruth, rows: str) -> np.ndarray:
    if rows == "all":
        return np.ones(ranked.n_true.size, dtype=bool)
    if rows == "labelled":
        used, what = ranked.n_true > 0, "a true label"
    elif rows == "valid":
        used = (ranked.n_true > 0) & (ranked.n_true < ranked.n_labels)
        what = "both a true and a false label"
    else:
        raise ValueError(f'rows is {rows!r}; choose "valid", "labelled" or "all"')
    if not used.any():
        name = metric.replace("_", " ")
        raise ValueError(f'{name} with rows="{rows}" is undefined: none of the {used.size} rows has {what}')
    return used
