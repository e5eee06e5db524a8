"""Corruptions by name: all of them keep to one shape of call."""

import numpy as np
import pytest

from propml.corruption import CORRUPTIONS, corrupt, independent_flips, svm_confusions

SETTINGS = {
    "svm": {"ratio": 1.0},
    "neighbours": {"ratio": 1.0},
    "flips": {"rate": 0.3},
    "class-flips": {"rate": 0.3},
    "count": {"count": 3},
    "fraction": {"fraction": 0.5},
    "annotators": {"sensitivity": 0.8, "false_positive_rate": 0.2, "n_annotators": 3},
    "none": {},
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 4)), (rng.random((60, 6)) < 0.3).astype(np.int8)


def test_every_corruption_is_tried_here():
    assert set(SETTINGS) == set(CORRUPTIONS)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_corruption_is_seeded_names_its_labels_and_adds_false_ones_or_none(name, data):
    X, truth = data
    first = corrupt(name, X, truth, labels=list("abcdef"), random_state=5, **SETTINGS[name])
    again = corrupt(name, X, truth, labels=list("abcdef"), random_state=5, **SETTINGS[name])
    assert first == again
    assert first.labels == tuple("abcdef")
    assert ((first.to_matrix() == 1) & (truth == 0)).any() == (name != "none")
    if name != "annotators":
        assert (first.to_matrix() >= truth).all()


def test_the_name_calls_the_function(data):
    X, truth = data
    assert corrupt("flips", None, truth, rate=0.2) == independent_flips(truth, 0.2)
    assert corrupt("svm", X, truth, ratio=0.5) == svm_confusions(X, truth, 0.5)


def test_mistakes_are_told(data):
    with pytest.raises(ValueError, match="no corruption named 'noise'; choose one of svm, neighbours"):
        corrupt("noise", *data)
    for name in ("svm", "neighbours"):
        with pytest.raises(ValueError, match=f"{name}' looks at the features, and X is None"):
            corrupt(name, None, data[1], ratio=1.0)
