"""From scores to P(true), and from P(true) to verdicts."""

import itertools

import numpy as np
import pytest
from planted import planted

from propml.audit import plausibility
from propml.audit.plausibility import Standing, at_least_one, candidate_probabilities, row_blocks, score_standing
from propml.audit.verdicts import Verdicts, cleaned_candidates, judge
from propml.targets import Candidates

# -- scores → P(true) -------------------------------------------------------------------------------------------------


def by_loops(scores, states):
    """The definition in the module's docstring, cell by cell, for labels with many excluded rows."""
    n, C = states.shape
    offset = []
    for j in range(C):
        false = sorted(scores[i, j] for i in range(n) if states[i, j] == 0)
        known = [scores[i, j] for i in range(n) if states[i, j] >= 0]
        place = 0.9 * (len(false) - 1)
        low = int(place)
        reached = false[low] + (place - low) * (false[min(low + 1, len(false) - 1)] - false[low])
        offset.append((len(false) * reached + 5 * sum(known) / len(known)) / (len(false) + 5))
    s = [[scores[i, j] - offset[j] for j in range(C)] for i in range(n)]
    excluded = [s[i][j] for i in range(n) for j in range(C) if states[i, j] == 0]
    proposed = [s[i][j] for i in range(n) for j in range(C) if states[i, j] == 1]
    best = sorted(max(s[i][j] for j in range(C) if states[i, j] == 1) for i in range(n) if 1 in states[i])
    m0 = sum(excluded) / len(excluded)
    m1 = (best[(len(best) - 1) // 2] + best[len(best) // 2]) / 2
    spread = sum((value - m0) ** 2 for value in excluded) / len(excluded)
    d = (sum(proposed) / len(proposed) - m0) / spread**0.5
    weight = d**2 / (d**2 + 1)
    trust = []
    for j in range(C):
        own = [s[i][j] for i in range(n) if states[i, j] == 1]
        false = [s[i][j] for i in range(n) if states[i, j] == 0]
        middle = sum(false) / len(false)
        spread = sum((value - middle) ** 2 for value in false) / len(false)
        d_j = (sum(own) / len(own) - middle) / spread**0.5
        trust.append(min(max(4 * (len(own) * d_j + d) / (len(own) + 1) / d, 0), 1))
    made = np.zeros((n, C))
    for i in range(n):
        p = [1 / (1 + np.exp(-4 * weight * trust[j] * ((s[i][j] - m0) / (m1 - m0) - 0.5))) for j in range(C)]
        none = np.prod([1 - p[j] for j in range(C) if states[i, j] == 1])
        for j in range(C):
            made[i, j] = min(max(p[j] / (1 - none), 0.001), 0.999) if states[i, j] == 1 else 0
            made[i, j] = np.nan if states[i, j] == -1 else made[i, j]
    return made


@pytest.fixture(scope="module")
def scored():
    X, _, candidates = planted(60)
    states = candidates.to_matrix()
    states[::7, 3] = -1
    states[5] = 0
    scores = X + np.random.default_rng(3).normal(size=6)
    scores[:, 1] = -scores[:, 1]  # a label whose scores say the opposite
    scores[:, 2] = 0.1 * scores[:, 2] + np.random.default_rng(9).normal(size=60)
    return scores, Candidates.from_matrix(states, empty="ignore")


def test_probabilities_follow_the_definition(scored):
    scores, candidates = scored
    made = candidate_probabilities(scores, candidates, score_standing(scores, candidates))
    np.testing.assert_allclose(made, by_loops(scores, candidates.to_matrix()), rtol=1e-5)


def test_a_label_whose_scores_say_the_opposite_is_not_believed(scored):
    scores, candidates = scored
    standing = score_standing(scores, candidates)
    assert standing.trust[1] == 0
    assert 0 < standing.trust[2] < 1
    assert (standing.trust[[0, 3, 4, 5]] == 1).all()
    np.testing.assert_array_equal(standing.plausible(scores)[:, 1], 0.5)


def test_blocks_of_rows_change_nothing(scored, monkeypatch):
    scores, candidates = scored
    whole = candidate_probabilities(scores, candidates, score_standing(scores, candidates))
    monkeypatch.setattr(plausibility, "row_blocks", lambda n, c: row_blocks(n, c, cells=7 * c))
    parts = candidate_probabilities(scores, candidates, score_standing(scores, candidates))
    np.testing.assert_allclose(parts, whole, rtol=1e-6)


def test_the_unit_of_scores_and_an_offset_of_each_label_do_not_matter(scored):
    scores, candidates = scored
    one = candidate_probabilities(scores, candidates, score_standing(scores, candidates))
    moved = 7.0 * scores + np.arange(6.0) * 5
    other = candidate_probabilities(moved, candidates, score_standing(moved, candidates))
    np.testing.assert_allclose(one, other, rtol=1e-4)


def test_a_higher_score_is_never_less_probable_within_a_label_and_row_size(scored):
    scores, candidates = scored
    standing = score_standing(scores, candidates)
    p = standing.plausible(scores)
    for j in range(6):
        order = np.argsort(scores[:, j])
        assert (np.diff(p[order, j]) >= 0).all()


def test_scores_that_tell_candidates_from_excluded_labels_by_nothing_are_not_believed():
    rng = np.random.default_rng(0)
    candidates = Candidates.from_matrix((rng.random((400, 5)) < 0.4).astype(int), empty="ignore")
    assert score_standing(rng.normal(size=(400, 5)), candidates).weight < 0.05
    opposite = score_standing(-candidates.to_matrix().astype(float) + rng.normal(size=(400, 5)), candidates)
    assert opposite.weight == 0


def test_scores_below_those_of_excluded_labels_say_nothing():
    standing = Standing(np.zeros(2), false=1.0, true=0.5, weight=1.0, trust=np.ones(2))
    np.testing.assert_array_equal(standing.plausible(np.array([[3.0, -3.0]])), [[0.5, 0.5]])


def test_rows_without_scores_are_judged_by_the_assumption_alone():
    candidates = Candidates.from_matrix([[1, 1, 0], [1, 0, 0]])
    scores = np.full((2, 3), np.nan)
    made = candidate_probabilities(scores, candidates, score_standing(scores, candidates))
    np.testing.assert_allclose(made, [[2 / 3, 2 / 3, 0], [0.999, 0, 0]], rtol=1e-6)


def test_at_least_one_is_conditional_probability():
    p = np.array([0.2, 0.5, 0.7, 0.9])
    among = np.array([True, True, True, False])
    chance, with_label = 0.0, np.zeros(4)
    for outcome in itertools.product((0, 1), repeat=4):
        if any(np.array(outcome) & among):
            weight = np.prod([q if t else 1 - q for q, t in zip(p, outcome, strict=True)])
            chance += weight
            with_label += weight * np.array(outcome)
    np.testing.assert_allclose(at_least_one(p[None], among[None])[0], with_label / chance)


def test_a_label_that_is_never_excluded_is_compared_with_itself():
    X, _, candidates = planted(200)
    states = candidates.to_matrix()
    states[:, 0] = 1
    standing = score_standing(X, Candidates.from_matrix(states))
    assert standing.offset[0] == pytest.approx(X[:, 0].mean())


# -- P(true) → verdicts -----------------------------------------------------------------------------------------------


def test_cuts_and_confidence():
    probabilities = np.array([[0.95, 0.61, 0.6, 0.4, 0.39, 0.0]])
    told = judge(probabilities, Candidates.from_matrix([[1, 1, 1, 1, 1, 0]]))
    assert told.verdict.tolist() == ["keep", "keep", "doubtful", "doubtful", "drop"]
    np.testing.assert_allclose(told.confidence, [0.95, 0.61, 0.6, 0.6, 0.61])
    np.testing.assert_allclose(told.probability, probabilities[0, :5])
    assert told.counts() == {"keep": 2, "doubtful": 2, "drop": 1, "missing": 0}


def test_the_best_candidate_of_a_row_is_never_dropped():
    told = judge(np.array([[0.3, 0.2], [0.1, 0.1], [0.05, 0.0]]), Candidates.from_matrix([[1, 1], [1, 1], [1, 0]]))
    assert told.verdict.tolist() == ["doubtful", "drop", "doubtful", "drop", "doubtful"]
    np.testing.assert_allclose(told.confidence, [0.7, 0.8, 0.9, 0.9, 0.95])


def test_other_cuts():
    candidates = Candidates.from_matrix([[1, 1, 1]])
    told = judge(np.array([[0.9, 0.6, 0.15]]), candidates, drop_below=0.1, keep_above=0.5)
    assert told.verdict.tolist() == ["keep", "keep", "doubtful"]
    for cuts in ((0.7, 0.6), (-0.1, 0.5), (0.2, 1.5)):
        with pytest.raises(ValueError, match="give probabilities, the first not above the other"):
            judge(np.array([[0.9, 0.6, 0.15]]), candidates, drop_below=cuts[0], keep_above=cuts[1])


def test_missing_labels_are_named_only_where_candidates_may_be_incomplete():
    probabilities = np.array([[0.9, 0.7, 0.8], [0.2, 0.9, 0.95]])
    candidates = Candidates.from_matrix([[1, 0, -1], [0, 1, 0]])
    assert judge(probabilities, candidates).verdict.tolist() == ["keep", "keep"]
    told = judge(probabilities, candidates, incomplete=True)
    assert list(zip(told.row.tolist(), told.label.tolist(), told.verdict.tolist(), strict=True)) == [
        (0, 0, "keep"),
        (0, 1, "missing"),
        (0, 2, "missing"),
        (1, 1, "keep"),
        (1, 2, "missing"),
    ]


def test_cleaned_candidates_lose_the_dropped_gain_the_missing_and_keep_the_rest():
    candidates = Candidates.from_matrix([[1, 1, 0, -1], [1, 1, 0, -1], [0, 0, 0, 1]], list("abcd"))
    told = judge(np.array([[0.9, 0.1, 0.8, 0.9], [0.2, 0.1, 0.1, 0.1], [0, 0, 0, 0.3]]), candidates, incomplete=True)
    cleaned = cleaned_candidates(candidates, told)
    assert cleaned.to_matrix().tolist() == [[1, 0, 1, 1], [1, 0, 0, -1], [0, 0, 0, 1]]
    assert cleaned.labels == tuple("abcd")
    assert cleaned_candidates(candidates, told, may_empty=True).to_matrix().tolist() == [
        [1, 0, 1, 1],
        [0, 0, 0, -1],
        [0, 0, 0, 0],
    ]
    assert candidates.to_matrix()[0].tolist() == [1, 1, 0, -1], "what was given stays as it was"


def test_rows_without_candidates_have_no_verdicts():
    candidates = Candidates.from_matrix([[0, 0], [1, 0]], empty="ignore")
    told = judge(np.array([[0.9, 0.9], [0.5, 0.9]]), candidates)
    assert told.row.tolist() == [1]
    assert cleaned_candidates(candidates, told) == candidates


def test_verdicts_can_be_counted_picked_and_walked_through():
    told = judge(np.array([[0.9, 0.1]]), Candidates.from_matrix([[1, 1]]))
    assert len(told) == 2
    assert list(told) == [(0, 0, "keep", 0.9, 0.9), (0, 1, "drop", 0.9, 0.1)]
    dropped = told[told.verdict == "drop"]
    assert isinstance(dropped, Verdicts)
    assert dropped.label.tolist() == [1]
