"""What a trial is judged by."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import label_ranking_average_precision_score

from propml.tuning.tasks import TableData


@pytest.fixture
def made():
    rng = np.random.default_rng(0)
    X, candidates = rng.normal(size=(30, 4)), (rng.random((30, 5)) < 0.4).astype(int)
    candidates[:, 0] = 1
    candidates[:, 4] = 0
    truth = candidates * (rng.random((30, 5)) < 0.6)
    truth[:, 0] = 1
    return X, candidates, truth


def test_average_precision_is_scikit_learn_s_on_candidates_or_on_truth(made):
    X, candidates, truth = made
    probabilities = np.random.default_rng(1).uniform(0.01, 0.99, size=(30, 5))
    for objective, answers in (("candidates", candidates), ("oracle", truth)):
        data = TableData(X, candidates, truth, objective=objective)
        for fold in data.folds:
            p = probabilities[fold.held]
            expected = label_ranking_average_precision_score(answers[fold.held], p)
            assert data.judged(p, fold) == pytest.approx(expected)


def test_bce_is_the_mean_log_loss_per_row_with_its_sign_turned(made):
    X, candidates, _ = made
    data = TableData(X, candidates, criterion="bce")
    fold, p = data.folds[0], np.random.default_rng(1).uniform(0.01, 0.99, size=(10, 5))
    y = candidates[fold.held]
    assert data.judged(p, fold) == pytest.approx(np.sum(y * np.log(p) + (1 - y) * np.log(1 - p), axis=1).mean())


def test_truth_is_looked_at_by_name_only(made):
    X, candidates, truth = made
    blind, told = TableData(X, candidates), TableData(X, candidates, truth)
    assert (blind.answers == told.answers).all()
    assert blind.facts() == told.facts()
    assert TableData(X, candidates, truth, objective="oracle").facts() != blind.facts()


def test_every_row_is_held_out_once(made):
    held = np.concatenate([fold.held for fold in TableData(*made[:2], cv=4).folds])
    assert sorted(held) == list(range(30))


def test_probabilities_that_are_no_numbers_have_no_value(made):
    data = TableData(*made[:2])
    assert np.isnan(data.judged(np.full((10, 5), np.nan), data.folds[0]))


def test_facts_tell_data_apart(made):
    X, candidates, _ = made
    other = candidates.copy()
    other[3, 2] = 1 - other[3, 2]
    facts = [TableData(X, y).facts()["data"] for y in (candidates, other)]
    assert facts[0] != facts[1]
    assert facts[0].startswith("30 × 4, 5 labels, ")
    assert TableData(sp.csr_array(X), candidates).facts()["data"] != facts[0]
    assert TableData(X, candidates, seed=1).facts() != TableData(X, candidates, seed=0).facts()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"objective": "truth"}, 'choose "candidates", or "oracle"'),
        ({"criterion": "accuracy"}, "choose one of average_precision, bce, one_error"),
        ({"objective": "oracle"}, "judges by true labels, and none were given"),
        ({"objective": "oracle", "truth": np.ones((2, 2))}, "truth has shape"),
        ({"cv": 1}, "between 2 and 30 folds"),
        ({"X": np.ones((7, 2))}, "give a row each"),
        ({"X": np.full((30, 4), np.nan)}, "not finite"),
    ],
)
def test_bad_data_is_told_in_a_sentence(made, arguments, words):
    given = {"X": made[0], "candidates": made[1], **arguments}
    with pytest.raises(ValueError, match=words):
        TableData(given.pop("X"), given.pop("candidates"), **given)
