"""Tables of blocks from results and from published numbers, and the warnings that only they can give."""

import numpy as np
import pytest

from propml.benchmark.published import Published, load_published
from propml.benchmark.results import Result
from propml.benchmark.statistics import blocks, compare_results


def results(
    dataset: str,
    noise: float | None,
    method: str,
    *values: float,
    metric: str = "average_precision",
    experiment: str = "toy",
) -> list[Result]:
    return [Result(experiment, dataset, noise, method, 0, fold, metric, value) for fold, value in enumerate(values)]


def two_methods(dataset: str, noise: float | None = None, **options: str) -> list[Result]:
    return results(dataset, noise, "A", 0.4, 0.6, **options) + results(dataset, noise, "B", 0.3, 0.5, **options)


def test_means_over_folds_in_percent():
    table = blocks(two_methods("birds") + two_methods("birds", metric="coverage"), ["average_precision", "coverage"])
    np.testing.assert_allclose(table.values, [[50, 40], [50, 40]])
    assert table.names == ("A", "B")
    assert table.labels == ("birds: Average precision", "birds: Coverage")
    assert table.higher_is_better.tolist() == [True, False]


def test_methods_are_chosen_and_ordered():
    rows = two_methods("birds", 50) + results("birds", 50, "C", 0.1, 0.3)
    table = blocks(rows, "average_precision", methods=["C", "A"])
    assert table.names == ("C", "A")
    np.testing.assert_allclose(table.values, [[20, 50]])
    assert table.labels == ("birds at noise 50: Average precision",)


def test_sums_in_another_order_tie():
    rows = results("birds", None, "A", 0.1, 0.2, 0.3) + results("birds", None, "B", 0.3, 0.2, 0.1)
    means = [sum(row.value for row in rows[:3]) / 3, sum(row.value for row in rows[3:]) / 3]
    assert means[0] != means[1]
    values = blocks(rows, "average_precision").values
    assert values[0, 0] == values[0, 1]


def test_a_setting_without_one_of_the_methods_is_left_out_and_named():
    rows = [
        *two_methods("birds", 50),
        *results("birds", 100, "A", 0.5),
        *results("scene", 50, "A", 0.5),
        *results("enron", 50, "B", float("nan")),
        *results("enron", 50, "A", 0.5),
        *results("medical", 50, "B", 0.5),
    ]
    table = blocks(rows, ["average_precision"])
    assert len(table.values) == 1
    assert table.warnings == (
        "Left out, because B has no result there: birds at noise 100; scene at noise 50; enron at noise 50.",
        "Left out, because A has no result there: medical at noise 50.",
    )


def test_where_only_some_metrics_miss_they_are_named():
    rows = [
        *two_methods("birds"),
        *two_methods("birds", metric="coverage"),
        *two_methods("scene"),
        *results("scene", None, "A", 0.5, metric="coverage"),
    ]
    table = blocks(rows, ["average_precision", "coverage"])
    assert len(table.values) == 3
    assert table.warnings[0] == "Left out, because B has no result there: scene (coverage)."


def test_settings_that_none_of_the_chosen_methods_has_are_no_loss():
    rows = two_methods("birds") + results("scene", None, "C", 0.5)
    assert blocks(rows, "average_precision", methods=["A", "B"]).warnings == ()


def test_means_over_fewer_folds_are_named():
    rows = results("birds", None, "A", 0.4, 0.6, 0.5) + results("birds", None, "B", 0.3) + two_methods("scene")
    assert blocks(rows, "average_precision").warnings == (
        "Means over different numbers of folds or seeds are compared: birds (A 3, B 1).",
    )


def test_independent_blocks_need_no_warning():
    assert blocks(two_methods("birds", 50) + two_methods("scene", 50), "average_precision").warnings == ()


@pytest.mark.parametrize(
    ("experiment", "metrics", "n_blocks", "reasons"),
    [
        ("real-world", ["average_precision", "coverage"], 10, "several metrics of the same predictions"),
        ("artificial", ["one_error"], 15, "several noise levels of the same dataset"),
        (
            "artificial",
            ["one_error", "coverage"],
            30,
            "several metrics of the same predictions and several noise levels of the same dataset",
        ),
    ],
)
def test_dependent_blocks(experiment, metrics, n_blocks, reasons):
    assert blocks(load_published(experiment), metrics).warnings == (
        f"The {n_blocks} blocks are not independent: they hold {reasons}, of 5 datasets in all. "
        "The tests find differences too easily.",
    )


