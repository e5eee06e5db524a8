"""Which differences are more than chance: the comparisons of mean ranks that a report draws, and what they say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from propml.benchmark.metric_names import PAPER_SUFFIX, metric_of
from propml.benchmark.noise_levels import noise_order
from propml.benchmark.published import Published
from propml.benchmark.report.wording import counted, listed
from propml.benchmark.results import Noise, Result, Setting
from propml.benchmark.statistics import Comparison, compare_results
from propml.benchmark.titles import noise_title
from propml.metrics import METRICS

Measurement = Result | Published


@dataclass(frozen=True)
class RankComparison:
    """One diagram, or a stack of them over noise levels.

    Attributes
    ----------
    name : str
        Letters, digits and hyphens: for file names and links.
    title : str
    single : bool
        Whether it is about one metric, and not about all together.
    parts : mapping of noise level or "" to Comparison
        Empty where nothing can be compared; ``sentences`` then say why.
    sentences, warnings : tuple of str
        What was found, and what to be careful about.
    corruption : str or None
        What the noise levels are levels of, where that is known.
    """

    name: str
    title: str
    single: bool
    parts: Mapping[Noise | str, Comparison]
    sentences: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    corruption: str | None = None


def rank_comparisons(
    results: Sequence[Result],
    published: Sequence[Published],
    tuned: Collection[str] = (),
    corruption: str | None = None,
) -> list[RankComparison]:
    """All metrics together as the paper draws it, from its numbers and from ours, and then one metric at a time.

    Methods in ``tuned`` saw test labels, and take no part; ``corruption`` made the candidates of ours.
    """
    recorded = {row.metric for row in results}
    # Ours under our own conventions; under the paper's only where nothing else was recorded.
    ours = [
        row._replace(metric=row.metric.removesuffix(PAPER_SUFFIX))
        for row in results
        if row.method not in tuned
        and (not row.metric.endswith(PAPER_SUFFIX) or row.metric.removesuffix(PAPER_SUFFIX) not in recorded)
    ]
    metrics = [name for name in METRICS if any(row.metric == name for row in ours)]
    made = []
    if published and len(metrics) > 1:
        printed = [name for name in METRICS if any(row.metric == name for row in published)]
        made.append(_by_noise("paper", "The paper's numbers, all metrics together", published, printed))
    if len(metrics) > 1:
        made.append(_by_noise("ours", "Ours, all metrics together", ours, metrics, corruption))
    made += [
        _comparison(
            f"by-{metric.lower().replace('_', '-').replace('@', '-')}",
            metric_of(metric).title,
            ours,
            [metric],
        )
        for metric in metrics
    ]
    return made


def _by_noise(
    name: str, title: str, rows: Sequence[Measurement], metrics: Sequence[str], corruption: str | None = None
) -> RankComparison:
    levels = sorted({row.noise for row in rows}, key=noise_order)
    if len(levels) == 1:
        return _comparison(name, title, rows, metrics)
    made = {level: _comparison(name, title, [row for row in rows if row.noise == level], metrics) for level in levels}
    return RankComparison(
        name,
        title,
        len(metrics) == 1,
        {level: part for level, one in made.items() for part in one.parts.values()},
        _once({level: one.sentences for level, one in made.items()}, corruption),
        _once({level: one.warnings for level, one in made.items()}, corruption),
        corruption,
    )


def _once(sentences: Mapping[Noise, Sequence[str]], corruption: str | None) -> tuple[str, ...]:
    """Sentences of several levels; one that holds for more than one level is said once, with the levels in front."""
    levels: dict[str, list[str]] = {}
    for level, said in sentences.items():
        for sentence in said:
            levels.setdefault(sentence, []).append(noise_title(level, corruption) or "real candidates")
    return tuple(f"{listed(names)}: {text}" for text, names in levels.items())


def _comparison(name: str, title: str, rows: Sequence[Measurement], metrics: Sequence[str]) -> RankComparison:
    methods, left_out = comparable_methods(rows, metrics)
    if len(methods) < 2:
        return RankComparison(name, title, len(metrics) == 1, {}, ("No diagram: it takes two methods to compare.",))
    try:
        found = compare_results(rows, metrics, methods=methods)
    except ValueError as error:
        return RankComparison(name, title, len(metrics) == 1, {}, (f"No diagram: {error}",))
    return RankComparison(
        name, title, len(metrics) == 1, {"": found}, tuple(_findings(found)), (*left_out, *found.warnings)
    )


def comparable_methods(rows: Sequence[Measurement], metrics: Sequence[str]) -> tuple[list[str], list[str]]:
    """The methods to compare, and a sentence on each that has less than half of the results of the fullest one.

    Ranks need every method in every block, so that a method with few results would cost all the others theirs.
    """
    places: dict[str, set[tuple[Setting, str]]] = {}
    for row in rows:
        if row.metric in metrics:
            places.setdefault(row.method, set()).add((Setting(row.dataset, row.noise), row.metric))
    most = max((len(where) for where in places.values()), default=0)
    kept = [method for method, where in places.items() if 2 * len(where) >= most]
    sentences = [
        f"{method} takes no part: it has results in {len(where)} of {most} places."
        for method, where in places.items()
        if method not in kept
    ]
    return kept, sentences


def _findings(found: Comparison) -> list[str]:
    """The leader, whom it beats, and whom it does not."""
    order = found.order()
    leader = found.names[order[0]]
    beaten = found.better_than(leader)
    equal = [found.names[i] for i in order[1:] if found.names[i] not in beaten]
    blocks = counted(found.friedman.n_blocks, "block")
    head = f"{leader} has the best mean rank, {found.mean_ranks[order[0]]:.2f} over {blocks}"
    if not beaten:
        return [f"{head}; no difference between it and another method is significant."]
    tail = f"; not than {listed(equal)}" if equal else ""
    test = f"Nemenyi test, α = {found.alpha:g}, critical difference {found.critical_difference:.3f}"
    return [f"{head}; it is significantly better than {listed(beaten, 8)}{tail} ({test})."]
