"""What the numbers say, in sentences computed from them: what is best where, and which differences are significant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from propml.benchmark.comparison import blocks, compare_means
from propml.benchmark.reporting.tables import MetricTable
from propml.benchmark.statistics import Comparison, compare, rank_table, too_few_blocks
from propml.benchmark.wording import counted, dataset_title, listed, noise_title, setting_name, settings_text, signed
from propml.metrics import METRICS
from propml.noise import Noise, Setting, noise_order
from propml.paper.published import PAPER_SUFFIX, Mean, metric_of, own_name

# Folds and seeds alone move a mean by about this much, in points of percent.
TOLERANCE = 1.0


class Finding(NamedTuple):
    """A sentence of the summary, and what it is about."""

    topic: str
    text: str


def own_tables(tables: Sequence[MetricTable]) -> list[MetricTable]:
    """One table per metric: ours under our own conventions where both were recorded."""
    chosen = {table.title: table for table in tables if table.by_paper_rules}
    chosen |= {table.title: table for table in tables if not table.by_paper_rules}
    return sorted(chosen.values(), key=tables.index)


# -- the summary ------------------------------------------------------------------------------------------------------


def summary(
    tables: Sequence[MetricTable], n_failed: int = 0, not_run: Sequence[tuple[Setting, str]] = ()
) -> list[Finding]:
    """The report in a few sentences: what was measured, what is best where, and how that compares with the paper."""
    findings = [_scope(tables), *filter(None, map(_best, own_tables(tables))), *_beside_paper(tables)]
    if n_failed:
        findings.append(Finding("Failed", f"{counted(n_failed, 'cell')} failed; what they said stands below."))
    if not_run:
        known = dict.fromkeys(row.setting for table in tables for row in table.rows)
        where = settings_text(dict.fromkeys(setting for setting, _ in not_run), known, 12)
        cells = counted(len(not_run), "published cell has", "published cells have")
        findings.append(Finding("Not run", f"{cells} no number of ours: {where}."))
    return findings


def _scope(tables: Sequence[MetricTable]) -> Finding:
    measured = {(r.setting, c.method): c.ours.n for t in tables for r in t.rows for c in r.cells if c.ours}
    if not measured:
        return Finding("Measured", "Nothing yet.")
    methods, datasets = {m for _, m in measured}, {s.dataset for s, _ in measured}
    noises = sorted({s.noise for s, _ in measured if s.noise is not None}, key=noise_order)
    at = f" at {counted(len(noises), 'noise level')} ({listed([n.title for n in noises])})" if noises else ""
    runs = sorted(set(measured.values()))
    values = counted(runs[0], "value") if len(runs) == 1 else f"{runs[0]} to {runs[-1]} values"
    what = f"{counted(len(methods), 'method')} on {counted(len(datasets), 'dataset')}{at}"
    each = " each" if len(measured) > 1 else ""
    return Finding("Measured", f"{what}: {counted(len(measured), 'mean')} of {values} (folds times seeds){each}.")


def _best(table: MetricTable) -> Finding | None:
    """Who is best how often, and where the one with the most first places is."""
    places: dict[str, list[Setting]] = {}
    for setting, methods in table.best.items():
        for method in methods:
            places.setdefault(method, []).append(setting)
    if not places:
        return None
    (leader, first), *rest = sorted(places.items(), key=lambda item: -len(item[1]))
    others = listed([f"{method} in {len(where)}" for method, where in rest], 5)
    where = settings_text(first, table.best)
    if len(table.best) == 1:
        text = f"{listed(list(places))} {'is' if not rest else 'are'} best on {where}"
    elif len(first) == len(table.best):
        text = f"{leader} is best everywhere" + (f"; as good are {others}" if others else "")
    else:
        text = f"{leader} is best in {len(first)} of {len(table.best)} settings ({where}); {others}"
    return Finding(table.title, f"{text}.")


def _beside_paper(tables: Sequence[MetricTable]) -> list[Finding]:
    cells = [(table, row.setting, cell) for table in tables for row in table.rows for cell in row.cells]
    gains = [(gain, *where) for where in cells if (gain := where[0].gain(where[2])) is not None]
    if not gains:
        return []
    better, worse = (sum(sign * gain > TOLERANCE for gain, *_ in gains) for sign in (1, -1))
    close = len(gains) - better - worse
    text = (
        f"Of {counted(len(gains), 'number')} that the paper prints too, {counted(close, 'lies', 'lie')} within "
        f"{TOLERANCE:g} point, {counted(better, 'is', 'are')} better by more and {counted(worse, 'is', 'are')} worse "
        f"by more."
    )
    far = []
    for side, pick, is_far in (("better", max, better), ("worse", min, worse)):
        _, table, setting, cell = pick(gains, key=lambda each: each[0])
        if is_far and cell.difference is not None:
            where = setting_name(dataset_title(setting.dataset), setting.noise)
            gap = f"{signed(cell.difference)} ({table.title}, {where})"
            far.append(f"furthest on the {side} side: {cell.method} {gap}")
    if far:
        text += f" {listed(far)}.".replace(" furthest", " Furthest", 1)
    return [Finding("Beside the paper", text)]


# -- ranks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankComparison:
    """One diagram, or a stack of them over noise levels."""

    name: str  #: letters, digits and hyphens: for file names and links
    title: str
    parts: Mapping[Noise | str | None, Comparison]  #: by noise level, or ""; empty where nothing can be compared
    sentences: tuple[str, ...]  #: what was found, or why nothing was
    warnings: tuple[str, ...] = ()  #: what to be careful about


def rank_comparisons(
    means: Sequence[Mean], published: Sequence[Mean], tuned: Collection[str] = ()
) -> list[RankComparison]:
    """All metrics together as the paper draws it, from its numbers and from ours, and then one metric at a time."""
    ours, metrics = fair_means(means, tuned)
    comparisons = []
    if published and len(metrics) > 1:
        printed = [name for name in METRICS if any(row.metric == name for row in published)]
        comparisons.append(_by_noise("paper", "The paper's numbers, all metrics together", published, printed))
    if len(metrics) > 1:
        comparisons.append(_by_noise("ours", "Ours, all metrics together", ours, metrics))
    for metric in metrics:
        name = f"by-{metric.lower().replace('_', '-').replace('@', '-')}"
        comparisons.append(_comparison(name, metric_of(metric).title, ours, [metric]))
    return comparisons


def fair_means(means: Sequence[Mean], tuned: Collection[str]) -> tuple[list[Mean], list[str]]:
    """Our means under our own conventions, the paper's where nothing else was recorded; and their metrics."""
    recorded = {row.metric for row in means}
    ours = [
        row._replace(metric=own_name(row.metric))
        for row in means
        if row.method not in tuned and (not row.metric.endswith(PAPER_SUFFIX) or own_name(row.metric) not in recorded)
    ]
    return ours, [name for name in METRICS if any(row.metric == name for row in ours)]


