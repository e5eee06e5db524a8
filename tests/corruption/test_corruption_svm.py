"""SVM confusions: against scikit-learn's own SVM and calibration, on made-up data and on Birds."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from propml.corruption import SVMConfusions, realised_ratio, svm_confusions, svm_probabilities
from propml.corruption import svm as svm_module


@pytest.fixture(scope="module")
def data():
    X, truth = make_multilabel_classification(150, 10, n_classes=5, random_state=0)
    X[:, 3] = 7.0  # a feature that never varies
    return X, truth


def test_probabilities_are_those_of_scikit_learns_calibrated_svm(data):
    X, truth = data
    scaled = minmax_scale(X, (-1, 1))
    scaled[:, 3] = 0
    ours = svm_probabilities(X, truth, random_state=3)
    for j in range(truth.shape[1]):
        folds = StratifiedKFold(5, shuffle=True, random_state=3)
        theirs = CalibratedClassifierCV(SVC(C=1, gamma="scale"), ensemble=False, cv=folds).fit(scaled, truth[:, j])
        assert np.abs(ours[:, j] - theirs.predict_proba(scaled)[:, 1]).max() < 1e-3


def test_one_kernel_for_all_labels_changes_nothing(data, monkeypatch):
    shared = svm_probabilities(*data)
    monkeypatch.setattr(svm_module, "KERNEL_ROWS", 10)
    assert np.abs(svm_probabilities(*data) - shared).max() < 1e-9


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_neither_jobs_nor_sparsity_nor_a_progress_bar_change_anything(data, n_jobs):
    X, truth = data
    alone = svm_probabilities(X, truth)
    together = svm_probabilities(sp.csr_array(X), sp.csr_array(truth), n_jobs=n_jobs, verbose=True)
    assert (alone == together).all()


def test_the_seed_decides_the_folds(data):
    assert (svm_probabilities(*data, random_state=1) == svm_probabilities(*data, random_state=1)).all()
    assert (svm_probabilities(*data, random_state=1) != svm_probabilities(*data, random_state=2)).any()


def test_rare_labels_get_fewer_folds_or_their_frequency():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    truth = np.zeros((40, 5), dtype=int)
    truth[[3], 0] = 1  # one positive row
    truth[:, 2] = 1  # no negative row
    truth[:39, 3] = 1  # one negative row
    truth[[5, 9], 4] = 1  # two positive rows: two folds
    probabilities = svm_probabilities(X, truth)
    assert (probabilities[:, 0] == 1 / 40).all()
    assert (probabilities[:, 1] == 0).all()
    assert (probabilities[:, 2] == 1).all()
    assert (probabilities[:, 3] == 39 / 40).all()
    assert np.unique(probabilities[:, 4]).size > 2
    assert ((probabilities[:, 4] > 0) & (probabilities[:, 4] < 1)).all()


def test_features_that_never_vary_are_harmless():
    probabilities = svm_probabilities(np.ones((20, 3)), np.eye(20, 2) + np.eye(20, 2, k=-1))
    assert np.isfinite(probabilities).all()


def test_the_false_labels_are_the_most_probable_ones(data):
    X, truth = data
    probabilities = svm_probabilities(X, truth)
    candidates = svm_confusions(X, truth, 0.5, labels=list("abcde"))
    assert candidates.labels == tuple("abcde")
    matrix = candidates.to_matrix()
    assert (matrix >= truth).all()
    added, left = (matrix == 1) & (truth == 0), matrix == 0
    assert (added.sum(axis=1) == np.minimum(truth.sum(axis=1) // 2, 5 - truth.sum(axis=1))).all()
    for i in np.flatnonzero(added.any(axis=1) & left.any(axis=1)):
        assert probabilities[i, added[i]].min() >= probabilities[i, left[i]].max()


def test_one_fit_serves_several_ratios(data):
    X, truth = data
    confusions = SVMConfusions(ratio=1.0, rounding="exact").fit(X, truth)
    assert confusions.n_features_in_ == 10
    for ratio in (0.5, 1.0, 1.5):
        assert confusions.set_params(ratio=ratio).transform(truth) == svm_confusions(X, truth, ratio, rounding="exact")


def test_it_can_be_cloned_and_must_be_fitted(data):
    copy = clone(SVMConfusions(ratio=1.5, n_jobs=2))
    assert copy.get_params()["ratio"] == 1.5
    with pytest.raises(NotFittedError):
        copy.transform(data[1])


def test_other_rows_than_the_fitted_ones_are_refused(data):
    X, truth = data
    with pytest.raises(ValueError, match="give one number per row and label"):
        SVMConfusions().fit(X, truth).transform(truth[:10])


class CountedMachines(svm_module._Machines):
    made = 0

    def __init__(self, features):
        type(self).made += 1
        super().__init__(features)


def test_the_cache_is_used_by_content(data, tmp_path, monkeypatch):
    X, truth = data
    monkeypatch.setattr(svm_module, "_Machines", CountedMachines)
    monkeypatch.setattr(CountedMachines, "made", 0)
    first = svm_probabilities(X, truth, cache_dir=tmp_path)
    # The same content in another form, and with other jobs, is found.
    second = svm_probabilities(sp.csr_array(X), truth.tolist(), cache_dir=tmp_path, n_jobs=2)
    assert CountedMachines.made == 1
    assert (first == second).all()
    changed = truth.copy()
    changed[0, 0] = 1 - changed[0, 0]
    svm_probabilities(X, changed, cache_dir=tmp_path)
    svm_probabilities(X, truth, cache_dir=tmp_path, random_state=1)
    assert CountedMachines.made == 3
    assert len(list(tmp_path.iterdir())) == 3


def test_a_truncated_cache_file_is_computed_again(data, tmp_path):
    first = svm_probabilities(*data, cache_dir=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:200])
    with pytest.warns(UserWarning, match="computed again"):
        again = svm_probabilities(*data, cache_dir=tmp_path)
    assert (first == again).all()


def test_mistakes_are_told(data):
    X, truth = data
    with pytest.raises(ValueError, match="X has 149 rows and the truth 150"):
        svm_probabilities(X[1:], truth)
    broken = X.copy()
    broken[17, 2] = np.nan
    with pytest.raises(ValueError, match="row 17, feature 2 of X is nan"):
        svm_probabilities(broken, truth)


def test_birds_as_in_the_paper(data_dir):
    from propml.datasets import load

    birds = load("birds", data_dir=data_dir).drop_unlabelled()
    confusions = SVMConfusions(n_jobs=2).fit(birds.X, birds.truth)
    assert confusions.probabilities_.shape == (351, 19)
    level = realised_ratio(birds.truth, confusions.transform(birds.truth))
    assert level.ratio == 1
    assert level.mean_size == pytest.approx(3.73, abs=0.005)
    # False labels are confusions, not accidents: a few labels take far more than their even share.
    candidates = confusions.transform(birds.truth).to_matrix()
    added = (candidates - birds.truth).sum(axis=0)
    assert np.sort(added)[-3:].sum() > 2 * 3 / 19 * added.sum()
