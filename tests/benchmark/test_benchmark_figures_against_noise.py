"""Scores against noise: the paper's plot from its own coordinates, and ours beside published numbers."""

import pytest
from figure_facts import all_inside, measured_like

from propml.benchmark.figures import noise_curve_data, noise_curves
from propml.noise import Noise
from propml.paper import load_published


def test_noise_rows_hold_every_published_number_and_every_mean_of_ours():
    published = load_published("artificial")
    rows = noise_curve_data([*published, *measured_like(published)])
    assert len(rows) == 2 * 5 * 3 * 6
    # Table II: Birds at 50 %, ProPML
    ours, printed = (row for row in rows if row[1:4] == ("birds", Noise("svm", 0.5), "ProPML"))
    assert printed in published
    assert ours.mean == pytest.approx(printed.mean - 1)
    assert ours.std == pytest.approx(0.5)
    levels = [row.noise.level for row in rows if (row.dataset, row.method, row.n) == ("birds", "ProPML", 2)]
    assert levels == [0.5, 1.0, 1.5]


def test_datasets_with_one_noise_level_or_real_candidates_are_left_out():
    published = [row for row in load_published() if row.noise in (Noise("svm", 0.5), None)]
    assert not noise_curve_data(published)


def test_the_papers_figure_of_voc2007():
    published = [row for row in load_published("vision") if row.dataset == "voc2007"]
    top_five = ["BCE", "ASL", "Query2Label", "CDCR", "ProPML"]
    figure, (axis,) = noise_curves(published, "mAP", methods=top_five)
    drawn = {line.get_label(): [tuple(xy) for xy in line.get_xydata()] for line in axis.lines}
    # the coordinates of the paper's plot
    assert drawn == {
        "published: BCE": [(0.1, 84.04), (0.2, 80.43), (0.4, 71.35)],
        "published: ASL": [(0.1, 86.62), (0.2, 83.89), (0.4, 74.99)],
        "published: Query2Label": [(0.1, 87.14), (0.2, 84.81), (0.4, 79.90)],
        "published: CDCR": [(0.1, 90.12), (0.2, 88.94), (0.4, 86.15)],
        "published: ProPML": [(0.1, 89.43), (0.2, 88.96), (0.4, 86.82)],
    }
    assert [text.get_text() for text in axis.get_xticklabels()] == ["0.1", "0.2", "0.4"]
    assert {line.get_linestyle() for line in axis.lines} == {"-"}
    assert all_inside(figure)


def test_ours_are_solid_and_published_numbers_dashed():
    published = load_published("artificial")
    figure, axes = noise_curves([*measured_like(published), *published], columns=3)
    assert len(axes) == 5
    for axis in axes:
        styles = {line.get_label(): line.get_linestyle() for line in axis.lines}
        assert len(styles) == 12
        assert all(style == ("-" if name.startswith("ours") else "--") for name, style in styles.items())
        colors = {name.split(": ")[1]: set() for name in styles}
        for line in axis.lines:
            colors[line.get_label().split(": ")[1]].add(line.get_color())
        assert all(len(color) == 1 for color in colors.values())
    assert all_inside(figure)


def test_metrics_with_the_papers_conventions_stand_beside_published_ones():
    published = load_published("artificial")
    results = [row._replace(metric=f"{row.metric}:paper") for row in measured_like(published)]
    rows = noise_curve_data([*results, *published], "coverage:paper", methods=["ProPML"])
    assert {(row.n, row.metric) for row in rows} == {(2, "coverage:paper"), (0, "coverage")}
