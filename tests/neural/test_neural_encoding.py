"""Facts about the encoding of columns: quantile bins, missing values."""

import numpy as np
import pytest
import torch

from propml.neural.encoding import FeatureScaler, QuantileBins
from propml.neural.rows import make_rows


def test_a_bin_holds_the_fraction_of_the_way_through_it():
    column = np.linspace(0, 4, 401, dtype=np.float32)[:, None]
    bins = QuantileBins.of(column, 4)  # edges 0, 1, 2, 3, 4
    encoded = bins(torch.tensor([[2.25], [5.0], [-0.5]])) + torch.cat([torch.zeros(1), bins.level[0]])
    expected = [[2.25, 1, 1, 0.25, 0], [5.0, 1, 1, 1, 2], [-0.5, -0.5, 0, 0, 0]]  # the outer bins extrapolate
    torch.testing.assert_close(encoded, torch.tensor(expected), atol=1e-5, rtol=0)


def test_bins_are_centred_on_the_training_rows():
    X = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    encoded = QuantileBins.of(X, 8)(torch.from_numpy(X))
    assert encoded.shape == (500, 3 + 3 * 8)
    torch.testing.assert_close(encoded[:, 3:].mean(dim=0), torch.zeros(24), atol=1e-5, rtol=0)


def test_columns_of_two_values_have_no_bins():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(2, size=100), np.ones(100), rng.normal(size=100)]).astype(np.float32)
    bins = QuantileBins.of(X, 4)
    assert bins.columns.tolist() == [2]


def test_a_column_that_is_mostly_one_value_still_bends():
    column = np.r_[np.zeros(95), 1, 2, 3, 4, 5].astype(np.float32)[:, None]
    bins = QuantileBins.of(column, 4)
    encoded = bins(torch.tensor([[0.0], [1.0], [2.0], [5.0]]))
    assert len(encoded.unique(dim=0)) == 4
    assert encoded.isfinite().all()


def test_a_batch_is_encoded_as_the_whole_is():
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    bins = QuantileBins.of(X, 4)
    rows = make_rows(X, torch.device("cpu"), bins)
    weight = torch.randn(1, rows.n_features, 5)
    index = torch.tensor([[3, 7, 11]])
    torch.testing.assert_close(rows.product(index, weight), bins(torch.from_numpy(X[index])) @ weight)


def test_a_missing_value_is_the_mean_and_is_told():
    X = np.array([[1.0, 5.0], [3.0, np.nan], [5.0, 7.0]])
    scaler = FeatureScaler(2).fit(X)
    scaled = scaler.transform(X)
    assert scaled.shape == (3, 3)
    assert scaled[:, 2].tolist() == [0.0, 1.0, 0.0]
    assert scaled[1, 1] == 0.0
    assert scaled[0, 1] == pytest.approx(-scaled[2, 1])


def test_a_value_missing_where_none_was_is_the_mean():
    scaler = FeatureScaler(2).fit(np.array([[1.0, 5.0], [3.0, 6.0]]))
    assert scaler.transform(np.array([[np.nan, 6.0]])).tolist() == [[0.0, 1.0]]
