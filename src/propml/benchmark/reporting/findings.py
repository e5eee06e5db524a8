"""What the numbers say, in sentences computed from them: what is best where, and which differences are significant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from propml.benchmark.comparison import blocks, compare_means
from propml.benchmark.reporting.tables import MetricTable
from propml.benchmark.statistics import Comparison, compare, rank_table, too_few_blocks
from propml.benchmark.wording import counted, listed, noise_title, settings_text
from propml.metrics import METRICS
from propml.noise import Noise, Setting, noise_order
from propml.paper.published import PAPER_SUFFIX, Mean, metric_of, own_name


class Finding(NamedTuple):
    """A sentence of the summary, and what it is about."""

    topic: str
    text: str


def own_tables(tables: Sequence[MetricTable]) -> list[MetricTable]:
    """One table per metric, the last one: it follows our own conventions where those were recorded."""
    return list({table.title: table for table in tables}.values())


# -- the summary ------------------------------------------------------------------------------------------------------


def summary(
    tables: Sequence[MetricTable], n_failed: int = 0, not_run: Sequence[tuple[Setting, str]] = ()
) -> list[Finding]:
    """The report in a few sentences: what is best where, and what is missing."""
    findings = [_best(table) for table in own_tables(tables) if table.best]
    if n_failed:
        findings.append(Finding("Failed", f"{counted(n_failed, 'cell')} failed; what they said stands below."))
    if not_run:
        known = dict.fromkeys(row.setting for table in tables for row in table.rows)
        where = settings_text(dict.fromkeys(setting for setting, _ in not_run), known, 12)
        cells = counted(len(not_run), "published cell has", "published cells have")
        findings.append(Finding("Not run", f"{cells} no number of ours: {where}."))
    return findings


def _best(table: MetricTable) -> Finding:
    """Who is best how often, and where the one with the most first places is."""
    places: dict[str, list[Setting]] = {}
    for setting, methods in table.best.items():
        for method in methods:
            places.setdefault(method, []).append(setting)
    (leader, first), *rest = sorted(places.items(), key=lambda item: -len(item[1]))
    where = settings_text(first, table.best)
    others = "".join(f"; {method} in {len(settings)}" for method, settings in rest[:5])
    text = f"{leader} is best in {len(first)} of {counted(len(table.best), 'setting')} ({where}){others}."
    return Finding(table.title, text)


# -- ranks ------------------------------------------------------------------------------------------------------------


class RankComparison(NamedTuple):
    """One diagram, or a stack of them over noise levels."""

    name: str  #: letters, digits and hyphens: for file names and links
    title: str
    parts: Mapping[Noise | str | None, Comparison]  #: by noise level, or ""; empty where nothing can be compared
    sentences: tuple[str, ...]  #: what was found, or why nothing was
    warnings: tuple[str, ...]  #: what to be careful about


def rank_comparisons(
    means: Sequence[Mean], published: Sequence[Mean], tuned: Collection[str] = ()
) -> list[RankComparison]:
    """All metrics together as the paper draws it, from its numbers and from ours, and then one metric at a time."""
    ours, metrics = fair_means(means, tuned)
    comparisons = []
    if published and len(metrics) > 1:
        printed = [name for name in METRICS if any(row.metric == name for row in published)]
        title = "The paper's numbers, all metrics together"
        comparisons.append(_ranks("paper", title, published, printed, by_noise=True))
    if len(metrics) > 1:
        comparisons.append(_ranks("ours", "Ours, all metrics together", ours, metrics, by_noise=True))
    for metric in metrics:
        name = f"by-{metric.lower().replace('_', '-').replace('@', '-')}"
        comparisons.append(_ranks(name, metric_of(metric).title, ours, [metric]))
    return comparisons


def _ranks(
    name: str, title: str, rows: Sequence[Mean], metrics: Sequence[str], *, by_noise: bool = False
) -> RankComparison:
    levels = sorted({row.noise for row in rows}, key=noise_order)
    by_level: dict[Any, Sequence[Mean]] = {"": rows}
    if by_noise and len(levels) > 1:
        by_level = {level: [row for row in rows if row.noise == level] for level in levels}
    parts, sentences, warnings = {}, [], []
    for level, some in by_level.items():
        where = level if level == "" else noise_title(level) or "real candidates"
        methods, left_out = comparable_methods(some, metrics)
        try:
            found = parts[level] = compare_means(some, metrics, methods=methods)
        except ValueError as error:
            sentences.append((where, [f"No diagram: {error}"]))
        else:
            sentences.append((where, [f"{listed(_leaders(found))} {_verdict(found, 'block')}"]))
            warnings.append((where, [*left_out, *found.warnings]))
    said = (tuple(": ".join(filter(None, each)) for each in _once(some)) for some in (sentences, warnings))
    return RankComparison(name, title, parts, *said)


def fair_means(means: Sequence[Mean], tuned: Collection[str]) -> tuple[list[Mean], list[str]]:
    """Our means under our own conventions, the paper's where nothing else was recorded; and their metrics."""
    recorded = {row.metric for row in means}
    ours = [
        row._replace(metric=own_name(row.metric))
        for row in means
        if row.method not in tuned and (not row.metric.endswith(PAPER_SUFFIX) or own_name(row.metric) not in recorded)
    ]
    return ours, [name for name in METRICS if any(row.metric == name for row in ours)]


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


