"""PAR-MAP: likelihoods by plain loops, the posterior, and what must not be looked at."""

import inspect

import numpy as np
import pytest

from propml.datasets import digits_mosaic
from propml.methods.ml_knn import count_likelihood
from propml.methods.particle import PARMAPClassifier
from propml.methods.particle_pairs import count_votes
from propml.metrics import average_precision


@pytest.fixture(scope="module")
def mosaic():
    return digits_mosaic(300), digits_mosaic(100, split="test", random_state=1)


@pytest.fixture(scope="module")
def fitted(mosaic):
    return PARMAPClassifier().fit(mosaic[0].X, mosaic[0].candidates)


def test_likelihood_by_loops():
    rng = np.random.default_rng(0)
    votes, rows = rng.integers(0, 4, size=(50, 4)), rng.random((50, 4)) < 0.3
    without, with_label = count_likelihood(votes, rows, 4, 1.0)
    for label in range(4):
        for count in range(4):
            seen = sum(rows[i, label] and votes[i, label] == count for i in range(50))
            assert with_label[count, label] == pytest.approx((1 + seen) / (4 + rows[:, label].sum()))
            unseen = sum(not rows[i, label] and votes[i, label] == count for i in range(50))
            assert without[count, label] == pytest.approx((1 + unseen) / (4 + (~rows)[:, label].sum()))


def test_scores_are_the_posterior_of_the_votes(mosaic, fitted):
    train, test = mosaic
    S, K = train.candidates.to_matrix(float), fitted.credible_.toarray()
    seen = count_votes(train.X, fitted.machines_, weighted=False).astype(int)
    new = count_votes(test.X, fitted.machines_, weighted=False).astype(int)
    scores = fitted.decision_function(test.X)
    for label in range(10):
        prior = (1 + S[:, label].sum()) / (2 + len(S))
        for row in range(0, 100, 7):
            same = seen[:, label] == new[row, label]
            with_it = (1 + (same & (K[:, label] == 1)).sum()) / (10 + (K[:, label] == 1).sum())
            without = (1 + (same & (K[:, label] == 0)).sum()) / (10 + (K[:, label] == 0).sum())
            expected = prior * with_it / (prior * with_it + (1 - prior) * without)
            assert scores[row, label] == pytest.approx(expected)


def test_probabilities_are_the_scores_and_half_decides(mosaic, fitted):
    X = mosaic[1].X
    np.testing.assert_array_equal(fitted.predict_proba(X), fitted.decision_function(X))
    np.testing.assert_array_equal(fitted.predict(X), fitted.decision_function(X) > 0.5)


def test_scoring_sees_features_only(mosaic, fitted):
    assert list(inspect.signature(fitted.decision_function).parameters) == ["X"]
    # One row at a time gives what all rows give: no statistics of the test rows are used.
    X = mosaic[1].X[:20]
    single = np.vstack([fitted.decision_function(row[None]) for row in X])
    np.testing.assert_allclose(single, fitted.decision_function(X))


def test_votes_of_all_labels_but_ties_add_up_to_the_machines(mosaic, fitted):
    votes = count_votes(mosaic[1].X, fitted.machines_, weighted=False)
    assert (votes.sum(axis=1) == len(fitted.machines_["pairs"])).all()
    assert len(fitted.machines_["pairs"]) == 45
    assert votes.max() <= 9


def test_the_release_reads_votes_by_the_true_labels_of_test_rows(mosaic):
    train, test = mosaic
    model = PARMAPClassifier(paper=True).fit(train.X, train.candidates)
    blind = average_precision(test.truth, model.decision_function(test.X))
    assert model.fit_to_truth(test.X, test.truth) is model
    votes = count_votes(test.X, model.machines_, weighted=False).astype(int)
    prior = (1 + train.candidates.to_matrix().sum(axis=0)) / (2 + len(train.X))
    true = test.truth.astype(bool)
    without, with_label = count_likelihood(votes, true, 10, 1.0)
    odds = (prior / (1 - prior)) * (with_label / without)[votes, np.arange(10)]
    span = odds.max(axis=1, keepdims=True) - odds.min(axis=1, keepdims=True)
    np.testing.assert_allclose(model.decision_function(test.X), (odds - odds.min(axis=1, keepdims=True)) / span)
    assert average_precision(test.truth, model.decision_function(test.X)) > blind


def test_the_papers_decision_keeps_the_order_and_marks_the_largest(mosaic):
    train, test = mosaic
    model = PARMAPClassifier(paper=True).fit(train.X, train.candidates)
    scores = model.decision_function(test.X)
    np.testing.assert_allclose(scores.max(axis=1), 1.0)
    np.testing.assert_allclose(scores.min(axis=1), 0.0)
    marks = model.predict(test.X)
    assert (marks.sum(axis=1) >= 1).all()
    model.paper = False
    order = np.argsort(-model.decision_function(test.X), axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(scores, order, axis=1), axis=1) <= 1e-12).all()


def test_released_stage_one_may_leave_the_candidates(mosaic):
    S = mosaic[0].candidates.to_matrix(bool)
    released = PARMAPClassifier(paper=True).fit(mosaic[0].X, mosaic[0].candidates).credible_.toarray().astype(bool)
    default = PARMAPClassifier().fit(mosaic[0].X, mosaic[0].candidates).credible_.toarray().astype(bool)
    assert (released & ~S).any()
    assert not (default & ~S).any()


def test_a_label_that_is_never_and_one_that_is_always_a_candidate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    S = np.column_stack([X[:, 0] > 0, X[:, 0] <= 0, np.zeros(60), np.ones(60)]).astype(int)
    marks = PARMAPClassifier().fit(X, S).predict(X)
    assert not marks[:, 2].any()
    assert marks[:, 3].all()
    assert (marks[:, 0] == S[:, 0]).mean() > 0.9


def test_scene_is_near_the_published_row(data_dir):
    from sklearn.preprocessing import MinMaxScaler

    from propml.corruption import svm_confusions
    from propml.datasets import load

    scene = load("scene", data_dir)
    X = MinMaxScaler((-1, 1)).fit_transform(scene.X)
    candidates = svm_confusions(X, scene.truth, 1.0)
    test = np.random.default_rng(0).permutation(len(X)) % 5 == 0
    scores = PARMAPClassifier().fit(X[~test], candidates[np.flatnonzero(~test)]).decision_function(X[test])
    assert average_precision(scene.truth[test], scores, ties="paper") == pytest.approx(0.839, abs=0.03)
