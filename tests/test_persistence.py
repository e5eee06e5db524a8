"""Saved models: the same bytes for the same model, and forged ones are refused when they are loaded."""

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import save
from sklearn.base import clone

import propml
from forged_states import forge
from propml import persistence
from propml.file_errors import FileError
from propml.methods.registry import METHODS, OTHERS, method_class

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5)) * (RNG.random((40, 5)) < 0.5)
Y = (RNG.random((40, 4)) < 0.4).astype(int)
Y[:, 0] |= Y.sum(axis=1) == 0
QUICK = {"hidden": (8,), "epochs": 2, "random_state": 0}
SMALL = {"propml": QUICK, "many-labels": QUICK}


@pytest.fixture(params=METHODS | OTHERS)
def model(request):
    return method_class(request.param)(**SMALL.get(request.param, {})).fit(sp.csr_array(X), Y)


def test_two_fits_of_the_same_data_and_seed_are_the_same_file(model, tmp_path):
    model.save(tmp_path / "a")
    clone(model).fit(sp.csr_array(X), Y).save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    # Not the last bit: products depend on where in memory their arrays begin.
    np.testing.assert_allclose(propml.load(tmp_path / "a").predict_proba(X), model.predict_proba(X), rtol=1e-13)


def test_an_array_of_another_shape_or_with_gaps_is_refused_when_it_is_loaded(model, tmp_path):
    path = tmp_path / "model"
    model.save(path)
    content = path.read_bytes()
    names = []
    forge(
        path,
        lambda arrays, _: names.extend(name for name in arrays if "history_" not in name),
    )
    for name in names:
        for change in (lambda array: array[None], lambda array: array * np.nan):
            path.write_bytes(content)

            def forged(arrays, outline, name=name, change=change):
                arrays[name] = np.ascontiguousarray(change(arrays[name]))

            forge(path, forged)
            with pytest.raises(FileError, match="is not a readable saved model"):
                propml.load(path)


@pytest.mark.parametrize("name", ["kernel-ridge", "ml-knn"])
def test_a_sparse_matrix_that_would_end_the_process_is_refused(name, tmp_path):
    path = tmp_path / "model"
    method_class(name)().fit(sp.csr_array(X), Y).save(path)

    def broken(arrays, outline):
        arrays["/learned/rows_/indptr"][-1] = 0

    forge(path, broken)
    with pytest.raises(FileError, match="indptr falls after position"):
        propml.load(path)


def learned(outline):
    return outline["dict"]["learned"]["dict"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, o: learned(o).pop("coef_"), "has no 'coef_'"),
        (lambda _, o: learned(o).update(predict=1), "has a field 'predict'"),
        (lambda _, o: learned(o).update(labels_={"tuple": ["a", "a", "b", "c"]}), "thresholds_ is an array"),
        (lambda _, o: learned(o).update(labels_={"tuple": [{"list": []}]}), "TypeError"),
        (lambda _, o: learned(o).update(n_features_in_=10**12), "coef_ is an array"),
        (lambda _, o: learned(o).update(coef_={"array": "nowhere"}), "KeyError: 'nowhere'"),
        (lambda _, o: o["dict"]["params"]["dict"].update(depth=3), "unexpected keyword argument 'depth'"),
        (lambda _, o: o["dict"].pop("single_label"), "has no 'single_label'"),
        (lambda _, o: o["dict"].update(single_label=True), "which classes it predicts"),
        (lambda _, o: o.clear(), "KeyError: 'list'"),
    ],
)
def test_a_forged_state_is_refused_when_it_is_loaded(change, message, tmp_path):
    path = tmp_path / "model"
    method_class("ridge")().fit(X, Y).save(path)
    forge(path, change)
    for load in (propml.load, method_class("ridge").load):
        with pytest.raises(FileError, match=message) as caught:
            load(path)
        assert str(path) in str(caught.value)


def test_a_state_that_is_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "model"
    deep = '{"list": [' * 20_000 + "1" + "]}" * 20_000
    header = {"format": "1", "kind": "RidgeClassifier", "propml": "0", "state": deep}
    path.write_bytes(save({}, metadata={**header, "sha256": persistence._digest(header, {})}))
    with pytest.raises(FileError, match="RecursionError"):
        propml.load(path)


@pytest.mark.parametrize("device", ["../x", {"list": []}, None])
def test_a_device_that_is_none_is_refused_and_one_that_is_not_here_is_not(device, tmp_path):
    path = tmp_path / "model"
    method_class("propml")(**SMALL["propml"]).fit(X, Y).save(path)
    forge(path, lambda _, o: o["dict"]["params"]["dict"].update(device="cuda:99"))
    assert propml.load(path).device == "cuda:99"
    forge(path, lambda _, o: o["dict"]["params"]["dict"].update(device=device))
    with pytest.raises(FileError, match="device"):
        propml.load(path)


def test_a_tree_that_looks_at_a_column_that_does_not_exist_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("propml.neural.fitting.chosen_weights", lambda members, *_: [1 / len(members)] * len(members))
    path = tmp_path / "model"
    method_class("propml")(**{**SMALL["propml"], "loss": "auto", "forest": True}).fit(X, Y).save(path)

    def broken(arrays, outline):
        (name,) = [name for name in arrays if name.endswith("/feature")]
        arrays[name][-1] = 1_000_000

    forge(path, broken)
    with pytest.raises(FileError, match="columns that do not exist"):
        propml.load(path)
