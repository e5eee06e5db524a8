"""What was measured, and its means: against values worked out by hand."""

import pickle

import pytest

from propml.benchmark.results import CellResult, Failure, FoldResult, Results, load_results, means
from propml.noise import Noise, Setting

HALF, ONE = Noise("svm", 0.5), Noise("svm", 1.0)


def result(*values, dataset="birds", noise=HALF, method="Ridge", seed=0, metric="one_error"):
    folds = tuple(FoldResult(fold, values={metric: value}) for fold, value in enumerate(values))
    return CellResult("toy", dataset, noise, method, seed, folds=folds)


def test_mean_and_deviation_are_percent_over_folds_and_seeds_dividing_by_n_minus_one():
    (mean,) = means([result(0.1, 0.2), result(0.6, seed=1)])
    assert mean.mean == pytest.approx(30.0)
    # deviations -20, -10, 30: squares 400 + 100 + 900 over 2
    assert mean.std == pytest.approx(700**0.5)
    assert mean.n == 3


def test_settings_methods_and_metrics_are_kept_apart_in_their_order():
    rows = means(
        [
            result(0.4, dataset="scene", method="ML-kNN"),
            result(0.2),
            result(0.3, noise=ONE),
            result(0.5, dataset="yeastcc", noise=None),
            result(0.9, metric="one_error:paper"),
        ]
    )
    assert [(row.setting, row.method, row.metric) for row in rows] == [
        (Setting("scene", HALF), "ML-kNN", "one_error"),
        (Setting("birds", HALF), "Ridge", "one_error"),
        (Setting("birds", ONE), "Ridge", "one_error"),
        (Setting("yeastcc", None), "Ridge", "one_error"),
        (Setting("birds", HALF), "Ridge", "one_error:paper"),
    ]
    assert rows[2][5:] == (pytest.approx(30.0), pytest.approx(float("nan"), nan_ok=True), 1)


def test_nothing_measured_gives_nothing():
    failed = CellResult("toy", "birds", HALF, "Ridge", 0, failure=Failure("ValueError", "no"))
    assert means([]) == means([failed]) == []
    results = Results([result(0.1), failed])
    assert results.means("coverage") == []
    assert results.means("one_error") == results.means() == means(results.done)
    assert results.failed == [failed]


def test_results_travel_between_processes():
    assert pickle.loads(pickle.dumps(result(0.1, noise=None))) == result(0.1, noise=None)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no results folder"):
        load_results(tmp_path / "nowhere")
    assert load_results(tmp_path) == Results([], [])
