"""What PAR-MAP and PAR-VLS share: propagation, credible labels, pairs and votes, against plain loops."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.svm import SVC

from propml.datasets import digits_mosaic
from propml.methods import linear_algebra, particle_propagation
from propml.methods.linear_algebra import InnerProducts
from propml.methods.particle import PARMAPClassifier, PARVLSClassifier
from propml.methods.particle_pairs import count_votes, pair_problems, train_pairs
from propml.methods.particle_propagation import (
    credible_labels,
    nearest_outside_folds,
    propagate,
    reconstruction_weights,
    scaled_rows,
    transition_matrix,
    with_class_mass,
)


def neighbours_by_loop(X, folds, fold, row, k):
    """The k nearest others outside the fold, equal distances in the order of the rows."""
    distances = [
        (round(float(((X[row] - X[other]) ** 2).sum()), 9), other)
        for other in range(len(X))
        if other != row and folds[other] != fold
    ]
    return sorted(distances)[:k]


# -- neighbours -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("n", "k", "n_folds"), [(60, 5, 10), (30, 6, 2), (5, 1, 2)])
def test_neighbours_are_the_nearest_others_outside_the_fold(n, k, n_folds, kept, form, monkeypatch):
    monkeypatch.setattr(particle_propagation, "BLOCK", 7 * n)
    monkeypatch.setattr(linear_algebra, "GRAM_ROWS", n if kept else 0)
    rng = np.random.default_rng(n)
    # Multiples of 0.1 on a grid: many equal distances, which rounding would put in any order.
    X, folds = rng.integers(0, 3, size=(n, 4)) * 0.1, np.arange(n) % n_folds
    neighbours, distances = nearest_outside_folds(InnerProducts(form(X)), folds, k)
    for fold in range(n_folds):
        for row in range(n):
            expected = neighbours_by_loop(X, folds, fold, row, k)
            assert neighbours[fold, row].tolist() == [other for _, other in expected]
            np.testing.assert_allclose(distances[fold, row] ** 2, [d for d, _ in expected], atol=1e-8)
            assert row not in neighbours[fold, row]


def test_all_rows_are_searched_where_a_cluster_fills_a_fold():
    # The 4 k nearest rows of each row lie in its own fold; its neighbours must come from the other.
    X = np.concatenate([np.linspace(0, 1, 30), np.linspace(100, 101, 30)])[:, None]
    folds = np.repeat([0, 1], 30)
    neighbours, _ = nearest_outside_folds(InnerProducts(X), folds, 2)
    assert neighbours[0, 0].tolist() == [30, 31]
    assert neighbours[1, 59].tolist() == [29, 28]


# -- reconstruction and propagation -----------------------------------------------------------------------------------


def some_graph(n=50, d=6, k=5, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d)) + 1
    products, rows = InnerProducts(X), np.arange(n)
    # No row is in fold 1, so that the neighbours of all rows are asked for.
    neighbours, _ = nearest_outside_folds(products, np.append(np.zeros(n - 1, int), 1), k)
    weights = reconstruction_weights(products, rows, neighbours[1])
    return X, neighbours[1], weights, transition_matrix(products, rows, neighbours[1])


def test_weights_are_those_of_non_negative_least_squares():
    X, neighbours, weights, _ = some_graph()
    for row in range(len(X)):
        expected = nnls(X[neighbours[row]].T, X[row])[0]
        np.testing.assert_allclose(weights[row], expected / expected.sum(), atol=1e-5)


def test_the_transition_matrix_moves_labels_between_rows():
    _, _, _, transition = some_graph()
    dense = transition.toarray()
    np.testing.assert_allclose(dense.sum(axis=1), 1.0)
    assert (dense >= 0).all()
    assert not dense.diagonal().any()
    assert dense[~np.eye(len(dense), dtype=bool)].sum() == pytest.approx(len(dense))


def test_weights_where_nothing_can_be_rebuilt():
    # Opposite neighbours get no weight, zero rows and repeated rows share it.
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    weights = reconstruction_weights(InnerProducts(X), np.array([0, 3, 1]), np.array([[1, 2], [0, 1], [2, 2]]))
    np.testing.assert_allclose(weights, 0.5, atol=1e-6)


def test_propagation_is_that_of_the_definition():
    _, _, _, transition = some_graph()
    S = (np.random.default_rng(1).random((50, 4)) < 0.5).astype(float)
    S[0] = 0
    alpha, H = 0.8, transition.toarray()
    start = S / np.maximum(S.sum(axis=1, keepdims=True), 1)
    expected = start
    for _ in range(500):
        expected = (alpha * H @ expected + (1 - alpha) * start) * S
        total = expected.sum(axis=1, keepdims=True)
        expected = expected / np.where(total > 0, total, 1)
    found = propagate(transition, S, alpha, tol=1e-12)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), S.any(axis=1))
    assert np.abs(found - start).max() > 0.1


def test_without_neighbours_nothing_changes():
    S = np.array([[1, 1, 0], [0, 1, 0]])
    np.testing.assert_allclose(propagate(sp.csr_array((2, 2)), S, 0.9), [[0.5, 0.5, 0], [0, 1, 0]])


def test_class_mass_is_the_number_of_candidates():
    S = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 0]])
    confidences = np.array([[0.9, 0.1, 0], [0.7, 0.3, 0], [0, 1.0, 0]])
    found = with_class_mass(confidences, S)
    np.testing.assert_allclose(found.sum(axis=0), [2, 3, 0])
    assert found[0, 0] / found[1, 0] == pytest.approx(9 / 7)


def test_scaled_rows():
    np.testing.assert_array_equal(scaled_rows(np.array([[1.0, 3.0, 2.0], [4.0, 4.0, 4.0]])), [[0, 1, 0.5], [0, 0, 0]])


# -- credible labels --------------------------------------------------------------------------------------------------


def credible_by_loop(X, S, folds, k, alpha, threshold, released):
    credible = np.zeros(S.shape, dtype=bool)
    for fold in range(folds.max() + 1):
        known = S * (folds != fold)[:, None]
        H = np.zeros((len(X), len(X)))
        for row in np.flatnonzero(folds != fold):
            near = [other for _, other in neighbours_by_loop(X, folds, fold, row, k)]
            weights = nnls(X[near].T, X[row])[0]
            H[row, near] = weights / weights.sum() if weights.sum() else 1 / k
        F = propagate(sp.csr_array(H), known, 0.0 if released else alpha)
        F = F * known.sum(axis=0) / np.where(F.sum(axis=0) > 0, F.sum(axis=0), 1)
        F = scaled_rows(F) if released else F
        for row in np.flatnonzero(folds == fold):
            found = [(np.sqrt(square), other) for square, other in neighbours_by_loop(X, folds, fold, row, k)]
            total = sum(distance for distance, _ in found)
            ranks = scaled_rows(sum((1 - distance / total) * F[[other]] for distance, other in found))[0]
            reached = ranks >= threshold
            if (reached & (S[row] > 0)).any():
                credible[row] = reached & (S[row] > 0)
            elif released:
                credible[row] = reached
            elif S[row].any():
                best = max(ranks[label] for label in range(S.shape[1]) if S[row, label])
                credible[row] = (S[row] > 0) & (ranks == best)
    return credible


@pytest.mark.parametrize("released", [False, True])
def test_credible_labels_are_those_of_the_definition(released):
    rng = np.random.default_rng(3)
    X, folds = rng.normal(size=(60, 6)) + 2, np.arange(60) % 5
    S = (X @ rng.normal(size=(6, 5)) + rng.normal(size=(60, 5)) > 0).astype(int)
    S[7] = 0
    found = credible_labels(InnerProducts(X), S, k=4, alpha=0.9, threshold=0.8, folds=folds, released=released)
    np.testing.assert_array_equal(found, credible_by_loop(X, S, folds, 4, 0.9, 0.8, released))
    assert ((found & (S == 0)).any() and released) or not (found & (S == 0)).any()


def test_credible_labels_are_truer_than_candidates():
    train = digits_mosaic(600)
    S = train.candidates.to_matrix(bool)
    found = credible_labels(InnerProducts(train.X), S, k=10, alpha=0.95, threshold=0.9, folds=np.arange(600) % 10)
    assert not (found & ~S).any()
    assert found.any(axis=1).all()
    truth = train.truth.astype(bool)
    assert truth[found].mean() > truth[S].mean() + 0.05


@pytest.mark.parametrize(("n", "n_folds"), [(1, 1), (2, 2)])
def test_too_few_rows_for_neighbours_leave_the_candidates(n, n_folds):
    S = np.array([[1, 0], [1, 1]])[:n]
    found = credible_labels(
        InnerProducts(np.eye(2)[:n]), S, k=10, alpha=0.95, threshold=0.9, folds=np.arange(n) % n_folds
    )
    np.testing.assert_array_equal(found, S)


def test_a_single_neighbour_has_a_say():
    # Three rows in three folds: each has one neighbour in the graph of the two others.
    X, S = np.array([[1.0], [1.1], [5.0]]), np.array([[1, 1], [1, 0], [0, 1]])
    found = credible_labels(InnerProducts(X), S, k=10, alpha=0.5, threshold=0.9, folds=np.arange(3))
    np.testing.assert_array_equal(found, [[True, False], [True, False], [False, True]])


# -- pairs and votes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize("within", [True, False])
def test_pairs_are_those_of_the_definition(virtual, within):
    rng = np.random.default_rng(5)
    S = rng.random((30, 5)) < 0.4
    credible = rng.random((30, 5)) < 0.3
    credible = credible & S if within else credible
    S[:, 4], credible[:, 4] = False, False
    pairs, start, rows, signs = pair_problems(credible, S, virtual=virtual)
    found = {}
    for m, (j, k) in enumerate(pairs.tolist()):
        place = slice(start[m], start[m + 1])
        found[j, k] = dict(zip(rows[place].tolist(), signs[place].tolist(), strict=True))
    expected = {}
    for j in range(5):
        for k in range(j + 1, 5 + virtual):
            sides = {}
            for i in range(30):
                if credible[i, j] and (k == 5 or not S[i, k]):
                    sides[i] = 1.0
                elif not S[i, j] and (k == 5 or credible[i, k]):
                    sides[i] = -1.0
            if len(set(sides.values())) == 2:
                expected[j, k] = sides
    assert found == expected
    assert (3, 4) not in found


def test_votes_are_counted_by_pair():
    X = np.array([[2.0], [-2.0], [0.0], [0.3]])
    machines = {
        "pairs": np.array([[0, 1], [0, 2], [1, 2]]),
        "weights": np.array([[1.0], [1.0], [0.0]]),
        "bias": np.array([0.0, -1.0, 1.0]),
        "accuracy": np.array([0.5, 0.25, 1.0]),
        "rows": None,
        "n_labels": 3,
    }
    # The first machine cannot decide on the third row, and does not vote.
    expected = [[2, 1, 0], [0, 2, 1], [0, 1, 1], [1, 1, 1]]
    np.testing.assert_array_equal(count_votes(X, machines, weighted=False), expected)
    weighted = [[0.75, 1, 0], [0, 1.5, 0.25], [0, 1, 0.25], [0.5, 1, 0.25]]
    np.testing.assert_allclose(count_votes(X, machines, weighted=True), weighted)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_machines_vote_the_same_from_features_and_from_rows(form):
    rng = np.random.default_rng(6)
    new = rng.normal(size=(40, 500))
    X = rng.normal(size=(30, 500))
    S = np.eye(10, dtype=bool)[np.arange(30) % 10]
    by_rows = train_pairs(InnerProducts(form(X)), S, S, 1.0, 1e-3, virtual=True)
    assert by_rows["rows"] is not None
    weights = by_rows["weights"] @ by_rows["rows"]
    by_features = by_rows | {"rows": None, "weights": weights.toarray() if sp.issparse(weights) else weights}
    np.testing.assert_array_equal(
        count_votes(form(new), by_rows, weighted=False), count_votes(form(new), by_features, weighted=False)
    )
    few = train_pairs(InnerProducts(form(X[:, :3])), S, S, 1.0, 1e-3, virtual=True)
    assert few["rows"] is None
    assert few["weights"].shape == (len(few["pairs"]), 3)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize(("form", "kept"), [(np.asarray, True), (np.asarray, False), (sp.csr_array, False)])
def test_machines_are_those_of_scikit_learn_on_the_features(C, form, kept, monkeypatch):
    monkeypatch.setattr(linear_algebra, "GRAM_ROWS", 60 if kept else 0)
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 4))
    S = X @ rng.normal(size=(4, 4)) + rng.normal(size=(60, 4)) > 0.3
    machines = train_pairs(InnerProducts(form(X)), S, S, C, 1e-8, virtual=True)
    pairs, start, members, sides = pair_problems(S, S, virtual=True)
    assert len(pairs) == len(machines["pairs"]) == 10
    for m in range(10):
        place = slice(start[m], start[m + 1])
        rows, signs = X[members[place]], sides[place]
        reference = SVC(C=C, kernel="linear", tol=1e-8).fit(rows, signs)
        np.testing.assert_allclose(machines["weights"][m], reference.coef_[0], atol=1e-5)
        assert machines["bias"][m] == pytest.approx(reference.intercept_[0], abs=1e-5)
        assert machines["accuracy"][m] == reference.score(rows, signs)


def test_no_machines_and_no_votes():
    everything = np.ones((3, 2), dtype=bool)
    machines = train_pairs(InnerProducts(np.ones((3, 2))), everything, everything, 1.0, 1e-3, virtual=True)
    assert len(machines["pairs"]) == 0
    assert not count_votes(np.ones((4, 2)), machines, weighted=True).any()


def test_inner_products_of_groups_are_taken_in_blocks(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 3))
    rows = np.random.default_rng(1).integers(0, 20, size=(7, 4))
    monkeypatch.setattr(linear_algebra, "GRAM_ROWS", 0)
    monkeypatch.setattr(linear_algebra, "BLOCK", 30)
    expected = np.array([[[X[a] @ X[b] for b in group] for a in group] for group in rows])
    for form in (X, sp.csr_array(X)):
        products = InnerProducts(form)
        assert products.matrix is None
        np.testing.assert_allclose(products.among(rows), expected)
        np.testing.assert_allclose(products.block(slice(2, 5)), X[2:5] @ X.T)


# -- the estimators ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PARMAPClassifier, PARVLSClassifier])
@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"k": 2.5},
        {"alpha": 1.0},
        {"threshold": 0.0},
        {"C": 0.0},
        {"tol": 0.0},
        {"inner_folds": 1},
        {"inner_folds": 2.5},
    ],
    ids=str,
)
def test_wrong_arguments_are_told(kind, wrong):
    name = next(iter(wrong))
    with pytest.raises(ValueError, match=f"^{name} is {wrong[name]}; ({kind.__name__} needs|give a whole number)"):
        kind(**wrong).fit(np.eye(4), np.eye(4, dtype=int))


def test_inner_folds_depend_on_the_seed_only():
    train = digits_mosaic(120)
    first, again, other = (
        PARMAPClassifier(random_state=seed).fit(train.X, train.candidates).credible_.toarray() for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_the_progress_bar_counts_the_machines(monkeypatch):
    steps = []

    @contextmanager
    def counting(description, total, *, show):
        assert show
        yield SimpleNamespace(advance=lambda count=1: steps.append((count, total)))

    monkeypatch.setattr("propml.progress.progress_bar", counting)
    train = digits_mosaic(60)
    model = PARVLSClassifier(verbose=True).fit(train.X, train.candidates)
    n_machines = len(model.machines_["pairs"])
    assert n_machines > 40
    assert sum(count for count, _ in steps) == n_machines
    assert {total for _, total in steps} == {n_machines}
