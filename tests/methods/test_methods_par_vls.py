"""PAR-VLS: the weighted votes by plain loops, the virtual label, and the release's rounding."""

import numpy as np
import pytest
from sklearn.svm import SVC

from propml.datasets import digits_mosaic
from propml.methods.particle import PARVLSClassifier
from propml.methods.particle_pairs import count_votes


@pytest.fixture(scope="module")
def toy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    truth = X @ rng.normal(size=(4, 4)) > 0.3
    truth[np.arange(80), rng.integers(0, 4, 80)] = True
    S = truth | (rng.random((80, 4)) < 0.15)
    return X, S.astype(int), rng.normal(size=(50, 4))


def votes_by_loop(X, S, K, new):
    """Votes by machines that are trained one after the other."""
    n_labels = S.shape[1]
    votes, virtual = np.zeros((len(new), n_labels)), np.zeros(len(new))
    for j in range(n_labels):
        for k in range(j + 1, n_labels + 1):
            against = S[:, k] == 0 if k < n_labels else np.ones(len(S), bool)
            positive = (K[:, j] == 1) & against
            negative = (K[:, k] == 1 if k < n_labels else True) & (S[:, j] == 0)
            if not positive.any() or not negative.any():
                continue
            rows, y = np.concatenate([X[positive], X[negative]]), np.repeat([1, -1], [positive.sum(), negative.sum()])
            machine = SVC(C=1, kernel="linear", tol=1e-6).fit(rows, y)
            accuracy, wins = machine.score(rows, y), machine.predict(new) == 1
            votes[:, j] += accuracy * wins
            if k < n_labels:
                votes[:, k] += accuracy * ~wins
            else:
                virtual += accuracy * ~wins
    return votes, virtual


def test_scores_are_votes_against_the_virtual_label(toy):
    X, S, new = toy
    model = PARVLSClassifier(tol=1e-6).fit(X, S)
    votes, virtual = votes_by_loop(X, S, model.credible_.toarray(), new)
    np.testing.assert_allclose(model.decision_function(new), 0.5 + (votes - virtual[:, None]) / 4, atol=1e-9)
    np.testing.assert_array_equal(model.predict(new), votes > virtual[:, None] + 1e-12)
    assert 0 < model.predict(new).mean() < 1


def test_weights_are_training_accuracies(toy):
    X, S, _ = toy
    machines = PARVLSClassifier().fit(X, S).machines_
    assert ((machines["accuracy"] > 0.5) & (machines["accuracy"] <= 1)).all()
    assert machines["n_labels"] == 5
    assert (machines["pairs"][:, 1] == 4).sum() == 4


def test_the_release_rounds_votes_up(toy):
    X, S, new = toy
    model = PARVLSClassifier(paper=True).fit(X, S)
    votes = np.ceil(count_votes(new, model.machines_, weighted=True))
    scores = model.decision_function(new)
    np.testing.assert_allclose(scores, 0.5 + (votes[:, :4] - votes[:, 4:]) / 4)
    np.testing.assert_array_equal(model.predict(new), votes[:, :4] > votes[:, 4:])
    model.paper = False
    ties = [len(np.unique(row)) < 4 for row in scores]
    assert np.mean(ties) > np.mean([len(np.unique(row)) < 4 for row in model.decision_function(new)])


def test_one_label_is_decided_by_the_virtual_one():
    X = np.linspace(-1, 1, 40)[:, None]
    marks = PARVLSClassifier().fit(X, (X > 0).astype(int)).predict(X)
    assert (marks == (X > 0)).mean() > 0.9


def test_marked_labels_are_mostly_true():
    train, test = digits_mosaic(400), digits_mosaic(100, split="test", random_state=1)
    marks = PARVLSClassifier().fit(train.X, train.candidates).predict(test.X).astype(bool)
    assert marks.mean() > 0.1
    assert test.truth[marks].mean() > test.truth.mean() + 0.2
