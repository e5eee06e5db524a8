"""What the paper's text claims of its results, beside what its own published numbers say."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from propml.benchmark.comparison import compare_means
from propml.noise import noise_order
from propml.paper.published import TABULAR_METRICS, Mean, load_published, metric_of

OURS, RIVAL = "ProPML", "PML-NI"


class Claim(NamedTuple):
    """A sentence of the paper, what its tables say to it, and whether they bear it out; None where that is open."""

    said: str
    found: str
    holds: bool | None


def check_claims() -> list[Claim]:
    """Every claim of the results section that numbers can settle."""
    real, artificial = load_published("real-world"), load_published("artificial")
    return [
        _places(real),
        _largest_gaps(real, 3.12, 1.55, "real-world"),
        _largest_gaps(artificial, 7.2, 1.6, "artificial"),
        _significant(real, artificial),
        _growing_gap(artificial),
        _vision(),
        Claim(
            "Hamming loss falls as λ grows; the method is stable in λ (real-world datasets)",
            "its figure of metrics against λ is not in the paper's source, and no table has more than one λ",
            None,
        ),
    ]


def _by_place(rows: Sequence[Mean]) -> dict[tuple[str, str, str], dict[str, float]]:
    """Values by dataset, noise and metric, then by method; signed so that more is better."""
    places: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in rows:
        sign = 1 if metric_of(row.metric).higher_is_better else -1
        key = (row.dataset, row.noise.title if row.noise else "", row.metric)
        places.setdefault(key, {})[row.method] = sign * row.mean
    return places


def _places(rows: Sequence[Mean]) -> Claim:
    ranks = [sum(v > values[OURS] for v in values.values()) for values in _by_place(rows).values()]
    best, near = ranks.count(0), sum(rank <= 1 for rank in ranks)
    said = "best or second best in 22 of 25 cases, best in 13 (real-world)"
    return Claim(said, f"best or second best in {near} of {len(ranks)}, best in {best}", (near, best) == (22, 13))


def _largest_gaps(rows: Sequence[Mean], precision: float, coverage: float, where: str) -> Claim:
    """By how much it leads the second best at most."""
    found, right = [], []
    for metric, said in (("average_precision", precision), ("coverage", coverage)):
        gaps = {
            f"{dataset} {noise}".strip(): values[OURS] - max(v for name, v in values.items() if name != OURS)
            for (dataset, noise, each), values in _by_place(rows).items()
            if each == metric
        }
        most = max(gaps, key=lambda place: gaps[place])
        text = f"{metric_of(metric).title.lower()} {gaps[most]:.2f} ({most})"
        right.append(round(gaps[most], 2) == said)
        if not right[-1]:
            text += "".join(f"; {said:g} is that of {place}" for place, gap in gaps.items() if round(gap, 2) == said)
        found.append(text)
    said_text = f"up to {precision:g} ahead of the second best in average precision, {coverage:g} in coverage ({where})"
    return Claim(said_text, "; ".join(found), all(right))


def _significant(real: Sequence[Mean], artificial: Sequence[Mean]) -> Claim:
    parts = {"real": real} | {
        noise.title: [row for row in artificial if row.noise == noise]
        for noise in sorted({row.noise for row in artificial if row.noise}, key=noise_order)
    }
    found = {name: compare_means(rows, TABULAR_METRICS) for name, rows in parts.items()}
    ranks = ", ".join(
        f"{name}: {OURS} {each.mean_ranks[each.names.index(OURS)]:.2f}, {RIVAL} "
        f"{each.mean_ranks[each.names.index(RIVAL)]:.2f}, the next {sorted(each.mean_ranks)[2]:.2f}"
        for name, each in found.items()
    )
    distance = found["real"].critical_difference
    holds = all(set(each.better_than(OURS)) == set(each.names) - {OURS, RIVAL} for each in found.values())
    return Claim(
        f"significantly better than all but {RIVAL} (all metrics, real-world and at each q)",
        f"mean ranks {ranks}; critical difference {distance:.3f} by Nemenyi's formula for 6 methods and 25 rows, which "
        f"are not independent",
        holds,
    )


def _growing_gap(rows: Sequence[Mean]) -> Claim:
    levels = sorted({row.noise for row in rows if row.noise}, key=noise_order)
    to_rest, to_next = [], []
    for noise in levels:
        found = compare_means([row for row in rows if row.noise == noise], TABULAR_METRICS)
        ranks = dict(zip(found.names, found.mean_ranks.tolist(), strict=True))
        others = [rank for name, rank in ranks.items() if name not in (OURS, RIVAL)]
        two = fmean([ranks[OURS], ranks[RIVAL]])
        to_rest.append(fmean(others) - two)
        to_next.append(min(others) - max(ranks[OURS], ranks[RIVAL]))
    at = " / ".join(noise.title for noise in levels)
    texts = [" / ".join(f"{gap:.2f}" for gap in gaps) for gaps in (to_rest, to_next)]
    return Claim(
        f"the gap of {OURS} and {RIVAL} to the rest grows with q",
        f"mean rank of the others minus that of the two at {at}: {texts[0]}; from the worse of the two to the next "
        f"method: {texts[1]}",
        (to_rest == sorted(to_rest)) if (to_rest == sorted(to_rest)) == (to_next == sorted(to_next)) else None,
    )


def _vision() -> Claim:
    rows = [
        row for row in load_published("vision") if row.dataset == "voc2007" and row.noise and row.noise.level == 0.4
    ]
    leads = {}
    for metric in ("mAP", "CF1"):
        values = {row.method: row.mean for row in rows if row.metric == metric}
        leads[metric] = round(values[OURS] - values["CDCR"], 2)
    found = ", ".join(f"{metric} {lead:.2f}" for metric, lead in leads.items())
    said = "0.67 points of mAP and 2.29 of CF1 ahead of CDCR on VOC2007 at q = 0.4"
    return Claim(said, found, leads == {"mAP": 0.67, "CF1": 2.29})
