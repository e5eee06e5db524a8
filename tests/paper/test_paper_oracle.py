"""The oracle picks on the truth of test rows, says so, and does nothing else with it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from propml.benchmark.cell import MethodEntry, TabularCell, compute
from propml.benchmark.problem import CandidateProblem, load_problem
from propml.noise import Noise
from propml.paper.oracle import default_lams
from propml.targets import Candidates

PARAMS = {"loss": "propml", "hidden": (16,), "epochs": 12}
ENTRY = MethodEntry("ProPML (oracle)", "propml", PARAMS, "none", "oracle", (0.002, 0.1, 3.0))
CELL = TabularCell(
    "toy", "digits-mosaic", Noise("flips", 0.3), ENTRY, 0, rows=150, folds=3, selection="oracle",
    metrics=("average_precision", "hamming_loss"),
)  # fmt: skip


@pytest.fixture(scope="module")
def problem():
    return load_problem("digits-mosaic", Noise("flips", 0.3), 0, rows=150)


@pytest.fixture(scope="module")
def outcome(problem):
    return compute(CELL, problem=problem)


def other_truth(problem):
    """The same candidates, of which other ones are true."""
    candidates = problem.candidates.to_matrix()
    rng = np.random.default_rng(3)
    return CandidateProblem(
        problem.X, problem.candidates, (candidates & (rng.random(candidates.shape) < 0.5)).astype(np.uint8)
    )


def mean_precision(outcome):
    return np.mean([fold.values["average_precision"] for fold in outcome.folds])


def test_the_best_lam_and_epoch_on_test_truth_are_taken(problem, outcome):
    chosen = outcome.folds[0].chosen
    curves = {
        point["lam"]: np.mean([fold.chosen["path"][number]["average_precision"] for fold in outcome.folds])
        for number, point in enumerate(chosen["path"])
    }
    assert list(curves) == [0.002, 0.1, 3.0]
    assert chosen["lam"] == max(curves, key=curves.get)
    # the networks that were trained once more are those that were picked
    assert mean_precision(outcome) == pytest.approx(curves[chosen["lam"]], abs=2e-3)
    epoch = next(point["epoch"] for point in chosen["path"] if point["lam"] == chosen["lam"])
    assert chosen["epoch"] == epoch
    assert all(fold.chosen["epoch"] == epoch for fold in outcome.folds)


def test_as_published_the_last_epoch_is_taken_whatever_the_test_labels_say(problem):
    from propml.benchmark.experiment import load_experiment

    entry = next(each for each in load_experiment("artificial").methods if each.name == "ProPML (as published)")
    small = {**entry.params, "hidden": (64,), "epochs": 60, "batch_size": 16, "learning_rate": 0.003}
    cell = replace(CELL, method=replace(entry, params=small, lams=(0.02, 1.0)))
    published = compute(cell, problem=problem)
    assert {point["epoch"] for fold in published.folds for point in fold.chosen["path"]} == {60}
    assert all(fold.chosen["epoch"] == 60 for fold in published.folds)
    # Long after the best epoch: without the word, an earlier one is picked, and it does better.
    stopped = compute(
        replace(cell, method=replace(cell.method, params={**small, "early_stopping": True})), problem=problem
    )
    assert stopped.folds[0].chosen["epoch"] < 60
    assert mean_precision(stopped) > mean_precision(published)


def test_no_other_lam_does_better(problem, outcome):
    for lam in ENTRY.lams:
        alone = compute(replace(CELL, method=replace(ENTRY, lams=(lam,))), problem=problem)
        assert mean_precision(alone) <= mean_precision(outcome) + 2e-3


def test_the_truth_of_test_rows_decides(problem, outcome):
    other = compute(CELL, problem=other_truth(problem))
    assert (other.folds[0].chosen["lam"], other.folds[0].chosen["epoch"]) != (
        outcome.folds[0].chosen["lam"],
        outcome.folds[0].chosen["epoch"],
    )
    assert not np.array_equal(other.folds[0].scores, outcome.folds[0].scores)


def test_with_nothing_to_pick_the_truth_changes_nothing(problem):
    entry = replace(ENTRY, params={**PARAMS, "epochs": 1}, lams=(0.1,))
    cell = replace(CELL, method=entry)
    right, wrong = compute(cell, problem=problem), compute(cell, problem=other_truth(problem))
    for one, other in zip(right.folds, wrong.folds, strict=True):
        assert np.array_equal(one.scores, other.scores)
        assert np.array_equal(one.predicted, other.predicted)
        assert one.values != other.values


def test_networks_learn_nothing_from_candidates_of_test_rows(problem):
    cell = replace(CELL, method=replace(ENTRY, params={**PARAMS, "epochs": 1}, lams=(0.1,)))
    first = compute(cell, problem=problem).folds[0]
    matrix = problem.candidates.to_matrix()
    matrix[first.test] = 1 - matrix[first.test]
    turned = CandidateProblem(problem.X, Candidates.from_matrix(matrix, empty="ignore"), problem.truth)
    assert np.array_equal(compute(cell, problem=turned).folds[0].scores, first.scores)


def test_nobody_gets_here_without_the_word(problem):
    # an entry that would be an oracle is none in a cell that is not
    params = {**PARAMS, "cv": 2, "epochs": 2}
    cell = replace(CELL, selection="candidates", method=replace(ENTRY, params=params))
    assert "path" not in compute(cell, problem=problem).folds[0].chosen
    with pytest.raises(ValueError, match="selection is 'Oracle'; choose"):
        compute(replace(CELL, selection="Oracle"), problem=problem)


def test_what_was_chosen_is_plain(outcome):
    for fold in outcome.folds:
        assert json.loads(json.dumps(fold.chosen)) == fold.chosen
        assert fold.scores.dtype == np.float32
        assert fold.seconds_fit > 0


def test_thresholds_come_from_candidates_or_from_the_user(problem, outcome):
    for fold in outcome.folds:
        assert np.array_equal(fold.predicted, fold.scores > fold.chosen["threshold"])
        assert 0 < fold.predicted.mean() < 1
    half = compute(replace(CELL, method=replace(ENTRY, params={**PARAMS, "threshold": 0.5})), problem=problem)
    for fold in half.folds:
        assert np.array_equal(fold.predicted, fold.scores > 0)


def test_thresholds_come_from_rows_that_were_scored_where_some_folds_are_tested(problem):
    """Rows that no tested fold holds out have no score; memory that nothing was written to must not choose."""
    entry = replace(ENTRY, params={**PARAMS, "epochs": 2}, lams=(0.1,))
    part = compute(replace(CELL, method=entry, test_folds=2), problem=problem)
    assert len(part.folds) == 2
    for fold in part.folds:
        assert np.isfinite(fold.chosen["threshold"])
        assert 0 < fold.predicted.mean() < 1
    with pytest.raises(ValueError, match="give at least two"):
        compute(replace(CELL, method=entry, test_folds=1), problem=problem)


def test_the_order_of_the_power_mean_is_the_default_s_or_the_user_s(problem):
    params = {"loss": "power", "hidden": (8,), "epochs": 2, "n_models": 2}
    chosen = compute(replace(CELL, method=replace(ENTRY, params=params)), problem=problem).folds[0].chosen
    assert len(chosen["path"]) == 3
    assert {point["order"] for point in chosen["path"]} == {0.5}
    params["order"] = 0.7
    chosen = compute(replace(CELL, method=replace(ENTRY, params=params)), problem=problem).folds[0].chosen
    assert {point["order"] for point in chosen["path"]} == {0.7}


def test_the_default_grid_reaches_down_to_where_many_labels_need_it():
    few = Candidates.from_matrix(np.eye(7, dtype=int))
    many = Candidates.from_matrix((np.arange(217) < 8).astype(int)[None].repeat(3, axis=0))
    for candidates in (few, many):
        lams = default_lams(candidates)
        assert len(lams) == 20
        assert lams[-1] == 1
        assert np.allclose(np.diff(np.log(lams)), np.log(lams[1] / lams[0]))
    assert default_lams(few)[0] == pytest.approx(0.002)
    assert default_lams(many)[0] < 0.001


def test_the_default_grid_is_used_where_none_is_given(problem):
    entry = replace(ENTRY, params={**PARAMS, "epochs": 1}, lams=None)
    path = compute(replace(CELL, method=entry), problem=problem).folds[0].chosen["path"]
    assert [point["lam"] for point in path] == pytest.approx(default_lams(problem.candidates))


# -- other methods ----------------------------------------------------------------------------------------------------


def test_a_method_that_picks_nothing_cannot_be_an_oracle(problem):
    with pytest.raises(ValueError, match='Ridge has selection = "oracle" and nothing to pick by true labels'):
        compute(replace(CELL, method=MethodEntry("Ridge", "ridge")), problem=problem)


def test_the_published_lam_of_mirflickr_beats_a_bad_one(data_dir):
    """On a part of MIRFlickr, with the λ = 0.1 that the paper picked and one that pushes excluded labels too hard."""
    params = {**PARAMS, "hidden": (32,), "epochs": 40, "learning_rate": 0.003}
    entry = MethodEntry("ProPML (oracle)", "propml", params, "none", "oracle", (0.1, 30.0))
    outcome = compute(TabularCell("toy", "mirflickr", None, entry, 0, rows=600, folds=2, selection="oracle"))
    assert outcome.folds[0].chosen["lam"] == 0.1
    assert mean_precision(outcome) > 0.65
