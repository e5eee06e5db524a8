"""The containers: parts stay together."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from propml.datasets import Dataset, ImageDataset
from propml.targets import Candidates

TRUTH = np.array([[1, 0], [0, 0], [1, 1], [0, 1]], dtype=np.uint8)
CANDIDATES = np.array([[1, 1], [0, 0], [1, 0], [0, 1]])  # row 2 lacks a true label


def toy(sparse: bool = False) -> Dataset:
    X = np.arange(12.0).reshape(4, 3)
    candidates = Candidates.from_matrix(CANDIDATES, ("a", "b"), empty="ignore")
    return Dataset("toy", sp.csr_array(X) if sparse else X, TRUTH, candidates, ("a", "b"), ("x", "y", "z"))


def test_shown_in_one_short_line():
    assert repr(toy()) == "Dataset('toy', X (4, 3), 2 labels, truth, candidates)"
    blind = Dataset("blind", sp.csr_array(np.eye(2)), None, None, ("a",), ("x", "y"))
    assert repr(blind) == "Dataset('blind', sparse X (2, 2), 1 labels)"
    images = ImageDataset("i", tuple(Path(f"{i}.jpg") for i in range(4)), TRUTH, ("a", "b"), "train")
    assert repr(images) == "ImageDataset('i', 'train', 4 images, 2 labels)"


def test_statistics_by_hand():
    s = toy().statistics()
    assert (s.n_samples, s.n_features, s.n_labels) == (4, 3, 2)
    assert (s.mean_true, s.mean_candidates) == (1.0, 1.0)
    assert (s.rows_without_truth, s.rows_without_candidates, s.rows_missing_truth) == (1, 1, 1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rows", [[2, 0], np.array([True, False, True, False]), slice(1, 3), 3])
def test_take_takes_the_same_rows_of_everything(sparse, rows):
    taken = toy(sparse).take(rows)
    expected = np.atleast_1d(np.arange(4)[rows])
    X = taken.X.toarray() if sparse else taken.X
    np.testing.assert_array_equal(X[:, 0], 3.0 * expected)
    np.testing.assert_array_equal(taken.truth, TRUTH[expected])
    np.testing.assert_array_equal(taken.candidates.to_matrix(), CANDIDATES[expected])


def test_drop_unlabelled():
    np.testing.assert_array_equal(toy().drop_unlabelled().X[:, 0], [0, 6, 9])
    blind = Dataset("blind", np.eye(2), None, None, ("a",), ("x", "y"))
    assert blind.statistics().mean_true is None
    assert blind.take([1]).X.shape == (1, 2)
    with pytest.raises(ValueError, match="blind has no true labels"):
        blind.drop_unlabelled()


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="X has 2 columns and 1 feature names"):
        Dataset("d", np.eye(2), None, None, ("a",), ("x",))
    with pytest.raises(ValueError, match=r"truth has shape \(4, 2\), expected 2 rows of X by 2 label names"):
        Dataset("d", np.eye(2), TRUTH, None, ("a", "b"), ("x", "y"))
    with pytest.raises(ValueError, match=r"truth has shape \(4, 2\), expected 1 images by 2"):
        ImageDataset("d", (Path("a.jpg"),), TRUTH, ("a", "b"), "train")


def test_images_are_taken_and_counted():
    images = ImageDataset("i", tuple(Path(f"{i}.jpg") for i in range(4)), TRUTH, ("a", "b"), "train")
    assert images.take([3, 1]).paths == (Path("3.jpg"), Path("1.jpg"))
    np.testing.assert_array_equal(images.take([3, 1]).truth, TRUTH[[3, 1]])
    assert images.statistics().n_samples == 4
    assert images.statistics().n_features is None
    assert images.take([0]).statistics().mean_true == TRUTH[0].sum()
