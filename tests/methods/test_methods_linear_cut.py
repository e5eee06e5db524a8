"""Cuts against all that can be tried, and their regression against the pseudo-inverse."""

import numpy as np
import pytest

from propml.methods.linear_algebra import best_cuts, cut_probabilities, regressed_cut


def random_scores(n=40):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 6)), rng.random((n, 6)) < 0.4


def errors(scores, marked, cut):
    return int(((scores >= cut) != marked).sum())


def test_best_cuts_by_trying_all():
    scores, marked = random_scores()
    for row, wanted, cut in zip(scores, marked, best_cuts(scores, marked), strict=True):
        rising = np.sort(row)
        tried = [rising[0] - 0.1, *(rising[1:] + rising[:-1]) / 2, rising[-1] + 0.1]
        assert cut == pytest.approx(tried[int(np.argmin([errors(row, wanted, c) for c in tried]))])


def test_the_released_search_goes_below_the_first_label_where_all_are_marked():
    scores, marked = np.array([[0.5, 0.2, 0.9]] * 2), np.array([[True] * 3, [False, False, True]])
    np.testing.assert_allclose(best_cuts(scores, marked), [0.1, 0.7])
    np.testing.assert_allclose(best_cuts(scores, marked, released=True), [0.4, 0.7])


@pytest.mark.parametrize("n", [40, 4], ids=["more rows than labels", "fewer"])
def test_the_regression_is_that_of_the_pseudo_inverse(n):
    scores, marked = random_scores(n)
    expected = np.linalg.pinv(np.hstack([scores, np.ones((n, 1))])) @ best_cuts(scores, marked)
    np.testing.assert_allclose(regressed_cut(scores, marked), expected, atol=1e-12)


def test_probabilities_pass_one_half_at_the_cut_of_the_row():
    scores, marked = random_scores()
    coef = regressed_cut(scores, marked)
    cuts = scores @ coef[:-1] + coef[-1]
    probabilities = cut_probabilities(scores, coef)
    np.testing.assert_array_equal(probabilities > 0.5, scores > cuts[:, None])
    # Slope 1 at the cut: σ(4 δ) = ½ + δ + O(δ³).
    cut_at_zero = cut_probabilities(np.array([[1e-3, -1e-3]]), np.zeros(3))
    np.testing.assert_allclose(cut_at_zero, [[0.501, 0.499]], atol=1e-8)
