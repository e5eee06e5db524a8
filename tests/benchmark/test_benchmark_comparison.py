"""Comparisons of tables of means: which blocks count, and with which warnings; the paper's diagrams recomputed."""

import numpy as np
import pytest

from propml.benchmark.comparison import blocks, compare_means
from propml.noise import Noise
from propml.paper import Mean, load_published


def results(dataset, percent, method, *values, metric="average_precision", experiment="toy"):
    """The mean of folds, at a percentage of false labels, or with real candidates."""
    noise = None if percent is None else Noise("svm", percent / 100)
    mean, std = 100 * np.mean(values), 100 * np.std(values)
    return [Mean(experiment, dataset, noise, method, metric, mean, std, len(values))]


def two_methods(dataset, noise=None, **options):
    return results(dataset, noise, "A", 0.4, 0.6, **options) + results(dataset, noise, "B", 0.3, 0.5, **options)


def test_means_over_folds_in_percent():
    table = blocks(two_methods("birds") + two_methods("birds", metric="coverage"), ["average_precision", "coverage"])
    np.testing.assert_allclose(table.values, [[50, 40], [50, 40]])
    assert table.names == ("A", "B")
    assert table.higher_is_better.tolist() == [True, False]


def test_methods_are_chosen_and_ordered():
    rows = two_methods("birds", 50) + results("birds", 50, "C", 0.1, 0.3)
    table = blocks(rows, "average_precision", methods=["C", "A"])
    assert table.names == ("C", "A")
    np.testing.assert_allclose(table.values, [[20, 50]])


def test_sums_in_another_order_tie():
    rows = results("birds", None, "A", 0.1, 0.2, 0.3) + results("birds", None, "B", 0.3, 0.2, 0.1)
    assert rows[0].mean != rows[1].mean
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
    published = Mean("toy", "birds", Noise("svm", 0.5), "A", "average_precision", 50.0, 1.0)
    with pytest.raises(ValueError, match="is in both the published toy and experiment toy"):
        blocks([published, *two_methods("birds", 50)], "average_precision")


@pytest.mark.parametrize(
    ("metrics", "methods", "message"),
    [
        ("accuracy", None, "there is no metric 'accuracy'; choose from average_precision, coverage"),
        ([], None, "there is no metric ''; choose from"),
        ("mAP", None, "there are no results for mAP among the 2 given"),
        ("average_precision", ["A", "Z"], "there are no results of 'Z'; there are those of A, B"),
        ("average_precision", ["A"], "A given; it takes two methods to compare"),
        ("average_precision", [], "no method given; it takes two"),
    ],
)
def test_what_cannot_be_compared_is_told(metrics, methods, message):
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
    found = compare_means(load_published("artificial"), ["one_error", "coverage"])
    assert found.warnings[0].startswith("The 30 blocks are not independent")


# -- the paper's diagrams, recomputed from its published numbers ------------------------------------------------------


METRICS = ("average_precision", "coverage", "hamming_loss", "ranking_loss", "one_error")
METHODS = ("CPLST", "ML-kNN", "PAR-MAP", "PAR-VLS", "PML-NI", "ProPML")
DIAGRAMS = [
    # experiment, noise, mean ranks in the order of METHODS, χ²
    ("real-world", None, (3.52, 5.36, 3.80, 4.24, 2.44, 1.64), 62.0),
    ("artificial", 0.5, (4.58, 3.66, 4.40, 4.16, 2.48, 1.72), 47.5),
    ("artificial", 1.0, (4.40, 3.66, 4.28, 4.26, 2.30, 2.10), 38.8),
    ("artificial", 1.5, (4.40, 3.84, 4.16, 4.20, 2.28, 2.12), 37.5),
]


def published(experiment, noise):
    return [row for row in load_published(experiment) if (row.noise and row.noise.level) == noise]


@pytest.mark.parametrize(("experiment", "noise", "mean_ranks", "statistic"), DIAGRAMS)
def test_mean_ranks_and_critical_difference(experiment, noise, mean_ranks, statistic):
    found = compare_means(published(experiment, noise), METRICS)
    assert found.names == METHODS
    assert found.n_blocks == 25
    assert tuple(found.mean_ranks.round(2)) == mean_ranks
    assert found.critical_difference == pytest.approx(1.508, abs=5e-4)
    assert round(found.statistic, 1) == statistic


@pytest.mark.parametrize(("experiment", "noise"), [diagram[:2] for diagram in DIAGRAMS])
def test_propml_is_better_than_all_but_pml_ni(experiment, noise):
    found = compare_means(published(experiment, noise), METRICS)
    assert set(found.better_than("ProPML")) == set(METHODS) - {"ProPML", "PML-NI"}
    assert (5, 4) in found.cliques  # a bar of its own from ProPML to PML-NI


def test_the_lead_over_pml_ni_shrinks_with_noise():
    # the text says that the gap of these two to the others grows; that of ProPML to PML-NI does not
    leads = []
    for noise in (0.5, 1.0, 1.5):
        ranks = dict(zip(METHODS, compare_means(published("artificial", noise), METRICS).mean_ranks, strict=True))
        leads.append(ranks["PML-NI"] - ranks["ProPML"])
    assert leads == pytest.approx([0.76, 0.20, 0.16])


def test_without_hamming_loss():
    kept = [metric for metric in METRICS if metric != "hamming_loss"]
    found = compare_means(published("real-world", None), kept)
    assert found.n_blocks == 20
    assert tuple(found.mean_ranks.round(2)) == (3.15, 5.20, 4.15, 4.75, 2.30, 1.45)
    assert found.critical_difference == pytest.approx(1.686, abs=5e-4)
    assert not any("slips" in sentence for sentence in found.warnings)


def test_what_the_paper_should_have_said_beside_it():
    found = compare_means(published("real-world", None), METRICS)
    assert found.warnings == (
        "The 25 blocks are not independent: they hold several metrics of the same predictions, of 5 datasets in all. "
        "The tests find differences too easily.",
        "The Hamming losses of CPLST and ML-kNN follow the paper's slips in coding, and so do their ranks.",
    )


def test_one_metric_at_a_time_five_datasets_show_little():
    found = compare_means(published("real-world", None), "average_precision")
    assert found.better_than("ProPML") == ("PAR-VLS", "ML-kNN")
