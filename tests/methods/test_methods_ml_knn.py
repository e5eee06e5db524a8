"""ML-kNN against plain loops over its definition; who is whose neighbour; ties, duplicates and blocks."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.methods import neighbours
from propml.methods.ml_knn import MLkNNClassifier
from propml.progress import progress_bar


def neighbours_by_loops(x, rows, k, without=None):
    """The k nearest rows, the lower index first among equals."""
    far = [(float(np.sum((x - row) ** 2)), i) for i, row in enumerate(rows) if i != without]
    return [i for _, i in sorted(far)[:k]]


def scores_by_loops(X, S, test, k, s):
    """The definition, label by label and count by count."""
    n, n_labels = S.shape
    of_train = [neighbours_by_loops(X[i], X, k, without=i) for i in range(n)]
    of_test = [neighbours_by_loops(x, X, k) for x in test]
    scores = np.zeros((len(test), n_labels))
    for j in range(n_labels):
        prior = (s + sum(S[:, j])) / (2 * s + n)
        present, absent = [0] * (k + 1), [0] * (k + 1)
        for i in range(n):
            r = sum(S[a, j] for a in of_train[i])
            (present if S[i, j] else absent)[r] += 1
        for t, near in enumerate(of_test):
            r = sum(S[a, j] for a in near)
            with_label = prior * (s + present[r]) / (s * (k + 1) + sum(present))
            without = (1 - prior) * (s + absent[r]) / (s * (k + 1) + sum(absent))
            scores[t, j] = with_label / (with_label + without)
    return scores


def case(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(110, 7))
    if kind == "binary":  # distances are whole numbers, with ties everywhere
        X = (X > 0.4).astype(float)
    if kind == "duplicates":
        X = X[rng.integers(20, size=110)]
    if kind == "far away":
        X = X + 1e6
    S = (X - X.mean(axis=0) + rng.normal(size=X.shape) > 0.5).astype(int)[:, :4]
    return X[:80], S[:80], X[80:]


each_kind = pytest.mark.parametrize("kind", ["continuous", "binary", "duplicates", "far away"])


@each_kind
@pytest.mark.parametrize(("k", "s"), [(10, 1.0), (3, 0.5), (1, 2.0)])
def test_scores_of_plain_loops(kind, k, s):
    X, S, test = case(kind)
    model = MLkNNClassifier(k=k, s=s).fit(X, S)
    np.testing.assert_allclose(model.decision_function(test), scores_by_loops(X, S, test, k, s), atol=1e-12)


@each_kind
def test_sparse_rows_change_nothing(kind):
    X, S, test = case(kind)
    expected = MLkNNClassifier().fit(X, S).decision_function(test)
    assert (MLkNNClassifier().fit(X, S).decision_function(sp.csr_array(test)) == expected).all()
    sparse = MLkNNClassifier().fit(sp.csr_array(X), S)
    assert (sparse.decision_function(sp.csr_array(test)) == expected).all()
    assert (sparse.decision_function(test) == expected).all()


def test_a_row_is_not_its_own_neighbour():
    # Two pairs far apart; with k = 1 each row sees its partner, which never carries the row's own label.
    X, S = np.array([[0.0], [1.0], [10.0], [11.0]]), np.array([[1, 0], [0, 1], [1, 0], [0, 1]])
    model = MLkNNClassifier(k=1).fit(X, S)
    # With the label: no neighbour carries it, twice; (1 + 2) / (2 + 2). Without it: always one does.
    np.testing.assert_allclose(model.likelihood_[1], [[3 / 4] * 2, [1 / 4] * 2])
    np.testing.assert_allclose(model.likelihood_[0], [[1 / 4] * 2, [3 / 4] * 2])
    np.testing.assert_allclose(model.prior_, [1 / 2] * 2)
    np.testing.assert_allclose(model.decision_function([[0.1]]), [[1 / 4, 3 / 4]])


def test_as_many_neighbours_as_there_are_other_rows():
    X, S, test = case("continuous")
    few = MLkNNClassifier(k=10).fit(X[:6], S[:6])
    np.testing.assert_allclose(few.decision_function(test), scores_by_loops(X[:6], S[:6], test, 5, 1.0))
    # One row: only its prior, (1 + 1) / (2 + 1) and 1 / 3, and nothing was seen that speaks for or against.
    one = MLkNNClassifier().fit(X[:1], np.array([[1, 0]]))
    np.testing.assert_allclose(one.decision_function(test[:1]), [[2 / 3, 1 / 3]])


def test_a_score_of_one_half_is_predicted():
    # Four pairs far apart: both carry the label, none does, and twice one of them; so nothing speaks for or against.
    X, S = np.repeat([0.0, 10.0, 20.0, 30.0], 2).reshape(-1, 1), np.array([[1, 1, 0, 0, 1, 0, 0, 1]]).T
    model = MLkNNClassifier(k=1).fit(X, S)
    assert (model.decision_function(X) == 0.5).all()
    assert (model.predict(X) == 1).all()


def test_likelihoods_are_distributions():
    X, S, _ = case("continuous")
    model = MLkNNClassifier().fit(X, S)
    np.testing.assert_allclose(model.likelihood_.sum(axis=1), 1.0)
    assert ((model.posterior_ > 0) & (model.posterior_ < 1)).all()


def test_progress_is_shown_when_asked(monkeypatch):
    asked = []

    def bar(description, total, *, show):
        asked.append((total, show))
        return progress_bar(description, total, show=False)

    monkeypatch.setattr(neighbours, "progress_bar", bar)
    X, S, _ = case("continuous")
    for verbose in (False, True):
        MLkNNClassifier(verbose=verbose).fit(X, S)
    assert asked == [(80, False), (80, True)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"k": 0}, "k is 0"),
        ({"k": 2.5}, "k is 2.5"),
        ({"k": 3.0}, "k is 3.0; give a whole number"),
        ({"s": 0.0}, "s is 0.0"),
    ],
)
def test_bad_arguments_are_told(arguments, told):
    with pytest.raises(ValueError, match=told):
        MLkNNClassifier(**arguments).fit(*case("continuous")[:2])
