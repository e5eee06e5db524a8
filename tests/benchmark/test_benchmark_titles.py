"""Facts about titles: a level is written with the unit of its corruption, the same in every place."""

import pytest
from fake_cells import cell
from noisy_published import fold_results

from propml.benchmark.figures.critical_difference import critical_difference_stack
from propml.benchmark.figures.lambda_choice import ChoiceRow, lambda_choice
from propml.benchmark.figures.lambda_curves import LambdaPoint, lambda_curves, lambda_metrics
from propml.benchmark.figures.noise_curves import noise_curves
from propml.benchmark.image_cell import ImageCell, ImageMethod
from propml.benchmark.noise_levels import LEVELS
from propml.benchmark.report import build_report
from propml.benchmark.report.html import render_html
from propml.benchmark.report.latex import render_tables
from propml.benchmark.report.markdown import render_markdown
from propml.benchmark.report.measured import Measured
from propml.benchmark.report.wording import settings_text
from propml.benchmark.results import Setting
from propml.benchmark.run_progress import cell_title
from propml.benchmark.statistics import compare_results
from propml.benchmark.titles import level_title, noise_title, noise_unit, panel_title, setting_name, setting_title

SETTINGS = {"name": "A", "params": {}, "selection": "candidates"}


def results_at(levels, n_datasets=1):
    return [
        row
        for place in range(n_datasets)
        for level in levels
        for value, method in ((10 + place, "A"), (20, "B"))
        for row in fold_results("x", ("birds", "scene", "yeast")[place], level, method, "one_error", [value])
    ]


@pytest.mark.parametrize(
    ("noise", "corruption", "title"),
    [
        (50.0, "svm", "50 %"),
        (1.0, "svm", "1 %"),
        (0.5, "svm", "0.5 %"),
        (0.1, "flips", "0.1"),
        (1.0, "flips", "1"),
        (3.0, "count", "3"),
        (1.0, "fraction", "1"),
        (0.2, "annotators", "0.2"),
        (50.0, None, "50 %"),
        (0.4, None, "0.4"),
        (1.0, None, "1"),
        (0.0, None, "0"),
    ],
)
def test_the_unit_is_that_of_the_corruption(noise, corruption, title):
    assert noise_title(noise, corruption) == title
    assert level_title(noise, corruption) == f"q = {title}"
    assert setting_name("birds", noise, corruption) == f"birds {title}"
    assert setting_title(Setting("birds", noise), corruption) == f"Birds {title}"
    assert panel_title(Setting("my-data", noise), corruption) == f"my-data, q = {title}"


def test_real_candidates_have_no_level():
    for corruption in (None, *LEVELS):
        assert noise_title(None, corruption) == level_title(None, corruption) == ""
        assert setting_name("yeastcc", None, corruption) == "yeastcc"
        assert setting_title(Setting("yeastcc", None), corruption) == panel_title(Setting("yeastcc", None)) == "YeastCC"


def test_levels_that_stand_together_share_a_unit():
    assert noise_unit([0.5, 150]) == " %"
    assert noise_unit([0.5, 1]) == ""
    settings = [Setting("birds", 2.0), Setting("birds", 3.0), Setting("yeastcc", None)]
    assert settings_text(settings) == "Birds at 2, 3 % and YeastCC"
    assert settings_text(settings, corruption="count") == "Birds at 2, 3 and YeastCC"


def test_a_cell_knows_its_corruption():
    assert cell_title(cell("A", noise=3.0, corruption="count")) == "birds 3 A"
    assert cell_title(cell("A", noise=50.0, seed=2)) == "birds 50 % A, seed 2"
    assert cell_title(ImageCell("x", "voc2007", 0.4, ImageMethod("ProPML"), 0)) == "voc2007 0.4 ProPML"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], None),
        ([{**SETTINGS, "candidates": {"corruption": "count", "noise": 3.0}}] * 2, "count"),
        ([{**SETTINGS, "candidates": {}}], None),
        ([{**SETTINGS, "kind": "images"}], "flips"),
        ([{**SETTINGS, "candidates": {}}, {**SETTINGS, "candidates": {"corruption": "svm"}}], "svm"),
        ([{**SETTINGS, "kind": "images"}, {**SETTINGS, "candidates": {"corruption": "svm"}}], None),
    ],
)
def test_what_is_kept_of_cells_tells_the_corruption(settings, expected):
    assert Measured([], settings={"x": settings}).corruption() == expected


@pytest.mark.parametrize(("corruption", "shown"), [("count", "3"), ("svm", "3 %"), ("flips", "3")])
def test_a_report_writes_the_unit_everywhere_alike(corruption, shown):
    kept = {"x": [{**SETTINGS, "candidates": {"corruption": corruption, "noise": 3.0}}]}
    report = build_report(Measured(results_at([2.0, 3.0], n_datasets=3), settings=kept), paper="none")
    page, markdown, latex = render_html(report), render_markdown(report), render_tables(report)
    assert f"<br>{shown}</button>" in page
    assert f">{shown}</td>" in page
    assert f"| {shown} " in markdown
    assert shown.replace("%", r"\%") + " & " in latex or shown.replace("%", r"\%") + r" \\" in latex
    assert f"2 noise levels ({shown.replace('3', '2')} and {shown})" in markdown
    for text in (page, markdown, latex):
        assert ("3 %" in text or r"3 \%" in text or "3\N{NO-BREAK SPACE}%" in text) == (corruption == "svm")


def texts(figure):
    """Every text of a figure, labels of ticks and legends included."""
    figure.draw_without_rendering()
    return {text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))}


@pytest.mark.parametrize(("corruption", "unit"), [("count", ""), ("svm", " %"), (None, " %")])
def test_figures_write_the_same_unit(corruption, unit):
    measured = results_at([2.0, 3.0], n_datasets=3)
    curves, _ = noise_curves(measured, (), "one_error", corruption=corruption)
    assert {f"2{unit}", f"3{unit}"} <= texts(curves)
    points = [LambdaPoint("birds", 3.0, 0, lam, "average_precision", lam) for lam in (0.1, 0.2)]
    assert f"q = 3{unit}" in texts(lambda_curves(points, corruption=corruption)[0])
    assert f"Birds, q = 3{unit}" in texts(lambda_metrics(points, corruption=corruption)[0])
    choice, _ = lambda_choice([ChoiceRow("birds", 3.0, 60.0, 61.0, float("nan"))], corruption=corruption)
    assert f"Birds, q = 3{unit}" in texts(choice)
    compared = {3.0: compare_results([row for row in measured if row.noise == 3.0], ["one_error"])}
    assert f"q = 3{unit}" in texts(critical_difference_stack(compared, corruption=corruption)[0])
