"""The figures of a report, each with what it shows in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from propml.benchmark.figures.critical_difference import critical_difference, critical_difference_stack
from propml.benchmark.figures.lambda_choice import lambda_choice, lambda_choice_data
from propml.benchmark.figures.lambda_curves import lambda_curves
from propml.benchmark.figures.noise_curves import noise_curve_data, noise_curves
from propml.benchmark.report.lams import lam_points
from propml.benchmark.report.model import Section
from propml.benchmark.report.ranks import RankComparison
from propml.benchmark.report.summary import own_tables
from propml.benchmark.results import Setting


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure with a name for links and files, a title, and sentences to stand below it."""

    name: str
    title: str
    figure: Any
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Pictures(NamedTuple):
    """Diagrams of mean ranks over all metrics and of one metric each, and curves."""

    together: list[Picture]
    single: list[Picture]
    curves: list[Picture]

    def shared_warnings(self) -> list[str]:
        """What is to be said of all the diagrams of one metric, once."""
        sets = [made.warnings for made in self.single]
        return [sentence for sentence in sets[0] if all(sentence in each for each in sets)] if len(sets) > 1 else []


def draw(section: Section) -> Pictures:
    """Draw everything that there is data for."""
    single = [made for made in section.ranks if made.single]
    together = [made for made in section.ranks if not made.single]
    return Pictures(_ranks(together), _ranks(single), [*_noise(section), *_lams(section)])


def _ranks(comparisons: Sequence[RankComparison]) -> list[Picture]:
    drawn = []
    for made in comparisons:
        if not made.parts:
            continue
        if len(made.parts) == 1:
            figure, _ = critical_difference(next(iter(made.parts.values())))
        else:
            figure, _ = critical_difference_stack(made.parts, corruption=made.corruption)
        drawn.append(Picture(f"ranks-{made.name}", made.title, figure, made.sentences, made.warnings))
    return drawn


def _noise(section: Section) -> list[Picture]:
    """The first metric against noise: ours, and the paper's."""
    if not section.tables:
        return []
    first = own_tables(section.tables)[0]
    metric, title = first.metric, first.title
    drawn = []
    if noise_curve_data(section.results, (), metric):
        figure, _ = noise_curves(section.results, (), metric, corruption=section.corruption)
        drawn.append(Picture("noise-ours", f"{title} against noise, ours", figure))
    if noise_curve_data((), section.published, metric):
        figure, _ = noise_curves((), section.published, metric)
        drawn.append(Picture("noise-paper", f"{title} against noise, the paper's numbers", figure))
    return drawn


def _lams(section: Section) -> list[Picture]:
    """What choosing without clean labels costs, and how much the score depends on λ."""
    drawn = []
    metric = section.tables[0].metric if section.tables else "average_precision"
    choices = lambda_choice_data(
        section.results, section.results, metric, oracle_method="ProPML (oracle)", published=section.published
    )
    if choices:
        figure, _ = lambda_choice(choices, metric, corruption=section.corruption)
        drawn.append(
            Picture(
                "lambda-choice",
                "λ chosen on candidates, beside λ chosen on test labels",
                figure,
            )
        )
    points = lam_points([row for row in section.chosen if row.method in ("ProPML", "ProPML (oracle)")])
    if points:
        chosen = {
            Setting(*line.setting): line.middle
            for line in section.lams
            if line.method == "ProPML" and line.part in ("", "network")
        }
        figure, _ = lambda_curves(
            points, chosen=chosen, published=None if section.published else {}, corruption=section.corruption
        )
        drawn.append(Picture("lambda-curves", "Average precision on test labels against λ", figure))
    return drawn
