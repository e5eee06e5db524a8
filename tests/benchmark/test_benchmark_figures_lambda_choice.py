"""Oracle against chosen λ: every setting once, as the difference that it is."""

import itertools

import numpy as np
import pytest
from figure_facts import all_inside, measured_like

from propml.benchmark.figures import ChoiceRow, lambda_choice, lambda_choice_data
from propml.benchmark.figures.style import measuring_renderer
from propml.benchmark.published import load_published
from propml.benchmark.results import Result


def test_choice_rows_are_the_settings_measured_both_ways():
    published = [row for row in load_published("artificial") if row.method == "ProPML"]
    oracle = [row for row in measured_like(published, shift=-2) if row.dataset != "scene"]
    rows = lambda_choice_data(measured_like(published, shift=-3), oracle, published=published)
    assert len(rows) == 12
    for row in rows:
        assert row.gap == pytest.approx(-1)
        assert row.published - row.oracle == pytest.approx(2)


def test_choice_from_one_list_in_which_the_oracle_has_its_own_name():
    rows = [
        Result("a", "birds", 50.0, name, 0, 0, "coverage", value)
        for name, value in (("ProPML", 0.3), ("ProPML (oracle)", 0.2))
    ]
    (row,) = lambda_choice_data(rows, rows, "coverage", oracle_method="ProPML (oracle)")
    assert (row.chosen, row.oracle, row.gap) == pytest.approx((30, 20, 10))
    assert np.isnan(row.published)


def test_the_choice_figure_draws_every_difference_once():
    rows = [ChoiceRow("birds", q, 60 - i, 61.5, 63.0 if i else np.nan) for i, q in enumerate((50.0, 100.0, 150.0))]
    figure, axis = lambda_choice(rows)
    lines = {line.get_label(): line.get_xydata() for line in axis.lines}
    assert lines["λ chosen on candidates"].tolist() == [[-1.5, 0], [-2.5, 1], [-3.5, 2]]
    assert lines["the oracle's λ, chosen on test labels"].tolist() == [[0, 0], [0, 1], [0, 2]]
    assert lines["published (λ chosen on test labels)"][1:].tolist() == [[1.5, 1], [1.5, 2]]
    assert [text.get_text() for text in axis.get_yticklabels()] == [f"Birds, q = {q} %" for q in (50, 100, 150)]
    assert {"60.0", "59.0", "58.0", "61.5"} <= {text.get_text() for text in axis.texts}
    assert all_inside(figure)
    renderer = measuring_renderer(figure)
    boxes = [text.get_window_extent(renderer) for text in axis.texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_a_choice_without_published_numbers_does_not_mention_them():
    figure, _ = lambda_choice([ChoiceRow("birds", None, 60, 61, np.nan)])
    assert len(figure.legends[0].get_texts()) == 2


def test_nothing_measured_both_ways_is_an_error():
    with pytest.raises(ValueError, match="measured both"):
        lambda_choice([])
