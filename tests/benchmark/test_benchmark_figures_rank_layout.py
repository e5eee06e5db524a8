"""Geometry in points: labels in lines, bars on levels, ticks with room."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from propml.benchmark.figures.critical_difference import (
    LETTERS,
    TEXT,
    Frame,
    make_bars,
    make_labels,
    text_width,
    tick_ranks,
    wrapped,
)


@pytest.mark.parametrize(
    "name", ["PML-LRS (tuned on 40 settings)", "x" * 100, "a " * 30, "PAR-MAP/PAR-VLS_with,all;signs and spaces"]
)
def test_lines_are_not_too_wide_and_lose_no_letter(name):
    lines = wrapped(name).split("\n")
    assert len(lines) > 1
    assert all(len(line) <= LETTERS for line in lines)
    assert "".join("".join(lines).split()) == "".join(name.split())


def test_words_are_broken_only_if_one_alone_is_too_wide():
    assert wrapped("alpha beta gamma delta epsilon").replace("\n", " ") == "alpha beta gamma delta epsilon"


def test_lines_are_about_as_long_as_one_another():
    widths = [text_width(line, TEXT) for line in wrapped("Method with a rather long name 0").split("\n")]
    assert min(widths) > 0.4 * max(widths)


def test_bold_text_is_wider():
    assert text_width("ProPML", TEXT, "bold") > text_width("ProPML", TEXT)


def test_empty_names_are_left_alone():
    assert wrapped("") == ""


def test_the_better_half_stands_left_and_the_outermost_first():
    left, right = make_labels(list("abcde"), [3.0, 1.0, 5.0, 2.0, 4.0])
    assert [label.name for label in left] == ["b", "d", "a"]
    assert [label.name for label in right] == ["c", "e"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(1, 9).map(lambda rank: round(rank, 1)), min_size=2, max_size=9),
    st.lists(st.sets(st.integers(0, 8), min_size=1), max_size=12),
)
def test_bars_of_one_level_are_apart(ranks, groups):
    cliques = [sorted(i for i in group if i < len(ranks)) for group in groups]
    bars = make_bars(cliques, ranks, points_per_rank=20)
    assert len(bars) == sum(len(clique) > 1 for clique in cliques)
    for one, other in itertools.combinations(bars, 2):
        assert one.level != other.level or one.last < other.first or other.last < one.first
    # levels are filled from the axis on
    assert {bar.level for bar in bars} == set(range(len({bar.level for bar in bars})))


@pytest.mark.parametrize("n_ranks", [2, 3, 6, 14, 20, 60])
def test_ticks_have_room_and_begin_at_one(n_ranks):
    frame = Frame(n_ranks, 50, 50, 170)
    ticks = tick_ranks(frame)
    assert ticks[0] == 1
    assert all(1 <= tick <= n_ranks for tick in ticks)
    wide = text_width("60", 9)
    assert all((b - a) * frame.points_per_rank > wide for a, b in itertools.pairwise(ticks))