def _leaders(found: Comparison) -> list[str]:
    """The methods that share the best mean rank; closer ones differ by rounding of floats only."""
    best = found.mean_ranks.min() + 1e-9
    return [found.names[i] for i in found.order() if found.mean_ranks[i] <= best]


def _verdict(found: Comparison, unit: str) -> str:
    """What the leaders have, whom they beat, and whom not: the end of a sentence that begins with them."""
    leaders = _leaders(found)
    has, them = ("has", "it") if len(leaders) == 1 else ("share", "them")
    head = f"{has} the best mean rank, {found.mean_ranks.min():.2f} over {counted(found.n_blocks, unit)}"
    beaten = found.better_than(leaders[0])
    if not beaten:
        few = too_few_blocks(len(found.names), found.n_blocks, found.alpha)
        why = f": {counted(found.n_blocks, f'{unit} is', f'{unit}s are')} too few to tell" if few else ""
        return f"{head}; no difference between {them} and another method is significant{why}."
    equal = [found.names[i] for i in found.order() if found.names[i] not in (*leaders, *beaten)]
    tail = f"; not than {listed(equal)}" if equal else ""
    test = f"Nemenyi test, α = {found.alpha:g}, critical difference {found.critical_difference:.3f}"
    return f"{head}; significantly better than {listed(beaten, 8)}{tail} ({test})."


def recommendation(means: Sequence[Mean], tuned: Collection[str] = ()) -> str:
    """Which method to take, and how sure that is; empty where there are no two to choose from.

    Each dataset ranks the methods once, by their mean rank over its noises and metrics, which are not independent.
    """
    ours, metrics = fair_means(means, tuned)
    methods, _ = comparable_methods(ours, metrics)
    ranks = []
    for dataset in dict.fromkeys(row.dataset for row in ours):
        # Not where there is one method, and where no setting has all of them.
        with suppress(ValueError):
            table = blocks([row for row in ours if row.dataset == dataset], metrics, methods=methods)
            ranks.append(rank_table(table.values, higher_is_better=table.higher_is_better).mean(axis=0))
    if not ranks:
        return ""
    found = compare(ranks, methods, higher_is_better=False)
    leaders = _leaders(found)
    text = f"Use {' or '.join(leaders)}: {'it' if len(leaders) == 1 else 'they'} {_verdict(found, 'dataset')}"
    absent = [name for name in dict.fromkeys(row.method for row in means) if name not in methods]
    why = "Not considered, for too few results or because test labels tuned them"
    return f"{text} {why}: {listed(absent)}." if absent else text
