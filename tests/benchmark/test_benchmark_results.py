"""What was measured, and its means: against values worked out by hand."""

import pickle

import pytest

from propml.benchmark.results import Result, Setting, Summary, summarise


def result(value, *, dataset="birds", noise=50.0, method="Ridge", seed=0, fold=0, metric="one_error"):
    return Result("toy", dataset, noise, method, seed, fold, metric, value)


def test_mean_and_deviation_are_percent_over_folds_and_seeds_dividing_by_n():
    rows = [result(0.1, seed=0, fold=0), result(0.2, seed=0, fold=1), result(0.6, seed=1, fold=0)]
    (summary,) = summarise(rows, "one_error").values()
    assert summary.mean == pytest.approx(30.0)
    # deviations -20, -10, 30: squares 400 + 100 + 900 over 3
    assert summary.std == pytest.approx((1400 / 3) ** 0.5)
    assert summary.n == 3


def test_settings_and_methods_are_kept_apart_in_their_order():
    rows = [
        result(0.4, dataset="scene", method="ML-kNN"),
        result(0.2),
        result(0.3, noise=100.0),
        result(0.5, dataset="yeastcc", noise=None),
        result(0.9, metric="coverage"),
    ]
    found = summarise(rows, "one_error")
    assert list(found) == [
        (Setting("scene", 50.0), "ML-kNN"),
        (Setting("birds", 50.0), "Ridge"),
        (Setting("birds", 100.0), "Ridge"),
        (Setting("yeastcc", None), "Ridge"),
    ]
    assert found[Setting("birds", 100), "Ridge"] == Summary(pytest.approx(30.0), 0.0, 1)


def test_paper_variants_are_metrics_of_their_own():
    rows = [result(0.2), result(0.4, metric="one_error:paper")]
    assert summarise(rows, "one_error:paper")[Setting("birds", 50), "Ridge"].mean == pytest.approx(40.0)
    assert summarise(rows, "one_error")[Setting("birds", 50), "Ridge"].mean == pytest.approx(20.0)


def test_nothing_measured_gives_nothing():
    assert summarise([], "one_error") == {}
    assert summarise([result(0.1)], "coverage") == {}


def test_results_travel_between_processes():
    assert pickle.loads(pickle.dumps(result(0.1, noise=None))) == result(0.1, noise=None)
