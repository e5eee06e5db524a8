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

Every row is sorted once, as 64-bit integers that hold the score, rounded to float32, in their upper half and, below it,
the label's index and, as the lowest bit, the truth: the lowest bits of the sorted row are the truth in rank order.
Other orders of ties follow from the runs of equal scores, without another sort.

References
----------
Zhang and Zhou, "A review on multi-label learning algorithms", IEEE TKDE 2014, section 2.2.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from propml.folds import row_blocks
from propml.metrics.inputs import BinaryMatrix, boolean_rows, compared, truth_and_scores

Ties: TypeAlias = Literal["mean", "first", "last", "best", "worst", "paper"]
RowRule: TypeAlias = Literal["valid", "labelled", "all"]

RANKING_METRICS = ("average_precision", "coverage", "ranking_loss", "one_error")
# Which of two labels with equal scores ranks first: the lower or the higher index, the true or the false one.
ORDERS = ("first", "last", "best", "worst")

# The rules of the MATLAB functions behind the published numbers (and, for mAP, of the official vision code).
PAPER_ORDER = dict.fromkeys(("average_precision", "coverage", "mAP"), "last")
PAPER_ORDER |= {"ranking_loss": "worst", "one_error": "best"}


@dataclass(frozen=True)
class RankedTruth:
    """Where the true labels of all rows stand, summed up once per order of ties; 1 is the top rank."""

    n_labels: int
    n_true: np.ndarray
    tied: np.ndarray  # rows in which a true and a false label share a score: only there does the tie rule matter
    # By order ``(4, n_rows)``: the sum over true labels of (true labels down to it) / (its rank), the sum of their
    # ranks, the last of these, and 1 where the label at rank 1 is true; zeros for a row without true labels.
    by_order: dict[str, np.ndarray]


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
    return _measure("average_precision", truth, scores, rows, ties)[0]


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
    value, n_labels = _measure("coverage", truth, scores, rows, ties)
    return value if normalize else value * n_labels


def ranking_loss(truth: Any, scores: Any, *, rows: RowRule = "valid", ties: Ties = "mean") -> float:
    """The share of (true, false) label pairs that are ranked the wrong way round.

    ``mean_i |{(j, k) in P x N : r(j) > r(k)}| / (|P| |N|)``, lower is better; parameters as in
    :func:`average_precision`. A tied pair counts 1/2 under ``ties="mean"`` and 1 under ``"worst"`` and ``"paper"``.

    Examples
    --------
    >>> ranking_loss([[1, 0, 1]], [[0.9, 0.5, 0.1]])
    0.5
    """
    return _measure("ranking_loss", truth, scores, rows, ties)[0]


def one_error(truth: Any, scores: Any, *, rows: RowRule = "valid", ties: Ties = "mean") -> float:
    """The share of rows whose top label is not true.

    ``mean_i [argmin_j r(j) not in P]``, lower is better; parameters as in :func:`average_precision`.

    Examples
    --------
    >>> one_error([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]])
    0.5
    """
    return _measure("one_error", truth, scores, rows, ties)[0]


def n_tied_rows(truth: Any, scores: Any) -> int:
    """The number of rows in which a true and a false label share a score, so that the tie rule matters.

    >>> n_tied_rows([[1, 0, 1], [1, 0, 0]], [[0.5, 0.5, 0.1], [0.9, 0.5, 0.5]])
    1
    """
    return int(rank_truth(*truth_and_scores(truth, scores), ()).tied.sum())


def _measure(metric: str, truth: Any, scores: Any, rows: str, ties: str) -> tuple[float, int]:
    """The value, and the number of labels."""
    ranked = rank_truth(*truth_and_scores(truth, scores), tie_orders(metric, ties))
    return mean_over_rows(metric, ranked, rows, ties), ranked.n_labels


def mean_over_rows(metric: str, ranked: RankedTruth, rows: str, ties: str) -> float:
    """The value of one of :data:`RANKING_METRICS` from ranks that are known already."""
    labelled, valid = ranked.n_true > 0, (ranked.n_true > 0) & (ranked.n_true < ranked.n_labels)
    rules = {
        "all": (np.ones_like(labelled), ""),
        "labelled": (labelled, "a true label"),
        "valid": (valid, "both a true and a false label"),
    }
    if rows not in rules:
        raise ValueError(f'rows is {rows!r}; choose "valid", "labelled" or "all"')
    used, what = rules[rows]
    if not used.any():
        name = metric.replace("_", " ")
        raise ValueError(f'{name} with rows="{rows}" is undefined: none of the {used.size} rows has {what}')
    values = [_row_values(metric, ranked, order) for order in tie_orders(metric, ties)]
    return float(np.mean(values, axis=0)[used].mean())


