"""The rivals: scikit-learn's own numbers, whatever the candidates look like."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from propml.benchmark.cell import make_model, score
from propml.benchmark.rivals import RIVALS
from propml.datasets import digits_mosaic
from propml.methods import METHODS
from propml.targets import Candidates

each_rival = pytest.mark.parametrize("name", RIVALS)
QUICK = {"extra-trees": {"n_estimators": 40}, "random-forest": {"n_estimators": 40}, "boosting": {"max_iter": 20}}


def rival(name):
    return make_model(name, QUICK.get(name, {}), seed=4)


@pytest.fixture(scope="module")
def mosaic():
    data = digits_mosaic(200)
    return data.X[:, ::8], data.candidates


def test_probabilities_are_those_of_scikit_learn(mosaic):
    X, candidates = mosaic
    y = candidates.to_matrix()
    for name, forest in (
        ("extra-trees", ExtraTreesClassifier(40, min_samples_leaf=3, random_state=4)),
        ("random-forest", RandomForestClassifier(40, random_state=4)),
    ):
        expected = np.column_stack([label[:, 1] for label in forest.fit(X, y).predict_proba(X)])
        np.testing.assert_allclose(rival(name).fit(X, candidates).predict_proba(X), expected, atol=1e-12)
    trees = HistGradientBoostingClassifier(max_iter=20, random_state=4).fit(X, y[:, 2])
    np.testing.assert_allclose(
        rival("boosting").fit(X, candidates).predict_proba(X)[:, 2], trees.predict_proba(X)[:, 1], atol=1e-12
    )
    scaled = StandardScaler().fit_transform(X)
    line = LogisticRegression(max_iter=1000).fit(scaled, y[:, 2])
    np.testing.assert_allclose(
        rival("logistic").fit(X, candidates).predict_proba(X)[:, 2], line.predict_proba(scaled)[:, 1], atol=1e-12
    )


def test_defaults_are_those_that_are_announced():
    assert make_model("extra-trees", {}, 0).get_params() == {
        "n_estimators": 300, "min_samples_leaf": 3, "random_state": 0}  # fmt: skip
    assert make_model("random-forest", {}, 0).get_params()["n_estimators"] == 200


@each_rival
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_labels_that_are_everywhere_or_nowhere_are_answered_as_seen(name, form, mosaic):
    X, y = mosaic[0], mosaic[1].to_matrix()
    y[:, 1], y[:, 3] = 0, 1
    model = rival(name).fit(form(X), y)
    chances, marks = model.predict_proba(form(X)), model.predict(form(X))
    assert chances.shape == marks.shape == (200, 10)
    assert ((chances > 0) & (chances < 1)).all()
    assert not marks[:, 1].any()
    assert marks[:, 3].all()
    np.testing.assert_array_equal(marks, chances > 0.5)


@each_rival
def test_one_label_is_enough_and_so_is_none_to_learn(name, mosaic):
    X, y = mosaic[0], mosaic[1].to_matrix()[:, :1]
    assert rival(name).fit(X, y).predict_proba(X).shape == (200, 1)
    assert rival(name).fit(X, np.ones((200, 2))).predict(X).all()


@each_rival
def test_the_seed_decides_and_the_benchmark_runs_it(name, mosaic):
    X, candidates = mosaic
    train, test = np.arange(0, 150), np.arange(150, 200)
    first, again = (score(rival(name), X[train], candidates[train], X[test], test) for _ in range(2))
    np.testing.assert_array_equal(first.scores, again.scores)
    assert first.scores.shape == (50, 10)
    assert first.predicted.dtype == np.uint8


def test_rivals_are_no_methods_of_the_package():
    assert not set(RIVALS) & set(METHODS)


@each_rival
def test_unknown_entries_are_refused(name, mosaic):
    y = mosaic[1].to_matrix()
    y[0, 0] = -1
    with pytest.raises(ValueError, match="cannot learn from unknown labels"):
        rival(name).fit(mosaic[0], Candidates.from_matrix(y))
