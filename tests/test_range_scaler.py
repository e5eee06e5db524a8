import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

from propml.range_scaler import RangeScaler


def test_it_is_the_scaling_to_minus_one_and_one_but_for_constants():
    X = np.random.default_rng(0).normal(size=(20, 3)) * [1, 1e6, 1e-6]
    np.testing.assert_allclose(RangeScaler().fit_transform(X), MinMaxScaler((-1, 1)).fit_transform(X), atol=1e-12)
    X[:, 1] = 7.0
    assert (RangeScaler().fit_transform(X)[:, 1] == 0).all()
    assert (RangeScaler().fit(X).transform(X + 1)[:, 1] == 0).all()


def test_sparse_features_give_what_dense_ones_give():
    X = sp.random(20, 5, density=0.3, random_state=0, format="csr")
    assert np.array_equal(RangeScaler().fit_transform(X), RangeScaler().fit_transform(X.toarray()))


def test_new_rows_are_scaled_by_the_old_range():
    scaler = RangeScaler().fit([[0.0], [2.0]])
    assert scaler.transform([[1.0], [4.0]]).tolist() == [[0.0], [3.0]]
    with pytest.raises(ValueError, match="2 features"):
        scaler.transform([[1.0, 2.0]])


def test_scikit_learn_agrees():
    check_estimator(RangeScaler())
