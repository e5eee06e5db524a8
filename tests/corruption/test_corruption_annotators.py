"""Simulated annotators: their rates, their votes, and rows that nobody labelled."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.corruption import simulated_annotators, vote_table
from propml.targets import Candidates


@pytest.fixture(scope="module")
def truth():
    return (np.random.default_rng(0).random((3000, 10)) < 0.2).astype(np.int8)


def proposals(candidates, annotator):
    """What one annotator proposed, as a 0/1 matrix."""
    matrix = np.zeros(candidates.shape, dtype=int)
    votes = candidates.annotations
    mine = (votes.annotator == annotator) & (votes.label >= 0)
    matrix[votes.row[mine], votes.label[mine]] = 1
    return matrix


def test_each_annotator_has_their_own_rates(truth):
    sensitivity, false_positive_rate = [0.9, 0.6, 1.0], [0.05, 0.3, 0.0]
    candidates = simulated_annotators(truth, sensitivity, false_positive_rate)
    for a in range(3):
        proposed = proposals(candidates, a)
        for rate, entries in ((sensitivity[a], truth == 1), (false_positive_rate[a], truth == 0)):
            assert abs(proposed[entries].mean() - rate) <= 5 * np.sqrt(rate * (1 - rate) / entries.sum())


@pytest.mark.parametrize("min_votes", [1, 2, 3])
def test_a_label_with_enough_votes_is_a_candidate(truth, min_votes):
    candidates = simulated_annotators(truth, 0.7, 0.2, n_annotators=3, min_votes=min_votes)
    votes = sum(proposals(candidates, a) for a in range(3))
    assert (candidates.votes.toarray() == votes).all()
    assert (candidates.to_matrix() == (votes >= min_votes)).all()


def test_perfect_annotators_give_back_the_truth(truth):
    assert (simulated_annotators(truth, 1, 0, n_annotators=2, min_votes=2).to_matrix() == truth).all()


def test_coverage_is_the_share_of_rows_looked_at(truth):
    candidates = simulated_annotators(truth, 0.8, 0.1, coverage=[1.0, 0.4])
    votes = candidates.annotations
    looked = np.unique(votes.row[votes.annotator == 1]).size / len(truth)
    assert abs(looked - 0.4) < 5 * np.sqrt(0.4 * 0.6 / len(truth))
    assert np.unique(votes.row[votes.annotator == 0]).size == len(truth)


def test_rows_that_nobody_looked_at_are_unknown_and_rows_without_votes_are_empty(truth):
    candidates = simulated_annotators(truth, 0.5, 0.0, coverage=0.3, n_annotators=2)
    matrix, voters = candidates.to_matrix(), candidates.voters
    assert (matrix[voters == 0] == -1).all()
    assert (voters == 0).sum() > 0
    assert (matrix[voters > 0] >= 0).all()
    assert ((matrix == 0).all(axis=1) & (voters > 0)).any()


def test_the_long_table_makes_the_same_candidates(truth):
    candidates = simulated_annotators(truth[:200], 0.7, 0.1, n_annotators=3, min_votes=2, names=["ann", "bo", "cy"])
    table = vote_table(candidates)
    assert set(table["annotator"]) == {"ann", "bo", "cy"}
    rebuilt = Candidates.from_votes(*table.values(), min_votes=2, labels=candidates.labels, empty="ignore")
    assert list(rebuilt.index) == list(range(200))
    assert rebuilt == candidates
    assert (rebuilt.votes != candidates.votes).nnz == 0
    assert (rebuilt.voters == candidates.voters).all()


def test_one_more_annotator_does_not_change_the_others(truth):
    two = simulated_annotators(truth, 0.7, 0.1, n_annotators=2)
    three = simulated_annotators(truth, 0.7, 0.1, n_annotators=3)
    assert all((proposals(two, a) == proposals(three, a)).all() for a in range(2))


def test_the_seed_decides_and_blocks_do_not(truth, monkeypatch):
    first, again, other = (simulated_annotators(truth, 0.7, 0.1, n_annotators=2, random_state=s) for s in (1, 1, 2))
    assert first == again
    assert first != other
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 70)
    assert simulated_annotators(sp.csr_array(truth), 0.7, 0.1, n_annotators=2, random_state=1) == first


def test_a_selection_of_rows_keeps_its_votes(truth):
    candidates = simulated_annotators(truth, 0.7, 0.1, n_annotators=2)
    assert (candidates[5:9].votes.toarray() == candidates.votes.toarray()[5:9]).all()


def test_candidates_without_votes_have_no_table():
    with pytest.raises(ValueError, match="hold no votes"):
        vote_table(Candidates.from_matrix([[1, 0]]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sensitivity": 0.9}, "the number of annotators is not given"),
        ({"sensitivity": [0.9, 0.8], "n_annotators": 3}, "the number of annotators is 2 and 3; give"),
        ({"sensitivity": [0.9, 0.8], "names": ["ann"]}, "the number of annotators is 1 and 2"),
        ({"sensitivity": [0.9, 0.8], "names": ["ann", "ann"]}, "same name"),
        ({"sensitivity": [0.9, 1.8]}, "sensitivity of annotator 'annotator-2' is 1.8"),
        ({"sensitivity": [[0.9]], "n_annotators": 1}, r"sensitivity has shape \(1, 1\)"),
        ({"sensitivity": 0.9, "n_annotators": 0}, "the number of annotators is 0"),
        ({"sensitivity": 0.9, "n_annotators": 2, "min_votes": 3}, "min_votes is 3; choose between 1 and"),
        ({"sensitivity": 0.9, "n_annotators": 2, "coverage": -0.1}, "coverage is -0.1"),
    ],
)
def test_mistakes_are_told(settings, message):
    with pytest.raises(ValueError, match=message):
        simulated_annotators([[1, 0]], false_positive_rate=0.1, **settings)