def _by_noise(name: str, title: str, rows: Sequence[Mean], metrics: Sequence[str]) -> RankComparison:
    levels = sorted({row.noise for row in rows}, key=noise_order)
    if len(levels) == 1:
        return _comparison(name, title, rows, metrics)
    by_level = {noise: _comparison(name, title, [r for r in rows if r.noise == noise], metrics) for noise in levels}
    said = [(noise_title(noise) or "real candidates", each) for noise, each in by_level.items()]
    return RankComparison(
        name,
        title,
        {noise: part for noise, each in by_level.items() for part in each.parts.values()},
        tuple(map(": ".join, _once((level, each.sentences) for level, each in said))),
        tuple(map(": ".join, _once((level, each.warnings) for level, each in said))),
    )


def _once(said: Iterable[tuple[str, Sequence[str]]]) -> list[Finding]:
    """Sentences by what they are about; one that is said of several is said once, of all of them."""
    topics: dict[str, list[str]] = {}
    for topic, sentences in said:
        for sentence in sentences:
            topics.setdefault(sentence, []).append(topic)
    return [Finding(listed(names, len(names)), text) for text, names in topics.items()]


def cautions(comparisons: Iterable[RankComparison]) -> list[Finding]:
    """What to be careful about, by the titles of the diagrams that it holds for."""
    return _once((each.title, each.warnings) for each in comparisons)


def _comparison(name: str, title: str, rows: Sequence[Mean], metrics: Sequence[str]) -> RankComparison:
    methods, left_out = comparable_methods(rows, metrics)
    if len(methods) < 2:
        return RankComparison(name, title, {}, ("No diagram: it takes two methods to compare.",))
    try:
        comparison = compare_means(rows, metrics, methods=methods)
    except ValueError as error:
        return RankComparison(name, title, {}, (f"No diagram: {error}",))
    sentences, warnings = (_leader(comparison),), (*left_out, *comparison.warnings)
    return RankComparison(name, title, {"": comparison}, sentences, warnings)


def comparable_methods(rows: Sequence[Mean], metrics: Sequence[str]) -> tuple[list[str], list[str]]:
    """The methods to compare, and a sentence on each that has less than half of the results of the fullest one."""
    # Ranks need every method in every block: a method with few results would cost all the others theirs.
    places: dict[str, set[tuple[Setting, str]]] = {}
    for row in rows:
        if row.metric in metrics:
            places.setdefault(row.method, set()).add((row.setting, row.metric))
    most = max((len(where) for where in places.values()), default=0)
    kept = [method for method, where in places.items() if 2 * len(where) >= most]
    sentences = [
        f"{method} takes no part: it has results in {len(where)} of {most} places."
        for method, where in places.items()
        if method not in kept
    ]
    return kept, sentences


def _leader(comparison: Comparison) -> str:
    """The leader, whom it beats, and whom it does not."""
    order = comparison.order()
    leader = comparison.names[order[0]]
    beaten = comparison.better_than(leader)
    equal = [comparison.names[i] for i in order[1:] if comparison.names[i] not in beaten]
    blocks = counted(comparison.n_blocks, "block")
    head = f"{leader} has the best mean rank, {comparison.mean_ranks[order[0]]:.2f} over {blocks}"
    if not beaten:
        return f"{head}; no difference between it and another method is significant."
    tail = f"; not than {listed(equal)}" if equal else ""
    test = f"Nemenyi test, α = {comparison.alpha:g}, critical difference {comparison.critical_difference:.3f}"
    return f"{head}; it is significantly better than {listed(beaten, 8)}{tail} ({test})."


# -- which method to take: by mean ranks, and no surer than the numbers allow ------------------------------------------


def recommendation(means: Sequence[Mean], tuned: Collection[str] = ()) -> str:
    """Which method to take, and how sure that is; empty where there are no two to choose from.

    Each dataset ranks the methods once, by their mean rank over its noises and metrics, which are not independent.
    """
    ours, metrics = fair_means(means, tuned)
    methods, _ = comparable_methods(ours, metrics)
    places = _places(ours, metrics, methods) if len(methods) > 1 else {}
    if not places:
        return ""
    found = compare(list(places.values()), methods, higher_is_better=False)
    ordered = [found.names[i] for i in found.order()]
    best = found.mean_ranks.min() + 1e-9  # closer ones differ by rounding of floats only
    leaders = [name for name in ordered if found.mean_ranks[found.names.index(name)] <= best]
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
