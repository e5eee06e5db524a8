"""Facts about wording: a level is written with the unit of its corruption, the same in every place."""

import pytest
from fake_cells import cell
from noisy_published import fold_results

from propml.benchmark.comparison import compare_means
from propml.benchmark.figures import critical_difference_stack, lambda_metrics, noise_curves
from propml.benchmark.figures.style import metric_title
from propml.benchmark.image_cell import ImageCell, ImageMethod
from propml.benchmark.reporting import build_report
from propml.benchmark.reporting.formats import escaped, latex, render_html, render_markdown, render_tables, sort_key
from propml.benchmark.results import Results, means
from propml.benchmark.runner import cell_title
from propml.benchmark.wording import (
    cell_command,
    counted,
    dataset_title,
    level_title,
    memory,
    noise_title,
    number,
    panel_title,
    run_command,
    seconds,
    setting_name,
    settings_text,
    signed,
)
from propml.noise import Noise, Setting
from propml.paper import Mean


def results_at(levels, kind="svm", n_datasets=1):
    return [
        each
        for place in range(n_datasets)
        for level in levels
        for value, method in ((10 + place, "A"), (20, "B"))
        for each in fold_results(
            "x", ("birds", "scene", "yeast")[place], Noise.read(level, kind), method, "one_error", [value]
        )
    ]


@pytest.mark.parametrize(("kind", "level", "title"), [("svm", 0.5, "50 %"), ("flips", 0.1, "0.1"), ("count", 3.0, "3")])
def test_the_unit_is_that_of_the_corruption(kind, level, title):
    noise = Noise(kind, level)
    assert noise_title(noise) == title
    assert level_title(noise) == f"q = {title}"
    assert setting_name("birds", noise) == f"birds {title}"
    assert setting_name(dataset_title("birds"), noise) == f"Birds {title}"
    assert panel_title(Setting("my-data", noise)) == f"my-data, q = {title}"


def test_real_candidates_have_no_level():
    assert noise_title(None) == level_title(None) == ""
    assert setting_name("yeastcc", None) == "yeastcc"
    assert panel_title(Setting("yeastcc", None)) == "YeastCC"


def test_levels_that_stand_together_share_a_unit():
    for kind, text in (("svm", "Birds at 2, 3 % and YeastCC"), ("count", "Birds at 2, 3 and YeastCC")):
        levels = [Setting("birds", Noise.read(level, kind)) for level in (2.0, 3.0)]
        assert settings_text([*levels, Setting("yeastcc", None)]) == text
    named = [Setting("birds", Noise.read(text)) for text in ("none", "svm 50")]
    assert settings_text(named) == "Birds at none, svm 50"


def test_a_cell_knows_its_corruption():
    assert cell_title(cell("A", noise=3.0, kind="count")) == "birds 3 A"
    assert cell_title(cell("A", noise=50.0, seed=2)) == "birds 50 % A, seed 2"
    images = ImageCell("x", "voc2007", Noise("flips", 0.4), ImageMethod("ProPML"), 0)
    assert cell_title(images) == "voc2007 0.4 ProPML"


@pytest.mark.parametrize(("kind", "shown"), [("count", "3"), ("svm", "3 %"), ("annotators", "3")])
def test_a_report_writes_the_unit_everywhere_alike(kind, shown):
    report = build_report(Results(results_at([2.0, 3.0], kind, n_datasets=3)), paper="none")
    page, markdown, latex = render_html(report), render_markdown(report), render_tables(report)
    assert f"<br>{shown}</button>" in page
    assert f"| {shown} " in markdown
    assert shown.replace("%", r"\%") + " & " in latex or shown.replace("%", r"\%") + r" \\" in latex
    for text in (page, markdown, latex):
        assert ("3 %" in text or r"3 \%" in text or "3\N{NO-BREAK SPACE}%" in text) == (kind == "svm")


def texts(figure):
    """Every text of a figure, labels of ticks and legends included."""
    figure.draw_without_rendering()
    return {text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))}


@pytest.mark.parametrize(("kind", "unit"), [("count", ""), ("svm", " %")])
def test_figures_write_the_same_unit(kind, unit):
    measured, three = means(results_at([2.0, 3.0], kind, n_datasets=3)), Noise.read(3.0, kind)
    assert {f"2{unit}", f"3{unit}"} <= texts(noise_curves(measured, "one_error")[0])
    against = [Mean("", "birds", three, lam, "average_precision", 50.0, 1.0) for lam in ("0.1", "0.2")]
    assert f"Birds, q = 3{unit}" in texts(lambda_metrics(against)[0])
    compared = {three: compare_means([row for row in measured if row.noise == three], ["one_error"])}
    assert f"q = 3{unit}" in texts(critical_difference_stack(compared)[0])


def test_numbers_are_written_with_the_digits_that_matter():
    nan = float("nan")
    assert [number(63.845), number(nan)] == ["63.84", "–"]
    assert [signed(value) for value in (0.1, -3, 0.001, nan)] == ["+0.10", "−3.00", "0.00", "–"]
    assert [seconds(value) for value in (0.0421, 7.31, 95, 7385)] == ["42 ms", "7.3 s", "1 min 35 s", "2 h 3 min"]
    assert [memory(5e6), memory(3.2 * 2**30)] == ["5 MiB", "3.2 GiB"]
    assert [counted(1, "cell"), counted(3, "dataset"), counted(2, "is", "are")] == ["1 cell", "3 datasets", "2 are"]


def test_names_are_written_as_the_paper_or_the_user_writes_them():
    birds = Setting("birds", Noise("svm", 0.5))
    assert [dataset_title("yeastbp"), dataset_title("my-data")] == ["YeastBP", "my-data"]
    assert level_title(Noise("flips", 0.1, named=True)) == "flips 0.1"
    assert settings_text([birds], among=[birds]) == "Birds"
    assert metric_title("one_error") == "One-error (%) ↓"


def test_commands_can_be_pasted_into_a_shell():
    again = "propml benchmark run artificial --datasets birds --noise 50 --methods 'Kernel ridge' --out reproduced"
    assert cell_command("artificial", Setting("birds", Noise("svm", 0.5)), "Kernel ridge") == again
    assert run_command("artificial") == "propml benchmark run artificial --out reproduced"


def test_text_shows_as_it_is_in_every_format():
    assert escaped("a|b *c*") == r"a\|b \*c\*"
    assert latex("50 % & x_1 ≤ λ") == r"50 \% \& x\_1 ? $\lambda$"
    values = (1.5, "Ridge", None, float("nan"), Noise("svm", 0.5))
    assert [sort_key(value) for value in values] == ["1.5", "Ridge", "", "", "50.0"]
