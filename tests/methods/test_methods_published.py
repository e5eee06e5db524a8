"""The published average precision of three baselines and the Hamming loss of PML-NI, by the protocol that reproduces
them, on the real files.

Rows without a true label are dropped, features scaled to [-1, 1], false labels added once by SVM confusions; five
folds, trained on candidates and tested on the truth.
"""

import numpy as np
import pytest
from sklearn.model_selection import KFold
from sklearn.preprocessing import MinMaxScaler

from propml.corruption import add_most_probable, svm_probabilities
from propml.datasets import load
from propml.methods import method_class
from propml.metrics import average_precision

PUBLISHED = {
    ("scene", 0.5): {"cplst": 82.74, "ml-knn": 86.27, "pml-ni": 84.00},
    ("scene", 1.0): {"cplst": 79.88, "ml-knn": 84.12, "pml-ni": 80.68},
    ("medical", 0.5): {"cplst": 79.57, "ml-knn": 80.78, "pml-ni": 90.84},
    ("medical", 1.0): {"cplst": 68.06, "ml-knn": 71.05, "pml-ni": 82.77},
}


@pytest.fixture(scope="module")
def corrupted(data_dir):
    made = {}

    def get(name):
        if name not in made:
            data = load(name, data_dir=data_dir).drop_unlabelled()
            X = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
            made[name] = MinMaxScaler((-1, 1)).fit_transform(X), data.truth, svm_probabilities(data.X, data.truth)
        return made[name]

    return get


@pytest.mark.parametrize("name", ["cplst", "ml-knn", "pml-ni"])
@pytest.mark.parametrize(("dataset", "ratio"), PUBLISHED)
def test_average_precision_as_published(dataset, ratio, name, corrupted):
    X, truth, probabilities = corrupted(dataset)
    candidates = add_most_probable(truth, probabilities, ratio, "paper").to_matrix()
    folds = KFold(5, shuffle=True, random_state=0).split(X)
    values = [
        average_precision(
            truth[test],
            method_class(name)().fit(X[train], candidates[train]).decision_function(X[test]),
            ties="paper",
        )
        for train, test in folds
    ]
    assert 100 * np.mean(values) == pytest.approx(PUBLISHED[dataset, ratio][name], abs=1.5)


@pytest.mark.parametrize(
    ("ratio", "published", "half"), [(0.5, 12.1, 10.9), (1.0, 14.9, 19.9), (1.5, 16.3, 20.4)], ids=str
)
def test_hamming_loss_of_pml_ni_as_published(ratio, published, half, corrupted):
    X, truth, probabilities = corrupted("scene")
    candidates = add_most_probable(truth, probabilities, ratio, "paper").to_matrix()
    losses = {"half": [], "released": []}
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        for cut, values in losses.items():
            model = method_class("pml-ni")(cut=cut).fit(X[train], candidates[train])
            if cut == "released":
                model.fit_to_truth(X[train], truth[train])
            values.append((model.predict(X[test]) != truth[test]).mean())
    assert 100 * np.mean(losses["released"]) == pytest.approx(published, abs=0.4)
    assert 100 * np.mean(losses["half"]) == pytest.approx(half, abs=0.1)
