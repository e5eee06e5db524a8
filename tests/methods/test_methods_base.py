"""What the base makes of any method: which targets it reads, how it scores them, and scikit-learn's searches."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, train_test_split

from propml.methods.base import CandidateClassifier
from propml.methods.ridge import RidgeRegressionClassifier
from propml.targets import Candidates

X = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]] * 5, dtype=float)
NAMES = ("a", "b", "c")


class Echo(CandidateClassifier):
    """Predicts the labels that the features spell, unless they are shifted."""

    _takes_unknown = True

    def __init__(self, shift=0.0):
        self.shift = shift

    def _fit(self, X, candidates):
        self.n_seen_ = len(candidates)

    def _scores(self, X):
        return X[:, : len(self.labels_)] + self.shift


def spelled(unknown=False):
    marks = X.astype(int)
    if unknown:
        marks[::4, 1] = -1
    return Candidates.from_matrix(marks, NAMES)


# -- targets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_the_first_row_may_have_no_candidates(missing):
    rows = [missing, ["b"], ["a", "c"]] * 10
    for y in (rows, pd.Series(rows)):
        model = RidgeRegressionClassifier().fit(X, y)
        assert model.labels_ == NAMES


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("form", [list, pd.Series, lambda y: np.array(y, dtype=object)])
def test_a_missing_class_is_told(missing, form):
    with pytest.raises(ValueError, match=r"row 1 of the class vector is .*; give every row a class"):
        RidgeRegressionClassifier().fit(X, form(["a", missing, "b"] * 10))


def test_a_masked_class_is_told():
    with pytest.raises(ValueError, match="row 0 of the class vector"):
        RidgeRegressionClassifier().fit(X, np.ma.masked_array([1, 2, 3] * 10, [True, False, False] * 10))


@pytest.mark.parametrize("names", [(("a", 1), ("b", 2), ("c", 3)), (("a",), ("b", 2), ("c", 3)), (1, 2, "a")])
def test_classes_are_the_label_names_in_one_dimension(names, tmp_path):
    model = RidgeRegressionClassifier().fit(X, Candidates.from_matrix(X, names))
    model.save(tmp_path / "model.safetensors")
    for each in (model, RidgeRegressionClassifier.load(tmp_path / "model.safetensors")):
        assert each.classes_.shape == (3,)
        assert tuple(each.classes_) == each.labels_ == names


def test_names_are_not_predicted_before_fit():
    with pytest.raises(NotFittedError):
        RidgeRegressionClassifier().predict_labels(X)


# -- score ------------------------------------------------------------------------------------------------------------

SHOWN = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1]], dtype=float)  # what Echo predicts
TRUE = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 1]])  # of which two rows agree


@pytest.fixture(scope="module")
def echo():
    return Echo().fit(X, spelled())


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        sp.csr_array,
        np.ndarray.tolist,
        lambda y: pd.DataFrame(y, columns=NAMES),
        lambda y: pd.DataFrame(y, columns=NAMES)[["c", "a", "b"]],
        lambda y: Candidates.from_matrix(y, NAMES),
        lambda y: Candidates.from_matrix(y[:, [2, 0, 1]], ["c", "a", "b"]),
        lambda y: Candidates.from_matrix(y, NAMES).to_lists(),
        lambda y: [set(row) for row in Candidates.from_matrix(y, NAMES).to_lists()],
    ],
)
def test_the_share_of_rows_with_exactly_these_labels(form, echo):
    assert echo.score(SHOWN, form(TRUE)) == 0.5 == accuracy_score(TRUE, echo.predict(SHOWN))
    weight = [1, 2, 3, 4]
    assert echo.score(SHOWN, form(TRUE), sample_weight=weight) == pytest.approx(0.4)


def test_unknown_entries_are_left_out(echo):
    y = TRUE.copy()
    y[1, 2] = -1  # where the prediction was wrong
    assert echo.score(SHOWN, y) == 0.75
    y[0] = -1  # a row of which nothing is known says nothing
    assert echo.score(SHOWN, y) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="every entry of y is unknown"):
        echo.score(SHOWN, np.full((4, 3), -1))


def test_a_label_that_the_model_does_not_know_is_not_predicted(echo):
    assert echo.score(SHOWN, [{"a"}, {"b", "c"}, {"a", "b", "new"}, {"c"}]) == 0.75


def test_after_a_class_vector_the_score_is_the_accuracy():
    y = np.array(list("abaccb") * 5)
    model = RidgeRegressionClassifier().fit(X, y)
    weight = np.arange(30)
    assert model.score(X, y, weight) == accuracy_score(y, model.predict(X), sample_weight=weight)


def test_labels_that_do_not_fit_are_told(echo):
    with pytest.raises(ValueError, match="none of the labels that the model was fitted on, such as 'a'"):
        echo.score(SHOWN, Candidates.from_matrix(TRUE))
    with pytest.raises(ValueError, match="2 columns and 3 label names"):
        echo.score(SHOWN, TRUE[:, :2])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        echo.score(SHOWN[:2], TRUE)


# -- scikit-learn's searches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("form", [Candidates.to_matrix, lambda y: y, lambda y: [set(row) for row in y.to_lists()]])
def test_a_grid_search_finds_the_best(unknown, form):
    search = GridSearchCV(Echo(), {"shift": [-1.0, 0.0, 1.0]}, cv=3, error_score="raise")
    search.fit(X, form(spelled(unknown)))
    assert search.best_params_ == {"shift": 0.0}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_candidates_are_split_and_keep_their_labels():
    y = spelled()
    predicted = cross_val_predict(Echo(), X, y, cv=3)
    np.testing.assert_array_equal(predicted, X)
    assert cross_val_predict(Echo(), X, y, cv=3, method="predict_proba").shape == X.shape
    rows, held, y_rows, y_held = train_test_split(X, y, random_state=0)
    assert y_rows.labels == y_held.labels == NAMES
    np.testing.assert_array_equal(np.asarray(y_rows), rows)
    np.testing.assert_array_equal(np.asarray(y_held), held)
