"""Critical-difference diagrams: the geometry of what is drawn, and the paper's diagrams recomputed."""

import itertools

import numpy as np
import pytest
from figure_facts import labelled
from hypothesis import given, settings
from hypothesis import strategies as st

from propml.benchmark.comparison import compare_means
from propml.benchmark.figures.critical_difference import (
    critical_difference,
    critical_difference_stack,
    make_bars,
)
from propml.benchmark.figures.style import WIDTH, measuring_renderer
from propml.benchmark.statistics import compare
from propml.noise import Noise
from propml.paper import load_published
from propml.paper.published import TABULAR_METRICS

LONG = "ProPML with λ chosen on held-out candidates"


def comparison(k, *, ties=False, n_blocks=12, spread=2.0):
    """Methods with long names, hyphens, one endless word and dollar signs, that differ by ``spread`` / k a step."""
    rng = np.random.default_rng(k)
    values = rng.normal(size=(n_blocks, k)) - np.linspace(0, spread * k / 4, k)
    if ties:
        values[:, 1::2] = values[:, : 2 * (k // 2) : 2]
    names = [f"{LONG}, number {i}" if i % 3 == 0 else f"PML-NI-{i}" for i in range(k)]
    names[1] = "ProPML"
    if k > 4:
        names[3], names[4] = "Donaudampfschifffahrtsgesellschaft", "cost $5_{x}$"
    return compare(values, names, higher_is_better=True)


def boxes(figure, axes):
    renderer = measuring_renderer(figure)
    figure.draw(renderer)
    return [text.get_window_extent(renderer) for axis in axes for text in axis.texts]


def overlap(one, other):
    """The area that two boxes share, in square pixels."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return max(width, 0) * max(height, 0)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("k", [2, 3, 6, 14, 20])
def test_no_two_texts_overlap_and_all_lie_inside(k, ties):
    figure, axes = critical_difference(comparison(k, ties=ties), title=LONG * 2)
    found = boxes(figure, [axes])
    assert len(found) > 2 * k
    for one, other in itertools.combinations(found, 2):
        assert overlap(one, other) == 0
    for box in found:
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
        assert box.y0 >= 0
        assert box.y1 <= figure.bbox.height


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("k", [2, 6, 14, 20])
def test_no_two_bars_touch(k, ties):
    found = comparison(k, ties=ties)
    _, axes = critical_difference(found)
    spans = {}
    for bar in labelled(axes.lines, "bar"):
        spans.setdefault(bar.get_ydata()[0], []).append(tuple(bar.get_xdata()))
    for level in spans.values():
        assert all(left[1] < right[0] for left, right in itertools.pairwise(sorted(level)))
    heights = sorted(spans)
    widest = max((bar.get_linewidth() for bar in labelled(axes.lines, "bar")), default=0)
    # y counts points, as line widths do
    assert all(lower - upper > widest for upper, lower in itertools.pairwise(heights))
    assert bool(heights) == bool(found.cliques)


@pytest.mark.parametrize("k", [6, 14])
def test_every_clique_has_a_bar_over_its_members_and_over_no_one_else(k):
    found = comparison(k, spread=6.0)
    assert len(found.cliques) > 1
    _, axes = critical_difference(found)
    drawn = set()
    for bar in labelled(axes.lines, "bar"):
        start, stop = bar.get_xdata()
        drawn.add(tuple(i for i, rank in enumerate(found.mean_ranks) if start < rank < stop))
    assert drawn == {tuple(sorted(clique)) for clique in found.cliques}


@pytest.mark.parametrize("k", [2, 7, 20])
def test_lines_lead_from_the_rank_to_the_name_and_do_not_cross(k):
    found = comparison(k)
    _, axes = critical_difference(found)
    elbows = labelled(axes.lines, "elbow")
    assert sorted(line.get_xdata()[0] for line in elbows) == pytest.approx(sorted(found.mean_ranks))
    for one, other in itertools.permutations(elbows, 2):
        (x, _, _), (top, bottom, _) = one.get_data()
        (start, _, end), (_, _, y) = other.get_data()
        crosses = min(start, end) < x < max(start, end) and top < y < bottom
        assert not crosses


def test_the_papers_real_world_diagram():
    found = compare_means(load_published("real-world"), TABULAR_METRICS)
    # "significantly better than all baseline methods except PML-NI"
    assert found.better_than("ProPML") == ("CPLST", "PAR-MAP", "PAR-VLS", "ML-kNN")
    _, axes = critical_difference(found)
    (ruler,) = labelled(axes.lines, "ruler")
    assert np.diff(ruler.get_xdata()) == pytest.approx(1.508, abs=5e-4)
    assert "CD = 1.51" in [text.get_text() for text in axes.texts]
    points = [line.get_xdata()[0] for line in labelled(axes.lines, "method")]
    assert sorted(points) == pytest.approx([1.64, 2.44, 3.52, 3.80, 4.24, 5.36])


def test_the_best_is_on_the_left():
    _, axes = critical_difference(comparison(6))
    low, high = axes.get_xlim()
    assert low < 1
    assert high > 6


def test_the_stack_over_noise_shares_its_axis():
    published = load_published("artificial")
    levels = [Noise("svm", level) for level in (0.5, 1.0, 1.5)]
    comparisons = {q: compare_means([row for row in published if row.noise == q], TABULAR_METRICS) for q in levels}
    figure, axes = critical_difference_stack(comparisons)
    assert len(axes) == 3
    assert len({axis.get_xlim() for axis in axes}) == 1
    assert [labelled(axis.texts, "title")[0].get_text() for axis in axes] == ["q = 50 %", "q = 100 %", "q = 150 %"]
    best = [min(line.get_xdata()[0] for line in labelled(axis.lines, "method")) for axis in axes]
    assert best == pytest.approx([1.72, 2.10, 2.12])
    # one ruler for all, since all have the same
    assert [len(labelled(axis.lines, "ruler")) for axis in axes] == [1, 0, 0]
    found = boxes(figure, axes)
    assert all(overlap(one, other) == 0 for one, other in itertools.combinations(found, 2))
    for upper, lower in itertools.pairwise(axes):
        assert lower.get_position().y1 <= upper.get_position().y0 + 1e-9


def test_a_stack_of_different_comparisons_has_room_for_all():
    figure, axes = critical_difference_stack(
        {"few": comparison(3), "many blocks": comparison(8, n_blocks=40), None: comparison(8)}
    )
    found = boxes(figure, axes)
    assert all(overlap(one, other) == 0 for one, other in itertools.combinations(found, 2))
    assert [len(labelled(axis.lines, "ruler")) for axis in axes] == [1, 1, 1]
    assert {len(labelled(axis.lines, "tick")) for axis in axes} == {8}


def test_short_names_fit_a_phone():
    figure, _ = critical_difference(compare_means(load_published("real-world"), TABULAR_METRICS))
    assert figure.get_size_inches()[0] < 1.02 * WIDTH


def test_long_names_widen_the_figure_little():
    figure, _ = critical_difference(comparison(20))
    assert figure.get_size_inches()[0] < 1.4 * WIDTH


def test_a_ruler_longer_than_the_axis_ends_at_the_axis():
    found = compare([[3, 2, 1, 0]] * 2, list("abcd"), higher_is_better=True)
    assert found.critical_difference > 3
    _, axes = critical_difference(found)
    (ruler,) = labelled(axes.lines, "ruler")
    assert ruler.get_xdata()[1] == 4
    assert f"CD = {found.critical_difference:.2f}" in [text.get_text() for text in axes.texts]


def test_one_method_can_be_set_off():
    found = comparison(6)
    colors = {}
    for name in ("ProPML", None):
        _, axes = critical_difference(found, highlight=name)
        colors[name] = {line.get_color() for line in labelled(axes.lines, "elbow")}
    assert len(colors["ProPML"]) == 2
    assert len(colors[None]) == 1


def test_nothing_to_stack_is_an_error():
    with pytest.raises(ValueError, match="no comparison"):
        critical_difference_stack({})


def test_the_better_half_stands_left_and_the_outermost_first():
    blocks = [[3.0, 1.0, 5.0, 2.0, 4.0]] * 2
    _, axes = critical_difference(compare(blocks, list("abcde"), higher_is_better=False))
    names = labelled(axes.texts, "name")
    sides = [[text.get_text() for text in names if text.get_ha() == side] for side in ("right", "left")]
    assert sides == [["b", "d", "a"], ["c", "e"]]


def test_names_are_broken_into_lines_and_lose_no_letter():
    names = ["PML-LRS (tuned on 40 settings)", "x" * 100, "alpha beta gamma delta"]
    _, axes = critical_difference(compare([[1, 2, 3]] * 4, names, higher_is_better=True))
    shown = {"".join(text.get_text().split()) for text in labelled(axes.texts, "name")}
    assert shown == {"".join(name.split()) for name in names}
    assert "alpha beta gamma\ndelta" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("n_ranks", [2, 6, 14, 60])
def test_numbers_of_the_axis_begin_at_one_and_have_room(n_ranks):
    figure, axes = critical_difference(comparison(n_ranks))
    renderer = measuring_renderer(figure)
    numbers = labelled(axes.texts, "tick")
    assert numbers[0].get_text() == "1"
    found = [text.get_window_extent(renderer) for text in numbers]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(found))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(1, 9).map(lambda rank: round(rank, 1)), min_size=2, max_size=9),
    st.lists(st.sets(st.integers(0, 8), min_size=1), max_size=12),
)
def test_bars_of_one_level_are_apart(ranks, groups):
    cliques = [sorted(i for i in group if i < len(ranks)) for group in groups]
    bars = make_bars(cliques, ranks, 0.15)
    assert len(bars) == sum(len(clique) > 1 for clique in cliques)
    for (first, last, level), (start, stop, other) in itertools.combinations(bars, 2):
        assert level != other or last < start or stop < first
    # levels are filled from the axis on
    assert {level for *_, level in bars} == set(range(len({level for *_, level in bars})))
