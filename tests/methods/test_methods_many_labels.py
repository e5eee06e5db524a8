"""Facts about the classifier for many labels: what it learns, what it never makes, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.methods import many_labels
from propml.methods.many_labels import ManyLabelClassifier
from propml.targets import Candidates

N_LABELS = 3000


def problem(n=400, seed=0):
    """Each row has a word and the label of that number; a second candidate is false. Only 40 labels ever occur."""
    rng = np.random.default_rng(seed)
    word = rng.integers(40, size=n)
    X = sp.csr_array((np.ones(2 * n), (np.tile(np.arange(n), 2), np.concatenate([word, rng.integers(40, 80, n)]))))
    false = rng.integers(40, size=n)
    states = sp.csr_array(
        (np.ones(2 * n), (np.tile(np.arange(n), 2), 70 * np.concatenate([word, false]))), (n, N_LABELS)
    )
    states.data[:] = 1
    return X, states, 70 * word


@pytest.fixture(scope="module")
def fitted():
    X, states, _ = problem()
    return ManyLabelClassifier(hidden=(32,), n_sampled=100, random_state=0).fit(X, states)


def test_a_dozen_rows_promise_nothing_for_sure():
    Y = np.eye(6, dtype=int)[np.arange(12) % 6]
    _, probabilities = ManyLabelClassifier(random_state=0).fit(10.0 * Y, Y).predict_top(10.0 * Y, 1)
    assert 0.5 < probabilities.min() < probabilities.max() < 0.99


@pytest.mark.parametrize("loss", ["propml", "bce"])
@pytest.mark.parametrize("dense", [False, True])
def test_it_finds_the_true_label_among_thousands(loss, dense):
    X, states, _ = problem()
    other, _, wanted = problem(seed=1)
    if dense:
        X, other = X.toarray(), other.toarray()
    model = ManyLabelClassifier(loss, hidden=(32,), n_sampled=100, random_state=0).fit(X, states)
    assert (model.predict_top(other, k=1)[0][:, 0] == wanted).mean() > 0.9


def test_nothing_of_the_size_rows_by_labels_is_made(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a dense matrix of candidates was asked for")

    X, states, _ = problem()
    monkeypatch.setattr(Candidates, "to_matrix", refuse)
    monkeypatch.setattr(type(states), "toarray", refuse)
    monkeypatch.setattr("propml.neural.many_labels.BLOCK_LOGITS", 10 * N_LABELS)
    made = []
    original = many_labels.ManyLabelNetwork.logit_blocks

    def watched(*arguments):
        for part, logits in original(*arguments):
            made.append(logits.numel())
            yield part, logits

    monkeypatch.setattr(many_labels.ManyLabelNetwork, "logit_blocks", watched)
    ManyLabelClassifier(hidden=(8,), epochs=2, n_sampled=50).fit(X, Candidates.from_matrix(states)).predict_top(X)
    assert max(made) <= 10 * N_LABELS


def test_top_labels_are_those_of_all_scores_in_order(fitted):
    X = problem(seed=2)[0][:30]
    labels, probabilities = fitted.predict_top(X, k=4)
    scores = fitted.decision_function(X)
    order = np.argsort(-scores, axis=1)[:, :4]
    np.testing.assert_allclose(np.take_along_axis(scores, labels, 1), np.take_along_axis(scores, order, 1), atol=1e-4)
    np.testing.assert_allclose(probabilities, np.take_along_axis(fitted.predict_proba(X), order, 1), atol=1e-5)


def test_more_scores_than_fit_are_refused_with_what_to_do(fitted, monkeypatch):
    monkeypatch.setattr(many_labels, "MOST_SCORES", 10 * N_LABELS)
    X = problem()[0][:11]
    assert fitted.predict_proba(X[:10]).shape == (10, N_LABELS)
    for method in (fitted.predict, fitted.predict_proba, fitted.decision_function):
        with pytest.raises(ValueError, match=r"3000 labels for 11 rows .* use predict_top"):
            method(X)


def test_probabilities_sum_to_the_number_of_candidates():
    X, states, _ = problem(2000)
    model = ManyLabelClassifier(hidden=(32,), n_sampled=100, random_state=0).fit(X, states)
    other, own, _ = problem(seed=1)
    assert model.predict_proba(other).sum(axis=1).mean() == pytest.approx(own.sum() / own.shape[0], rel=0.2)


def test_saved_and_loaded_it_says_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    again, X = ManyLabelClassifier.load(tmp_path / "model.safetensors"), problem(seed=3)[0]
    for own, other in zip(fitted.predict_top(X), again.predict_top(X), strict=True):
        np.testing.assert_array_equal(own, other)
    assert again.get_params() == fitted.get_params()
    assert again.history_ == fitted.history_


def test_the_best_epoch_on_held_out_candidates_is_kept(fitted):
    X, states, _ = problem()
    values = [epoch["ndcg"] for epoch in fitted.history_]
    best = int(np.argmax(values))
    assert len(values) == 250 or best < len(values) - 1
    shorter = ManyLabelClassifier(hidden=(32,), n_sampled=100, random_state=0, epochs=best + 1).fit(X, states)
    np.testing.assert_array_equal(shorter.network_["table"], fitted.network_["table"])


def test_without_held_out_rows_all_epochs_are_trained():
    X, states, _ = problem(100)
    model = ManyLabelClassifier(hidden=(4,), epochs=7, held_out=0).fit(X, states)
    assert [set(epoch) for epoch in model.history_] == [{"loss"}] * 7
    assert (model.network_["slope"], model.network_["offset"]) == (1.0, 0.0)


def test_unknown_labels_are_neither_pulled_nor_pushed():
    X = sp.csr_array(np.eye(2)[np.arange(200) % 2])
    states = np.zeros((200, 4), dtype=int)
    states[:, 0] = 1
    states[::2, 1] = 1  # candidate where the first word stands,
    hidden = states.copy()
    hidden[1::2, 1] = -1  # and unknown elsewhere, instead of excluded
    settings = {"hidden": (8,), "held_out": 0, "epochs": 60, "random_state": 0}
    known, unknown = (ManyLabelClassifier("bce", **settings).fit(X, given) for given in (states, hidden))
    assert known.decision_function(X[1:2])[0, 1] < 0 < unknown.decision_function(X[1:2])[0, 1]


def test_missing_features_are_learned_from():
    X, states, _ = problem()
    X = X.toarray()
    X[::3, 5] = np.nan
    assert np.isfinite(ManyLabelClassifier(hidden=(4,), epochs=2).fit(X, states).decision_function(X)).all()


def test_features_that_come_sparse_after_training_on_dense_ones_are_the_same():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = ManyLabelClassifier(hidden=(4,), epochs=3, random_state=0).fit(X, X > 0.5)
    np.testing.assert_allclose(model.decision_function(sp.csr_array(X)), model.decision_function(X))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"hidden": ()}, "at least one layer"),
        ({"loss": "asl"}, "loss is 'asl'; choose one of propml, bce"),
        ({"lam": -1}, "lam is -1"),
        ({"frequent": 1.5}, "frequent is 1.5; give a number of at least 0 and below 1"),
        ({"held_out": 1}, "held_out is 1"),
        ({"n_sampled": 0}, "n_sampled is 0; give a whole number"),
        ({"epochs": "many"}, "epochs is 'many'"),
        ({"table_rate": 0.0}, "table_rate is 0.0"),
        ({"device": "nowhere"}, "device nowhere cannot be used"),
    ],
)
def test_wrong_arguments_are_told(arguments, told):
    X, states, _ = problem(50)
    with pytest.raises(ValueError, match=told):
        ManyLabelClassifier(**arguments).fit(X, states)


def test_more_labels_than_there_are_cannot_be_asked_for(fitted):
    with pytest.raises(ValueError, match="k is 3001 and there are 3000 labels"):
        fitted.predict_top(problem()[0], k=3001)
