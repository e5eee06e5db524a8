"""The figures of a report, each with what it shows in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from propml.benchmark.figures.against_noise import noise_curve_data, noise_curves
from propml.benchmark.figures.critical_difference import critical_difference, critical_difference_stack
from propml.benchmark.figures.lambdas import lambda_choice, lambda_choice_data, lambda_curves, lambda_points
from propml.benchmark.reporting.findings import RankComparison
from propml.benchmark.reporting.model import Section

__all__ = ["Picture", "Pictures", "draw"]


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
        sets = [picture.warnings for picture in self.single]
        return [sentence for sentence in sets[0] if all(sentence in each for each in sets)] if len(sets) > 1 else []


def draw(section: Section) -> Pictures:
    """Draw everything that there is data for."""
    together, single = (_ranks([each for each in section.ranks if each.single == single]) for single in (False, True))
    return Pictures(together, single, [*_noise(section), *_lams(section)])


def _ranks(comparisons: Sequence[RankComparison]) -> list[Picture]:
    pictures = []
    for each in comparisons:
        if not each.parts:
            continue
        if len(each.parts) == 1:
            figure, _ = critical_difference(next(iter(each.parts.values())))
        else:
            figure, _ = critical_difference_stack(each.parts)
        pictures.append(Picture(f"ranks-{each.name}", each.title, figure, each.sentences, each.warnings))
    return pictures


def _noise(section: Section) -> list[Picture]:
    """The first metric against noise: ours, and the paper's."""
    if not section.tables:
        return []
    first = section.own_tables[0]
    sources = {"ours": ("ours", section.results.means()), "paper": ("the paper's numbers", section.published)}
    return [
        Picture(f"noise-{name}", f"{first.title} against noise, {words}", noise_curves(means, first.metric)[0])
        for name, (words, means) in sources.items()
        if noise_curve_data(means, first.metric)
    ]


def _lams(section: Section) -> list[Picture]:
    """What choosing without clean labels costs, and how much the score depends on λ."""
    pictures = []
    metric = section.tables[0].metric if section.tables else "average_precision"
    choices = lambda_choice_data([*section.results.means(), *section.published], metric)
    if choices:
        title = "λ chosen on candidates, beside λ chosen on test labels"
        pictures.append(Picture("lambda-choice", title, lambda_choice(choices, metric)[0]))
    points = lambda_points([cell for cell in section.results.done if cell.method in ("ProPML", "ProPML (oracle)")])
    if points:
        chosen = {
            line.setting: line.middle
            for line in section.lams
            if line.method == "ProPML" and line.part in ("", "network")
        }
        figure, _ = lambda_curves(points, chosen=chosen, published=None if section.published else {})
        pictures.append(Picture("lambda-curves", "Average precision on test labels against λ", figure))
    return pictures
