"""From P(true) to verdicts."""

import numpy as np
import pytest

from propml.auditing.verdicts import Verdicts, cleaned_candidates, give_verdicts
from propml.targets import Candidates

# -- P(true) → verdicts -----------------------------------------------------------------------------------------------


def test_cuts_and_confidence():
    probabilities = np.array([[0.95, 0.76, 0.75, 0.5, 0.49, 0.0]])
    told = give_verdicts(probabilities, Candidates.from_matrix([[1, 1, 1, 1, 1, 0]]))
    assert told.verdict.tolist() == ["keep", "keep", "doubtful", "doubtful", "drop"]
    np.testing.assert_allclose(told.confidence, [0.95, 0.76, 0.75, 0.5, 0.51])
    np.testing.assert_allclose(told.probability, probabilities[0, :5])
    assert told.counts() == {"keep": 2, "doubtful": 2, "drop": 1, "missing": 0}


def test_the_best_candidate_of_a_row_is_never_dropped():
    told = give_verdicts(
        np.array([[0.3, 0.2], [0.1, 0.1], [0.05, 0.0]]), Candidates.from_matrix([[1, 1], [1, 1], [1, 0]])
    )
    assert told.verdict.tolist() == ["doubtful", "drop", "doubtful", "drop", "doubtful"]
    np.testing.assert_allclose(told.confidence, [0.7, 0.8, 0.9, 0.9, 0.95])


def test_other_cuts():
    candidates = Candidates.from_matrix([[1, 1, 1]])
    told = give_verdicts(np.array([[0.9, 0.6, 0.15]]), candidates, drop_below=0.1, keep_above=0.5)
    assert told.verdict.tolist() == ["keep", "keep", "doubtful"]
    for cuts in ((0.7, 0.6), (-0.1, 0.5), (0.2, 1.5)):
        with pytest.raises(ValueError, match="give probabilities, the first not above the other"):
            give_verdicts(np.array([[0.9, 0.6, 0.15]]), candidates, drop_below=cuts[0], keep_above=cuts[1])


def test_missing_labels_are_named_only_where_candidates_may_be_incomplete():
    probabilities = np.array([[0.9, 0.8, 0.85], [0.2, 0.9, 0.95]])
    candidates = Candidates.from_matrix([[1, 0, -1], [0, 1, 0]])
    assert give_verdicts(probabilities, candidates).verdict.tolist() == ["keep", "keep"]
    told = give_verdicts(probabilities, candidates, incomplete=True)
    assert list(zip(told.row.tolist(), told.label.tolist(), told.verdict.tolist(), strict=True)) == [
        (0, 0, "keep"),
        (0, 1, "missing"),
        (0, 2, "missing"),
        (1, 1, "keep"),
        (1, 2, "missing"),
    ]


def test_cleaned_candidates_lose_the_dropped_gain_the_missing_and_keep_the_rest():
    candidates = Candidates.from_matrix([[1, 1, 0, -1], [1, 1, 0, -1], [0, 0, 0, 1]], list("abcd"))
    told = give_verdicts(
        np.array([[0.9, 0.1, 0.8, 0.9], [0.2, 0.1, 0.1, 0.1], [0, 0, 0, 0.3]]), candidates, incomplete=True
    )
    cleaned = cleaned_candidates(candidates, told)
    assert cleaned.to_matrix().tolist() == [[1, 0, 1, 1], [1, 0, 0, -1], [0, 0, 0, 1]]
    assert cleaned.labels == tuple("abcd")
    assert candidates.to_matrix()[0].tolist() == [1, 1, 0, -1], "what was given stays as it was"


def test_rows_without_candidates_have_no_verdicts():
    candidates = Candidates.from_matrix([[0, 0], [1, 0]], empty="ignore")
    told = give_verdicts(np.array([[0.9, 0.9], [0.5, 0.9]]), candidates)
    assert told.row.tolist() == [1]
    assert cleaned_candidates(candidates, told) == candidates


def test_verdicts_can_be_counted_picked_and_walked_through():
    told = give_verdicts(np.array([[0.9, 0.1]]), Candidates.from_matrix([[1, 1]]))
    assert len(told) == 2
    assert list(told) == [(0, 0, "keep", 0.9, 0.9), (0, 1, "drop", 0.9, 0.1)]
    dropped = told[told.verdict == "drop"]
    assert isinstance(dropped, Verdicts)
    assert dropped.label.tolist() == [1]
