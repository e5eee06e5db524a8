"""The embedded dataset: real digits, true labels that are seen, candidates that contain them."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

from propml.datasets import digits_mosaic, digits_mosaic_images, load

PIXELS, DIGITS = load_digits(return_X_y=True)
KNOWN = {row.astype(np.uint8).tobytes(): int(digit) for row, digit in zip(PIXELS, DIGITS, strict=True)}


def quadrants(X: np.ndarray) -> list[list[bytes]]:
    """The four source digits of each mosaic, cut out again."""
    whole = np.rint(X * 16).astype(np.uint8).reshape(-1, 16, 16)
    corners = [(slice(r, r + 8), slice(c, c + 8)) for r in (0, 8) for c in (0, 8)]
    return [[image[corner].tobytes() for corner in corners] for image in whole]


def test_the_true_labels_are_the_digits_that_appear():
    data = digits_mosaic(200)
    for i, tiles in enumerate(quadrants(data.X)):
        assert {KNOWN[tile] for tile in tiles} == set(np.flatnonzero(data.truth[i]))
    assert data.label_names == tuple("0123456789")
    assert data.X.min() == 0.0
    assert data.X.max() == 1.0


def test_candidates_contain_the_truth_and_some_more():
    statistics = digits_mosaic(2000).statistics()
    assert statistics.rows_missing_truth == 0
    assert statistics.mean_true == pytest.approx(10 * (1 - 0.9**4), abs=0.06)  # four draws out of ten
    assert 1.0 < statistics.mean_candidates - statistics.mean_true < 2.0
    clean = digits_mosaic(100, confusion=0.0)
    np.testing.assert_array_equal(clean.candidates.to_matrix(), clean.truth)


def test_confusions_follow_resemblance():
    """A digit is taken most for its look-alikes: false candidates of a model's near misses, not uniform noise."""
    data = digits_mosaic(5000, confusion=1.0)
    false = data.candidates.to_matrix() - data.truth
    rate = [
        false[data.truth[:, 8] == 1][:, j].mean() / (1 - data.truth[data.truth[:, 8] == 1][:, j].mean()) for j in (1, 0)
    ]
    assert rate[0] > 1.3 * rate[1]  # an 8 looks like a 1 (a narrow stroke) far more than like a 0


def test_same_seed_same_rows_and_images_are_the_same_mosaics():
    first, again, other = digits_mosaic(50, 3), digits_mosaic(50, 3), digits_mosaic(50, 4)
    np.testing.assert_array_equal(first.X, again.X)
    assert first.candidates == again.candidates
    assert (first.X != other.X).any()
    images, data = digits_mosaic_images(50, 3)
    assert images.shape == (50, 16, 16)
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(data.X, first.X)
    np.testing.assert_array_equal(data.truth, first.truth)
    assert data.candidates == first.candidates
    np.testing.assert_allclose(images.reshape(50, -1) / 255, first.X, atol=0.5 / 255)


def test_splits_share_no_source_digit_whatever_the_seed():
    train = {tile for tiles in quadrants(digits_mosaic(1500, 0, split="train").X) for tile in tiles}
    test = {tile for tiles in quadrants(digits_mosaic(1500, 1, split="test").X) for tile in tiles}
    assert len(test) > 300  # nearly all of the 360
    assert not train & test


def test_there_is_something_to_learn():
    train, test = digits_mosaic(2000, split="train"), digits_mosaic(500, split="test")
    model = RidgeClassifier().fit(train.X, train.candidates.to_matrix())
    scores = model.decision_function(test.X)
    top = scores.argmax(axis=1)
    precision = test.truth[np.arange(500), top].mean()
    assert precision > test.truth.mean() + 0.2  # chance is one label in three


def test_it_has_a_name():
    assert load("Digits Mosaic").X.shape == (2000, 256)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples is 0"),
        ({"split": "valid"}, "split is 'valid'"),
        ({"confusion": 1.5}, "confusion is 1.5"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        digits_mosaic(**arguments)
