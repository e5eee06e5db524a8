"""Facts about the metrics of the top of a ranking: against plain loops, for positions and for scores."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.metrics import ndcg_score

from propml.metrics.top import ndcg_at_k, precision_at_k, psp_at_k
from propml.targets import Candidates


def naive(truth, top, k, worth=None):
    """P@k, nDCG@k and PSP@k by loops over rows that have a true label."""
    precision, ndcg, gained, possible = [], [], 0.0, 0.0
    worth = np.ones(truth.shape[1]) if worth is None else worth
    for true, labels in zip(truth, top, strict=True):
        if not true.any():
            continue
        hits = [bool(true[j]) for j in labels[:k]]
        precision.append(sum(hits) / k)
        ideal = sum(1 / math.log2(r + 2) for r in range(min(k, true.sum())))
        ndcg.append(sum(hit / math.log2(r + 2) for r, hit in enumerate(hits)) / ideal)
        gained += sum(worth[j] for j in labels[:k] if true[j])
        possible += sum(sorted((worth[j] for j in np.flatnonzero(true)), reverse=True)[:k])
    return np.mean(precision), np.mean(ndcg), gained / possible


def problem(seed):
    rng = np.random.default_rng(seed)
    truth = (rng.random((30, 17)) < rng.random(17) * 0.4).astype(int)
    truth[3] = 0
    train = (rng.random((50, 17)) < rng.random(17) * 0.4).astype(int)
    return truth, rng.normal(size=truth.shape).round(1), train  # rounded: many ties


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 3, 17])
def test_they_are_what_plain_loops_say(seed, k):
    truth, scores, train = problem(seed)
    top = np.array([sorted(range(17), key=lambda j: (-row[j], j)) for row in scores])  # the lower position among ties
    n, counts = len(train), train.sum(axis=0)
    worth = 1 + (math.log(n) - 1) * 2.5**0.55 * np.exp(-0.55 * np.log(counts + 1.5))
    expected = naive(truth, top, k, worth)
    for given in (truth, sp.csr_array(truth), Candidates.from_matrix(truth, empty="ignore"), torch.as_tensor(truth)):
        for ranked in (scores, top, top[:, :k], torch.as_tensor(top)):
            found = (
                precision_at_k(given, ranked, k),
                ndcg_at_k(given, ranked, k),
                psp_at_k(given, ranked, k, train=train),
            )
            np.testing.assert_allclose(found, expected)


def test_ndcg_is_scikit_learn_s_where_nothing_ties():
    truth, _, _ = problem(0)
    scores = np.random.default_rng(5).normal(size=truth.shape)
    kept = truth.any(axis=1)
    assert ndcg_at_k(truth, scores, 4) == pytest.approx(ndcg_score(truth[kept], scores[kept], k=4))


def test_a_stored_zero_is_no_true_label():
    truth = sp.csr_array(np.array([[1, 1, 0]]))
    truth.data[1] = 0
    assert precision_at_k(truth, [[1]], 1) == 0


def test_a_perfect_ranking_has_propensity_scored_precision_one_and_rare_labels_count_more():
    truth, train = np.array([[1, 1, 0]]), np.array([[1, 0, 0]] * 20)
    assert psp_at_k(truth, [[1, 0]], 2, train=train) == 1
    rare, frequent = psp_at_k(truth, [[1]], 1, train=train), psp_at_k(truth, [[0]], 1, train=train)
    assert rare == 1 > frequent
    # (log 20 - 1) 2.5^0.55 = 3.3036; labels with 20 and 0 of 20 rows: 1 + 3.3036 / 21.5^0.55 and 1 + 3.3036 / 1.5^0.55
    assert frequent == pytest.approx(1.61110 / 3.64327, abs=1e-4)


@pytest.mark.parametrize(
    ("truth", "ranked", "k", "told"),
    [
        ([[1, 0]], [[2]], 1, "names labels from 2 to 2, and there are 2"),
        ([[1, 0], [1, 1]], [[0, 1], [1, 1]], 2, "row 1 of ranked names a label twice"),
        ([[1, 0]], [[0]], 2, "k is 2; choose it from 1 to 1"),
        ([[0, 0]], [[0]], 1, "none of the 1 rows has a true label"),
        ([[1, 0]], [[0], [1]], 1, "truth has 1 rows and ranked has 2"),
        ([[1, 0]], [[0.5, 0.1, 0.2]], 1, "scores of 3 labels and truth has 2"),
        ([[1, 0]], [["a"]], 1, "give positions of labels as whole numbers"),
        ([[1, 0]], [[np.nan, 0.1]], 1, "is NaN"),
    ],
)
def test_wrong_input_is_told(truth, ranked, k, told):
    with pytest.raises(ValueError, match=told):
        precision_at_k(truth, ranked, k)


def test_wrong_propensities_are_told():
    with pytest.raises(ValueError, match="train has 3 labels and truth 2"):
        psp_at_k([[1, 0]], [[0]], 1, train=[[1, 0, 0]])
    with pytest.raises(ValueError, match="b is 0"):
        psp_at_k([[1, 0]], [[0]], 1, train=[[1, 0]], b=0)
