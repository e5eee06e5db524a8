"""Curves over λ: the numbers drawn are the numbers given, and the paper's λ is marked."""

from dataclasses import replace

import pytest
from figure_facts import all_inside, labelled
from noisy_published import at, fold_results

from propml.benchmark.figures import lambda_means, lambda_metrics
from propml.benchmark.reporting import write_report
from propml.benchmark.results import CellResult, FoldResult, Results
from propml.noise import Setting
from propml.paper import Mean
from propml.paper.published import TABULAR_METRICS

LAMS = (0.01, 0.1, 1.0)
REAL = [Setting(name, None) for name in ("mirflickr", "yeastbp", "yeastcc")]


def rows(settings, metrics=("average_precision",)):
    return [
        Mean("λ", *setting, str(lam), metric, 50 + 10 * i, 1.0, 4)
        for setting in settings
        for metric in metrics
        for i, lam in enumerate(LAMS)
    ]


def test_all_metrics_against_lambda_as_in_the_papers_figure():
    figure, axes = lambda_metrics(rows(REAL, TABULAR_METRICS))
    assert [axis.get_title(loc="left") for axis in axes] == ["MIRFlickr", "YeastBP", "YeastCC"]
    for axis in axes:
        assert [len(labelled(axis.lines, metric)) for metric in TABULAR_METRICS] == [1] * 5
    vertical = [[line.get_xdata()[0] for line in axis.lines if len(set(line.get_xdata())) == 1] for axis in axes]
    # the paper gives no λ for YeastBP
    assert vertical == [[0.1], [], [0.07]]
    assert all_inside(figure)


def test_a_metric_that_was_not_measured_is_left_out():
    figure, (axis,) = lambda_metrics(rows(REAL[:1]), ("average_precision", "coverage"), published={})
    assert len(axis.lines) == 1
    assert len(figure.legends[0].get_texts()) == 1


def cells_with(lams, dataset="birds", **params):
    """Cells of which each has its λ in its settings; coverage is the same in both folds."""
    return [
        replace(cell, settings={"params": {"loss": "propml", "lam": lam, **params}})
        for lam in lams
        for cell in fold_results("λ", dataset, 50, f"λ={lam}", "coverage", [25, 25])
    ]


def test_means_from_an_experiment_in_which_every_lambda_is_a_method():
    found = lambda_means(cells_with([0.1, 1]))
    assert [row.setting for row in found] == [Setting("birds", at(50))] * 2
    assert [(row.method, row.metric, row.mean, row.std, row.n) for row in found] == [
        ("0.1", "coverage", 25.0, 0.0, 2),
        ("1.0", "coverage", 25.0, 0.0, 2),
    ]


def test_a_single_lambda_a_chosen_one_and_another_loss_are_no_curve():
    assert not lambda_means(cells_with([0.1]))
    assert not lambda_means(cells_with(["auto", 0.1]))
    assert not lambda_means(cells_with([0.1, 1.0], loss="bce"))
    mixed = lambda_means([*cells_with([0.1, 1.0]), *cells_with([0.1], dataset="scene")])
    assert {row.dataset for row in mixed} == {"birds"}


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
        lambda_metrics([])
