"""Ridge regression against least squares on the augmented system, and its two forms against each other."""

import importlib

import numpy as np
import pytest
import scipy.sparse as sp

from propml.methods import load
from propml.methods.linear_algebra import RidgeSystem, with_bias
from propml.methods.ridge import RidgeRegressionClassifier
from propml.persistence import write_state


def case(n, d, n_labels=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    return X, (rng.random((n, n_labels)) < 0.4).astype(int)


each_shape = pytest.mark.parametrize("shape", [(60, 8), (20, 20), (15, 40)])


@each_shape
def test_minimises_the_penalised_squares(shape):
    X, S = case(*shape)
    phi = np.hstack([X, np.ones((len(X), 1))])
    augmented = np.vstack([phi, np.sqrt(3.0) * np.eye(phi.shape[1])])
    expected = np.linalg.lstsq(augmented, np.vstack([S, np.zeros((phi.shape[1], S.shape[1]))]), rcond=None)[0]
    model = RidgeRegressionClassifier(alpha=3.0).fit(X, S)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), phi @ expected, atol=1e-12)


@each_shape
def test_primal_and_dual_agree(shape):
    X, S = case(*shape)
    n, d = shape
    primal = np.linalg.solve(X.T @ X + 0.5 * np.eye(d), X.T @ S)
    dual = X.T @ np.linalg.solve(X @ X.T + 0.5 * np.eye(n), S)
    np.testing.assert_allclose(primal, dual, atol=1e-12)
    np.testing.assert_allclose(RidgeSystem(X, 0.5).weights(S), primal, atol=1e-12)


@each_shape
def test_sparse_and_dense_agree(shape):
    X, S = case(*shape)
    np.testing.assert_allclose(RidgeSystem(sp.csr_array(X), 0.5).weights(S), RidgeSystem(X, 0.5).weights(S), atol=1e-12)
    np.testing.assert_array_equal(with_bias(sp.csr_array(X)).toarray(), with_bias(X))


def test_the_bias_is_the_last_weight_and_is_penalised():
    # Four rows without features: the bias b minimises 4 (b - 1)² + 2 b², so b = 4 / 6.
    model = RidgeRegressionClassifier(alpha=2.0).fit(np.zeros((4, 1)), np.ones((4, 1)))
    np.testing.assert_allclose(model.coef_, [[0.0], [4 / 6]])


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan")])
def test_a_penalty_that_is_not_positive_is_told(alpha):
    with pytest.raises(ValueError, match="RidgeRegressionClassifier needs a positive number"):
        RidgeRegressionClassifier(alpha=alpha).fit(np.ones((2, 1)), np.ones((2, 1)))


@pytest.mark.parametrize("module", ["propml.methods", "propml.methods.ridge"])
def test_the_former_name_works_and_says_what_it_is_called_now(module):
    with pytest.warns(DeprecationWarning, match="now called RidgeRegressionClassifier") as told:
        found = importlib.import_module(module).RidgeClassifier
    assert found is RidgeRegressionClassifier
    assert told[0].filename == __file__


def test_a_model_that_was_saved_under_the_former_name_is_read(tmp_path):
    X, S = case(30, 5)
    model, path = RidgeRegressionClassifier().fit(X, S), tmp_path / "model.safetensors"
    write_state(path, "RidgeClassifier", model._state())
    for again in (load(path), RidgeRegressionClassifier.load(path)):
        assert type(again) is RidgeRegressionClassifier
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
