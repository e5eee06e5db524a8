"""Two methods side by side: gains worked out by hand, datasets as the unit, and only like compared with like."""

import numpy as np
import pytest
from fake_cells import cell
from scipy.stats import binom
from typer.testing import CliRunner

from propml.benchmark.comparison import DatasetDifference, PairedComparison, compare_pairs
from propml.benchmark.results import FoldResult
from propml.benchmark.store import ResultStore
from propml.cli.benchmark import app


def add(store, made, value, seconds=1.0):
    """A cell whose two folds have values 0.1 apart, around the one that is asked for."""
    nothing = np.zeros((1, 2), dtype=np.float32)
    folds = tuple(
        FoldResult(
            fold,
            np.array([fold]),
            nothing,
            nothing.astype(np.uint8),
            {"average_precision": value + shift, "one_error": 1 - value - shift},
            seconds / 2,
            0.1,
            {},
        )
        for fold, shift in enumerate((-0.05, 0.05))
    )
    store.add(made.result(folds), {"run": "r"})


# dataset, noise: (Plain, Other)
VALUES = {
    ("birds", 50.0): (0.60, 0.50),
    ("birds", 100.0): (0.40, 0.44),
    ("scene", 50.0): (0.80, 0.82),
    ("yeast", "flips 0.2"): (0.70, 0.70),
}


@pytest.fixture
def store(tmp_path):
    made = ResultStore(tmp_path / "results")
    for (dataset, noise), (plain, other) in VALUES.items():
        add(made, cell("Plain", dataset, noise), plain, seconds=1.0)
        add(made, cell("Other", dataset, noise), other, seconds=2.0)
    return made


def test_gains_wins_and_losses_by_dataset(store):
    found = compare_pairs(store, "Plain", "Other")
    rows = {row.dataset: row for row in found.datasets}
    assert rows["birds"][1:] == pytest.approx((2, 50.0, 47.0, 3.0, 1, 1))
    assert rows["scene"][1:] == pytest.approx((1, 80.0, 82.0, -2.0, 0, 1))
    assert rows["yeast"][1:] == pytest.approx((1, 70.0, 70.0, 0.0, 0, 0))
    # Each dataset counts once, however many settings it has.
    assert found.gain == pytest.approx((3 - 2 + 0) / 3)
    assert (found.won, found.lost, found.left_out) == (1, 1, 0)
    assert found.p_value == 1.0
    assert found.times_as_long == pytest.approx(0.5)


def test_a_lower_loss_is_a_gain(store):
    found = compare_pairs(store, "Plain", "Other", metric="one_error")
    assert {row.dataset: row.gain for row in found.datasets} == pytest.approx(
        {"birds": 3.0, "scene": -2.0, "yeast": 0.0}, abs=1e-9
    )


@pytest.mark.parametrize(("won", "lost"), [(7, 1), (1, 7), (5, 0), (2, 9)])
def test_the_sign_test_is_the_tail_of_a_fair_coin(won, lost):
    n, least = won + lost, min(won, lost)
    gains = [1.0] * won + [-1.0] * lost + [0.0]
    rows = tuple(DatasetDifference(f"d{i}", 1, gain, 0.0, gain, 0, 0) for i, gain in enumerate(gains))
    assert PairedComparison("mAP", "A", "B", rows, 0, 1.0).p_value == pytest.approx(
        min(1.0, 2 * binom.cdf(least, n, 0.5))
    )


def test_before_and_after_pair_only_cells_on_the_same_problem(store, tmp_path):
    after = ResultStore(tmp_path / "after")
    add(after, cell("Plain", "birds", 50.0), 0.63)
    add(after, cell("Plain", "scene", 50.0, rows=100), 0.99)  # another subset: nothing to compare with
    found = compare_pairs(after, "Plain", other=store)
    assert [(row.dataset, round(row.gain, 6)) for row in found.datasets] == [("birds", 3.0)]
    assert found.left_out == 1 + 3


def test_seeds_are_averaged_before_anybody_wins(tmp_path):
    store = ResultStore(tmp_path / "seeds")
    for seed, plain, other in ((0, 0.5, 0.9), (1, 0.9, 0.4)):
        add(store, cell("Plain", seed=seed), plain)
        add(store, cell("Other", seed=seed), other)
    (row,) = compare_pairs(store, "Plain", "Other").datasets
    assert row[1:] == pytest.approx((1, 70.0, 65.0, 5.0, 1, 0))


def test_mistakes_are_told(store, tmp_path):
    with pytest.raises(ValueError, match="what shall Plain be compared with"):
        compare_pairs(store, "Plain")
    with pytest.raises(ValueError, match="no results of the method 'Plane'; there are Other, Plain"):
        compare_pairs(store, "Plane", "Other")
    with pytest.raises(ValueError, match="no results of the metric 'OF1'; there are average_precision, one_error"):
        compare_pairs(store, "Plain", "Other", metric="OF1")
    apart = ResultStore(tmp_path / "apart")
    add(apart, cell("Plain", folds=2, stratified=True), 0.5)
    with pytest.raises(ValueError, match="have no cell on the same problem"):
        compare_pairs(apart, "Plain", other=store)


def test_the_command_prints_it(store, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments):
        return CliRunner().invoke(app, ["compare", *map(str, arguments)])

    shown = run(store.folder, "--of", "Plain", "--against", "Other", "--metric", "average_precision")
    assert shown.exit_code == 0
    assert "+3.00" in shown.output
    assert "mean gain over 3 datasets: +0.33; better on 1, worse on 1, sign test p = 1; fitting takes 0.50 ×" in (
        shown.output.replace("\n", " ")
    )
    again = run(store.folder, store.folder, "--of", "Plain")
    assert "after" in again.output
    assert "better on 0, worse on 0" in again.output
    assert "holds no results" in str(run(tmp_path / "nowhere", "--against", "Other").exception)


def test_the_short_form_is_asked_for_by_a_flag():
    listed = CliRunner().invoke(app, ["status", "ground", "--quick"])
    assert listed.exit_code == 0
    assert "Extra trees" in listed.output
    assert "Boosting" not in listed.output
    refused = CliRunner().invoke(app, ["status", "artificial", "--quick"]).exception
    assert "artificial has no short form; leave out --quick, which is there for ground" in str(refused)