def _row_values(metric: str, ranked: RankedTruth, order: str) -> np.ndarray:
    n_true = ranked.n_true
    precision_sum, rank_sum, last_rank, top_is_true = ranked.by_order[order]
    if metric == "average_precision":
        return np.where(n_true > 0, precision_sum / np.maximum(n_true, 1), 1.0)
    if metric == "coverage":
        return (last_rank - 1) / ranked.n_labels
    if metric == "ranking_loss":
        # a true label at rank r with t true ones down to it has r - t false ones above it
        wrong_pairs = rank_sum - n_true * (n_true + 1) / 2
        return wrong_pairs / np.maximum(n_true * (ranked.n_labels - n_true), 1)
    return 1 - top_is_true


def tie_orders(metric: str, ties: str) -> tuple[str, ...]:
    """The orders whose values are averaged under a tie rule.

    >>> tie_orders("coverage", "mean"), tie_orders("ranking_loss", "paper")
    (('first', 'last'), ('worst',))
    """
    if ties == "mean":
        return ("first", "last")
    if ties == "paper":
        return (PAPER_ORDER[metric],)
    if ties in ORDERS:
        return (ties,)
    raise ValueError(f'ties is {ties!r}; choose "mean", "paper", ' + ", ".join(f'"{order}"' for order in ORDERS))


def rank_truth(truth: BinaryMatrix, scores: np.ndarray, orders: Collection[str]) -> RankedTruth:
    """Rank the labels of every row by falling score, and sum up where the true ones stand, in each of ``orders``."""
    n_rows, n_labels = scores.shape
    n_true = np.zeros(n_rows, dtype=np.int64)
    tied = np.zeros(n_rows, dtype=bool)
    sums = {order: np.zeros((4, n_rows)) for order in orders}
    for rows in row_blocks(*scores.shape):
        true = boolean_rows(truth, rows)
        n_true[rows] = np.count_nonzero(true, axis=1)
        keys = _sorted_keys(scores[rows], true)
        positions = np.flatnonzero(keys & 1)
        summed = _sum_up(positions, keys.shape)
        for table in sums.values():
            table[:, rows] = summed
        which = _rows_with_tied_truth(keys, positions)
        if which.size:
            tied[rows.start + which], by_order = _in_orders(keys[which])
            for order, table in sums.items():
                table[:, rows.start + which] = _sum_up(by_order[order], (which.size, n_labels))
    return RankedTruth(n_labels, n_true, tied, sums)


def _in_orders(keys: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows of sorted keys in which a true and a false label tie, and true labels' flat positions, rising, by order."""
    upper = keys >> 32
    starts_run = np.ones(keys.shape, dtype=bool)
    starts_run[:, 1:] = upper[:, 1:] != upper[:, :-1]
    begin = np.flatnonzero(starts_run)
    end = np.append(begin[1:], keys.size) - 1
    first = np.flatnonzero(keys & 1)
    run = np.searchsorted(begin, first, side="right") - 1
    n_true = np.bincount(run, minlength=begin.size)
    mixed = np.zeros(len(keys), dtype=bool)
    mixed[begin[(n_true > 0) & (n_true <= end - begin)] // keys.shape[1]] = True
    nth = np.arange(first.size) - (np.cumsum(n_true) - n_true)[run]  # among the true ones of its run
    return mixed, {
        "first": first,
        "last": np.sort(begin[run] + end[run] - first),
        "best": begin[run] + nth,
        "worst": end[run] + 1 - n_true[run] + nth,
    }


def _sorted_keys(scores: np.ndarray, true: np.ndarray) -> np.ndarray:
    """The labels of each row in rank order, the lower index first among ties: place, index and, lowest bit, truth."""
    # Places are integers in 32 bits that fall where the scores rise; adding 0.0 turns -0.0 into 0.0.
    places = (compared(scores) + np.float32(0)).view(np.int32)
    places ^= (places >> 31) & 0x7FFFFFFF  # negative floats are stored as sign and magnitude
    keys = np.invert(places, out=places).astype(np.int64)
    keys <<= 32
    keys += np.arange(0, 2 * true.shape[1], 2)
    keys += true
    keys.sort(axis=1)
    return keys


def _rows_with_tied_truth(keys: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The rows in which a true label, at one of the flat ``positions``, shares its score with a neighbour."""
    n_labels = keys.shape[1]
    flat, column = keys.ravel(), positions % n_labels
    after, before = positions[column < n_labels - 1], positions[column > 0]
    tied_after = after[flat[after] >> 32 == flat[after + 1] >> 32]
    tied_before = before[flat[before] >> 32 == flat[before - 1] >> 32]
    return np.unique(np.concatenate([tied_after, tied_before]) // n_labels)


def _sum_up(positions: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The four rows of ``RankedTruth.by_order`` from the flat positions of true labels in rank order, rising."""
    n_rows, n_labels = shape
    row, place = np.divmod(positions, n_labels)
    rank = place + 1
    n_true = np.bincount(row, minlength=n_rows)
    before = np.cumsum(n_true) - n_true
    found = np.arange(1, positions.size + 1) - before[row]
    sums = np.zeros((4, n_rows))
    sums[0] = np.bincount(row, found / rank, minlength=n_rows)
    sums[1] = np.bincount(row, rank, minlength=n_rows)
    sums[2, row] = rank  # the last one stays, and ranks rise within a row
    sums[3, row[place == 0]] = 1
    return sums