def test_slips_in_coding_are_named():
    sentence = "The Hamming losses of CPLST and ML-kNN follow the paper's slips in coding, and so do their ranks."
    published = load_published("real-world")
    assert blocks(published, "hamming_loss").warnings == (sentence,)
    assert blocks(published, "hamming_loss", methods=["PML-NI", "ProPML"]).warnings == ()
    ours = [row for row in two_methods("birds", metric="hamming_loss") if row.method == "A"]
    ours += results("birds", None, "ML-kNN", 0.2, 0.3, metric="hamming_loss")
    assert blocks(ours, "hamming_loss").warnings == ()
    paper = [row._replace(metric="hamming_loss:paper") for row in ours]
    assert blocks(paper, "hamming_loss:paper").warnings == (
        "The Hamming losses of ML-kNN follow the paper's slips in coding, and so do their ranks.",
    )


def test_ours_beside_published_methods():
    published = [row for row in load_published("artificial") if row.dataset == "birds"]
    ours = [
        row for noise in (50, 100, 150) for row in results("birds", noise, "ours", 0.7, 0.8, experiment="artificial")
    ]
    table = blocks(published + ours, "average_precision", methods=["ours", "ProPML"])
    np.testing.assert_allclose(table.values, [[75, 66.88], [75, 66.77], [75, 62.02]])


def test_one_number_from_two_sources_is_an_error():
    with pytest.raises(ValueError, match="A on birds at noise 50 is in both experiment toy and experiment other; pass"):
        blocks(two_methods("birds", 50) + two_methods("birds", 50, experiment="other"), "average_precision")
    published = Published("toy", "birds", 50, "A", "average_precision", 50.0, 1.0)
    with pytest.raises(ValueError, match="is in both the published toy and experiment toy"):
        blocks([published, *two_methods("birds", 50)], "average_precision")


@pytest.mark.parametrize(
    ("metrics", "methods", "message"),
    [
        ("accuracy", None, "there is no metric 'accuracy'; choose from average_precision, coverage"),
        ([], None, "no metric is given; choose from"),
        ("mAP", None, "there are no results for mAP among the 4 given"),
        ("average_precision", ["A", "Z"], "there are no results of 'Z'; there are those of A, B"),
        ("average_precision", ["A"], "A given; it takes two methods to compare"),
        ("average_precision", [], "no method given; it takes two"),
    ],
)
def test_clear_errors(metrics, methods, message):
    with pytest.raises(ValueError, match=message):
        blocks(two_methods("birds"), metrics, methods=methods)


def test_no_common_setting():
    rows = results("birds", None, "A", 0.5) + results("scene", None, "B", 0.5)
    with pytest.raises(
        ValueError, match=r"no setting has results of A and B alike\. Left out, because B has no result"
    ):
        blocks(rows, "average_precision")
    # on the vision tables "Supervised" stands alone, at noise 0
    with pytest.raises(ValueError, match=r"because Supervised has no result there: voc2007 at noise 0\.1; .* Pass"):
        blocks(load_published("vision"), "mAP")


def test_comparisons_carry_the_warnings_of_their_blocks():
    found = compare_results(load_published("artificial"), ["one_error", "coverage"], test="wilcoxon-holm")
    assert found.warnings[0].startswith("The 30 blocks are not independent")
    assert found.warnings[1].startswith("Wilcoxon's test ranks the differences of all metrics together")
    single = compare_results(load_published("artificial"), ["one_error"], test="wilcoxon-holm")
    assert len(single.warnings) == 1
    few = compare_results(load_published("real-world"), "one_error", test="wilcoxon-holm")
    assert few.warnings[0].startswith("5 blocks are too few for Wilcoxon's test")
    against = compare_results(load_published("real-world"), "one_error", test="bonferroni-dunn", control="ProPML")
    assert against.control == "ProPML"
