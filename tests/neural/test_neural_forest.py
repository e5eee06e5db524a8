"""Facts about the forest: its arrays say what scikit-learn's trees say, and it judges rows that trees left out."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.ensemble import RandomForestRegressor

from propml import ProPMLClassifier
from propml.neural import fitting
from propml.neural.forest import SMALLEST, Trees, fit_forest


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6)).astype(np.float32)
    return X, (X[:, :3] + 0.3 * rng.normal(size=(120, 3)) > 0).astype(np.int8)


@pytest.mark.parametrize(
    ("trees", "grown"),
    [
        (Trees(20), {"max_features": "sqrt"}),
        (Trees(20, leaf=3, columns=2.0), {"min_samples_leaf": 3, "max_features": 4}),
        (Trees(20, columns=9.0), {"max_features": 6}),  # no more columns than there are
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_arrays_predict_as_the_trees_do(problem, sparse, trees, grown):
    X, states = problem
    features = sp.csr_array(np.where(X > 0, X, 0)) if sparse else X
    forest, _ = fit_forest(features, states, None, trees=trees, seed=3)
    fitted = RandomForestRegressor(20, random_state=3, **grown).fit(features, states.astype(float))
    dense = features.toarray() if sparse else features
    share = np.clip(fitted.predict(features), SMALLEST, 1 - SMALLEST)
    # Leaves are kept in half precision.
    np.testing.assert_allclose(torch.sigmoid(forest(torch.from_numpy(dense))), share, atol=1e-3)


def test_out_of_bag_opinions_are_those_of_scikit_learn(problem):
    X, states = problem
    _, held = fit_forest(X, states, None, trees=Trees(60), seed=0)
    fitted = RandomForestRegressor(60, max_features="sqrt", oob_score=True, random_state=0).fit(X, states.astype(float))
    share = np.clip(fitted.oob_prediction_, SMALLEST, 1 - SMALLEST)
    np.testing.assert_allclose(1 / (1 + np.exp(-held)), share, atol=1e-5)


def test_rows_that_every_tree_saw_have_no_opinion():
    X = np.arange(4.0, dtype=np.float32)[:, None]
    _, held = fit_forest(X, np.eye(4, dtype=np.int8), None, trees=Trees(1), seed=0)
    assert np.isnan(held).any()
    assert np.isfinite(held).any()


def test_unknown_entries_count_as_the_labels_mean():
    X = np.zeros((6, 1), dtype=np.float32)
    states = np.array([[1], [1], [0], [0], [-1], [-1]], dtype=np.int8)
    forest, _ = fit_forest(X, states, None, trees=Trees(200), seed=0)
    assert torch.sigmoid(forest(torch.zeros(1, 1))).item() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("effort", "zeros", "expected"),
    [
        ("auto", False, Trees(100, leaf=2)),
        ("auto", True, Trees(100, leaf=2, columns=4.0)),
        ("fast", True, Trees(50)),
    ],
)
def test_splits_look_at_more_columns_where_features_are_mostly_zero(problem, monkeypatch, effort, zeros, expected):
    X, states = problem
    grown = []

    def spy(*arguments, trees, seed):
        grown.append(trees)
        return fit_forest(*arguments, trees=trees, seed=seed)

    monkeypatch.setattr(fitting, "fit_forest", spy)
    features = np.where(X > 1, 1.0, 0.0) if zeros else X
    ProPMLClassifier(hidden=(4,), epochs=2, effort=effort, random_state=0).fit(features, states)
    assert grown == [expected]
