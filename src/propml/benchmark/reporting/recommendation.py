"""Which method to take, in words: by mean ranks, and no surer than the numbers allow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean

import numpy as np

from propml.benchmark.comparison import blocks
from propml.benchmark.reporting.findings import comparable_methods, fair_means
from propml.benchmark.statistics import Comparison, compare, rank_table, too_few_blocks
from propml.benchmark.wording import counted, dataset_title, listed
from propml.paper.metric_names import metric_of
from propml.paper.published import Mean

# Mean ranks closer than this differ by rounding of floats only.
SAME = 1e-9


def recommendation(means: Sequence[Mean], tuned: Collection[str] = ()) -> str:
    """Which method to take, and how sure that is; empty where there are no two to choose from.

    Each dataset ranks the methods once, by their mean rank over its noises and metrics: settings of one dataset are not
    independent, so that tests count datasets. Methods in ``tuned`` saw test labels, and take no part.
    """
    ours, metrics = fair_means(means, tuned)
    methods, _ = comparable_methods(ours, metrics)
    places = _places(ours, metrics, methods) if len(methods) > 1 else {}
    if not places:
        return ""
    found = compare(list(places.values()), methods, higher_is_better=False)
    ordered = [found.names[i] for i in found.order()]
    best = found.mean_ranks.min()
    leaders = [name for name in ordered if found.mean_ranks[found.names.index(name)] <= best + SAME]
    parts = [
        _leaders(places, found, leaders, counted(len(metrics), "metric")),
        _margin(ours, metrics[0], leaders, [name for name in ordered if name not in leaders]),
        _certainty(found, leaders),
    ]
    absent = [name for name in dict.fromkeys(row.method for row in means) if name not in methods]
    if absent:
        parts.append(f"Not considered, for too few results or because test labels tuned them: {listed(absent)}.")
    return " ".join(filter(None, parts))


def _places(ours: Sequence[Mean], metrics: Sequence[str], methods: Sequence[str]) -> dict[str, np.ndarray]:
    """The mean ranks of the methods on each dataset that has all of them in some setting."""
    places = {}
    for dataset in dict.fromkeys(row.dataset for row in ours):
        try:
            table = blocks([row for row in ours if row.dataset == dataset], metrics, methods=methods)
        except ValueError:  # no setting has all methods
            continue
        places[dataset] = rank_table(table.values, higher_is_better=table.higher_is_better).mean(axis=0)
    return places


def _leaders(places: dict[str, np.ndarray], found: Comparison, leaders: Sequence[str], over: str) -> str:
    one = len(leaders) == 1
    what = f"{'it has' if one else 'they share'} the best mean rank of {len(found.names)} methods by {over}"
    if len(places) == 1:
        return f"Use {' or '.join(leaders)}: on {dataset_title(*places)} {what}."
    ranks = rank_table(list(places.values()), higher_is_better=False)
    near = [int((ranks[:, found.names.index(name)] <= 2).sum()) for name in leaders]
    counts = str(near[0]) if one else listed([f"{n} ({name})" for name, n in zip(leaders, near, strict=True)])
    return (
        f"Use {' or '.join(leaders)}: {what}, and {'is' if one else 'are'} first or second on {counts} of "
        f"{len(places)} datasets."
    )


def _margin(ours: Sequence[Mean], metric: str, leaders: Sequence[str], others: Sequence[str]) -> str:
    """How much better the leader is than the next one by the first metric, where both were measured."""
    values = {
        name: {row.setting: row.mean for row in ours if (row.metric, row.method) == (metric, name)}
        for name in (leaders[0], *others[:1])
    }
    both = set.intersection(*(set(each) for each in values.values()))
    if not others or not both:
        return ""
    mean, other = (round(fmean(each[setting] for setting in both), 1) for each in values.values())
    title, higher = metric_of(metric)
    gap = f"{abs(mean - other):.1f} points {'better' if (mean > other) == higher else 'worse'} than"
    whose = "Its" if len(leaders) == 1 else f"{leaders[0]}'s"
    return (
        f"{whose} {title.lower() if title[1].islower() else title} is {mean:.1f} % on average, "
        f"{gap if mean != other else 'as good as'} that of {others[0]}, the next by rank."
    )


def _certainty(found: Comparison, leaders: Sequence[str]) -> str:
    if found.n_blocks == 1:
        return "One dataset cannot tell whether this holds on others."
    beaten = found.better_than(leaders[0])
    equal = [name for name in found.names if name not in (*beaten, *leaders)]
    if beaten:
        tail = f"; the difference to {listed(equal)} is not significant" if equal else ""
        return f"{listed(beaten, 8)} {'is' if len(beaten) == 1 else 'are'} significantly worse, over datasets{tail}."
    few = too_few_blocks(len(found.names), found.n_blocks, found.alpha)
    why = f": {found.n_blocks} datasets are too few to tell" if few else ""
    return f"No difference between the methods is significant{why}; take this as a hint."
