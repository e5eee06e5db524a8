"""F1 by example is scikit-learn's, with empty rows counted as right."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from propml.metrics import example_f1


def test_it_is_the_mean_over_samples_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, predicted = (rng.random((2, 200, 5)) < 0.2).astype(int)
    assert (truth.sum(axis=1) + predicted.sum(axis=1) == 0).any()
    expected = f1_score(truth, predicted, average="samples", zero_division=1)
    assert example_f1(truth, predicted) == pytest.approx(expected)


def test_matrices_of_two_shapes_are_refused():
    with pytest.raises(ValueError, match="predicted"):
        example_f1([[1, 0]], [[1, 0, 0]])
