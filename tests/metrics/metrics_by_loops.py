"""The definitions of the metrics, written as plain loops over one row after the other: slow, and easy to believe."""

from statistics import fmean

TIE_BREAKS = {
    "first": lambda label, true: label,
    "last": lambda label, true: -label,
    "best": lambda label, true: not true,
    "worst": lambda label, true: bool(true),
}


def ranks_of(true_row, score_row, order):
    """The rank of every label, 1 for the highest score."""
    labels = sorted(range(len(score_row)), key=lambda j: (-score_row[j], TIE_BREAKS[order](j, true_row[j])))
    return {label: place + 1 for place, label in enumerate(labels)}


def average_precision_of_row(true_row, score_row, order):
    rank = ranks_of(true_row, score_row, order)
    true = [j for j in rank if true_row[j]]
    return fmean(sum(rank[k] <= rank[j] for k in true) / rank[j] for j in true)


def coverage_of_row(true_row, score_row, order):
    rank = ranks_of(true_row, score_row, order)
    return (max((rank[j] for j in rank if true_row[j]), default=0) - 1) / len(rank)


def ranking_loss_of_row(true_row, score_row, order):
    rank = ranks_of(true_row, score_row, order)
    pairs = [(j, k) for j in rank for k in rank if true_row[j] and not true_row[k]]
    return fmean(rank[j] > rank[k] for j, k in pairs)


def one_error_of_row(true_row, score_row, order):
    rank = ranks_of(true_row, score_row, order)
    return float(not true_row[min(rank, key=rank.get)])


ROW_METRICS = {
    "average_precision": average_precision_of_row,
    "coverage": coverage_of_row,
    "ranking_loss": ranking_loss_of_row,
    "one_error": one_error_of_row,
}


def by_loops(metric, truth, scores, ties):
    """The mean over valid rows."""
    orders = ("first", "last") if ties == "mean" else (ties,)
    rows = [i for i in range(len(truth)) if 0 < sum(truth[i]) < len(truth[i])]
    return fmean(ROW_METRICS[metric](truth[i], scores[i], order) for i in rows for order in orders)


def matlab_ranking_loss(truth, scores):
    """A pair is wrong where the true label's score is not strictly greater."""
    losses = []
    for true_row, score_row in zip(truth, scores, strict=True):
        true = [s for t, s in zip(true_row, score_row, strict=True) if t]
        false = [s for t, s in zip(true_row, score_row, strict=True) if not t]
        if true and false:
            losses.append(sum(a <= b for a in true for b in false) / (len(true) * len(false)))
    return fmean(losses)


def matlab_one_error(truth, scores):
    """A row is right where any label that attains the maximum is true."""
    errors = []
    for true_row, score_row in zip(truth, scores, strict=True):
        if 0 < sum(true_row) < len(true_row):
            errors.append(not any(t for t, s in zip(true_row, score_row, strict=True) if s == max(score_row)))
    return fmean(errors)


def class_average_precision(truth, scores, label, order):
    """The average precision of one class over the examples."""
    return average_precision_of_row([row[label] for row in truth], [row[label] for row in scores], order)
