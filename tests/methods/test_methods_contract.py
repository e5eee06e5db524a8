"""The contract of every method in the registry; a new method is tested from its line there."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from propml import methods
from propml.datasets import digits_mosaic
from propml.methods import load, method_class
from propml.methods.registry import METHODS, OTHERS
from propml.targets import Candidates

# Settings under which a method is quick enough for hundreds of small fits.
QUICK: dict[str, dict] = {
    "propml": {"hidden": (32,), "cv": 2, "epochs": 30, "batch_size": 32, "random_state": 0},
    "many-labels": {"hidden": (32,), "epochs": 30, "batch_size": 32, "random_state": 0},
}

CLASSES = METHODS | OTHERS
each_method = pytest.mark.parametrize("name", CLASSES)


WEIGHTS = (
    "rows are shuffled into batches and held out by fold, so leaving a row out changes which rows meet, as for any "
    "network trained in batches; that weights scale the loss of their rows is tested in test_methods_propml.py"
)
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "propml": {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    }
}


def quick(name):
    return method_class(name)(**QUICK.get(name, {}))


@pytest.fixture(scope="module")
def mosaic():
    train, test = digits_mosaic(300, split="train"), digits_mosaic(100, split="test", random_state=1)
    return train.X, train.candidates, test.X, test.truth


@pytest.fixture(scope="module")
def fitted(mosaic):
    made = {}

    def get(name):
        if name not in made:
            made[name] = quick(name).fit(mosaic[0], mosaic[1])
        return made[name]

    return get


@each_method
def test_the_class_can_be_imported_by_its_name(name):
    assert CLASSES[name].name in methods.__all__
    assert getattr(methods, CLASSES[name].name) is method_class(name)
    assert not hasattr(sklearn.linear_model, CLASSES[name].name)


def test_naming_a_method_imports_no_other():
    code = "import sys; from propml.methods import PMLNIClassifier; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    with pytest.raises(ImportError, match="cannot import name 'NoClassifier'"):
        exec("from propml.methods import NoClassifier")


@each_method
def test_scikit_learn_finds_nothing_wrong(name):
    expected = EXPECTED_FAILURES.get(name, {})
    for result in check_estimator(quick(name), expected_failed_checks=expected, on_skip=None, on_fail=None):
        assert result["status"] in ("passed", "skipped", "xfail"), (result["check_name"], result["exception"])


@each_method
def test_shapes_and_ranges(name, mosaic, fitted):
    model, X = fitted(name), mosaic[2]
    scores, chances, marks = model.decision_function(X), model.predict_proba(X), model.predict(X)
    assert scores.shape == chances.shape == marks.shape == (100, 10)
    assert np.isfinite(scores).all()
    assert ((chances > 0) & (chances < 1)).all()
    assert set(np.unique(marks)) <= {0, 1}
    assert model.labels_ == tuple("0123456789")
    np.testing.assert_array_equal(marks, chances > model.thresholds_)
    names = model.predict_labels(X)
    assert [len(row) for row in names] == marks.sum(axis=1).tolist()


@each_method
def test_probabilities_keep_the_order_of_the_scores(name, mosaic, fitted):
    model, X = fitted(name), mosaic[2]
    scores, chances = model.decision_function(X), model.predict_proba(X)
    order = np.argsort(scores, axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(chances, order, axis=1), axis=1) >= 0).all()


@each_method
def test_learns_something(name, mosaic, fitted):
    from propml.metrics import average_precision

    chance = average_precision(mosaic[3], np.random.default_rng(0).random((100, 10)))
    assert average_precision(mosaic[3], fitted(name).decision_function(mosaic[2])) > chance + 0.1


@each_method
@pytest.mark.parametrize("form", ["csr_matrix", "csr_array", "csc_array", "pandas", "polars", "float32"])
def test_every_form_of_features_gives_the_same_scores(name, form, mosaic, fitted):
    make = {
        "csr_matrix": sp.csr_matrix,
        "csr_array": sp.csr_array,
        "csc_array": sp.csc_array,
        "pandas": lambda X: pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])]),
        "polars": lambda X: pl.DataFrame(X, schema=[f"f{j}" for j in range(X.shape[1])]),
        "float32": lambda X: X.astype(np.float32),
    }[form]
    model = quick(name).fit(make(mosaic[0]), mosaic[1])
    expected = fitted(name).decision_function(mosaic[2])
    scale = np.abs(expected).max()
    if form in ("csr_matrix", "csr_array", "csc_array") and name in SPARSE_IS_SCALED_OTHERWISE:
        assert model.decision_function(make(mosaic[2])).shape == expected.shape
        return
    np.testing.assert_allclose(model.decision_function(make(mosaic[2])), expected, atol=2e-3 * scale)


# Methods that scale sparse features without centring them, so that they stay sparse.
SPARSE_IS_SCALED_OTHERWISE = {"propml", "many-labels"}


@each_method
def test_every_form_of_candidates_gives_the_same_scores(name, mosaic, fitted):
    X, candidates, test, _ = mosaic
    expected = fitted(name).decision_function(test)
    for y in (candidates.to_matrix(), candidates.to_sparse(), candidates.to_frame(), candidates.to_lists()):
        model = quick(name).fit(X, y)
        np.testing.assert_allclose(model.decision_function(test), expected, atol=1e-8)


@each_method
def test_saved_and_loaded(name, mosaic, fitted, tmp_path):
    model, X = fitted(name), mosaic[2]
    model.save(tmp_path / "model.safetensors")
    for again in (type(model).load(tmp_path / "model.safetensors"), load(tmp_path / "model.safetensors")):
        assert type(again) is type(model)
        # The numbers are the same; products of arrays that lie elsewhere in memory may differ in their last bit.
        np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.labels_ == model.labels_
        assert again.get_params() == model.get_params()


@each_method
def test_saved_after_a_class_vector(name, tmp_path):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.array(["yes", "no"] * 20)
    model = quick(name).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").predict(X).tolist() == model.predict(X).tolist()


@each_method
def test_the_same_seed_gives_the_same_scores(name, mosaic, fitted):
    again = clone(fitted(name)).fit(mosaic[0], mosaic[1])
    np.testing.assert_array_equal(again.decision_function(mosaic[2]), fitted(name).decision_function(mosaic[2]))


DEGENERATE = {
    "a label that is never a candidate": lambda X, S: (X, np.hstack([S, np.zeros((len(S), 1), int)])),
    "a label that is always a candidate": lambda X, S: (X, np.hstack([S, np.ones((len(S), 1), int)])),
    "identical label columns": lambda X, S: (X, S[:, [0, 0, 1]]),
    "duplicate rows": lambda X, S: (np.repeat(X[:5], 8, axis=0), np.repeat(S[:5], 8, axis=0)),
    "four rows": lambda X, S: (X[:4], S[:4]),
    "constant features": lambda X, S: (np.hstack([np.ones_like(X), X[:, :1]]), S),
    "all features constant": lambda X, S: (np.ones_like(X), S),
    "one label": lambda X, S: (X, S[:, :1]),
    "rows without candidates": lambda X, S: (X, np.where(np.arange(len(S))[:, None] % 5 == 0, 0, S)),
    "more features than rows": lambda X, S: (np.hstack([X] * 20), S),
}


@each_method
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_input_works(name, case):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    S = (X[:, :3] + 0.3 * rng.normal(size=(40, 3)) > 0).astype(int)
    X, S = DEGENERATE[case](X, S)
    model = quick(name).fit(X, S)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.predict_proba(X).shape == S.shape


@each_method
@pytest.mark.parametrize(
    ("X", "y", "told"),
    [
        (np.ones((3, 2)), np.zeros((3, 2)), "no row has a candidate"),
        (np.ones((3, 2)), np.ones((4, 2)), "inconsistent numbers of samples"),
        (np.full((3, 2), np.inf), np.ones((3, 2)), "infinity"),
        (np.ones((3, 2)), np.full((3, 2), 2), "row 0, label 0 is 2"),
        (np.ones((3, 2)), None, "requires y"),
        (pd.DataFrame({"a": [1, 2], "b": [None, "x"]}), np.eye(2), "column 'b' of X holds 'x', which is no number"),
        ([[1.0, "2"], [3.0, "?"]], np.eye(2), "column 1 of X holds '[?]', which is no number; encode the column"),
        (pd.DataFrame({"a": [1, 2], "b": pd.date_range("2026", periods=2)}), np.eye(2), "column 'b' of X holds Timest"),
        ([[1.0, [2]], [3.0, [4]]], np.eye(2), r"column 1 of X holds \[2\], which is no number"),
        (sp.csr_array([[1.0, np.nan], [3.0, 4.0]]), np.eye(2), "X (contains|is sparse and holds) NaN"),
    ],
)
def test_bad_input_is_told(name, X, y, told):
    with pytest.raises(ValueError, match=told):
        quick(name).fit(X, y)


@each_method
def test_other_features_than_in_training_are_told(name, fitted):
    with pytest.raises(ValueError, match="features"):
        fitted(name).predict(np.ones((2, 3)))


@each_method
def test_unknown_labels_are_learned_from_or_told(name):
    X = np.random.default_rng(0).normal(size=(30, 3))
    S = np.where(X > 0.5, 1, np.where(X < -1, -1, 0))
    S[:, 0] = 1
    if method_class(name)._takes_unknown:
        assert quick(name).fit(X, S).predict(X).shape == S.shape
    else:
        with pytest.raises(ValueError, match="unknown labels"):
            quick(name).fit(X, S)


@each_method
def test_documentation_cites_and_states_deviations(name):
    text = (__import__("sys").modules[method_class(name).__module__].__doc__ or "").lower()
    assert "deviations" in text


def test_names_and_kinds_are_unique():
    assert len({method.name for method in CLASSES.values()}) == len(CLASSES)
    with pytest.raises(ValueError, match="did you mean 'ridge'"):
        method_class("ridg")


def test_candidates_carry_their_label_names(mosaic):
    named = Candidates.from_lists([["cat"], ["dog", "cat"], ["dog"]] * 5)
    model = method_class("ridge")().fit(np.arange(15.0).reshape(-1, 1), named)
    assert model.labels_ == ("cat", "dog")
