"""Curves over λ: the numbers drawn are the numbers given, and the chosen λ lies where it was chosen."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from figure_facts import all_inside, labelled, measured_like
from noisy_published import at, fold_results

from propml.benchmark.figures import (
    given_lambda_points,
    lambda_choice,
    lambda_choice_data,
    lambda_curve_data,
    lambda_curves,
    lambda_metrics,
)
from propml.benchmark.figures.lambdas import ChoiceRow, LambdaPoint
from propml.benchmark.figures.style import measuring_renderer
from propml.benchmark.reporting import write_report
from propml.benchmark.results import CellResult, FoldResult, Results, means
from propml.noise import Setting
from propml.paper import load_published, published_lams
from propml.paper.metric_names import TABULAR_METRICS

LAMS = (0.01, 0.1, 1.0)
ARTIFICIAL = [Setting(name, noise) for name in ("birds", "scene", "enron") for noise in map(at, (50, 100, 150))]
REAL = [Setting(name, None) for name in ("mirflickr", "yeastbp", "yeastcc")]


def points(settings, metrics=("average_precision",), n_folds=4):
    return [
        LambdaPoint(setting, fold, lam, metric, 0.5 + 0.1 * i + 0.01 * fold - 0.001 * j)
        for j, setting in enumerate(settings)
        for metric in metrics
        for i, lam in enumerate(LAMS)
        for fold in range(n_folds)
    ]


def test_lambda_rows_are_means_and_deviations_over_folds():
    rows = lambda_curve_data(reversed(points(REAL)))
    assert len(rows) == len(REAL) * len(LAMS)
    assert [row.lam for row in rows[:3]] == list(LAMS)
    first = next(row for row in rows if row.setting.dataset == "mirflickr" and row.lam == 0.01)
    # folds 50, 51, 52, 53 %
    assert first.mean == pytest.approx(51.5)
    assert first.std == pytest.approx(np.sqrt(5 / 3))
    assert first.n == 4


def test_lambda_curves_have_a_panel_per_dataset_and_a_line_per_noise_level():
    given = points(ARTIFICIAL)
    figure, axes = lambda_curves(given)
    assert [axis.get_title(loc="left") for axis in axes] == ["Birds", "Scene", "Enron"]
    rows = lambda_curve_data(given)
    for axis, dataset in zip(axes, ("birds", "scene", "enron"), strict=True):
        curves = labelled(axis.lines, "average_precision")
        assert len(curves) == 3
        drawn = sorted(tuple(xy) for curve in curves for xy in curve.get_xydata())
        expected = sorted((row.lam, row.mean) for row in rows if row.setting.dataset == dataset)
        np.testing.assert_allclose(drawn, expected)
        assert axis.get_xscale() == "log"
    assert all_inside(figure)


def test_the_chosen_and_the_papers_lambda_lie_on_the_curve():
    setting = Setting("birds", at(50))
    _, (axis,) = lambda_curves(points([setting]), chosen={setting: [0.1, 0.1, 1.0]})
    (chosen,) = labelled(axis.lines, "λ chosen on candidates")
    # the middle one of the folds; at λ = 0.1 the mean is 60 % and 1.5 for the folds
    assert chosen.get_xydata()[0] == pytest.approx([0.1, 61.5])
    (paper,) = labelled(axis.lines, "the paper's λ")
    lam, value = paper.get_xydata()[0]
    assert lam == published_lams()[setting] == 0.09
    share = (np.log(0.09) - np.log(0.01)) / (np.log(0.1) - np.log(0.01))
    assert value == pytest.approx(51.5 + 10 * share)


def test_a_lambda_beyond_the_curve_is_marked_on_the_axis():
    setting = Setting("birds", at(50))
    _, (axis,) = lambda_curves(points([setting]), chosen={setting: 5.0}, published={})
    (chosen,) = labelled(axis.lines, "λ chosen on candidates")
    assert chosen.get_xydata()[0].tolist() == [5.0, 0.04]
    assert chosen.get_transform() == axis.get_xaxis_transform()
    assert not labelled(axis.lines, "the paper's λ")
    assert axis.get_xlim()[1] > 5


def test_only_marks_that_are_drawn_are_explained():
    figure, _ = lambda_curves(points([Setting("my-data", at(50))]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["q = 50 %"]


def test_all_metrics_against_lambda_as_in_the_papers_figure():
    figure, axes = lambda_metrics(points(REAL, TABULAR_METRICS), chosen={REAL[0]: 0.2})
    assert [axis.get_title(loc="left") for axis in axes] == ["MIRFlickr", "YeastBP", "YeastCC"]
    for axis in axes:
        assert [len(labelled(axis.lines, metric)) for metric in TABULAR_METRICS] == [1] * 5
    vertical = [[line.get_xdata()[0] for line in axis.lines if len(set(line.get_xdata())) == 1] for axis in axes]
    # the paper gives no λ for YeastBP
    assert vertical == [[0.2, 0.1], [], [0.07]]
    assert all_inside(figure)


def test_a_metric_that_was_not_measured_is_left_out():
    figure, (axis,) = lambda_metrics(points(REAL[:1]), ("average_precision", "coverage"), published={})
    assert len(axis.lines) == 1
    assert len(figure.legends[0].get_texts()) == 1


def cells_with(lams, dataset="birds", **params):
    """Cells of which each has its λ in its settings; coverage is the same in both folds."""
    return [
        replace(cell, settings={"params": {"loss": "propml", "lam": lam, **params}})
        for lam in lams
        for cell in fold_results("λ", dataset, 50, f"λ={lam}", "coverage", [25, 25])
    ]


def test_points_from_an_experiment_in_which_every_lambda_is_a_method():
    found = given_lambda_points(cells_with([0.1, 1]))
    assert found[0] == LambdaPoint(Setting("birds", at(50)), 0, 0.1, "coverage", 0.25)
    assert [point.lam for point in found] == [0.1, 0.1, 1.0, 1.0]


def test_a_single_lambda_a_chosen_one_and_another_loss_are_no_curve():
    assert not given_lambda_points(cells_with([0.1]))
    assert not given_lambda_points(cells_with(["auto", 0.1]))
    assert not given_lambda_points(cells_with([0.1, 1.0], loss="bce"))
    mixed = given_lambda_points([*cells_with([0.1, 1.0]), *cells_with([0.1], dataset="scene")])
    assert {point.setting.dataset for point in mixed} == {"birds"}


def report_on(metrics, values, folder):
    """The files of a report on an experiment in which every λ was measured by some metrics."""
    cells = [
        CellResult(
            "lambda",
            "yeastcc",
            None,
            f"ProPML λ={lam}",
            0,
            settings={"params": {"loss": "propml", "lam": lam}},
            folds=(FoldResult(0, values=dict(zip(metrics, some, strict=True))),),
        )
        for lam, some in values.items()
    ]
    return {path.name: path for path in write_report(Results(cells), folder, formats=["md", "svg"])}


def test_a_report_on_several_lambdas_draws_the_papers_figure_and_says_what_it_shows(tmp_path):
    values = {0.1: (0.6, 0.3), 0.3: (0.7, 0.2), 1.0: (0.65, 0.1)}
    files = report_on(("average_precision", "hamming_loss"), values, tmp_path)
    assert "lambda-lambda-metrics.svg" in files
    told = (
        "YeastCC, λ from 0.1 to 1: average precision between 60.00 and 70.00, best at λ = 0.3; Hamming loss from 30.00 "
        "to 10.00, lower after 2 of 2 steps."
    )
    assert f"* **Against λ.** {told}" in files["report.md"].read_text()


def test_metrics_of_images_are_drawn_where_there_are_no_others(tmp_path):
    files = report_on(("mAP",), {0.1: (0.4,), 1.0: (0.5,)}, tmp_path)
    assert "mAP" in files["lambda-lambda-metrics.svg"].read_text()
    assert "Against λ" not in files["report.md"].read_text()


def test_no_points_is_an_error():
    with pytest.raises(ValueError, match="nothing to draw"):
        lambda_curves([])


# -- oracle against chosen λ: every setting once, as the difference that it is ----------------------------------------


def test_choice_rows_are_the_settings_measured_both_ways():
    published = [row for row in load_published("artificial") if row.method == "ProPML"]
    tuned = measured_like(published, shift=-2, method="ProPML (oracle)")
    oracle = [row for row in tuned if row.dataset != "scene"]
    rows = lambda_choice_data([*measured_like(published, shift=-3), *oracle, *published])
    assert len(rows) == 12
    for row in rows:
        assert row.gap == pytest.approx(-1)
        assert row.published - row.oracle == pytest.approx(2)


def test_the_names_of_the_two_ways_may_be_given():
    cells = [
        cell
        for name, value in (("A", 30), ("B", 20))
        for cell in fold_results("a", "birds", 50, name, "coverage", [value])
    ]
    assert lambda_choice_data(means(cells), "coverage") == []
    (row,) = lambda_choice_data(means(cells), "coverage", method="A", oracle="B")
    assert (row.chosen, row.oracle, row.gap) == pytest.approx((30, 20, 10))
    assert np.isnan(row.published)


def test_the_choice_figure_draws_every_difference_once():
    settings = [Setting("birds", at(q)) for q in (50, 100, 150)]
    rows = [ChoiceRow(setting, 60 - i, 61.5, 63.0 if i else np.nan) for i, setting in enumerate(settings)]
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
    figure, _ = lambda_choice([ChoiceRow(Setting("birds", None), 60, 61, np.nan)])
    assert len(figure.legends[0].get_texts()) == 2


def test_nothing_measured_both_ways_is_an_error():
    with pytest.raises(ValueError, match="measured both"):
        lambda_choice([])
